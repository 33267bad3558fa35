"""The settings of the console: arguments of `ragtrace serve`, environment variables, and tables of ragtrace.toml."""

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from ipaddress import ip_network
from typing import Any
from urllib.parse import urlsplit

from ragtrace.console.review.policy import Policy
from ragtrace.errors import SettingError
from ragtrace.settings.section import Section, is_loopback
from ragtrace.settings.value_forms import check_address

ROLES = ("viewer", "reviewer", "admin")
"""Each may all that those before it may."""
SCOPES = ("read", "feedback", "review", "admin")
"""What an API token may be used for, within its user's role."""


@dataclass(frozen=True, slots=True)
class Oidc:
    """Sign-in with an OpenID Connect provider."""

    issuer: str = ""
    """Its address; `/.well-known/openid-configuration` below it describes it."""
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    claim: str = ""
    """The claim of the ID token that `roles` looks at, e.g. `groups`; dots lead into objects."""
    roles: Mapping[str, str] = field(default_factory=dict)
    """Value of the claim → role; `*` is for everybody else. Who gets no role is not let in."""
    scopes: str = "openid profile email"


@dataclass(frozen=True, slots=True)
class ConsoleTable:
    """What the table [console] may have."""

    host: str = "127.0.0.1"
    port: int = 8400
    url: str = ""
    """The address people type, e.g. https://logs.example.org, if a proxy is before the console."""
    hosts: tuple[str, ...] = ()
    """Names (of the Host header) that it answers to, beside loopback's, `host` and that of `url`."""
    proxies: tuple[str, ...] = ()
    """Addresses or networks of proxies whose X-Forwarded-For and X-Forwarded-Proto are believed."""
    idle_hours: float = 8.0
    """A session ends when nothing was asked for so long, and in any case after a week."""
    unmasked_roles: frozenset[str] = frozenset({"reviewer", "admin"})
    """Who sees texts as they are; others see them with personal data masked."""
    trace_url: str = ""
    """Where the trace backend shows a trace: a URL with {trace_id}."""


@dataclass(frozen=True, slots=True)
class ConsoleSettings(ConsoleTable):
    """The settings of the console, with those of other tables."""

    calibration_file: str = ""
    """Where an activated calibration is written, for the pipeline to load."""
    policy: Policy = field(default_factory=Policy)
    """Which logs come to review, and how many."""
    oidc: Oidc | None = None

    @property
    def loopback(self) -> bool:
        """Whether it listens where only this machine reaches it."""
        return is_loopback(self.host)

    @property
    def private(self) -> bool:
        """Whether only users of this machine can reach it, under no other name: only then may it do
        without users of its own."""
        return self.loopback and not (self.url or self.hosts or self.proxies or self.oidc)

    @property
    def names(self) -> frozenset[str]:
        """The Host names that it answers to, lower case, without port; IP addresses are judged apart."""
        own = {"localhost", self.host, urlsplit(self.url).hostname or "localhost", *self.hosts}
        return frozenset(name.lower().strip("[]") for name in own)


def _check_roles(roles: Iterable[str], where: str) -> None:
    for role in roles:
        if role not in ROLES:
            raise SettingError(f"{where}: there is no role {role!r}; give one of {', '.join(ROLES)}")


def _check_url(url: str, where: str) -> None:
    check_address(url, where)
    if not url.startswith(("http://", "https://")):
        raise SettingError(f"{where} does not begin with http:// or https://; give one like https://logs.example.org")


def _check_proxies(proxies: Iterable[str], where: str) -> None:
    for proxy in proxies:
        try:
            ip_network(proxy, strict=False)
        except ValueError:
            raise SettingError(f"{where} has {proxy!r}; give addresses or networks, e.g. 10.0.0.0/8") from None


def _check_issuer(issuer: str, where: str) -> None:
    check_address(issuer, where)
    parts = urlsplit(issuer)
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or "")):
        raise SettingError(f"{where} does not begin with https://")  # not quoted: it may hold a password


_OIDC = Section(
    Oidc, table="console.oidc", prefix="RAGTRACE_CONSOLE_OIDC_",
    checks={"issuer": _check_issuer, "roles": lambda roles, where: _check_roles(roles.values(), where)},
    secrets=frozenset({"client_secret"}),
)  # fmt: skip
_CONSOLE = Section(
    ConsoleTable, table="console", prefix="RAGTRACE_CONSOLE_",
    bounds={"port": (0, 65_535), "idle_hours": (0.0, math.inf)},
    checks={"unmasked_roles": _check_roles, "url": _check_url, "trace_url": _check_url, "proxies": _check_proxies},
    foreign=("RAGTRACE_CONSOLE_OIDC_", "RAGTRACE_CONSOLE_REVIEW_", "RAGTRACE_CONSOLE_WEBHOOK"),
)  # fmt: skip


def load_console(
    arguments: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    file: str | os.PathLike[str] | None = None,
) -> ConsoleSettings:
    """The settings from arguments, else from RAGTRACE_CONSOLE_<NAME>, else from the tables [console] and
    [console.oidc] of ragtrace.toml. Raises SettingError as `Section.load` does."""
    table = _CONSOLE.load(arguments, environ, file)
    values = {f.name: getattr(table, f.name) for f in fields(table)}
    return ConsoleSettings(**{**values, "url": table.url.rstrip("/")}, oidc=load_oidc(environ, file))


def load_oidc(environ: Mapping[str, str] | None = None, file: str | os.PathLike[str] | None = None) -> Oidc | None:
    """The OpenID Connect provider from RAGTRACE_CONSOLE_OIDC_<NAME>, else from the table [console.oidc] of
    ragtrace.toml; None where nothing is set. The client secret comes from the environment alone. Raises SettingError
    for half a configuration, an invalid value and a role that does not exist."""
    oidc = _OIDC.load(environ=environ, file=file)
    if oidc == Oidc():
        return None
    for name in ("issuer", "client_id", "client_secret", "roles"):
        if not getattr(oidc, name):
            raise SettingError(f"{_OIDC.prefix}{name.upper()} is missing: sign-in with OpenID Connect needs it")
    if not oidc.claim and set(oidc.roles) != {"*"}:
        raise SettingError(f"{_OIDC.prefix}CLAIM is missing: {_OIDC.prefix}ROLES names values of a claim")
    return oidc
