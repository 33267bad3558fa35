"""Runs the console under uvicorn: checks that the bind address is safe, and ends connections of slow clients."""

from __future__ import annotations

import logging
from contextlib import closing
from typing import TYPE_CHECKING, Any

import uvicorn

from ragtrace.base.bounded_protocol import ConnectionLimits, bounded_protocol
from ragtrace.console import accounts
from ragtrace.console.api import described
from ragtrace.console.app import create_app
from ragtrace.console.login import local_address
from ragtrace.console.options import ConsoleSettings
from ragtrace.console.regular import Regular
from ragtrace.console.review import notices, webhooks
from ragtrace.console.review.anchors import score_again
from ragtrace.console.review.queue import filler
from ragtrace.console.topics.grouper import Grouper
from ragtrace.errors import SettingError
from ragtrace.settings import load

if TYPE_CHECKING:
    from ragtrace.console.chatlogs.store import Store

_LIMITS = ConnectionLimits()
_log = logging.getLogger("ragtrace.console")


def check(store: Store, settings: ConsoleSettings) -> None:
    """Raises SettingError if other machines could reach a console without users."""
    if settings.private or settings.oidc is not None or accounts.exist(store):
        return
    if settings.loopback:
        what = "the console is to be reached through a proxy or by another name (the settings url, hosts, proxies)"
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
        # People click this address; the port may have been 0.
        host, port = listening.getsockname()[:2]
        name = f"[{host}]" if ":" in str(host) else host
        scheme = "https" if certificate else "http"
        address = f"{scheme}://{name}:{port}"
        if settings.private and not accounts.exist(store):
            _log.info("ragtrace console: open %s (once; the browser stays signed in)", local_address(store, address))
        else:
            _log.info("ragtrace console: %s", address)
        if not settings.loopback and not certificate and not settings.url.startswith("https://"):
            _log.warning("ragtrace console: without https, passwords can be read on the way; see docs/console.md")
        # Once an hour: what an evaluator that always fails costs is bounded by that.
        failure = "reviewed logs were not scored again"
        again = Regular(failure, lambda: score_again(store, load(), again.stop), every=3_600.0)
        hooks = webhooks.Webhooks(webhooks.load_targets())
        notices.subscribe(store, hooks.send)
        with closing(hooks), filler(store, settings.policy), Grouper(store), again:
            server.run(sockets=[listening])


def _bound(server: uvicorn.Server, settings: ConsoleSettings) -> Any:
    try:
        listening = server.config.bind_socket()
        listening.listen(server.config.backlog)  # a browser that is quicker than the server waits, and is not refused
        return listening
    except SystemExit:  # uvicorn's way to say that the address is taken
        raise SettingError(f"{settings.host}:{settings.port} cannot be listened on; is it taken?") from None


def config(
    store: Store, settings: ConsoleSettings, certificate: str = "", key: str = "", limits: ConnectionLimits = _LIMITS
) -> uvicorn.Config:
    """How uvicorn runs the console."""
    app = create_app(store, settings)
    described(app)  # now, so that no request waits for it
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        loop="asyncio",
        http=bounded_protocol(limits),
        h11_max_incomplete_event_size=65_536,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,  # it has query strings in it; `guards.HeadersAndLog` writes ours
        server_header=False,
        proxy_headers=bool(settings.proxies),
        forwarded_allow_ips=list(settings.proxies),
        limit_concurrency=limits.connections,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=10,
        ssl_certfile=certificate or None,
        ssl_keyfile=key or None,
    )
