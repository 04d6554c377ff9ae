"""Drives a server as the official Anthropic package does. Usage: anthropic_client.py URL MODEL. Exit code 0 if all of it held."""

import json
import sys
import time
import urllib.request

import anthropic

url, model = sys.argv[1:]
client = anthropic.Anthropic(base_url=url, api_key="unused", max_retries=0, timeout=120)

CITY = {"type": "object", "properties": {"city": {"type": "string", "enum": ["Oslo", "Rome", "Lima"]}}, "required": ["city"]}
TOOLS = [
    {"name": "get_weather", "description": "The weather in a city.", "input_schema": CITY},
    {"name": "book_trip", "description": "Book a trip to a city.", "input_schema": CITY},
]
QUESTION = [{"role": "user", "content": "What is the weather in Oslo?"}]


def create(**request):
    return client.messages.create(**{"model": model, "max_tokens": 100, "messages": QUESTION, **request})


def check_call(block):
    assert block.type == "tool_use" and block.id and block.name in ("get_weather", "book_trip"), block
    assert list(block.input) == ["city"] and block.input["city"] in CITY["properties"]["city"]["enum"], block


def refused(kind, status, says, **request):
    try:
        create(**request)
    except kind as error:
        assert error.status_code == status and says in error.message and error.request_id, error
        return
    raise AssertionError(f"no {kind.__name__} for {request}")


def warned(pointer, **request):
    warnings = create(**request).model_extra["warnings"]
    assert len(warnings) == 1 and warnings[0]["pointer"].startswith(pointer) and warnings[0]["message"], warnings


def running():
    with urllib.request.urlopen(f"{url}/metrics") as metrics:
        lines = metrics.read().decode().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("toolgate_turns_running "))


# Models.
assert [entry.id for entry in client.models.list()] == [model]
assert client.models.retrieve(model).created_at.year >= 2024

# One call.
turn = create(tools=TOOLS, tool_choice={"type": "tool", "name": "get_weather"})
assert turn.stop_reason == "tool_use" and [block.name for block in turn.content] == ["get_weather"], turn
check_call(turn.content[0])
assert turn.usage.input_tokens > 0 and turn.usage.output_tokens > 0, turn.usage
counted = client.messages.count_tokens(model=model, messages=QUESTION, tools=TOOLS).input_tokens
assert counted > 50, counted
again = create(tools=TOOLS, tool_choice={"type": "tool", "name": "get_weather"})
assert again.usage.cache_read_input_tokens > 0 and again.content[0].input == turn.content[0].input, again

# Parallel calls.
many = create(
    tools=TOOLS, tool_choice={"type": "any", "disable_parallel_tool_use": False}, max_tokens=200,
    messages=[{"role": "user", "content": "Weather in Oslo, Rome and Lima?"}],
)
assert many.content and len({block.id for block in many.content}) == len(many.content), many
for block in many.content:
    check_call(block)
one = create(tools=TOOLS, tool_choice={"type": "any", "disable_parallel_tool_use": True})
assert len(one.content) == 1, one

# Streaming, joined by the package itself.
with client.messages.stream(
    model=model, max_tokens=100, messages=QUESTION, tools=TOOLS, tool_choice={"type": "any"}
) as stream:
    events = [event.type for event in stream]
    final = stream.get_final_message()
assert events[0] == "message_start" and events[-1] == "message_stop" and events.count("input_json") > 1, events
assert final.stop_reason == "tool_use" and final.usage.output_tokens > 0, final
check_call(final.content[0])

# Results back, one of them a failure, then an answer, streamed.
history = QUESTION + [
    {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in turn.content]},
    {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": turn.content[0].id, "is_error": True, "content": "the station is offline"},
        {"type": "text", "text": "What went wrong?"},
    ]},
]
with client.messages.stream(
    model=model, max_tokens=40, messages=history, tools=TOOLS, tool_choice={"type": "none"}, system="Be brief."
) as stream:
    text = "".join(stream.text_stream)
assert text.strip(), "an answer after the result"

# Structured output.
schema = {
    "type": "object", "additionalProperties": False, "required": ["city", "degrees"],
    "properties": {"city": {"type": "string", "maxLength": 20}, "degrees": {"type": "integer", "minimum": -90, "maximum": 60}},
}
structured = create(output_config={"format": {"type": "json_schema", "schema": schema}})
value = json.loads(structured.content[0].text)
assert sorted(value) == ["city", "degrees"] and -90 <= value["degrees"] <= 60, value

# Limits and errors.
assert create(max_tokens=3).stop_reason == "max_tokens"
bad = {"type": "object", "properties": {"when": {"$ref": "#/nowhere"}}}
refused(anthropic.BadRequestError, 400, "/output_config/format/schema/properties/when",
        output_config={"format": {"type": "json_schema", "schema": bad}})
# What is carried on with.
warned("/tools/0/input_schema", tools=[{"name": "t", "input_schema": bad}])
picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
warned("/messages/0/content/0", messages=[{"role": "user", "content": [picture]}])
warned("/model", model="claude-nothing")

# A client that goes away.
with client.messages.stream(
    model=model, max_tokens=4000, extra_body={"temperature": 1},
    messages=[{"role": "user", "content": "Count from 1 to 1000."}],
) as stream:
    next(iter(stream))
    assert running() == 1
deadline = time.monotonic() + 20
while running():
    assert time.monotonic() < deadline, "the turn goes on although nobody reads it"
    time.sleep(0.05)

print("anthropic", anthropic.__version__)
