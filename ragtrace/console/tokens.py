"""API tokens: shown once, kept as hashes, good for some scopes and for a time."""

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, insert, select, update

from ragtrace.console import accounts
from ragtrace.console.chatlogs import schema
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.options import SCOPES
from ragtrace.console.sessions import hashed
from ragtrace.errors import DataError, SettingError

PREFIX = "rt_"
"""By which scanners of code find one that was committed."""
_USED_EVERY = 60.0


@dataclass(frozen=True, slots=True)
class Token:
    """A token as the database knows it."""

    id: int
    name: str
    user: int
    user_name: str
    role: str
    scopes: frozenset[str]
    created: float
    expires: float | None
    used: float | None
    revoked: bool


def add(store: Store, name: str, user: str, scopes: Sequence[str], days: float | None = None) -> tuple[Token, str]:
    """A new token of that user, and its secret, which cannot be had again. `days` None for one without an end.

    Raises SettingError for a name, scope or time that will not do, DataError for a user that is not there."""
    granted = [scope for scope in SCOPES if scope in scopes]
    if unknown := sorted(set(scopes) - set(SCOPES)):
        raise SettingError(f"there is no scope {unknown[0]!r}; give some of {', '.join(SCOPES)}")
    if not granted:
        raise SettingError(f"a token needs a scope: some of {', '.join(SCOPES)}")
    if not 1 <= len(name) <= 100 or not name.isprintable():
        raise SettingError("a token's name has 1 to 100 printable characters")
    if days is not None and not 0 < days <= 3_660:
        raise SettingError("a token is good for more than 0 and up to 3660 days")
    secret, now = PREFIX + secrets.token_urlsafe(32), time.time()
    if user == accounts.LOCAL:
        accounts.local(store)  # the user of a console without users: its row may not exist yet
    with store.writing() as connection:
        owner = accounts.find(connection, user)
        if owner.disabled or (owner.sign_in == "none" and user != accounts.LOCAL):
            raise DataError(f"the user {user!r} cannot sign in, and so has no tokens")
        row = {"name": name, "user": owner.id, "scopes": ",".join(granted), "created": now, "revoked": False}
        expires = None if days is None else now + days * 86_400
        result = connection.execute(insert(schema.tokens).values(hash=hashed(secret), expires=expires, **row))
        (token,) = _rows(connection, schema.tokens.c.id == result.inserted_primary_key[0])  # type: ignore[index]
    return token, secret


def find(store: Store, secret: str, now: float | None = None) -> Token | None:
    """The token with that secret, if it is good and its user may come in."""
    if not secret.startswith(PREFIX):
        return None
    now = time.time() if now is None else now
    table, users = schema.tokens, schema.users
    good = (table.c.hash == hashed(secret), table.c.revoked.is_(False), users.c.disabled.is_(False))
    with store.reading() as connection:
        token = next(iter(_rows(connection, *good)), None)
    if token is None or (token.expires is not None and token.expires <= now):
        return None
    if token.used is None or token.used < now - _USED_EVERY:
        store.execute(update(table).where(table.c.id == token.id).values(used=now))
    return token


def every(store: Store) -> list[Token]:
    """All tokens, newest first, without their secrets."""
    with store.reading() as connection:
        return _rows(connection)


def revoke(store: Store, token: int) -> None:
    """Revokes a token at once. Raises DataError if no token has that id."""
    if not store.execute(update(schema.tokens).where(schema.tokens.c.id == token).values(revoked=True)):
        raise DataError(f"there is no token {token}")


def _rows(connection: Connection, *conditions: ColumnElement[bool]) -> list[Token]:
    table, users = schema.tokens, schema.users
    columns = [column for column in table.c if column.name != "hash"]
    query = select(*columns, users.c.name.label("user_name"), users.c.role)
    query = query.join(users, users.c.id == table.c.user).where(*conditions).order_by(table.c.id.desc())
    rows = connection.execute(query).mappings()
    return [
        Token(**{**row, "scopes": frozenset(row["scopes"].split(",")), "revoked": bool(row["revoked"])}) for row in rows
    ]
