"""Who asks, and whether they may. Routes depend on `viewer`, `reviewer` or `admin` and get a `User`.

Two ways to be known: a session's cookie, or an API token (`Authorization: Bearer …`, under /api alone). At a console
that listens on loopback and has no users, the one-time key in the address that `ragtrace serve` prints begins a session
of `local`, an admin. Who only connects is a stranger there too: a reverse proxy connects from loopback as well. What
changes something and comes with a cookie needs the session's CSRF token."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool

from ragtrace.console import accounts, audit, sessions, tokens
from ragtrace.console.options import ROLES, ConsoleSettings
from ragtrace.console.problems import LoginNeededError, Problem

if TYPE_CHECKING:
    from ragtrace.console.chatlogs.store import Store

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class User:
    """Who asks."""

    id: int
    name: str
    role: str
    """`viewer`, `reviewer` or `admin`."""

    def may(self, role: str) -> bool:
        """Whether they have that role or a higher one."""
        return ROLES.index(self.role) >= ROLES.index(role)


@dataclass(frozen=True, slots=True)
class Identity:
    """Who asks, and how they are known."""

    user: User
    via: str
    """`session` or `token`."""
    csrf: str = field(default="", repr=False)
    scopes: frozenset[str] = frozenset()


def settings_of(request: Request) -> ConsoleSettings:
    """The settings that the application runs under."""
    settings: ConsoleSettings = request.app.state.settings
    return settings


def store_of(request: Request) -> Store:
    """The store that the application shows."""
    store: Store = request.app.state.store
    return store


def cookie_name(request: Request) -> str:
    """Over https a name that browsers tie to this very host; otherwise a plain one."""
    return "__Host-ragtrace" if request.url.scheme == "https" else "ragtrace"


def cookie_limits(request: Request) -> dict[str, Any]:
    """Where browsers may send a cookie. Lax: the way back from a sign-in begins on the provider's site."""
    return {"path": "/", "secure": request.url.scheme == "https", "httponly": True, "samesite": "lax"}


def address_of(request: Request) -> str:
    """The client's address; behind a proxy that is trusted, the one that it names."""
    return request.client.host if request.client else "unknown"


async def identity(request: Request) -> Identity | None:
    """Who asks; None for a stranger. Looked up once for each request."""
    if not hasattr(request.state, "identity"):
        request.state.identity = await run_in_threadpool(_identity, request)
    identity_: Identity | None = request.state.identity
    if identity_ is not None:
        audit.note(request, user=identity_.user.name)
    return identity_


def _identity(request: Request) -> Identity | None:
    store, settings = store_of(request), settings_of(request)
    if request.headers.get("authorization") is not None:
        return _by_token(request, store)  # a header is an explicit choice: it counts even if it is wrong
    if cookie := request.cookies.get(cookie_name(request)):
        session = sessions.find(store, cookie, settings.idle_hours * 3600)
        if session is not None and (session.name != accounts.LOCAL or is_local(request)):
            return Identity(User(session.user, session.name, session.role), "session", session.csrf)
    return None


def _by_token(request: Request, store: Store) -> Identity | None:
    kind, _, secret = request.headers["authorization"].partition(" ")
    if kind.lower() != "bearer" or not request.url.path.startswith("/api/"):
        return None
    token = tokens.find(store, secret.strip())
    if token is None or (token.user_name == accounts.LOCAL and not is_local(request)):
        return None
    return Identity(User(token.user, token.user_name, token.role), "token", scopes=token.scopes)


def is_local(request: Request) -> bool:
    """Whether `local` may use this console: it listens on loopback under no other name, and has no users."""
    state = request.app.state
    if not settings_of(request).private or getattr(state, "has_users", False):
        return False
    state.has_users = accounts.exist(store_of(request))  # once there are some, there always are
    return not state.has_users


async def known(request: Request) -> Identity:
    """Requires a user of any role. Checks the CSRF token, so every route is protected."""
    identity_ = await identity(request)
    if identity_ is None:
        raise LoginNeededError()
    if request.method not in SAFE and identity_.via != "token":
        await _check_csrf(request, identity_)
    return identity_


async def _check_csrf(request: Request, identity_: Identity) -> None:
    token = request.headers.get("x-csrf-token")
    if token is None and _is_form(request):
        value = (await request.form(max_fields=1_000, max_files=4)).get("csrf")
        token = value if isinstance(value, str) else None
    if token is None or not hmac.compare_digest(token.encode(), identity_.csrf.encode()):
        await request.close()  # files of the form
        raise Problem(
            403,
            "The form has expired",
            "The form belongs to another session. Load the page again and repeat the change.",
        )


def _is_form(request: Request) -> bool:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind in {"application/x-www-form-urlencoded", "multipart/form-data"}


def _needs(role: str, scope: str) -> Callable[[Request, Identity], Awaitable[User]]:
    async def dependency(request: Request, identity_: Annotated[Identity, Depends(known)]) -> User:
        if not identity_.user.may(role):
            raise Problem(
                403,
                "Your role may not do this",
                f"The route needs the role {role}; your role is {identity_.user.role}.",
            )
        if identity_.via == "token" and scope not in identity_.scopes:
            raise Problem(
                403, "The token may not do this", f"The route needs the scope {scope}. Use a token that has it."
            )
        return identity_.user

    dependency.__name__ = f"needs_{role}_{scope}"
    return dependency


viewer = _needs("viewer", "read")
reviewer = _needs("reviewer", "review")
admin = _needs("admin", "admin")
feedback = _needs("viewer", "feedback")
"""What an application's token needs to pass on what its users say."""

SignedIn = Annotated[Identity, Depends(known)]
Viewer = Annotated[User, Depends(viewer)]
Reviewer = Annotated[User, Depends(reviewer)]
Admin = Annotated[User, Depends(admin)]
GivesFeedback = Annotated[User, Depends(feedback)]


def page_context(request: Request) -> dict[str, object]:
    """What every page has: `user` (None for a stranger), and `csrf`, which a form sends back in its field
    `csrf` and a script in the header X-CSRF-Token."""
    identity: Identity | None = getattr(request.state, "identity", None)
    return {"user": identity.user if identity else None, "csrf": identity.csrf if identity else ""}
