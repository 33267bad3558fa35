"""Runs the console under uvicorn: checks that the bind address is safe, and ends connections of slow clients."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ragtrace.console import accounts
from ragtrace.console.api import described
from ragtrace.console.app import create_app
from ragtrace.console.login import local_address
from ragtrace.console.options import ConsoleSettings
from ragtrace.errors import SettingError
from ragtrace.review import notices, webhooks
from ragtrace.review.queue import Filler
from ragtrace.topics.grouper import Grouper

if TYPE_CHECKING:
    from ragtrace.chatlogs.store import Store

_log = logging.getLogger("ragtrace.console")


def check(store: Store, settings: ConsoleSettings) -> None:
    """Raises SettingError if other machines could reach a console without users."""
    if settings.private or settings.oidc is not None or _has_users(store):
        return
    if settings.loopback:
        what = "the console is to be reached through a proxy or by another name (--url, --allow-host, --trusted-proxy)"
    else:
        what = f"{settings.host} can be reached from other machines"
    raise SettingError(
        f"{what}, and there are no users yet: everybody would be let in. Add one first: "
        "ragtrace user add NAME --role admin --store URL; or configure OpenID Connect; or listen on 127.0.0.1"
    )


def _has_users(store: Store) -> bool:
    with store.reading() as connection:
        return accounts.exist(connection)


def serve(store: Store, settings: ConsoleSettings, certificate: str = "", key: str = "") -> None:
    """Serve until SIGINT or SIGTERM. Raises SettingError as `check` does, and where the address cannot be bound."""
    check(store, settings)
    server = uvicorn.Server(config(store, settings, certificate, key))
    with _bound(server, settings) as listening:
        # People click this address; the port may have been 0.
        host, port = listening.getsockname()[:2]
        name = f"[{host}]" if ":" in str(host) else host
        scheme = "https" if certificate else "http"
        address = f"{scheme}://{name}:{port}"
        if settings.private and not _has_users(store):
            _log.info("ragtrace console: open %s (once; the browser stays signed in)", local_address(store, address))
        else:
            _log.info("ragtrace console: %s", address)
        if not settings.loopback and not certificate and not settings.url.startswith("https://"):
            _log.warning("ragtrace console: without https, passwords can be read on the way; see docs/console.md")
        with Filler(store, settings.policy), Grouper(store) if settings.topics else nullcontext(), _telling(store):
            server.run(sockets=[listening])


@contextmanager
def served(store: Store, settings: ConsoleSettings | None = None) -> Iterator[str]:
    """Serve in a thread while the block runs, as tests and notebooks do; gives the address. Port 0, the
    default here, is any that is free."""
    used = settings or ConsoleSettings(port=0)
    server = uvicorn.Server(config(store, used))
    with _bound(server, used) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            while not server.started and thread.is_alive():
                thread.join(0.01)
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(20)


@contextmanager
def _telling(store: Store) -> Iterator[None]:
    """Sends notices to the webhooks that are configured, while the block runs."""
    hooks = webhooks.Webhooks(webhooks.load_targets())
    notices.subscribe(store, hooks.send)
    try:
        yield
    finally:
        hooks.close()


def _bound(server: uvicorn.Server, settings: ConsoleSettings) -> Any:
    try:
        return server.config.bind_socket()
    except SystemExit:  # uvicorn's way to say that the address is taken
        raise SettingError(f"{settings.host}:{settings.port} cannot be listened on; is it taken?") from None


def config(store: Store, settings: ConsoleSettings, certificate: str = "", key: str = "") -> uvicorn.Config:
    """How uvicorn runs the console."""
    app = create_app(store, settings)
    described(app)  # now, so that no request waits for it
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        loop="asyncio",
        http=bounded_protocol(settings),
        h11_max_incomplete_event_size=65_536,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,  # it has query strings in it; `guards.AccessLog` writes ours
        server_header=False,
        proxy_headers=bool(settings.proxies),
        forwarded_allow_ips=list(settings.proxies),
        limit_concurrency=settings.connections,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=10,
        ssl_certfile=certificate or None,
        ssl_keyfile=key or None,
    )


def _send_without_delay(transport: asyncio.Transport) -> None:
    """asyncio does this for sockets that it made itself. Without it, head and body of an answer are 40 ms apart."""
    connection = transport.get_extra_info("socket")
    if connection is not None and connection.family != getattr(socket, "AF_UNIX", None):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def bounded_protocol(settings: ConsoleSettings) -> type[H11Protocol]:
    """uvicorn's protocol, with a limit to how long a client may take to send a request's head or to read an answer.

    For a console without a reverse proxy: uvicorn has no such limits. Connections without a whole head end after
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
            self._start_timer(settings.write_seconds)

        def resume_writing(self) -> None:
            super().resume_writing()
            if not self.transport.is_closing():
                self._stop_timer()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self.transport.is_closing():  # the client must read what is still to be sent
                self._start_timer(settings.write_seconds)

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_timer()
            super().connection_lost(exc)

        def _await_head(self) -> None:
            if self not in heads:
                heads[self] = None
                self._start_timer(settings.head_seconds)
            if len(heads) > max(1, settings.connections // 2):
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
