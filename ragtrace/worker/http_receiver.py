"""Receives OTLP over HTTP, protobuf and JSON, under the server that the console uses."""

import asyncio
import json
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import uvicorn
from google.protobuf import json_format
from google.rpc.status_pb2 import Status

from ragtrace.base.bounded_protocol import ConnectionLimits, bounded_protocol
from ragtrace.capture.spans.request_body import JSON, PROTOBUF, IntakeError
from ragtrace.errors import SettingError
from ragtrace.worker.intake import BUSY, GRPC_CODES, UNAVAILABLE, Intake
from ragtrace.worker.worker_settings import BODY_BYTES, RETRY_SECONDS, Senders, WorkerSettings, split_address

_TRACES = "/v1/traces"
_REQUESTS = 256
"""Requests at a time whose bodies have come."""
_BODY_SECONDS = 60.0
_LEAST_RATE, _GRACE = 1_000.0, 5.0
"""Bytes a second that a sender must keep up, and seconds before they count: one that dribbles keeps others out."""
_LATER = (b"retry-after", str(RETRY_SECONDS).encode())
_HEADERS = {401: (b"www-authenticate", b"Bearer"), 405: (b"allow", b"POST"), BUSY: _LATER, UNAVAILABLE: _LATER}
"""Of refusals, by their status."""
_Send = Callable[[Mapping[str, Any]], Awaitable[None]]
_Receive = Callable[[], Awaitable[Mapping[str, Any]]]


_LIMITS = ConnectionLimits(head_seconds=65.0, write_seconds=30.0, connections=1_024)
"""Senders keep a connection open between two exports."""


