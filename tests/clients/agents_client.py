"""Drives a server as the OpenAI Agents SDK does with the model that it has by default. Usage: agents_client.py URL MODEL. Exit code 0 if
all of it held."""

import asyncio
import sys
from enum import Enum

import openai
from agents import Agent, ModelSettings, Runner, function_tool, set_default_openai_client, set_tracing_disabled
from pydantic import BaseModel

url, model = sys.argv[1:]
set_tracing_disabled(True)
set_default_openai_client(openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0, timeout=120))


class City(str, Enum):
    OSLO = "Oslo"
    ROME = "Rome"


class Place(BaseModel):
    city: City


called = []


@function_tool
def get_weather(city: City) -> str:
    """The weather in a city."""
    called.append(city)
    return "12 degrees and rain"


def agent(**more):
    # Once a tool was called, the SDK itself takes a required call back.
    settings = ModelSettings(tool_choice="required", max_tokens=60)
    return Agent(name="Guide", instructions="Be brief.", model=model, **{"tools": [get_weather], "model_settings": settings, **more})


async def main():
    # A call and an answer, then the same conversation goes on, by items and by the id of the last response.
    first = await Runner.run(agent(), "What is the weather in Oslo?", max_turns=4)
    assert called and first.final_output.strip(), first
    more = first.to_input_list() + [{"role": "user", "content": "Thank you!"}]
    plain = agent(model_settings=ModelSettings(tool_choice="none", max_tokens=60))
    second = await Runner.run(plain, more, max_turns=4)
    assert second.final_output.strip(), second
    third = await Runner.run(plain, "And again?", previous_response_id=second.last_response_id, max_turns=4)
    assert third.final_output.strip(), third

    # Streamed.
    called.clear()
    streamed = Runner.run_streamed(agent(), "What is the weather in Rome?", max_turns=4)
    kinds = [event.type async for event in streamed.stream_events()]
    assert called and streamed.final_output.strip() and "raw_response_event" in kinds, streamed

    # An answer of a type.
    typed = agent(tools=[], output_type=Place, model_settings=ModelSettings(max_tokens=60))
    place = await Runner.run(typed, "Name a city.")
    assert isinstance(place.final_output, Place), place

    # A handoff: the other agent answers.
    helper = Agent(name="Helper", instructions="Be brief.", model=model, model_settings=ModelSettings(max_tokens=60))
    handed = await Runner.run(agent(tools=[], handoffs=[helper]), "Hand this over.", max_turns=4)
    assert handed.last_agent is helper and handed.final_output.strip(), handed


asyncio.run(main())
