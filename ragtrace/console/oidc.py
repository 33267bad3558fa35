"""Signing in with an OpenID Connect provider: the authorization code flow with PKCE, state and nonce, by Authlib.

What must be remembered between leaving for the provider and coming back (state, nonce, PKCE's verifier) travels in a
cookie of its own, encrypted, so that it can neither be read nor forged: no row is written for strangers, and any worker
can take the way back. A role comes from a claim at every sign-in: the provider's administrators give and take it."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request
from sqlalchemy import select, update
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from ragtrace.console import accounts, audit, login, sessions
from ragtrace.console.access import cookie_limits, cookie_name, settings_of, store_of
from ragtrace.console.chatlogs import schema
from ragtrace.console.options import ROLES, Oidc
from ragtrace.console.problems import Problem, where

if TYPE_CHECKING:
    from cryptography.fernet import Fernet

router = APIRouter(include_in_schema=False)
_log = logging.getLogger("ragtrace.console")
_SIGNED = frozenset(f"{kind}{bits}" for kind in ("RS", "PS", "ES") for bits in (256, 384, 512)) | {"EdDSA"}
_MINUTES = 10
"""For signing in at the provider."""


@router.get("/login/oidc")
async def leave(request: Request, next: Annotated[str, Query(max_length=2_000)] = "/") -> Response:
    """To the provider."""
    provider = _configured(request)
    request.scope["session"] = remembered = {"next": login.inside(next)}
    try:
        client = await _client(request, provider)
        own = settings_of(request).url or str(request.base_url).rstrip("/")
        response: Response = await client.authorize_redirect(request, f"{own}/login/oidc/callback")
    except Exception as error:  # noqa: BLE001 the network, and any answer of the provider
        raise _failed(error) from None
    cookie = _box(provider).encrypt(json.dumps(remembered).encode()).decode()
    response.set_cookie(_cookie(request), cookie, _MINUTES * 60, **cookie_limits(request))
    return response


@router.get("/login/oidc/callback")
async def come_back(request: Request) -> Response:
    """From the provider: check what it says, and sign the user in."""
    from authlib.integrations.base_client import OAuthError  # type: ignore[import-untyped]

    provider = _configured(request)
    request.scope["session"] = remembered = _remembered(request, provider)
    try:
        client = await _client(request, provider)
        issuer = client.server_metadata["issuer"]
        must = {
            "iss": {"essential": True, "values": [issuer]},
            "aud": {"essential": True, "values": [provider.client_id]},
        }
        token = await client.authorize_access_token(request, claims_options=must)
        claims: Mapping[str, Any] = token["userinfo"]
        subject = f"{claims['iss']} {claims['sub']}"
    except OAuthError as error:
        audit.failed_login(request, "oidc")
        _log.warning("ragtrace console: sign-in by OpenID Connect failed: %s", re.sub(r"[^\w.-]", "", str(error.error)))
        raise Problem(
            401, "You were not signed in", "The provider refused, or the sign-in took too long. Try again."
        ) from None
    except Exception as error:  # noqa: BLE001 the network, and any answer of the provider
        audit.failed_login(request, "oidc")
        raise _failed(error) from None
    response = await run_in_threadpool(_enter, request, provider, claims, subject, str(remembered.get("next", "/")))
    response.delete_cookie(_cookie(request), **cookie_limits(request))
    return response


def _enter(request: Request, provider: Oidc, claims: Mapping[str, Any], subject: str, next: str) -> Response:
    store, role = store_of(request), role_of(claims, provider)
    if role is None:
        audit.failed_login(request, "role")
        raise Problem(403, "You have no role here", "Your account has no role in this console. Ask its admin for one.")
    table = schema.users
    rows = store.rows(select(table).where(table.c.subject == subject))
    account: Any = rows[0] if rows else None
    if account is None:
        account = accounts.add(store, _free_name(request, claims, subject), role, subject=subject)
        audit.note(request, new=True)
    elif account.disabled:
        audit.failed_login(request, "disabled")
        raise Problem(403, "Your account is disabled", "Ask an admin of this console to enable it.")
    elif account.role != role:
        store.execute(update(table).where(table.c.id == account.id).values(role=role))
    audit.note(request, user=account.name, by="oidc", role=role)
    request.app.state.has_users = True
    return login.start(request, account.id, login.inside(next))


def role_of(claims: Mapping[str, Any], provider: Oidc) -> str | None:
    """The highest role that the claim gives; None if it gives none."""
    value: Any = claims
    for part in filter(None, provider.claim.split(".")):
        value = value.get(part) if isinstance(value, Mapping) else None
    values = value if isinstance(value, (list, tuple)) else [value]
    roles = {provider.roles[str(each)] for each in values if each is not None and str(each) in provider.roles}
    if not roles and "*" in provider.roles:
        roles = {provider.roles["*"]}
    return max(roles, key=ROLES.index, default=None)


def _free_name(request: Request, claims: Mapping[str, Any], subject: str) -> str:
    """The name from the provider, made unique: an existing user of that name is another person."""
    preferred = str(claims.get("preferred_username") or claims.get("email") or claims["sub"])
    name = re.sub(r"[^\w.@+-]", "-", preferred)[:80] or "user"
    exists = store_of(request).scalar(select(schema.users.c.id).where(schema.users.c.name == name)) is not None
    return f"{name}-{sessions.hashed(subject)[:8]}" if exists or name == accounts.LOCAL else name


def _configured(request: Request) -> Oidc:
    provider = settings_of(request).oidc
    if provider is None:
        raise Problem(404, "Not Found")
    return provider


async def _client(request: Request, provider: Oidc) -> Any:
    """Authlib's client, one for the application: it remembers the provider's description and keys."""
    state = request.app.state
    if getattr(state, "oidc", None) is None:
        from authlib.integrations.starlette_client import OAuth  # type: ignore[import-untyped]

        client = OAuth().register(
            "ragtrace", client_id=provider.client_id, client_secret=provider.client_secret,
            server_metadata_url=provider.issuer.rstrip("/") + "/.well-known/openid-configuration",
            client_kwargs={"scope": provider.scopes, "code_challenge_method": "S256", "timeout": 10},
        )  # fmt: skip
        described = await client.load_server_metadata()
        if str(described["issuer"]).rstrip("/") != provider.issuer.rstrip("/"):
            raise ValueError("the provider describes itself as another issuer")
        # A provider may list `none`, and HS256, whose key would be a public one here.
        algorithms = described.get("id_token_signing_alg_values_supported", [])
        described["id_token_signing_alg_values_supported"] = [a for a in algorithms if a in _SIGNED] or ["RS256"]
        state.oidc = client
    return state.oidc


def _cookie(request: Request) -> str:
    return f"{cookie_name(request)}-oidc"


def _box(provider: Oidc) -> Fernet:
    from cryptography.fernet import Fernet

    key = hashlib.sha256(b"ragtrace console, on the way to the provider\0" + provider.client_secret.encode()).digest()
    return Fernet(base64.urlsafe_b64encode(key))


def _remembered(request: Request, provider: Oidc) -> dict[str, Any]:
    from cryptography.fernet import InvalidToken

    try:
        cookie = request.cookies.get(_cookie(request), "").encode()
        opened: dict[str, Any] = json.loads(_box(provider).decrypt(cookie, ttl=_MINUTES * 60))
        return opened
    except (InvalidToken, ValueError):
        detail = "This browser did not begin to sign in here, or it took too long. Begin again."
        raise Problem(400, "You were not signed in", detail) from None


def _failed(error: Exception) -> Problem:
    _log.error("ragtrace console: sign-in by OpenID Connect: %s", where(error))
    return Problem(502, "The provider sent an unusable answer", "Try again. The server's log has the error.")
