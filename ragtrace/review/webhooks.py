"""Webhooks: other systems are told of reviews, feedback and calibrations, and Alertmanager's alerts become reviews.

Outgoing ones follow Standard Webhooks 1.0 (standardwebhooks.com): a JSON object `{"type", "timestamp", "data"}` with
the headers `webhook-id`, `webhook-timestamp` and `webhook-signature`, the last one being `v1,` and the base64 of the
HMAC-SHA256 of `id.timestamp.body` under the secret. They name traces by their ids and carry no content, unless
that was asked for.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import ipaddress
import json
import logging
import os
import queue
import random
import socket
import ssl
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from ragtrace.errors import SettingError
from ragtrace.review.alerts import review_items_from_alert

__all__ = ["EVENTS", "Target", "Webhooks", "from_environment", "review_items_from_alert", "signature", "target"]

_log = logging.getLogger(__name__)
EVENTS = ("review.submitted", "feedback.negative", "calibration.saved")
CONTENT = frozenset({"query", "answer", "documents", "reference", "comment", "corrected", "explanation"})
"""Keys of an event's data that may quote somebody."""
_WAITING = 1_000
_TIMEOUT = 10.0
_LOOK = 0.2
"""Seconds between two looks at what is due."""
_PAUSES = (1.0, 5.0, 30.0, 120.0, 600.0)
"""Seconds before each further try; a quarter of it, up or down, is chance."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where events go. Made by `target`, which checks it."""

    url: str
    secret: bytes
    content: bool = False
    """Whether questions, answers and comments may go there."""
    private: bool = False
    """Whether it may be an address of a private network, without TLS."""


def target(url: str, secret: str, *, content: bool = False, private: bool = False) -> Target:
    """A target for events. `secret` is `whsec_` and base64, or any text of 16 characters or more.

    Raises SettingError for a URL that is none, that is neither https nor on this machine (unless `private`), or that
    carries a password; and for a secret that is too short.
    """
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname
    except ValueError:
        port = host = None
        parts = urlsplit("")
    if parts.scheme not in ("https", "http") or not host or port == 0:
        raise SettingError("the webhook's URL is none; give https://HOST/PATH")
    if parts.username is not None:
        raise SettingError("the webhook's URL carries a user or password; the signature proves who sends")
    if parts.scheme == "http" and not private and not _is_loopback(host):
        raise SettingError("the webhook's URL is not https; over plain http only this machine is told")
    return Target(url, _secret(secret), content, private)


def from_environment(environ: Mapping[str, str] | None = None) -> list[Target]:
    """The targets that the console tells: RAGTRACE_CONSOLE_WEBHOOKS (URLs, apart by commas or blanks), signed with
    RAGTRACE_CONSOLE_WEBHOOK_SECRET. RAGTRACE_CONSOLE_WEBHOOK_CONTENT=true lets comments and answers go there,
    RAGTRACE_CONSOLE_WEBHOOK_PRIVATE=true private networks and plain http. Raises SettingError as `target` does."""
    given = os.environ if environ is None else environ
    name = "RAGTRACE_CONSOLE_WEBHOOK"
    urls = given.get(f"{name}S", "").replace(",", " ").split()
    yes = {key: given.get(f"{name}_{key}", "").lower() in ("true", "1", "yes") for key in ("CONTENT", "PRIVATE")}
    secret = given.get(f"{name}_SECRET", "")
    return [target(url, secret, content=yes["CONTENT"], private=yes["PRIVATE"]) for url in urls]


def _secret(text: str) -> bytes:
    try:
        raw = base64.b64decode(text[6:], validate=True) if text.startswith("whsec_") else text.encode()
    except ValueError:
        raw = b""
    if len(raw) < 16:
        raise SettingError("the webhook's secret is too short; `openssl rand -base64 32` makes one")
    return raw


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def signature(secret: bytes, event_id: str, timestamp: int, body: bytes) -> str:
    """The value of the header `webhook-signature`."""
    signed = f"{event_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()


