"""Drives `toolgate mcp` through the official Python package `mcp`, by pipes and by HTTP.

Usage: python3 mcp_client.py PROGRAM MODEL.gguf EDITOR; exit code 0 if all is as it should be. EDITOR is the address of a
model that reads a.txt, writes b.txt, tries to write ../secret.txt, and answers with what came of that.
"""

import asyncio
import os
import pathlib
import subprocess
import sys
import tempfile

from mcp import Client, StdioServerParameters


def text(result):
    return "".join(part.text for part in result.content if part.type == "text")


async def check(client, workspace):
    """What every client is given, however it is connected."""
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert tools["read_file"].annotations.read_only_hint, tools["read_file"]
    assert tools["read_file"].input_schema["required"] == ["path"], tools["read_file"]
    assert tools["write_file"].annotations.destructive_hint, tools["write_file"]
    assert tools["ask"].input_schema["required"] == ["task"], tools["ask"]

    read = await client.call_tool("read_file", {"path": "a.txt"})
    assert text(read) == "alpha\n" and not read.is_error, read
    outside = await client.call_tool("read_file", {"path": "../a.txt"})
    assert outside.is_error and "outside" in text(outside), outside
    # The policy has a person asked before writes, and nobody can be asked here.
    write = await client.call_tool("write_file", {"path": "b.txt", "content": "beta"})
    assert write.is_error and "--approve auto" in text(write), write
    assert not (workspace / "b.txt").exists()
    try:
        await client.call_tool("no_such_tool", {})
    except Exception as error:
        assert "read_file" in str(error), error
    else:
        raise AssertionError("a tool that is not there was called")


async def ask(client):
    """A task for the whole agent, with its progress; then one that is cancelled."""
    told = []

    async def progress(count, total, message):
        told.append(message)

    answer = await client.call_tool(
        "ask", {"task": "Read the file a.txt.", "mode": "intel"}, progress_callback=progress
    )
    outcome = answer.structured_content
    assert [call["name"] for call in outcome["calls"]] == ["read_file"] and outcome["answer"] == text(answer), answer
    assert "alpha" in text(answer), answer
    assert any("model loaded" in message for message in told), told
    assert any(message.startswith("done") for message in told), told

    running = asyncio.create_task(client.call_tool("ask", {"task": "Tell a very long story about the sea."}))
    await asyncio.sleep(0.3)
    running.cancel()
    try:
        await running
    except asyncio.CancelledError:
        pass
    # The server goes on, and the model is free again.
    assert text(await client.call_tool("read_file", {"path": "a.txt"})) == "alpha\n"


async def edit(program, editor):
    """A task that reads a file and writes another, and is refused what lies outside the workspace."""
    with tempfile.TemporaryDirectory() as directory:
        workspace = pathlib.Path(directory) / "workspace"
        workspace.mkdir()
        (workspace / "a.txt").write_text("alpha\n")
        secret = pathlib.Path(directory) / "secret.txt"
        secret.write_text("CANARY")
        arguments = ["mcp", "--workspace", str(workspace), "--mode", "edit", "--approve", "auto", "--engine", editor]
        server = StdioServerParameters(command=program, args=arguments, env=dict(os.environ))
        async with Client(server) as client:
            answer = await client.call_tool("ask", {"task": "Copy a.txt to b.txt"})
        calls = [(call["name"], call["status"]) for call in answer.structured_content["calls"]]
        assert calls == [("read_file", "ok"), ("write_file", "ok"), ("write_file", "denied")], answer
        assert text(answer).startswith("Done, but: ") and "outside" in text(answer), answer
        assert (workspace / "b.txt").read_text() == "alpha and beta"
        assert secret.read_text() == "CANARY"


async def main(program, model, editor):
    await edit(program, editor)
    with tempfile.TemporaryDirectory() as directory:
        workspace = pathlib.Path(directory)
        (workspace / "a.txt").write_text("alpha\n")
        arguments = ["mcp", "--workspace", directory, "--mode", "edit", "--model", model]
        server = StdioServerParameters(command=program, args=arguments, env=dict(os.environ))
        async with Client(server) as client:
            await check(client, workspace)
            await ask(client)

        http = subprocess.Popen(
            [program, *arguments, "--http", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True, env=os.environ
        )
        try:
            for line in http.stderr:
                if "listening at " in line:
                    address = line.split("listening at ")[1].strip()
                    break
            async with Client(address) as client:
                await check(client, workspace)
        finally:
            http.terminate()
            assert http.wait(30) == 0, "it does not end in order"


asyncio.run(main(*sys.argv[1:]))
