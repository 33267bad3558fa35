"""uvicorn's protocol with limits for slow clients: it has none itself."""

import asyncio
import socket
from dataclasses import dataclass

from uvicorn.protocols.http.h11_impl import H11Protocol


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What a server allows its clients."""

    head_seconds: float = 10.0
    """The request line and headers must have come by then."""
    write_seconds: float = 60.0
    """A client that takes nothing for so long is let go."""
    connections: int = 512
    """Open at a time."""


def _send_without_delay(transport: asyncio.Transport) -> None:
    """asyncio does this for sockets that it made itself. Without it, head and body of an answer are 40 ms apart."""
    connection = transport.get_extra_info("socket")
    if connection is not None and connection.family != getattr(socket, "AF_UNIX", None):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def bounded_protocol(limits: ConnectionLimits) -> type[H11Protocol]:
    """uvicorn's protocol, with a limit to how long a client may take to send a request's head or to read an answer.

    For a server without a reverse proxy. Connections without a whole head end after
    `head_seconds`, and the oldest of them as soon as they are half of `connections`."""
    heads: dict[H11Protocol, None] = {}  # connections without a whole head, the oldest first

    class BoundedProtocol(H11Protocol):
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            _send_without_delay(transport)
            self._await_head()

        def data_received(self, data: bytes) -> None:
            cycle = self.cycle
            super().data_received(data)
            if self.cycle is not cycle:
                self._stop_timer()
            elif self.cycle is None or self.cycle.response_complete:
                self._await_head()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._start_timer(limits.write_seconds)

        def resume_writing(self) -> None:
            super().resume_writing()
            if not self.transport.is_closing():
                self._stop_timer()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self.transport.is_closing():  # the client must read what is still to be sent
                self._start_timer(limits.write_seconds)

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_timer()
            super().connection_lost(exc)

        def _await_head(self) -> None:
            if self not in heads:
                heads[self] = None
                self._start_timer(limits.head_seconds)
            if len(heads) > max(1, limits.connections // 2):
                oldest = next(iter(heads))
                del heads[oldest]
                oldest.transport.abort()

        def _start_timer(self, seconds: float) -> None:
            self._timer = self._timer or self.loop.call_later(seconds, self.transport.abort)

        def _stop_timer(self) -> None:
            heads.pop(self, None)
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    return BoundedProtocol