class HttpReceiver:
    """An HTTP server for `POST /v1/traces`, `GET /healthz` and `GET /readyz`."""

    def __init__(
        self, settings: WorkerSettings, senders: Senders, intake: Intake, unready_reason: Callable[[], str]
    ) -> None:
        """`unready_reason` says why no requests are taken; an empty text if they are.

        Raises SettingError where the address cannot be listened on, and for certificates that cannot be read."""
        self._settings, self._senders, self._intake, self._unready_reason = settings, senders, intake, unready_reason
        self._under_way = self._bytes = 0
        host, port = split_address(settings.http, "http")
        self._server = uvicorn.Server(self._config(host, port))
        try:
            self._socket = self._server.config.bind_socket()
        except SystemExit:  # uvicorn's way to say that the address is taken
            raise SettingError(f"http: {settings.http} cannot be listened on; is it taken?") from None
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, name="ragtrace-receiver", daemon=True
        )

    def _config(self, host: str, port: int) -> uvicorn.Config:
        settings = self._settings
        try:
            config = uvicorn.Config(
                self._app, host=host, port=port, interface="asgi3", loop="asyncio", http=bounded_protocol(_LIMITS),
                h11_max_incomplete_event_size=65_536, ws="none", lifespan="off", log_config=None, log_level="warning",
                access_log=False, server_header=False, proxy_headers=False, timeout_keep_alive=60,
                timeout_graceful_shutdown=5, ssl_certfile=settings.tls_certificate or None,
                ssl_keyfile=settings.tls_key or None, ssl_ca_certs=settings.tls_client_ca or None,
                ssl_cert_reqs=ssl.CERT_REQUIRED if settings.tls_client_ca else ssl.CERT_NONE,
            )  # fmt: skip
            config.load()
        except (OSError, ssl.SSLError) as error:
            raise SettingError(f"the certificates of the worker cannot be read: {error}") from error
        return config

    def start(self) -> None:
        """Begin to answer, and return when it does."""
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            self._thread.join(0.01)

    def stop(self, seconds: float) -> None:
        """Take no further requests; those under way may take so long."""
        self._server.should_exit = True
        self._thread.join(seconds + 1.0)

    # --- requests --------------------------------------------------------------------------------

    async def _app(self, scope: Mapping[str, Any], receive: _Receive, send: _Send) -> None:
        if scope["type"] != "http":
            return
        method, path = scope["method"], scope["path"]
        if method in ("GET", "HEAD") and path in ("/healthz", "/readyz"):
            reason = "" if path == "/healthz" else self._unready_reason()
            await _answer(send, 503 if reason else 200, f"{reason or 'ok'}\n".encode(), "text/plain; charset=utf-8")
            return
        headers = {key.decode("latin-1").lower(): value.decode("latin-1") for key, value in scope["headers"]}
        kind = headers.get("content-type", PROTOBUF)
        try:
            sender = self._check(method, path, headers)
            answer = await self._receive_spans(headers, kind, sender, receive)
        except IntakeError as error:
            self._intake.refuse(error)
            await self._refuse(send, error, kind)
            return
        await _answer(send, 200, answer, JSON if _is_json(kind) else PROTOBUF)

    def _check(self, method: str, path: str, headers: Mapping[str, str]) -> str:
        """The sender's name. Raises IntakeError for what can be refused before the body is read."""
        if path != _TRACES:
            raise IntakeError(404, "path", f"there is nothing at {path[:80]!r}; the worker takes traces, at {_TRACES}")
        if method != "POST":
            raise IntakeError(405, "method", "use POST")
        if "origin" in headers or "sec-fetch-site" in headers:
            raise IntakeError(403, "browser", "pages of browsers cannot send; use a collector")
        sender = self._senders.check(headers.get("authorization", ""))
        self._intake.check_open()
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > BODY_BYTES:
            raise IntakeError(413, "too_large", f"the body has more than {BODY_BYTES} bytes")
        if self._under_way >= _REQUESTS or self._bytes > self._settings.bytes / 2:
            raise IntakeError(UNAVAILABLE, "requests", "too many requests are under way")
        return sender

    async def _receive_spans(self, headers: Mapping[str, str], kind: str, sender: str, receive: _Receive) -> bytes:
        chunks: list[bytes] = []
        try:
            await self._read_body(receive, chunks)
            coding = headers.get("content-encoding", "").strip().lower()
            self._under_way += 1
            try:
                return await asyncio.to_thread(self._take, b"".join(chunks), coding, kind, sender)
            finally:
                self._under_way -= 1
        finally:
            self._bytes -= sum(map(len, chunks))

    async def _read_body(self, receive: _Receive, chunks: list[bytes]) -> None:
        """Add the pieces of a body to `chunks`, and their sizes to what is under way."""
        size, begin = 0, time.monotonic()
        while True:
            due = begin + min(_BODY_SECONDS, _GRACE + size / _LEAST_RATE)
            try:
                message = await asyncio.wait_for(receive(), due - time.monotonic())
            except TimeoutError:
                raise IntakeError(
                    408, "slow", f"the body comes with fewer than {_LEAST_RATE:g} bytes a second"
                ) from None
            if message["type"] == "http.disconnect":
                raise IntakeError(400, "disconnected", "the sender went away")
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
            self._bytes += len(chunks[-1])
            if size > BODY_BYTES:
                raise IntakeError(413, "too_large", f"the body has more than {BODY_BYTES} bytes")
            if not message.get("more_body", False):
                return
            if self._bytes > max(size, self._settings.bytes):  # one that is larger than all room is taken alone
                raise IntakeError(UNAVAILABLE, "requests", "too many bytes are under way")

    def _take(self, body: bytes, coding: str, kind: str, sender: str) -> bytes:
        """Decode a body and hand it in, in a thread of the pool; the answer's body."""
        response = self._intake.take(body, coding, kind, sender)
        if _is_json(kind):
            return str(json_format.MessageToJson(response, indent=None)).encode()
        return bytes(response.SerializeToString())

    async def _refuse(self, send: _Send, error: IntakeError, kind: str) -> None:
        headers = [_HEADERS[error.status]] if error.status in _HEADERS else []
        status = Status(code=GRPC_CODES.get(error.status, 2), message=error.message)
        if _is_json(kind):
            body = json.dumps({"code": status.code, "message": status.message}).encode()
            await _answer(send, error.status, body, JSON, headers)
        else:
            await _answer(send, error.status, status.SerializeToString(), PROTOBUF, headers)


def _is_json(kind: str) -> bool:
    return kind.partition(";")[0].strip().lower() == JSON


async def _answer(
    send: _Send, status: int, body: bytes, kind: str, headers: Sequence[tuple[bytes, bytes]] = ()
) -> None:
    own = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": own})
    await send({"type": "http.response.body", "body": body})
