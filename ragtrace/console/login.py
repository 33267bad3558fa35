"""Signing in with a password or a one-time key, and out."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Annotated

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Depends, Form, Query, Request
from starlette.responses import RedirectResponse, Response

from ragtrace.console import access, accounts, attempts, audit, sessions
from ragtrace.console.access import SignedIn, address_of, cookie_name, identity, is_local, settings_of, store_of
from ragtrace.console.template_engine import render

if TYPE_CHECKING:
    from ragtrace.console.chatlogs.store import Store

_log = logging.getLogger("ragtrace.console")
_KEY_SECONDS = 86_400.0
"""How long the key in a local address can sign in."""
router = APIRouter(include_in_schema=False)
Stranger = Annotated["access.Identity | None", Depends(identity)]


@router.get("/login")
def form(
    request: Request,
    identity: Stranger,
    next: Annotated[str, Query(max_length=2_000)] = "/",
    key: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    """The form; who is signed in already goes on. `key` is the one-time key of the address that `serve` printed."""
    if identity is not None:
        return RedirectResponse(inside(next), 303)
    if not is_local(request):
        return _page(request, inside(next))
    if not key:
        return _page(request, inside(next), status=401, local=True)
    if not sessions.use_one_time_key(store_of(request), key):
        audit.failed_login(request, "one_time_key")
        return _page(request, inside(next), "This address was used before, or it is too old.", 401, local=True)
    store = store_of(request)
    audit.note(request, action="login", user=accounts.LOCAL, by="one_time_key")
    response = start(request, accounts.local(store).id, inside(next))
    _log.info("ragtrace console: for another browser, open %s", local_address(store, str(request.base_url)))
    return response


def local_address(store: Store, base: str) -> str:
    """An address that signs `local` in, once and within a day; `base` is the console's, e.g. http://127.0.0.1:8400."""
    key = sessions.add_one_time_key(store, accounts.local(store).id, _KEY_SECONDS)
    return f"{base.rstrip('/')}/login?key={key}"


def _page(request: Request, next: str, message: str = "", status: int = 200, *, local: bool = False) -> Response:
    values = {"next": next, "message": message, "oidc": settings_of(request).oidc is not None, "local": local}
    return render(request, "login.html.j2", **values, status_code=status)


@router.post("/login")
async def sign_in(
    request: Request,
    name: Annotated[str, Form(max_length=200)] = "",
    password: Annotated[str, Form(max_length=accounts.LONGEST)] = "",
    next: Annotated[str, Form(max_length=2_000)] = "/",
) -> Response:
    """A session for the right password. Its id is always new, even if the request had a cookie."""
    # Hashing is slow on purpose: those who wait for their turn must not take the threads that serve the others.
    state = request.app.state
    if not hasattr(state, "signing_in"):
        state.signing_in = CapacityLimiter(accounts.AT_A_TIME)
    return await to_thread.run_sync(partial(_sign_in, request, name, password, next), limiter=state.signing_in)


def _sign_in(request: Request, name: str, password: str, next: str) -> Response:
    store, address = store_of(request), address_of(request)
    if wait := attempts.begin(store, name, address):
        audit.failed_login(request, "rate_limit")
        minutes = -(-wait // 60)
        message = f"Too many attempts. Try again in {minutes} minute{'s' if minutes > 1 else ''}."
        response = _page(request, inside(next), message, 429)
        response.headers["Retry-After"] = str(wait)
        return response
    account = accounts.verify(store, name, password)
    if account is None:
        audit.failed_login(request, "password")
        return _page(request, inside(next), "That name and password do not belong together.", 401)
    with store.writing() as connection:
        attempts.forget(connection, name, address)
    audit.note(request, user=account.name, by="password")
    return start(request, account.id, inside(next))


def start(request: Request, user: int, next: str) -> Response:
    """Sign that user in, and send them on."""
    response = RedirectResponse(next, 303)
    set_session(request, response, user)
    return response


def set_session(request: Request, response: Response, user: int) -> None:
    """Begin a session of that user with this answer; the one that the request came with ends."""
    store, name = store_of(request), cookie_name(request)
    with store.writing() as connection:
        if old := request.cookies.get(name):
            sessions.end(connection, old)
        cookie = sessions.begin(connection, user)
    response.set_cookie(name, cookie, sessions.LONGEST, **access.cookie_limits(request))


@router.post("/logout")
def sign_out(request: Request, identity: SignedIn) -> Response:
    """End the session here and in the database."""
    name = cookie_name(request)
    if cookie := request.cookies.get(name):
        with store_of(request).writing() as connection:
            sessions.end(connection, cookie)
    response = RedirectResponse("/login", 303)
    response.delete_cookie(name, **access.cookie_limits(request))
    return response


def inside(next: str) -> str:
    """A path on this very console, or `/`: a link to the login page leads to no other site."""
    own = next.startswith("/") and not next.startswith("//") and "\\" not in next and next.isprintable()
    return next if own else "/"
