"""For admins: users, tokens, the audit log."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, Field

from ragtrace.console import accounts, audit, tokens
from ragtrace.console.access import Admin, store_of
from ragtrace.console.api.inputs import Body, Id, Role, Scope, Short
from ragtrace.console.options import SCOPES
from ragtrace.console.problems import Problem

router = APIRouter(prefix="/api", tags=["admin"])
Name = Annotated[str, Path(min_length=1, max_length=100, pattern=r"^[^\x00]*$")]
Password = Annotated[str, Field(min_length=accounts.SHORTEST, max_length=accounts.LONGEST)]


class NewUser(Body):
    """A user who signs in with a password."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.@+-]{1,100}$")]
    role: Role
    password: Password


class UserChange(Body):
    """What is given is changed."""

    role: Role | None = None
    disabled: bool | None = None
    password: Password | None = None


class NewToken(Body):
    """A token of a user, good within their role."""

    name: Annotated[str, Field(pattern=r"^[ -~]{1,100}$", description="What it is for")]
    user: Short
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=len(SCOPES))]
    days: Annotated[float, Field(gt=0, le=3_660, allow_inf_nan=False)] | None = 365.0


class TokenOut(BaseModel):
    """A token without its secret."""

    id: int
    name: str
    user: str
    scopes: list[str]
    created: float
    expires: float | None
    used: float | None
    revoked: bool


class TokenMade(TokenOut):
    """And its secret, this once."""

    token: str


class AuditQuery(Body):
    """Which lines."""

    user: Short = ""
    action: Annotated[str, Field(max_length=60, pattern=r"^[^\x00]*$")] = ""
    before: Id | None = Field(None, description="The id of the last line seen, to go on")
    limit: Annotated[int, Field(ge=1, le=1_000)] = 100


@router.get("/users")
def list_users(request: Request, user: Admin) -> list[accounts.Account]:
    """Everybody."""
    return accounts.everybody(store_of(request))


@router.post("/users", status_code=201)
def add_user(request: Request, user: Admin, new: NewUser) -> accounts.Account:
    """A new user."""
    audit.note(request, object=new.name, role=new.role)
    return accounts.add(store_of(request), new.name, new.role, new.password)


@router.patch("/users/{name}")
def change_user(request: Request, user: Admin, name: Name, change: UserChange) -> accounts.Account:
    """Changes role, access or password. No admin changes their own role or access: so there is
    always an admin."""
    store = store_of(request)
    if name == user.name and (change.role is not None or change.disabled):
        raise Problem(
            409, "You may not do this to yourself", "Another admin can change your role or disable your account."
        )
    if not any(account.name == name for account in accounts.everybody(store)):
        raise Problem(404, "There is no such user", "GET /api/users lists them.")
    audit.note(request, **change.model_dump(include={"role", "disabled"}, exclude_none=True))
    if change.role is not None:
        accounts.set_role(store, name, change.role)
    if change.password is not None:
        accounts.set_password(store, name, change.password)
    if change.disabled is not None:
        accounts.set_disabled(store, name, change.disabled)
    with store.reading() as connection:
        return accounts.find(connection, name)


@router.get("/tokens")
def list_tokens(request: Request, user: Admin) -> list[TokenOut]:
    """All tokens, newest first."""
    return [TokenOut(**_shown(token)) for token in tokens.every(store_of(request))]


@router.post("/tokens", status_code=201)
def add_token(request: Request, user: Admin, new: NewToken) -> TokenMade:
    """A new token. Its secret is in this answer, and cannot be had again."""
    token, secret = tokens.add(store_of(request), new.name, new.user, new.scopes, new.days)
    audit.note(request, object=str(token.id), owner=token.user_name, scopes=",".join(sorted(token.scopes)))
    return TokenMade(token=secret, **_shown(token))


@router.delete("/tokens/{token}", status_code=204)
def revoke_token(request: Request, user: Admin, token: Id) -> None:
    """End a token at once."""
    if not any(one.id == token for one in tokens.every(store_of(request))):
        raise Problem(404, "There is no such token", "GET /api/tokens lists them.")
    tokens.revoke(store_of(request), token)


@router.get("/audit")
def get_audit(request: Request, user: Admin, query: Annotated[AuditQuery, Query()]) -> list[audit.Line]:
    """Who saw and changed what, newest first."""
    return list(audit.read(store_of(request), **query.model_dump()))


def _shown(token: tokens.Token) -> dict[str, Any]:
    shared = {name: getattr(token, name) for name in ("id", "name", "created", "expires", "used", "revoked")}
    return {**shared, "user": token.user_name, "scopes": sorted(token.scopes)}
