"""Sessions: a random cookie, of which the database knows only the hash. Also one-time keys, which begin a session."""

import hashlib
import secrets
import time
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from ragtrace.console.chatlogs import schema
from ragtrace.console.chatlogs.store import Store

_ONE_TIME = "once:"  # no cookie's hash begins so: a one-time key cannot be used as a cookie
_SEEN_EVERY = 60.0
LONGEST = 7 * 86_400
"""Seconds after which a session ends in any case."""


def hashed(secret: str) -> str:
    """sha256, hexadecimal. Enough for secrets of 256 random bits, which cannot be guessed by trying."""
    return hashlib.sha256(secret.encode()).hexdigest()


def begin(connection: Connection, user: int, now: float | None = None) -> str:
    """A new session; the cookie's value, which is nowhere else."""
    now = time.time() if now is None else now
    cookie = secrets.token_urlsafe(32)
    connection.execute(delete(schema.sessions).where(schema.sessions.c.expires < now))
    row = {"user": user, "csrf": secrets.token_urlsafe(32), "created": now, "seen": now, "expires": now + LONGEST}
    connection.execute(insert(schema.sessions).values(hash=hashed(cookie), **row))
    return cookie


def find(store: Store, cookie: str, idle: float, now: float | None = None) -> Row[*tuple[Any, ...]] | None:
    """The session of that cookie (`user`, `name`, `role`, `csrf`), unless it ended or its user is disabled."""
    now = time.time() if now is None else now
    sessions, users = schema.sessions, schema.users
    query = (
        select(sessions.c.user, users.c.name, users.c.role, sessions.c.csrf, sessions.c.hash, sessions.c.seen)
        .join(users, users.c.id == sessions.c.user)
        .where(sessions.c.hash == hashed(cookie), users.c.disabled.is_(False))
        .where(sessions.c.expires > now, sessions.c.seen > now - idle)
    )
    row = next(iter(store.rows(query)), None)
    if row is None:
        return None
    if row.seen < now - min(_SEEN_EVERY, idle / 10):  # not a write for every click
        store.execute(update(sessions).where(sessions.c.hash == row.hash).values(seen=now))
    return row


def end(connection: Connection, cookie: str) -> None:
    """Log out."""
    connection.execute(delete(schema.sessions).where(schema.sessions.c.hash == hashed(cookie)))


def end_all(connection: Connection, user: int) -> None:
    """Every session of a user: after a change of the password, or when they are disabled."""
    connection.execute(delete(schema.sessions).where(schema.sessions.c.user == user))


def add_one_time_key(store: Store, user: int, lifetime: float, now: float | None = None) -> str:
    """Add a key that begins one session of that user within `lifetime` seconds; the database keeps only its hash."""
    now = time.time() if now is None else now
    key = secrets.token_urlsafe(32)
    row = {"user": user, "csrf": "", "created": now, "seen": 0.0, "expires": now + lifetime}
    with store.writing() as connection:
        connection.execute(delete(schema.sessions).where(schema.sessions.c.expires < now))
        connection.execute(insert(schema.sessions).values(hash=_key_hash(key), **row))
    return key


def use_one_time_key(store: Store, key: str) -> bool:
    """Use up a one-time key. True for the first use within its lifetime; of two uses at once, one gets True."""
    row = schema.sessions
    return store.execute(delete(row).where(row.c.hash == _key_hash(key), row.c.expires > time.time())) == 1


def _key_hash(key: str) -> str:
    return _ONE_TIME + hashed(key)[:56]  # 224 bits, within the column's 64 characters
