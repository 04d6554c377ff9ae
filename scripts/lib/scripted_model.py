"""A server of models that says what a script says: for the pages' examples, which must not depend on weights.

It speaks the streaming chat completions of the OpenAI API. A script is a file with a JSON object a line, a turn each:
{"text": "…"} or {"call": {"name": "…", "arguments": {…}}}. The number of results in a request tells which turn is due.
"""

import json
import pathlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def turns(path):
    """The turns of a script."""
    lines = pathlib.Path(path).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip()]


def delta(turn, number):
    """What a stream says of a turn."""
    if "text" in turn:
        return {"role": "assistant", "content": turn["text"]}, "stop"
    call = turn["call"]
    function = {"name": call["name"], "arguments": json.dumps(call["arguments"])}
    call = {"index": 0, "id": f"call_{number}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    script = []

    def do_GET(self):
        if self.path == "/v1/models":
            self.send(200, "application/json", json.dumps({"data": [{"id": "scripted", "object": "model"}]}))
        else:
            self.send(404, "application/json", '{"error": {"message": "there is no such page"}}')

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
        number = sum(message["role"] == "tool" for message in body.get("messages", []))
        if self.path != "/v1/chat/completions" or number >= len(self.script):
            self.send(404, "application/json", '{"error": {"message": "the script has no such turn"}}')
            return
        said, reason = delta(self.script[number], number)
        chunks = [
            {"choices": [{"index": 0, "delta": said, "finish_reason": None}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
        ]
        lines = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
        self.send(200, "text/event-stream", lines + "data: [DONE]\n\n")

    def send(self, status, kind, text):
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        """Says nothing."""


class Server:
    """The server while a `with` block runs; `arguments` lead the program to it."""

    def __init__(self, path):
        self.handler = type("Scripted", (Handler,), {"script": turns(path)})

    def __enter__(self):
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self.handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.arguments = ["--engine", f"http://127.0.0.1:{self.server.server_port}", "--engine-grammar", "none"]
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
