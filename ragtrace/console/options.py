"""How the console is run. Arguments of `ragtrace serve`; secrets come from the environment alone."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from ragtrace.errors import SettingError
from ragtrace.review.policy import Policy

ROLES = ("viewer", "reviewer", "admin")
"""Each may all that those before it may."""
SCOPES = ("read", "feedback", "review", "admin")
"""What an API token may be used for, within its user's role."""
_OIDC = "RAGTRACE_CONSOLE_OIDC_"


@dataclass(frozen=True, slots=True)
class Oidc:
    """Sign-in with an OpenID Connect provider."""

    issuer: str
    """Its address; `/.well-known/openid-configuration` below it describes it."""
    client_id: str
    client_secret: str = field(repr=False)
    claim: str = ""
    """The claim of the ID token that `roles` looks at, e.g. `groups`; dots lead into objects."""
    roles: Mapping[str, str] = field(default_factory=dict)
    """Value of the claim → role; `*` is for everybody else. Who gets no role is not let in."""
    scopes: str = "openid profile email"
    label: str = "Sign in with single sign-on"
    """What the login page calls it."""


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """Durations are in seconds unless their name says otherwise, sizes in bytes."""

    host: str = "127.0.0.1"
    port: int = 8400
    url: str = ""
    """The address people type, e.g. https://logs.example.org, where a proxy stands before the console."""
    hosts: tuple[str, ...] = ()
    """Names (of the Host header) that it answers to, beside loopback's, `host` and that of `url`."""
    proxies: tuple[str, ...] = ()
    """Addresses or networks of proxies whose X-Forwarded-For and X-Forwarded-Proto are believed."""
    idle_hours: float = 8.0
    """A session ends when nothing was asked for so long."""
    session_hours: float = 7 * 24.0
    """And in any case after this."""
    unmasked_roles: frozenset[str] = frozenset({"reviewer", "admin"})
    """Who sees texts as they are; others see them with personal data masked."""
    body_bytes: int = 1_000_000
    """The longest request body; more is refused before it is read."""
    import_bytes: int = 20_000_000
    """The longest body of an import of labels."""
    body_seconds: float = 60.0
    """A request body must have come whole by then."""
    head_seconds: float = 10.0
    """The request line and headers must have come by then."""
    write_seconds: float = 60.0
    """A client that takes nothing for so long is let go."""
    connections: int = 512
    """Open at a time; above it, 503."""
    trace_url: str = ""
    """Where the trace backend shows a trace: a URL with {trace_id}."""
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
        """Whether nobody but this machine's own users is meant to reach it, under no other name: only then may it do
        without users of its own."""
        return self.loopback and not (self.url or self.hosts or self.proxies or self.oidc)

    @property
    def names(self) -> frozenset[str]:
        """The Host names that it answers to, lower case, without port; IP addresses are judged apart."""
        own = {"localhost", self.host, urlsplit(self.url).hostname or "localhost", *self.hosts}
        return frozenset(name.lower().strip("[]") for name in own)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a socket bound to that host. A name other than localhost is not trusted to
    be one."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def oidc_from(environ: Mapping[str, str] | None = None) -> Oidc | None:
    """What RAGTRACE_CONSOLE_OIDC_ISSUER, _CLIENT_ID, _CLIENT_SECRET, _CLAIM, _ROLES, _SCOPES and _LABEL say; None where
    none is set. Raises SettingError for half a configuration and for roles that do not exist."""
    environ = os.environ if environ is None else environ
    given = {name[len(_OIDC) :].lower(): value for name, value in environ.items() if name.startswith(_OIDC) and value}
    if not given:
        return None
    known = {"issuer", "client_id", "client_secret", "claim", "roles", "scopes", "label"}
    for name in sorted(given.keys() - known):
        raise SettingError(f"there is no setting {_OIDC}{name.upper()}; known are {', '.join(sorted(known))}")
    for name in ("issuer", "client_id", "client_secret", "roles"):
        if name not in given:
            raise SettingError(f"{_OIDC}{name.upper()} is missing; sign-in by OpenID Connect needs it")
    parts = urlsplit(given["issuer"])
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or "")):
        raise SettingError(f"{_OIDC}ISSUER is {given['issuer']!r}; give an https:// address")
    roles = _roles(given.pop("roles"))
    if "claim" not in given and set(roles) != {"*"}:
        raise SettingError(f"{_OIDC}CLAIM is missing: {_OIDC}ROLES names values of a claim")
    return Oidc(roles=roles, **given)


def roles_from(text: str) -> frozenset[str]:
    """Roles, comma-separated. Raises SettingError for one that does not exist."""
    found = frozenset(part.strip() for part in text.split(",") if part.strip())
    if unknown := sorted(found.difference(ROLES)):
        raise SettingError(f"there is no role {unknown[0]!r}; give some of {', '.join(ROLES)}")
    return found


def _roles(text: str) -> dict[str, str]:
    found = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        value, _, role = item.rpartition("=")
        if not value or role not in ROLES:
            raise SettingError(f"{_OIDC}ROLES has {item!r}; give VALUE=ROLE, with a role of {', '.join(ROLES)}")
        found[value] = role
    return found
