"""An OpenAI-compatible server that does what it is told, and misbehaves on purpose."""

import functools
import http.server
import json
import socket
import struct
import threading
import time
import zlib
from collections.abc import Callable
from typing import Any, Self

Handler = http.server.BaseHTTPRequestHandler
Behaviour = Callable[[Handler, dict[str, Any]], None]


def completion(text: str | None, *, finish: str = "stop", tokens: tuple[int, int] = (100, 10), top: Any = None) -> Any:
    choice: dict[str, Any] = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text}}
    if top is not None:
        alternatives = [{"token": t, "logprob": p, "bytes": None} for t, p in top]
        choice["logprobs"] = {"content": [{**alternatives[0], "top_logprobs": alternatives}]}
    used = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens)}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": used}


def send(handler: Handler, status: int, body: bytes, kind: str = "application/json", **headers: str) -> None:
    handler.send_response(status)
    handler.send_header("Content-Type", kind)
    handler.send_header("Content-Length", str(len(body)))
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


def begin(handler: Handler, length: int) -> None:
    """The head of an answer of JSON."""
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(length))
    handler.end_headers()


def says(text: str | None, **more: Any) -> Behaviour:
    return lambda handler, _: send(handler, 200, json.dumps(completion(text, **more)).encode())


def slowly(behaviour: Behaviour) -> Behaviour:
    """The same, a tenth of a second later."""

    def play(handler: Handler, body: dict[str, Any]) -> None:
        time.sleep(0.1)
        behaviour(handler, body)

    return play


def status(code: int, message: str = "no", **headers: str) -> Behaviour:
    """An error in OpenAI's form."""
    body = json.dumps({"error": {"message": message, "type": "error", "code": code}}).encode()
    return lambda handler, _: send(handler, code, body, **headers)


def raw(body: str, kind: str = "application/json") -> Behaviour:
    """Status 200 and whatever text."""
    return lambda handler, _: send(handler, 200, body.encode(), kind)


def hangs(handler: Handler, _: Any) -> None:
    time.sleep(30)


def trickles(handler: Handler, _: Any) -> None:
    """A byte now and then, for ever."""
    begin(handler, 100_000)
    for _i in range(300):
        handler.wfile.write(b" ")
        handler.wfile.flush()
        time.sleep(0.1)


def never_ends(handler: Handler, _: Any) -> None:
    """A body without an end, as fast as it is read; at most a gigabyte."""
    begin(handler, 2**30)
    for _i in range(2**14):
        handler.wfile.write(b" " * 2**16)


@functools.cache
def packed_gigabyte() -> bytes:
    packer = zlib.compressobj(wbits=31)
    return b"".join(packer.compress(b" " * 2**20) for _i in range(2**10)) + packer.flush()


def unpacks_to_a_gigabyte(handler: Handler, _: Any) -> None:
    """A megabyte of gzip, which nobody has asked for."""
    send(handler, 200, packed_gigabyte(), Content_Encoding="gzip")


def breaks_off(handler: Handler, _: Any) -> None:
    body = json.dumps(completion('{"answer_fails": false, "reason": ""}')).encode()
    begin(handler, len(body))
    handler.wfile.write(body[: len(body) // 2])
    handler.wfile.flush()
    handler.connection.shutdown(socket.SHUT_RDWR)


def resets(handler: Handler, _: Any) -> None:
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.rfile.close()  # it holds the socket, too
    handler.connection.close()
    handler.close_connection = True


class QuietHandler(Handler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass


class Listening:
    """A server in a thread, until the end of a `with`."""

    def __init__(self, handler: type[Handler]) -> None:
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # the client has gone
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Server(Listening):
    """Plays behaviours one after the other; the last one again and again."""

    def __init__(self, *behaviours: Behaviour) -> None:
        self.behaviours = list(behaviours)
        self.requests: list[dict[str, Any]] = []
        self.at_once = self.most = 0
        self._lock = threading.Lock()
        owner = self

        class Handled(QuietHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with owner._lock:
                    owner.requests.append(body)
                    play = owner.behaviours.pop(0) if len(owner.behaviours) > 1 else owner.behaviours[0]
                    owner.at_once += 1
                    owner.most = max(owner.most, owner.at_once)
                try:
                    play(self, body)
                except OSError:
                    pass  # the client has gone
                finally:
                    with owner._lock:
                        owner.at_once -= 1

        super().__init__(Handled)


serving = Server
