"""Middleware around all routes: access log, security headers, checks of host and origin, limits of bodies. Plain ASGI,
so that a body that is refused is not read."""

import asyncio
import ipaddress
import logging
import re
import time
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ragtrace.console.access import SAFE
from ragtrace.console.options import ConsoleSettings
from ragtrace.console.problems import Problem, answer

_access = logging.getLogger("ragtrace.console.access")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(?::[0-9]{1,5})?")
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "accelerometer=(), camera=(), display-capture=(), geolocation=(), gyroscope=(), "
    "microphone=(), payment=(), usb=()",
}  # fmt: skip


_TLS = {"Strict-Transport-Security": "max-age=31536000"}


class HeadersAndLog:
    """Adds what tells the browser to run nothing but our own files, and to keep nothing. Logs a line for each request:
    address, method, the route (not the path, which may hold anything), status, time."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = time.perf_counter(), 0
        cached = "no-cache" if str(scope["path"]).startswith("/static/") else "no-store"

        async def adding(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers.update({"Cache-Control": cached, **HEADERS, **(_TLS if scope["scheme"] == "https" else {})})
            await send(message)

        try:
            await self.app(scope, receive, adding)
        finally:
            client = scope.get("client") or ("-", 0)
            route = getattr(scope.get("route"), "path", "-")
            took = (time.perf_counter() - start) * 1000
            method = scope["method"] if str(scope["method"]).isalpha() else "?"
            _access.info("%s %s %s %s %.0f ms", client[0], str(method)[:10], route, status or "-", took)


class HostCheck:
    """Answers only to names that are its own: a page elsewhere whose name was made to lead here (DNS rebinding) gets
    nothing, and no link is built from a forged name."""

    def __init__(self, app: ASGIApp, settings: ConsoleSettings) -> None:
        self.app, self.settings, self.names = app, settings, settings.names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._ours(Headers(scope=scope).getlist("host")):
            await self.app(scope, receive, send)
            return
        text = "This console does not answer to that name. Allow it with the setting hosts of [console]"
        await PlainTextResponse(text, 421)(scope, receive, send)

    def _ours(self, hosts: list[str]) -> bool:
        match = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
        if match is None:
            return False
        name = match[1].lower().strip("[]").rstrip(".")
        if name in self.names:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or not self.settings.loopback  # rebinding needs a name


class OriginCheck:
    """Refuses what another site's page sends: browsers say where a request comes from."""

    def __init__(self, app: ASGIApp, settings: ConsoleSettings) -> None:
        self.app = app
        self.url = _origin(settings.url)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in SAFE or self._same(scope):
            await self.app(scope, receive, send)
            return
        request = Request(scope, receive)
        detail = "Send it from the console's own pages. Behind a proxy, name the public address with the setting url."
        await answer(request, 403, "The request came from another site", detail)(scope, receive, send)

    def _same(self, scope: Scope) -> bool:
        headers = Headers(scope=scope)
        if headers.get("authorization", "").lower().startswith("bearer "):
            return True  # no other site's page can send a token; a browser sends Basic by itself
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        if site is not None:
            return site in {"same-origin", "none"}
        if origin is None:
            return True
        return _origin(origin) in {self.url, _origin(f"{scope['scheme']}://{headers.get('host', '')}")} - {""}


def _origin(url: str) -> str:
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.hostname}:{port}" if parts.hostname else ""


BODY_BYTES, IMPORT_BYTES = 1_000_000, 20_000_000
"""The longest body of a request, and of an import of labels; more is refused before it is read."""
BODY_SECONDS = 60.0
"""A request body must have come whole by then."""


class BodyLimit:
    """Bodies end at a length and at a time. One that says beforehand that it is too long is not read at all."""

    def __init__(self, app: ASGIApp, longer: tuple[str, ...] = ()) -> None:
        self.app, self.longer = app, longer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        limit = IMPORT_BYTES if scope["path"] in self.longer else BODY_BYTES
        length_header = Headers(scope=scope).get("content-length", "0")
        if not length_header.isdigit() or int(length_header[:20]) > limit:
            response = answer(Request(scope, receive), 413, *_too_long(limit))
            response.headers["Connection"] = "close"
            await response(scope, receive, send)
            return
        await self.app(scope, _bounded(receive, limit, BODY_SECONDS), send)


def _too_long(limit: int) -> tuple[str, str]:
    return "The request is too long", f"A body may have at most {limit} bytes here. Send less."


def _bounded(receive: Receive, limit: int, seconds: float) -> Receive:
    length, whole, end = 0, False, time.monotonic() + seconds

    async def bounded() -> Message:
        nonlocal length, whole
        if whole:  # what comes now is the end of the connection, whenever that is
            return await receive()
        try:
            message = await asyncio.wait_for(receive(), max(0.0, end - time.monotonic()))
        except TimeoutError:
            detail = f"The body did not come within {seconds:g} seconds."
            raise Problem(408, "The request took too long", detail, {"Connection": "close"}) from None
        length += len(message.get("body", b""))
        whole = not message.get("more_body", False)
        if length > limit:
            raise Problem(413, *_too_long(limit), {"Connection": "close"})
        return message

    return bounded
