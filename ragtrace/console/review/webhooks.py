"""Sends events (reviews, feedback, calibrations) to other systems.

Webhooks follow Standard Webhooks 1.0 (standardwebhooks.com): a JSON object `{"type", "timestamp", "data"}` with
the headers `webhook-id`, `webhook-timestamp` and `webhook-signature`. The signature is `v1,` and the base64 of the
HMAC-SHA256 of `id.timestamp.body` under the secret. Events name traces by their ids; only targets that allow content
get content."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import ipaddress
import json
import logging
import os
import random
import socket
import ssl
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from ragtrace.base.background import Background, Bounds
from ragtrace.errors import SettingError
from ragtrace.settings.section import Section, is_loopback

_log = logging.getLogger(__name__)
CONTENT = frozenset({"query", "answer", "documents", "reference", "comment", "corrected", "explanation", "answers"})
"""Keys of an event's data that may quote somebody."""
_WAITING = 1_000
"""Deliveries that wait at most."""
_TIMEOUT = 10.0
"""Seconds for connecting, and for each answer."""
_PAUSES = (1.0, 5.0, 30.0, 120.0, 600.0)
"""Seconds before each further try; a quarter of it, up or down, is chance."""


@dataclass(frozen=True, slots=True)
class Target:
    """An address that events are sent to. `make_target` checks and creates it."""

    url: str
    secret: bytes
    content: bool = False
    """Whether questions, answers and comments may go there."""
    private: bool = False
    """Whether the address may be of a private network, and plain http."""


def make_target(url: str, secret: str, *, content: bool = False, private: bool = False) -> Target:
    """Creates a target for events. `secret` is `whsec_` and base64, or any text of 16 characters or more.

    Raises SettingError for an invalid URL, one with a user or password, one that is neither https nor on this machine
    (unless `private`), and for a secret that is too short. The messages do not repeat the URL or the secret."""
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname
    except ValueError:
        parts, port, host = urlsplit(""), None, None
    if parts.scheme not in ("https", "http") or not host or port == 0:
        raise SettingError("the URL of the webhook is invalid; give https://HOST/PATH")
    if parts.username is not None:
        raise SettingError(
            "the URL of the webhook contains a user or password; remove it, the signature proves the sender"
        )
    if parts.scheme == "http" and not private and not is_loopback(host):
        raise SettingError("the URL of the webhook is plain http; use https, or allow private networks")
    return Target(url, _secret(secret), content, private)


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """The table [webhooks] of ragtrace.toml."""

    urls: tuple[str, ...] = ()
    """Addresses that events are sent to; RAGTRACE_CONSOLE_WEBHOOKS, separated by commas or blanks."""
    secret: str = ""
    """Signs the events. Only the environment may set it: RAGTRACE_CONSOLE_WEBHOOK_SECRET."""
    content: bool = False
    """Whether comments and answers may be sent."""
    private: bool = False
    """Whether an address may be of a private network, and plain http."""


_SECTION = Section(
    WebhookSettings, table="webhooks", prefix="RAGTRACE_CONSOLE_WEBHOOK_",
    variables={"urls": "RAGTRACE_CONSOLE_WEBHOOKS"}, secrets=frozenset({"secret"}),
)  # fmt: skip


def load_targets(environ: Mapping[str, str] | None = None, file: str | os.PathLike[str] | None = None) -> list[Target]:
    """Loads the targets of the console from the environment (RAGTRACE_CONSOLE_WEBHOOK_<NAME>) and from the table
    [webhooks] of ragtrace.toml. Raises SettingError as `make_target` and `Section.load` do."""
    settings = _SECTION.load(None, environ, file)
    urls = [url for item in settings.urls for url in item.split()]
    return [make_target(url, settings.secret, content=settings.content, private=settings.private) for url in urls]


def _secret(text: str) -> bytes:
    try:
        raw = base64.b64decode(text[6:], validate=True) if text.startswith("whsec_") else text.encode()
    except ValueError:
        raw = b""
    if len(raw) < 16:
        raise SettingError(
            "the secret of the webhook is missing or shorter than 16 bytes; create one with `openssl rand -base64 32`"
        )
    return raw


def signature(secret: bytes, event_id: str, timestamp: int, body: bytes) -> str:
    """The value of the header `webhook-signature`."""
    signed = f"{event_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()


