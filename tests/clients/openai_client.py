"""Drives a server as the official OpenAI package does. Usage: openai_client.py URL MODEL. Exit code 0 if all of it held."""

import json
import sys
import time
import urllib.request

import openai

url, model = sys.argv[1:]
client = openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0, timeout=120)

CITY = {"type": "object", "properties": {"city": {"type": "string", "enum": ["Oslo", "Rome", "Lima"]}}, "required": ["city"]}
TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "description": "The weather in a city.", "parameters": CITY}},
    {"type": "function", "function": {"name": "book_trip", "description": "Book a trip to a city.", "parameters": CITY}},
]
QUESTION = [{"role": "user", "content": "What is the weather in Oslo?"}]


def check_call(call):
    assert call.type == "function" and call.id and call.function.name in ("get_weather", "book_trip"), call
    arguments = json.loads(call.function.arguments)
    assert list(arguments) == ["city"] and arguments["city"] in CITY["properties"]["city"]["enum"], call


def refused(kind, status, pointer, **request):
    try:
        client.chat.completions.create(**{"model": model, "messages": QUESTION, "max_tokens": 8, **request})
    except kind as error:
        assert error.status_code == status and error.param == pointer and error.request_id, error
        return
    raise AssertionError(f"no {kind.__name__} for {request}")


def warned(pointer, **request):
    turn = client.chat.completions.create(**{"model": model, "messages": QUESTION, "max_tokens": 8, **request})
    warnings = turn.model_extra["warnings"]
    assert len(warnings) == 1 and warnings[0]["pointer"].startswith(pointer) and warnings[0]["message"], warnings


def running():
    with urllib.request.urlopen(f"{url}/metrics") as metrics:
        lines = metrics.read().decode().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("toolgate_turns_running "))


# Models.
assert [entry.id for entry in client.models.list()] == [model]
assert client.models.retrieve(model).id == model

# One call.
forced = {"type": "function", "function": {"name": "get_weather"}}
turn = client.chat.completions.create(model=model, messages=QUESTION, tools=TOOLS, tool_choice=forced, seed=1)
choice = turn.choices[0]
assert choice.finish_reason == "tool_calls" and len(choice.message.tool_calls) == 1, turn
assert choice.message.tool_calls[0].function.name == "get_weather"
check_call(choice.message.tool_calls[0])
assert turn.usage.prompt_tokens > 0 and turn.usage.completion_tokens > 0, turn.usage

# The same prompt is in the cache now, and the same seed gives the same call.
again = client.chat.completions.create(model=model, messages=QUESTION, tools=TOOLS, tool_choice=forced, seed=1)
assert again.usage.prompt_tokens_details.cached_tokens > 0, again.usage
assert again.choices[0].message.tool_calls[0].function == choice.message.tool_calls[0].function

# Parallel calls.
many = client.chat.completions.create(
    model=model, tools=TOOLS, tool_choice="required", parallel_tool_calls=True, max_tokens=200,
    messages=[{"role": "user", "content": "Weather in Oslo, Rome and Lima?"}],
)
calls = many.choices[0].message.tool_calls
assert calls and len({call.id for call in calls}) == len(calls), many
for call in calls:
    check_call(call)

# Streaming, joined by the package itself.
with client.chat.completions.stream(model=model, messages=QUESTION, tools=TOOLS, tool_choice="required", seed=1) as stream:
    pieces = [event for event in stream if event.type == "tool_calls.function.arguments.delta"]
    final = stream.get_final_completion()
assert len(pieces) > 1, pieces
assert final.choices[0].finish_reason == "tool_calls" and len(final.choices[0].message.tool_calls) == 1, final
check_call(final.choices[0].message.tool_calls[0])

# The finish chunk repeats the calls whole, and usage comes last.
chunks = list(client.chat.completions.create(
    model=model, messages=QUESTION, tools=TOOLS, tool_choice="required", seed=1, stream=True,
    stream_options={"include_usage": True},
))
finish = next(chunk.choices[0] for chunk in chunks if chunk.choices and chunk.choices[0].finish_reason)
whole = finish.model_extra["message"]["tool_calls"]
assert [json.loads(call["function"]["arguments"]) for call in whole] == [
    json.loads(call.function.arguments) for call in final.choices[0].message.tool_calls
], (finish, final)
assert chunks[-1].usage.completion_tokens > 0 and not chunks[-1].choices

# Results back, then an answer, streamed.
history = QUESTION + [
    choice.message.model_dump(exclude_none=True),
    {"role": "tool", "tool_call_id": choice.message.tool_calls[0].id, "content": "12 degrees and rain in Oslo"},
]
answer = client.chat.completions.create(
    model=model, messages=history, tools=TOOLS, tool_choice="none", max_tokens=40, stream=True
)
text = "".join(chunk.choices[0].delta.content or "" for chunk in answer)
assert text.strip(), "an answer after the result"

# Structured output, beside tools.
schema = {
    "type": "object", "additionalProperties": False, "required": ["city", "degrees"],
    "properties": {"city": {"type": "string", "maxLength": 20}, "degrees": {"type": "integer", "minimum": -90, "maximum": 60}},
}
structured = client.chat.completions.create(
    model=model, messages=QUESTION, tools=TOOLS, tool_choice="none", max_tokens=80,
    response_format={"type": "json_schema", "json_schema": {"name": "weather", "strict": True, "schema": schema}},
)
value = json.loads(structured.choices[0].message.content)
assert sorted(value) == ["city", "degrees"] and -90 <= value["degrees"] <= 60, value

# Limits and errors.
short = client.chat.completions.create(model=model, messages=QUESTION, max_tokens=3)
assert short.choices[0].finish_reason == "length" and short.usage.completion_tokens <= 3, short
bad = {"type": "object", "properties": {"when": {"$ref": "#/nowhere"}}}
refused(openai.BadRequestError, 400, "/response_format/json_schema/schema/properties/when/$ref",
        response_format={"type": "json_schema", "json_schema": {"name": "t", "schema": bad}})
# What is carried on with.
warned("/tools/0/function/parameters", tools=[{"type": "function", "function": {"name": "t", "parameters": bad}}])
warned("/messages/0/content/0",
       messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]}])
warned("/model", model="gpt-nothing")

# A client that goes away.
stream = client.chat.completions.create(
    model=model, messages=[{"role": "user", "content": "Count from 1 to 1000."}], max_tokens=4000, temperature=1, stream=True
)
next(stream)
assert running() == 1
stream.close()
deadline = time.monotonic() + 20
while running():
    assert time.monotonic() < deadline, "the turn goes on although nobody reads it"
    time.sleep(0.05)

print("openai", openai.__version__)
