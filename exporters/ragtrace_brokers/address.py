"""Addresses of streams, such as `nats://host:4222/stream`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from ragtrace.errors import SettingError
from ragtrace.settings.value_forms import BROKERS, check_address

_DEFAULT_STREAM = "ragtrace"
_PORTS = {"nats": 4222, "redis": 6379, "rediss": 6379, "kafka": 9092}


@dataclass(frozen=True, slots=True)
class TransportAddress:
    """The parts of an address."""

    scheme: str
    servers: tuple[str, ...]
    """HOST:PORT of each server."""
    stream: str
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The options after the question mark."""

    def __str__(self) -> str:
        return f"{self.scheme}://{','.join(self.servers)}/{self.stream}"

    def number(self, name: str, default: int) -> int:
        """The option `name`. Raises SettingError where it is no positive whole number."""
        text = self.options.get(name, str(default))
        if not text.isdecimal() or int(text) < 1:
            raise SettingError(f"{name} of {self} is {text!r}; give a whole number of at least 1")
        return int(text)


def is_transport(url: str) -> bool:
    """Whether an address is that of a broker, and not of an OTLP endpoint."""
    return url.partition("://")[0] in BROKERS


def parse_address(url: str, where: str = "the address") -> TransportAddress:
    """The parts of `SCHEME://[USER:PASSWORD@]HOST:PORT[,HOST:PORT]/STREAM[?OPTION=VALUE]`. Raises SettingError."""
    check_address(url, where)
    parts = urlsplit(url)
    if parts.scheme not in BROKERS:
        raise SettingError(
            f"{where} begins with {parts.scheme[:20]!r}; give an address that begins with "
            f"{', '.join(f'{scheme}://' for scheme in BROKERS)}, e.g. nats://localhost:4222/ragtrace"
        )
    credentials, _, hosts = parts.netloc.rpartition("@")
    user, _, password = credentials.partition(":")
    servers = tuple(host if ":" in host else f"{host}:{_PORTS[parts.scheme]}" for host in hosts.split(","))
    stream = parts.path.strip("/") or _DEFAULT_STREAM
    if not hosts or not stream.replace("-", "").replace("_", "").isalnum():
        raise SettingError(
            f"{where} needs a host, and a stream of letters, digits, - and _: {parts.scheme}://HOST/STREAM"
        )
    return TransportAddress(
        parts.scheme, servers, stream, unquote(user), unquote(password), dict(parse_qsl(parts.query))
    )