class Webhooks:
    """Sends events from a thread of its own. What cannot be delivered is tried again for about a quarter of an hour,
    and then counted as lost."""

    def __init__(
        self, targets: Sequence[Target], *, pauses: Sequence[float] = _PAUSES, clock: Callable[[], float] = time.time
    ) -> None:
        self._targets = tuple(targets)
        self._pauses = tuple(pauses)
        self._clock = clock
        self._queue: queue.PriorityQueue[tuple[float, int, _Post]] = queue.PriorityQueue(_WAITING)
        self._closed = threading.Event()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._number = 0
        self._told = False
        self.sent = 0
        """Deliveries that were answered with a status of 200 to 299."""
        self.lost = 0
        """Deliveries that were given up, or for which there was no room."""

    def send(self, event: str, data: Mapping[str, Any]) -> None:
        """Tell all targets of an event, one of `EVENTS`. Never blocks and never raises; keys of `CONTENT` go to targets
        alone that may have them."""
        for each in self._targets:
            allowed = {k: v for k, v in data.items() if each.content or k not in CONTENT}
            stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._clock()))
            body = json.dumps({"type": event, "timestamp": stamp, "data": allowed}, default=str).encode()
            self._put(0.0, _Post(each, f"msg_{uuid.uuid4().hex}", body))

    def _put(self, due: float, post: _Post) -> None:
        with self._lock:
            self._number += 1
            number = self._number
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="ragtrace-webhooks", daemon=True)
                self._thread.start()
        try:
            self._queue.put_nowait((due, number, post))
        except queue.Full:
            self.lost += 1

    def _work(self) -> None:
        while not self._ended.is_set():
            try:
                due, _, post = self._queue.get(timeout=_LOOK)
            except queue.Empty:
                if self._closed.is_set():
                    return
                continue
            wait = due - time.monotonic()
            if wait > 0 and not self._closed.is_set():
                self._put(due, post)
                self._closed.wait(min(wait, _LOOK))
                continue
            self._deliver(post)

    def _deliver(self, post_: _Post) -> None:
        try:
            status = post(post_.target, post_.event_id, post_.body, int(self._clock()))
            said = None if 200 <= status < 300 else f"it answered {status}"
        except Exception as error:  # noqa: BLE001 whatever the network does; the thread lives on
            said = type(error).__name__
        if said is None:
            self.sent += 1
        elif post_.tries < len(self._pauses) and not self._closed.is_set():
            pause = self._pauses[post_.tries] * (0.75 + 0.5 * random.random())
            again = _Post(post_.target, post_.event_id, post_.body, post_.tries + 1)
            self._put(time.monotonic() + pause, again)
        else:
            self.lost += 1
            if not self._told:  # once: a target that is gone would fill the log
                self._told = True
                host = urlsplit(post_.target.url).hostname
                _log.warning("ragtrace: a webhook to %s was not delivered (%s); more are only counted", host, said)

    def close(self, timeout: float = 5.0) -> None:
        """Try what waits once more, for up to `timeout` seconds, and stop. Safe to call twice."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join(timeout)
        self._ended.set()


@dataclass(frozen=True, slots=True)
class _Post:
    target: Target
    event_id: str
    """The same in every try, so that a receiver can tell a repetition."""
    body: bytes
    tries: int = 0


def post(to: Target, event_id: str, body: bytes, timestamp: int) -> int:
    """Post once; the status. No redirect is followed, and the connection goes to the address that was checked: a name
    that means something else a moment later does not matter. Raises OSError and http.client.HTTPException, and
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
            "content-type": "application/json",
            "user-agent": "ragtrace",
            "webhook-id": event_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signature(to.secret, event_id, timestamp, body),
        }
        connection.request("POST", path, body, headers)
        return connection.getresponse().status
    finally:
        raw.close()
        connection.close()


def _checked_address(host: str, port: int, private: bool) -> str:
    found = {str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    for address in sorted(found):
        ip = ipaddress.ip_address(address.partition("%")[0])
        if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
            ip = ip.ipv4_mapped
        named = ip.is_loopback and _is_loopback(host)  # only where the URL itself says so
        if not (private or named or ip.is_global) or ip.is_multicast:
            raise PermissionError(f"{host} is an address of a private network; allow it where that is meant")
    return min(found)
