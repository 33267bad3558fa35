"""A server that answers `Reply` after `Reply`, each in the format of the vendor that is asked."""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.judge.server import Handler, Server, send
from tests.vendors import replies
from tests.vendors.replies import Reply

WHOLE: dict[str, Callable[[Reply], Any]] = {
    "/v1/chat/completions": replies.openai_chat, "/v1/responses": replies.openai_response,
    "/v1/messages": replies.anthropic_message, "/v1/chat": replies.cohere_chat, "/v2/chat": replies.cohere_chat_v2,
}  # fmt: skip
STREAMED: dict[str, Callable[[Reply, Any], Iterator[tuple[str | None, Any]]]] = {
    "/v1/chat/completions": replies.openai_chat_stream, "/v1/responses": replies.openai_response_stream,
    "/v1/messages": replies.anthropic_stream, "/v2/chat": replies.cohere_chat_v2_stream,
}  # fmt: skip


class Vendors:
    """Real clients are pointed at `url`. The last reply is given again and again."""

    def __init__(self, server: Server, script: list[Reply]) -> None:
        self.url = server.url.removesuffix("/v1")
        self.script = script
        self.requests = server.requests

    def answers(self, *script: Reply) -> None:
        self.script[:] = script


def answer(handler: Handler, reply: Reply, body: dict[str, Any]) -> None:
    """Send a reply as the vendor does whose path was asked."""
    path = handler.path.partition("?")[0]
    if reply.status != 200:
        send(handler, reply.status, json.dumps(replies.error(path, reply.status)).encode())
    elif body.get("stream"):
        _send_stream(handler, path, reply, body)
    else:
        send(handler, 200, json.dumps(WHOLE[path](reply)).encode())


@contextmanager
def serving() -> Iterator[Vendors]:
    script: list[Reply] = []

    def play(handler: Handler, body: dict[str, Any]) -> None:
        answer(handler, script.pop(0) if len(script) > 1 else script[0], body)

    server = Server(play)
    try:
        yield Vendors(server, script)
    finally:
        server.close()


def _send_stream(handler: Handler, path: str, reply: Reply, body: dict[str, Any]) -> None:
    """Send the events one by one, as server-sent events; Cohere's first API sends lines of JSON instead."""
    handler.send_response(200)
    handler.send_header("Content-Type", "application/stream+json" if path == "/v1/chat" else "text/event-stream")
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    if path == "/v1/chat":
        lines = [json.dumps(event) + "\n" for event in replies.cohere_chat_stream(reply, body)]
    else:
        lines = [_event(name, data) for name, data in STREAMED[path](reply, body)]
    for line in lines[: reply.breaks_after]:
        piece = line.encode()
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        handler.wfile.flush()
    if reply.breaks_after is not None:
        handler.connection.shutdown(socket.SHUT_RDWR)
        return
    handler.wfile.write(b"0\r\n\r\n")


def _event(name: str | None, data: Any) -> str:
    text = data if isinstance(data, str) else json.dumps(data)
    return (f"event: {name}\n" if name else "") + f"data: {text}\n\n"
