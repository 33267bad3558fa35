"""Saved views: a search under a name, everybody's own. And who asks."""

from typing import Annotated, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from sqlalchemy import delete, func, insert, select
from starlette.responses import Response

from ragtrace.console import accounts, attempts, audit, login
from ragtrace.console.access import SignedIn, Viewer, address_of, store_of
from ragtrace.console.api.inputs import Body, Id
from ragtrace.console.chatlogs import schema
from ragtrace.console.problems import Problem

router = APIRouter(prefix="/api", tags=["views"])
_MOST = 200


class View(BaseModel):
    """A saved view."""

    id: int
    name: str
    query: str


class NewView(Body):
    """Its name and the query string of the page of traces."""

    name: Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f]+$")]
    query: Annotated[str, Field(max_length=4_000, pattern=r"^[^\x00-\x1f]*$")]


class Me(BaseModel):
    """Who asks."""

    name: str
    role: Literal["viewer", "reviewer", "admin"]
    via: Literal["session", "token"]
    scopes: list[str]


class NewPassword(Body):
    """The old one and the new one."""

    old: Annotated[str, Field(max_length=accounts.LONGEST)]
    new: Annotated[str, Field(min_length=accounts.SHORTEST, max_length=accounts.LONGEST)]


@router.get("/me")
def get_me(identity: SignedIn) -> Me:
    """Who asks, and how they are known."""
    return Me(name=identity.user.name, role=identity.user.role, via=identity.via, scopes=sorted(identity.scopes))  # type: ignore[arg-type]


@router.post("/me/password", status_code=204)
def change_password(request: Request, identity: SignedIn, new: NewPassword) -> Response:
    """A new password for oneself. Every session ends but this one, which goes on under a new cookie."""
    store, user = store_of(request), identity.user
    if identity.via != "session":
        raise Problem(403, "This needs a session", "Sign in to change your password; a token cannot change it.")
    if wait := attempts.begin(store, user.name, address_of(request)):
        raise Problem(403, "There were too many attempts", f"Try again in {wait} seconds.", {"Retry-After": str(wait)})
    if accounts.verify(store, user.name, new.old) is None:
        raise Problem(403, "The password was not changed", "The old password is wrong. Give your current one.")
    accounts.set_password(store, user.name, new.new)
    with store.writing() as connection:
        attempts.forget(connection, user.name, address_of(request))
    response = Response(status_code=204)
    login.set_session(request, response, user.id)
    return response


@router.get("/views")
def list_views(request: Request, user: Viewer) -> list[View]:
    """One's own saved views, by name."""
    table = schema.views
    statement = select(table).where(table.c.user == user.id).order_by(table.c.name)
    return [View(id=row.id, name=row.name, query=row.query) for row in store_of(request).rows(statement)]


@router.post("/views", status_code=201)
def save_view(request: Request, user: Viewer, view: NewView) -> View:
    """Keep a view; one of the same name is replaced."""
    table = schema.views
    own = table.c.user == user.id
    with store_of(request).writing() as connection:
        connection.execute(delete(table).where(own, table.c.name == view.name))
        if connection.execute(select(func.count()).where(own)).scalar_one() >= _MOST:
            raise Problem(409, "There are too many views", f"You may keep {_MOST} views. Delete one first.")
        statement = insert(table).values(user=user.id, name=view.name, query=view.query).returning(table.c.id)
        own_id = connection.execute(statement).scalar_one()
    audit.note(request, object=str(own_id))
    return View(id=own_id, name=view.name, query=view.query)


@router.delete("/views/{view}", status_code=204)
def delete_view(request: Request, user: Viewer, view: Id) -> None:
    """Forget one of one's own views."""
    table = schema.views
    if not store_of(request).execute(delete(table).where(table.c.id == view, table.c.user == user.id)):
        raise Problem(404, "There is no such view", "It belongs to another user, or it was deleted.")
