"""`/users` and `/audit`, for admins: who may come in, and what was done."""

from typing import Annotated, Literal

from fastapi import APIRouter, Form, Request
from pydantic import BaseModel
from starlette.responses import RedirectResponse, Response

from ragtrace.console import accounts, audit, tokens
from ragtrace.console.access import Admin, store_of
from ragtrace.console.api import inputs
from ragtrace.console.api.inputs import Id
from ragtrace.console.options import ROLES, SCOPES
from ragtrace.console.pages.template_filters import render
from ragtrace.console.problems import Problem

router = APIRouter()
_LINES = 100
Text = Annotated[str, Form(max_length=200)]
Password = Annotated[str, Form(max_length=accounts.LONGEST)]


class Change(BaseModel):
    """What is changed of a user."""

    do: Literal["role", "password", "disable", "enable"]
    role: str = ""
    password: str = ""


@router.get("/users")
def users(request: Request, user: Admin) -> Response:
    """Everybody who may come in, and their API tokens."""
    return _users(request)


def _users(request: Request, secret: str = "") -> Response:
    store = store_of(request)
    return render(
        request, "users.html.j2",
        accounts=[account for account in accounts.everybody(store) if account.name != accounts.LOCAL],
        tokens=tokens.every(store), roles=ROLES, scopes=SCOPES, secret=secret,
    )  # fmt: skip


@router.post("/users")
def add_user(request: Request, user: Admin, name: Text = "", role: Text = "", password: Password = "") -> Response:
    """A new user. The first one ends the open console: from then on everybody signs in."""
    audit.note(request, object=accounts.add(store_of(request), name.strip(), role, password).name)
    return RedirectResponse("/users", 303)


@router.post("/users/{name}")
def change_user(request: Request, user: Admin, name: str, change: Annotated[Change, Form()]) -> Response:
    """Changes the role, the password or the access of a user."""
    store, do = store_of(request), change.do
    if do in ("disable", "role") and name == user.name:
        raise Problem(409, "You may not do this to yourself", "Another admin can do it for you.")
    if do == "role":
        accounts.set_role(store, name, change.role)
    elif do == "password":
        accounts.set_password(store, name, change.password)
    else:
        accounts.set_disabled(store, name, do == "disable")
    audit.note(request, object=name, did=do)
    return RedirectResponse("/users", 303)


@router.post("/tokens")
def add_token(request: Request, user: Admin, form: Annotated[inputs.Form, inputs.form_of(20)]) -> Response:
    """A new API token; its secret is on the page that follows, once."""
    days = form.get("days", "")
    if days and not (days.isascii() and days.isdigit()):
        raise Problem(
            422, "The number of days is invalid", "Give a whole number, or nothing for a token that does not expire."
        )
    name, owner, scopes = form.get("name", "").strip(), form.get("user", ""), form.getlist("scope")
    token, secret = tokens.add(store_of(request), name, owner, scopes, float(days) if days else None)
    audit.note(request, object=str(token.id))
    return _users(request, secret)


@router.post("/tokens/{token}/revoke")
def revoke_token(request: Request, user: Admin, token: Id) -> Response:
    """End a token."""
    tokens.revoke(store_of(request), token)
    return RedirectResponse("/users", 303)


@router.get("/audit")
def log(request: Request, user: Admin, who: str = "", action: str = "", before: Id | None = None) -> Response:
    """Who saw and changed what, newest first."""
    lines = audit.read(store_of(request), user=who[:200], action=action[:60], before=before, limit=_LINES)
    return render(
        request, "audit.html.j2", lines=lines, who=who, action=action,
        actions=sorted({*audit.CHANGES.values(), *audit.READS.values(), "login.failed"}),
        after=lines[-1].id if len(lines) == _LINES else None, paged=before is not None,
    )  # fmt: skip
