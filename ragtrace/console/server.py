"""Listening: where it may, and with an end to everybody's patience."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ragtrace.console import accounts
from ragtrace.console.api import described
from ragtrace.console.app import create_app
from ragtrace.console.options import ConsoleSettings
from ragtrace.errors import SettingError
from ragtrace.review import notices, webhooks
from ragtrace.review.queue import Filler

if TYPE_CHECKING:
    from ragtrace.chatlogs.store import Store

_log = logging.getLogger("ragtrace.console")


def check(store: Store, settings: ConsoleSettings) -> None:
    """Raises SettingError where strangers could reach a console that asks nobody who they are."""
    if settings.private or settings.oidc is not None:
        return
    with store.reading() as connection:
        if accounts.exist(connection):
            return
    if settings.loopback:
        what = "the console is to be reached through a proxy or by another name (--url, --allow-host, --trusted-proxy)"
    else:
        what = f"{settings.host} can be reached from other machines"
    raise SettingError(
        f"{what}, and there are no users yet: everybody would be let in. Add one first: "
        "ragtrace user add NAME --role admin --store URL; or configure OpenID Connect; or listen on 127.0.0.1"
    )


def serve(store: Store, settings: ConsoleSettings, certificate: str = "", key: str = "") -> None:
    """Serve until SIGINT or SIGTERM. Raises SettingError as `check` does, and where the address cannot be bound."""
    check(store, settings)
    server = uvicorn.Server(config(store, settings, certificate, key))
    with _bound(server, settings) as listening:
        # The address stands in what people click; the port may have been 0.
        host, port = listening.getsockname()[:2]
        shown = f"[{host}]" if ":" in str(host) else host
        scheme = "https" if certificate else "http"
        _log.info("ragtrace console: %s://%s:%s", scheme, shown, port)
        if not settings.loopback and not certificate and not settings.url.startswith("https://"):
            _log.warning("ragtrace console: without https, passwords can be read on the way; see docs/console.md")
        with Filler(store, settings.policy), _telling(store):
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
    """Other systems are told of what happens, where the environment names some."""
    hooks = webhooks.Webhooks(webhooks.from_environment())
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
    described(app)  # now, and not while somebody waits
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        loop="asyncio",
        http=patient(settings),
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


def patient(settings: ConsoleSettings) -> type[H11Protocol]:
    """uvicorn's protocol, which by itself waits for ever for a request's head and for a client that does not read.

    Connections without a whole head end after `head_seconds`, and the oldest of them as soon as they are half of all
    that may be: however many a slow client opens, there is room for others.
    """
    waiting: dict[H11Protocol, asyncio.TimerHandle] = {}
    most = max(1, settings.connections // 2)

    class Patient(H11Protocol):
        _stuck: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            # asyncio does this for sockets that it made itself. Without it, head and body of an answer are 40 ms apart.
            connection = transport.get_extra_info("socket")
            if connection is not None and connection.family != getattr(socket, "AF_UNIX", None):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._await_head()

        def data_received(self, data: bytes) -> None:
            before = self.cycle
            super().data_received(data)
            if self.cycle is not before:
                self._head_is_there()
            elif self.cycle is None or self.cycle.response_complete:
                self._await_head()

        def connection_lost(self, exc: Exception | None) -> None:
            self._head_is_there()
            self.resume_writing()
            super().connection_lost(exc)

        def pause_writing(self) -> None:
            super().pause_writing()
            self._stuck = self._stuck or self.loop.call_later(settings.write_seconds, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            if self._stuck is not None:
                self._stuck.cancel()
                self._stuck = None

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self.transport.is_closing():  # what is still to be sent must be taken, too
                self.loop.call_later(settings.write_seconds, self.transport.abort)

        def _await_head(self) -> None:
            if self in waiting:
                return
            waiting[self] = self.loop.call_later(settings.head_seconds, self._give_up)
            if len(waiting) > most:
                next(iter(waiting))._give_up()  # type: ignore[attr-defined]

        def _head_is_there(self) -> None:
            if (timer := waiting.pop(self, None)) is not None:
                timer.cancel()

        def _give_up(self) -> None:
            self._head_is_there()
            self.transport.abort()

    return Patient
