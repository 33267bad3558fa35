"""The settings of the worker: arguments of `ragtrace worker`, RAGTRACE_WORKER_*, and the table [worker]."""

import hmac
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ragtrace.capture.spans.request_body import IntakeError
from ragtrace.errors import SettingError
from ragtrace.settings.section import Section, read_secret
from ragtrace_brokers.address import parse_address

GRPC, HTTP = "127.0.0.1:4317", "127.0.0.1:4318"
BODY_BYTES = 20 * 1024 * 1024
"""The longest body of a request, also after decompression."""
RETRY_SECONDS = 2
"""When senders that are refused for a while are asked to come again."""
MOST_TRACES = 10_000
"""Traces that have not ended at most; one more ends the oldest."""
MOST_ATTRIBUTES = 5_000
"""A span with more attributes is passed on, and not read."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """Durations are in seconds, sizes in bytes."""

    grpc: str = ""
    """HOST:PORT for OTLP over gRPC; port 0 is any free one. Empty for none, if `http` is set."""
    http: str = ""
    """HOST:PORT for OTLP over HTTP; port 0 is any free one. Empty for none, if `grpc` is set. Without both, gRPC
    listens on 127.0.0.1:4317 and HTTP on 127.0.0.1:4318."""
    source: str = ""
    """Address of a broker from which traces are fetched (`--from`), e.g. nats://localhost:4222/ragtrace. Empty to
    receive them over OTLP."""
    group: str = "ragtrace"
    """Workers of one group share the messages of the broker; each group gets all of them."""
    visibility_seconds: float = 30.0
    """The broker gives a message to another worker when this one has died, after so long."""
    spans: bool = True
    """Send the spans on. With false the events, metrics and scores of the evaluations alone leave: for all but one of
    several groups that evaluate the same messages."""
    buffer: str = ""
    """A file (SQLite) that holds spans until they are sent on. An answer to a sender follows the commit. Empty for
    memory alone: what has not left when the process dies is lost."""
    tokens: str = ""
    """Name of the environment variable, or of the file, with the bearer tokens of those who may send: one a line, as
    `NAME=TOKEN` or `TOKEN`. Empty for everybody who reaches the address."""
    tls_certificate: str = ""
    """Certificate (PEM) of both receivers; empty for connections without TLS."""
    tls_key: str = ""
    """Private key (PEM) of the certificate."""
    tls_client_ca: str = ""
    """Authorities (PEM) one of which must have signed a sender's certificate; empty to ask senders for none."""
    quiet_seconds: float = 5.0
    """A trace ends when its root has arrived and no span of it came for so long. One whose root is in another place,
    and of which a server's or consumer's span has arrived, ends after six times as long. Any trace ends 300
    seconds after its first span arrived, or sixty times as long if that is more."""
    bytes: int = 256 * 1024 * 1024
    """Bytes of spans, encoded, that the worker holds at most, in memory and in the buffer. Above them senders are asked
    to come again later. Where more than half is taken, no sender may have more than half."""
    exit_seconds: float = 15.0
    """How long the worker, when it is asked to stop, may finish what is open."""


def _check_address(address: str, where: str) -> None:
    if address:
        split_address(address, where)


def _check_source(address: str, where: str) -> None:
    if address:
        parse_address(address, where)


def _check_group(group: str, where: str) -> None:
    if not group.replace("-", "").replace("_", "").isalnum():
        raise SettingError(f"{where} is {group!r}; give letters, digits, - and _")


def split_address(address: str, where: str = "address") -> tuple[str, int]:
    """Host and port of `HOST:PORT`, of which IPv6 hosts are in brackets. Raises SettingError for another form."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65_535:
        raise SettingError(f"{where} is {address!r}; give HOST:PORT, e.g. 127.0.0.1:4318 or [::1]:4318")
    return host.strip("[]"), int(port)


_BOUNDS = {
    "quiet_seconds": (0.0, 3_600.0), "bytes": (1_000_000, math.inf), "exit_seconds": (0.0, 600.0),
    "visibility_seconds": (1.0, 43_200.0),
}  # fmt: skip
_CHECKS = {"grpc": _check_address, "http": _check_address, "source": _check_source, "group": _check_group}
_SECTION = Section(WorkerSettings, table="worker", prefix="RAGTRACE_WORKER_", checks=_CHECKS, bounds=_BOUNDS)


def load_worker(arguments: Mapping[str, Any] | None = None) -> WorkerSettings:
    """The settings of the worker; see `Section.load`. Raises SettingError for settings that exclude one another, and
    for a certificate without its key."""
    settings = _SECTION.load(arguments)
    if bool(settings.tls_certificate) != bool(settings.tls_key):
        raise SettingError("tls_certificate and tls_key of the worker belong together; give both or none")
    if settings.source and (settings.grpc or settings.http or settings.buffer):
        raise SettingError("a worker with --from takes no --grpc, --http and --buffer: the broker holds its traces")
    if settings.tls_client_ca and not settings.tls_certificate:
        raise SettingError("tls_client_ca needs tls_certificate and tls_key of the worker")
    return settings


@dataclass(frozen=True, slots=True)
class Senders:
    """Who may send: everybody, or those with one of these tokens."""

    tokens: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Token by name."""

    def check(self, authorization: str) -> str:
        """The sender's name from an Authorization header; "" where everybody may send. Raises IntakeError for one who
        may not."""
        if not self.tokens:
            return ""
        scheme, _, token = authorization.partition(" ")
        presented = token.strip().encode()
        matches = [name for name, own in self.tokens.items() if hmac.compare_digest(own.encode(), presented)]
        if scheme.lower() != "bearer" or not matches:
            raise IntakeError(401, "unauthorized", "give a bearer token that the worker knows")
        return matches[0]


def load_senders(settings: WorkerSettings) -> Senders:
    """The tokens that the setting `tokens` names. Raises SettingError where it has none, and for a short one."""
    text = read_secret("tokens of the worker", settings.tokens)
    if text is None:
        return Senders()
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    tokens: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        name, sign, token = line.partition("=")
        if not sign or not token:  # a token in base64 may end with the sign
            name, token = f"sender {number}", line
        if len(token) < 16:
            raise SettingError(f"tokens of the worker: number {number} is shorter than 16 characters; use a longer one")
        tokens[name.strip()] = token.strip()
    if not tokens:
        raise SettingError("tokens of the worker names an empty list; leave it out to let everybody send")
    return Senders(tokens)
