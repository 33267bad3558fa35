"""A server that answers as OpenAI does: plain and streamed, with tool calls, embeddings and errors."""

import json
from typing import Any

from tests.judge.server import Handler, Server, send
from tests.vendors.replies import Call, Reply, Usage
from tests.vendors.server import answer

QUESTION = "How long is the pump covered?"
FAILING = "How long does the call fail?"
ANSWER = "The pump is covered for 24 months."
MODEL = "gpt-4o-mini"
SERVED_MODEL = "gpt-4o-mini-2024-07-18"
TOOL = "search_manual"


def start() -> str:
    """Start the server in a thread of its own; its base address."""
    return Server(_play).url


def _play(handler: Handler, body: dict[str, Any]) -> None:
    """An embedding, a call of the offered tool, or the answer once there is a tool's result."""
    if handler.path.endswith("/embeddings"):
        texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
        data = [{"object": "embedding", "index": i, "embedding": [1.0, 0.0]} for i in range(len(texts))]
        usage = {"prompt_tokens": 40, "total_tokens": 49}
        whole = {"object": "list", "data": data, "model": body["model"], "usage": usage}
        send(handler, 200, json.dumps(whole).encode())
        return
    asks = body.get("tools") and not any(message["role"] == "tool" for message in body["messages"])
    said: Any = {"calls": (Call(TOOL, {"query": QUESTION}),)} if asks else {"text": ANSWER}
    status = 400 if FAILING in json.dumps(body["messages"]) else 200
    reply = Reply(**said, usage=Usage(40, 9), model=SERVED_MODEL, id="chatcmpl-7", status=status)
    answer(handler, reply, {**body, "stream_options": {"include_usage": True}})