class Webhooks:
    """Sends events from its own thread. A failed delivery is tried again for about a quarter of an hour and then counts
    as lost."""

    def __init__(self, targets: Sequence[Target], *, pauses: Sequence[float] = _PAUSES) -> None:
        self._targets = tuple(targets)
        self._pauses = tuple(pauses)
        self.sent = 0
        """Deliveries that the target answered with a status from 200 to 299."""
        self.lost = 0
        """Deliveries that failed for good, or for which the queue had no room."""
        self._queue = Background("ragtrace-webhooks", self._work, Bounds(items=_WAITING))

    def send(self, event: str, data: Mapping[str, Any]) -> None:
        """Send an event (see `notices`) to all targets. Never blocks and never raises; keys of `CONTENT` go only to
        targets that may have them."""
        for each in self._targets:
            allowed = {k: v for k, v in data.items() if each.content or k not in CONTENT}
            stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            body = json.dumps({"type": event, "timestamp": stamp, "data": allowed}, default=str).encode()
            if loss := self._queue.put(_Post(each, f"msg_{uuid.uuid4().hex}", body)):
                self._lose(each, loss)

    def _work(self, batch: list[_Post]) -> None:
        for delivery in batch:
            self._deliver(delivery)

    def _deliver(self, delivery: _Post) -> None:
        try:
            status = post(delivery.target, delivery.event_id, delivery.body, int(time.time()))
            problem = None if 200 <= status < 300 else f"status {status}"
        except Exception as error:  # noqa: BLE001 the network may fail in any way
            problem = type(error).__name__
        if problem is None:
            self.sent += 1
            return
        if delivery.tries < len(self._pauses):
            pause = self._pauses[delivery.tries] * (0.75 + 0.5 * random.random())
            if self._queue.put(replace(delivery, tries=delivery.tries + 1), delay=pause) is None:
                return
        self._lose(delivery.target, problem)

    def _lose(self, to: Target, problem: str) -> None:
        self.lost += 1
        if self.lost == 1:  # once: a target that is gone would fill the log
            host = urlsplit(to.url).hostname
            _log.warning("ragtrace: a webhook to %s was not delivered (%s). More are only counted.", host, problem)

    def close(self, timeout: float = 5.0) -> None:
        """Try what waits once more, for up to `timeout` seconds, and stop. Safe to call twice."""
        for delivery in self._queue.close(timeout):
            self._lose(delivery.target, "shutdown")


@dataclass(frozen=True, slots=True)
class _Post:
    target: Target
    event_id: str
    """The same in every try, so that a receiver recognises a repetition."""
    body: bytes
    tries: int = 0


def post(to: Target, event_id: str, body: bytes, timestamp: int) -> int:
    """Posts an event once and returns the status. Follows no redirect. Connects to the address that was checked, so a
    name that resolves differently a moment later has no effect. Raises OSError, http.client.HTTPException, and
    PermissionError for an address that is not allowed."""
    parts = urlsplit(to.url)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    address = _checked_address(host, port, to.private)
    connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT)
    raw = socket.create_connection((address, port), timeout=_TIMEOUT)
    try:
        if parts.scheme == "https":
            raw = ssl.create_default_context().wrap_socket(raw, server_hostname=host)
        connection.sock = raw
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        headers = {
            "content-type": "application/json", "user-agent": "ragtrace", "webhook-id": event_id,
            "webhook-timestamp": str(timestamp), "webhook-signature": signature(to.secret, event_id, timestamp, body),
        }  # fmt: skip
        connection.request("POST", path, body, headers)
        return connection.getresponse().status
    finally:
        raw.close()
        connection.close()


def _checked_address(host: str, port: int, private: bool) -> str:
    addresses = {str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    for address in sorted(addresses):
        ip = ipaddress.ip_address(address.partition("%")[0])
        if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
            ip = ip.ipv4_mapped
        is_local_url = ip.is_loopback and is_loopback(host)  # loopback only if the URL itself names it
        if not (private or is_local_url or ip.is_global) or ip.is_multicast:
            raise PermissionError(
                f"{host} resolves to {address}, which is not public; allow private networks to use it"
            )
    return min(addresses)
