"""An HTTP session whose requests end: the time limit is for the whole request, not for each byte of the answer."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from requests import Session
from requests.adapters import HTTPAdapter
from requests.exceptions import ContentDecodingError, TooManyRedirects

from ragtrace.base.background import Background, after_fork

_attempts = threading.local()
"""`current`: the _Attempt of the request that this thread makes."""
_LARGEST_BODY = 32 * 1024 * 1024
"""Bytes of an answer that are read at most; answers to spans and scores have a few hundred."""


class _Attempt:
    """A request under way, and the connection that it uses."""

    def __init__(self, timeout: float) -> None:
        self.deadline = time.monotonic() + timeout
        self.connection: Any = None
        self.raw_socket: socket.socket | None = None
        """Of a connection that this attempt has opened: during the TLS handshake the connection has none."""

    def interrupt(self) -> None:
        """End the connection: its reader meets the end at once. Closing it would not wake the reader."""
        for each in (self.raw_socket, getattr(self.connection, "sock", None)):
            if each is not None:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)


class BoundedSession(Session):
    """requests limits the wait for each byte: an endpoint that answers byte by byte would hold a request for ever.
    A thread ends the connection of a request whose time is over, and `close` those of all requests."""

    def __init__(self, only_collectors: bool = False) -> None:
        """With `only_collectors` an answer that leads elsewhere, or is a page, is an error: OpenTelemetry's exporters
        take it for success, and the spans are lost without a word."""
        super().__init__()
        self._only_collectors = only_collectors
        self.note_body: Callable[[bytes], None] = lambda body: None
        """Called with the body of each answer that is a success."""
        if only_collectors:
            self.max_redirects = 0  # releases that follow them send what was a POST as a GET
        self._watch = Background("ragtrace-deadline", self._end_late)
        self._reset()
        after_fork(self._reset)
        for scheme in ("http://", "https://"):
            self.mount(scheme, _NotingAdapter())

    def _reset(self) -> None:
        # In a forked child: the parent's requests are its own, and their connections are shared with it.
        self._under_way: set[_Attempt] = set()
        self._is_watched = False

    def send(self, request: Any, **options: Any) -> Any:
        """Send a prepared request. Its timeout, a number of seconds, is that of the whole request."""
        timeout = options.get("timeout")
        if not isinstance(timeout, (int, float)):
            return super().send(request, **options)
        attempt = _attempts.current = _Attempt(timeout)
        self._under_way.add(attempt)
        if not self._is_watched:  # else the thread looks again when the first deadline comes
            self._is_watched = True
            self._watch.wake()
        try:
            response = super().send(request, **options)
        finally:
            _attempts.current = None
            self._under_way.discard(attempt)
            if attempt.raw_socket is not None:
                attempt.raw_socket.close()
        if self._only_collectors and 300 <= response.status_code < 400:
            address = response.headers.get("location", "no address")
            raise TooManyRedirects(f"{request.url} redirects to {address}; set the endpoint to the address itself")
        if self._only_collectors and response.ok and "text/html" in response.headers.get("content-type", ""):
            raise ContentDecodingError(f"{request.url} answers with a page; set the endpoint to a collector's address")
        if response.ok and response.content:
            self.note_body(response.content)
        return response

    def close(self) -> None:
        """End the requests that are under way, and close the connections."""
        for attempt in tuple(self._under_way):
            attempt.interrupt()
        self._watch.close(0)
        super().close()

    def _end_late(self, _nothing: list[None]) -> float | None:
        """End the requests whose time is over; seconds until the next one's is."""
        self._is_watched = False
        now = time.monotonic()
        remaining = []
        for attempt in tuple(self._under_way):
            if attempt.deadline <= now:
                attempt.interrupt()
            remaining.append(max(attempt.deadline - now, 0.1))  # again: it may not have had a connection yet
        self._is_watched = bool(remaining)
        return min(remaining, default=None)


class _NotingAdapter(HTTPAdapter):
    """Notes which connection a request uses, and reads no endless body."""

    def send(self, request: Any, stream: bool = False, *args: Any, **options: Any) -> Any:
        """Send a request. Raises ContentDecodingError for a body of more than `_LARGEST_BODY` bytes."""
        response = super().send(request, stream, *args, **options)
        if not stream:
            body = bytearray()
            for piece in response.iter_content(65_536):
                body += piece
                if len(body) > _LARGEST_BODY:
                    response.close()
                    raise ContentDecodingError(f"{request.url} answers with more than {_LARGEST_BODY} bytes")
            response._content = bytes(body)
        return response

    def get_connection_with_tls_context(self, *args: Any, **options: Any) -> Any:
        """The pool of connections to a host or a proxy."""
        pool: Any = super().get_connection_with_tls_context(*args, **options)
        if not issubclass(pool.ConnectionCls, _Noting):
            pool.ConnectionCls = type(pool.ConnectionCls.__name__, (_Noting, pool.ConnectionCls), {})
        return pool


class _Noting:
    """A connection that the attempt of its thread can end."""

    def _new_conn(self) -> socket.socket:
        opened: socket.socket = super()._new_conn()  # type: ignore[misc]  # of the connection, the next of the bases
        if (attempt := getattr(_attempts, "current", None)) is not None:
            attempt.raw_socket = opened.dup()
        return opened

    def request(self, *args: Any, **options: Any) -> None:
        """Send a request."""
        if (attempt := getattr(_attempts, "current", None)) is not None:
            attempt.connection = self
        super().request(*args, **options)  # type: ignore[misc]
