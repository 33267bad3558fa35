"""A server that answers as OpenAI does: plain and streamed, with tool calls, embeddings and errors."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

QUESTION = "How long is the pump covered?"
FAILING = "How long does the call fail?"
ANSWER = "The pump is covered for 24 months."
MODEL = "gpt-4o-mini"
SERVED_MODEL = "gpt-4o-mini-2024-07-18"
TOOL = "search_manual"
USAGE = {"prompt_tokens": 40, "completion_tokens": 9, "total_tokens": 49}


def start() -> str:
    """Start the server in a thread of its own; its base address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/v1"


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, *_arguments: Any) -> None:
        """Write nothing."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.endswith("/embeddings"):
            texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
            data = [{"object": "embedding", "index": i, "embedding": [1.0, 0.0]} for i in range(len(texts))]
            self._send({"object": "list", "data": data, "model": body["model"], "usage": {**USAGE}})
        elif FAILING in json.dumps(body["messages"]):
            self._send({"error": {"message": "The model is not there.", "type": "server_error"}}, 400)
        elif body.get("stream"):
            self._stream(_message(body))
        else:
            message = _message(body)
            reason = "tool_calls" if "tool_calls" in message else "stop"
            choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
            self._send(_completion("chat.completion", [choice], usage=USAGE))

    def _send(self, payload: dict[str, Any], status: int = 200) -> None:
        text = json.dumps(payload).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _stream(self, message: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        if calls := message.get("tool_calls"):
            deltas.append({"tool_calls": [{**call, "index": i} for i, call in enumerate(calls)]})
        else:
            words = message["content"].split(" ")
            deltas += [{"content": word + (" " if i < len(words) - 1 else "")} for i, word in enumerate(words)]
        chunks = [_completion("chat.completion.chunk", [_piece(delta, None)]) for delta in deltas]
        reason = "tool_calls" if calls else "stop"
        chunks.append(_completion("chat.completion.chunk", [_piece({}, reason)]))
        chunks.append(_completion("chat.completion.chunk", [], usage=USAGE))
        for chunk in chunks:
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")


def _completion(kind: str, choices: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {"id": "chatcmpl-7", "object": kind, "created": 1, "model": SERVED_MODEL, "choices": choices, **more}


def _piece(delta: dict[str, Any], reason: str | None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}


def _message(body: dict[str, Any]) -> dict[str, Any]:
    """A call of the offered tool, or the answer once there is a tool's result."""
    if body.get("tools") and not any(message["role"] == "tool" for message in body["messages"]):
        function = {"name": TOOL, "arguments": json.dumps({"query": QUESTION})}
        call = {"id": "call_1", "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [call]}
    return {"role": "assistant", "content": ANSWER}
