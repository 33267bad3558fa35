"""Users, their roles and passwords. Users are disabled, not deleted, because reviews refer to them."""

from __future__ import annotations

import re
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, insert, or_, select, update

from ragtrace.console import sessions
from ragtrace.console.chatlogs import schema
from ragtrace.console.options import ROLES
from ragtrace.errors import DataError, MissingExtraError, SettingError, package

if TYPE_CHECKING:
    from argon2 import PasswordHasher

    from ragtrace.console.chatlogs.store import Store

LOCAL = "local"
"""Who works at a console without users, on the machine's own address."""
SHORTEST, LONGEST = 12, 1_000
_ESTIMATED = 72
"""Characters whose guessing is estimated: the estimate's time grows with the square of the length."""
_NAME = re.compile(r"[\w.@+-]{1,100}")
AT_A_TIME = 4
"""Hashes that are computed at once at most: each takes 64 MiB, and strangers ask for them."""
_turns = threading.BoundedSemaphore(AT_A_TIME)


@dataclass(frozen=True, slots=True)
class Account:
    """A user as lists show them."""

    id: int
    name: str
    role: str
    disabled: bool
    created: float
    sign_in: str
    """`password`, `oidc` or `none`."""


def exist(store: Store) -> bool:
    """Whether anybody could sign in, disabled or not: a console that once had users never opens again by itself."""
    users = schema.users
    able = select(users.c.id).where(or_(users.c.password.is_not(None), users.c.subject.is_not(None))).limit(1)
    return store.scalar(able) is not None


def everybody(store: Store) -> list[Account]:
    """All users, by name."""
    return [_account(row) for row in store.rows(select(schema.users).order_by(schema.users.c.name))]


def find(connection: Connection, name: str) -> Account:
    """The user of that name. Raises DataError if it does not exist."""
    row = connection.execute(select(schema.users).where(schema.users.c.name == name)).one_or_none()
    if row is None:
        raise DataError(f"there is no user {name!r}")
    return _account(row)


def _account(row: Row[*tuple[Any, ...]]) -> Account:
    sign_in = "password" if row.password else "oidc" if row.subject else "none"
    return Account(row.id, row.name, row.role, bool(row.disabled), row.created, sign_in)


def add(store: Store, name: str, role: str, password: str | None = None, subject: str | None = None) -> Account:
    """A new user. Raises SettingError for a name, role or password that will not do, DataError where the name is
    taken."""
    if not _NAME.fullmatch(name) or (name == LOCAL and (password or subject)):
        raise SettingError("a user's name has 1 to 100 letters, digits or . _ @ + - and is not 'local'")
    _check_role(role)
    password_hash = None if password is None else hash_password(password, name)
    with store.writing() as connection:
        if connection.execute(select(schema.users.c.id).where(schema.users.c.name == name)).first():
            raise DataError(f"there is a user {name!r} already")
        row = {"name": name, "role": role, "password": password_hash, "subject": subject, "disabled": False}
        connection.execute(insert(schema.users).values(**row, created=time.time()))
        return find(connection, name)


def local(store: Store) -> Account:
    """The user of a console without users. They have a row, because reviews name their reviewer, but cannot sign in."""
    with suppress(DataError), store.reading() as connection:
        return find(connection, LOCAL)
    with suppress(DataError):  # another request was first
        return add(store, LOCAL, "admin")
    with store.reading() as connection:
        return find(connection, LOCAL)


def set_role(store: Store, name: str, role: str) -> None:
    """Give a role. It holds from the next request on."""
    _check_role(role)
    _change(store, name, {"role": role}, end=False)


def set_disabled(store: Store, name: str, disabled: bool) -> None:
    """Shut out, or let in again. Sessions end at once, and tokens do not work while it lasts."""
    _change(store, name, {"disabled": disabled}, end=disabled)


def set_password(store: Store, name: str, password: str) -> None:
    """A new password; every session of the user ends, and every token is revoked."""
    _change(store, name, {"password": hash_password(password, name)}, end=True, revoke=True)


def _change(store: Store, name: str, values: dict[str, object], *, end: bool, revoke: bool = False) -> None:
    with store.writing() as connection:
        account = find(connection, name)
        if name == LOCAL:
            raise DataError("'local' is the user of a console without users; add one of your own")
        connection.execute(update(schema.users).where(schema.users.c.id == account.id).values(**values))
        if end:
            sessions.end_all(connection, account.id)
        if revoke:  # who asks for a new password may have lost more than the old one
            connection.execute(update(schema.tokens).where(schema.tokens.c.user == account.id).values(revoked=True))


def verify(store: Store, name: str, password: str) -> Account | None:
    """The user, if that is their password. Takes as long for a name that does not exist."""
    from argon2.exceptions import InvalidHashError, VerificationError

    row = next(iter(store.rows(select(schema.users).where(schema.users.c.name == name))), None)
    password_hash = row.password if row is not None and row.password else _dummy()
    try:
        with _turns:
            _hasher().verify(password_hash, password[: LONGEST + 1])
    except (VerificationError, InvalidHashError):
        return None
    if row is None or not row.password or row.disabled:
        return None
    if _hasher().check_needs_rehash(password_hash):
        better = _hasher().hash(password)
        store.execute(update(schema.users).where(schema.users.c.id == row.id).values(password=better))
    return _account(row)


def hash_password(password: str, name: str = "") -> str:
    """argon2id with RFC 9106's parameters for little memory. Raises SettingError for a password that is too short, or
    that is easy to guess for somebody who knows the user's `name`."""
    if not SHORTEST <= len(password) <= LONGEST:
        raise SettingError(f"a password has {SHORTEST} to {LONGEST} characters")
    _check_guessing(password, name)
    with _turns:
        return _hasher().hash(password)


def _check_guessing(password: str, name: str) -> None:
    estimate = package("zxcvbn", "serve", "a password").zxcvbn(password[:_ESTIMATED], user_inputs=["ragtrace", name])
    if estimate["score"] < 3:  # fewer than 10^8 guesses: "safely unguessable" begins there, says its documentation
        reason = estimate["feedback"]["warning"] or "It needs too few guesses."
        raise SettingError(f"this password is easy to guess. {reason} Use several words that do not belong together")


def _check_role(role: str) -> None:
    if role not in ROLES:
        raise SettingError(f"there is no role {role!r}; give one of {', '.join(ROLES)}")


@cache
def _hasher() -> PasswordHasher:
    try:
        from argon2 import PasswordHasher
    except ImportError as error:
        raise MissingExtraError("argon2-cffi", "serve", "a password") from error
    return PasswordHasher()


@cache
def _dummy() -> str:
    return _hasher().hash("the password of no user")
