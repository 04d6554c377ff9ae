"""Drives a server's Responses API as the official OpenAI package does. Usage: responses_client.py URL MODEL. Exit code 0 if all of it held."""

import json
import pathlib
import sys
import typing

import openai
from openai.types.responses import response_create_params

url, model = sys.argv[1:]
client = openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0, timeout=120)

CITY = {
    "type": "object", "properties": {"city": {"type": "string", "enum": ["Oslo", "Rome", "Lima"]}},
    "required": ["city"], "additionalProperties": False,
}
WEATHER = {"type": "function", "name": "get_weather", "description": "The weather in a city.", "parameters": CITY, "strict": True}
QUESTION = "What is the weather in Oslo?"


def create(**request):
    return client.responses.create(**{"model": model, "input": QUESTION, "max_output_tokens": 60, **request})


def check_call(item):
    assert item.type == "function_call" and item.id and item.call_id and item.name == "get_weather", item
    assert json.loads(item.arguments)["city"] in CITY["properties"]["city"]["enum"], item


def refused(kind, code, request):
    try:
        request()
    except kind as error:
        assert error.code == code and error.request_id, error
        return
    raise AssertionError(f"no {kind.__name__}")


# Every field that the package knows stands in the table of what becomes of it.
table = pathlib.Path(__file__).parents[2].joinpath("docs/RESPONSES.md").read_text()
fields = typing.get_type_hints(response_create_params.ResponseCreateParamsBase)
missing = [field for field in fields if f"| `{field}` |" not in table]
assert not missing, missing

# An answer.
answer = create(instructions="Be brief.", metadata={"a": "b"})
assert answer.status in ("completed", "incomplete") and answer.output_text.strip() and answer.metadata == {"a": "b"}, answer
assert answer.usage.input_tokens > 0 and answer.usage.output_tokens_details.reasoning_tokens == 0, answer.usage
assert answer.model_dump(mode="json")["output"][0]["content"][0]["type"] == "output_text"

# A call, its result, and an answer, by the id of the response before.
forced = {"type": "function", "name": "get_weather"}
turn = create(tools=[WEATHER], tool_choice=forced)
assert [item.type for item in turn.output] == ["function_call"], turn
check_call(turn.output[0])
result = {"type": "function_call_output", "call_id": turn.output[0].call_id, "output": "12 degrees and rain in Oslo"}
behind = create(previous_response_id=turn.id, input=[result], tools=[WEATHER], tool_choice="none")
assert behind.previous_response_id == turn.id and behind.output_text.strip(), behind
# The same with all items sent.
whole = create(
    input=[{"role": "user", "content": QUESTION}, *turn.output, result], tools=[WEATHER], tool_choice="none", store=False
)
assert whole.output_text == behind.output_text, (whole, behind)

# Streaming, joined by the package itself, which is strict about the order.
with client.responses.stream(
    model=model, input=QUESTION, tools=[WEATHER], tool_choice="required", max_output_tokens=60
) as stream:
    events = [event.type for event in stream]
    final = stream.get_final_response()
assert events[:2] == ["response.created", "response.in_progress"] and events[-1] == "response.completed", events
assert events.count("response.function_call_arguments.delta") > 1, events
check_call(final.output[0])
with client.responses.stream(model=model, input="Hello!", max_output_tokens=40) as stream:
    text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
assert text.strip(), "a streamed answer"

# Structured output, read by the package.
parsed = create(text={"format": {"type": "json_schema", "name": "city", "strict": True, "schema": CITY}})
assert json.loads(parsed.output_text)["city"] in CITY["properties"]["city"]["enum"], parsed

# What is kept, and what is not.
assert client.responses.retrieve(turn.id).output == turn.output
client.responses.delete(turn.id)
refused(openai.NotFoundError, None, lambda: client.responses.retrieve(turn.id))
refused(openai.BadRequestError, "previous_response_not_found", lambda: create(previous_response_id=turn.id))
refused(openai.NotFoundError, None, lambda: client.responses.retrieve(whole.id))

# Tools that are not run here are named.
left = create(tools=[WEATHER, {"type": "web_search"}], tool_choice=forced)
assert left.model_extra["warnings"][0]["pointer"] == "/tools/1/type", left

# A turn that is cut off.
short = create(input="Count from 1 to 1000.", max_output_tokens=3)
assert short.status == "incomplete" and short.incomplete_details.reason == "max_output_tokens", short

print("openai", openai.__version__)
