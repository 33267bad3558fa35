"""Limits failed sign-ins, and searches of people who see masked texts. They are counted in the database, so for all
workers together."""

from __future__ import annotations

import math
import time

from sqlalchemy import ColumnElement, Connection, and_, delete, func, insert, select

from ragtrace.console.chatlogs import schema
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.sessions import hashed

WINDOW = 15 * 60.0
"""Seconds."""
# Few by name and address together, so that no one can lock out another user from a distance; many by name alone,
# against guessing from everywhere at once.
PER_NAME_AND_ADDRESS, PER_ADDRESS, PER_NAME = 5, 20, 100
MASKED_SEARCHES = 200
"""Searches by words in a window of one user who sees masked texts: enough to read, too few to try out words."""
_SEARCH = "(search)"  # no client has this address


def begin(store: Store, name: str, address: str, now: float | None = None) -> int:
    """Count an attempt before it is judged, so that attempts at the same time count too. Seconds to wait; 0 to go on.

    Names are kept as hashes: people type passwords into the field for the name.
    """
    now = time.time() if now is None else now
    table = schema.attempts
    who, whence = _name(name), table.c.address == address[:60]
    of_name = table.c.name == who
    with store.writing() as connection:
        connection.execute(delete(table).where(table.c.time < now - WINDOW))
        waits = [
            _wait(connection, and_(of_name, whence), PER_NAME_AND_ADDRESS, now),
            _wait(connection, whence, PER_ADDRESS, now),
            _wait(connection, of_name, PER_NAME, now),
        ]
        if not any(waits):
            connection.execute(insert(table).values(time=now, name=who, address=address[:60]))
    return max(waits)


def begin_search(store: Store, user: int) -> int:
    """Count a search by words of a user who sees masked texts. Seconds to wait; 0 to go on."""
    now, table, who = time.time(), schema.attempts, _name(f"user {user}")
    with store.writing() as connection:
        wait = _wait(connection, and_(table.c.name == who, table.c.address == _SEARCH), MASKED_SEARCHES, now)
        if not wait:
            connection.execute(delete(table).where(table.c.time < now - WINDOW))
            connection.execute(insert(table).values(time=now, name=who, address=_SEARCH))
    return wait


def forget(connection: Connection, name: str, address: str) -> None:
    """It was the right password: what this name failed from this address no longer counts."""
    table = schema.attempts
    connection.execute(delete(table).where(table.c.name == _name(name), table.c.address == address[:60]))


def _wait(connection: Connection, which: ColumnElement[bool], allowed: int, now: float) -> int:
    table = schema.attempts
    failed, oldest = connection.execute(select(func.count(), func.min(table.c.time)).where(which)).one()
    return 0 if failed < allowed else max(1, math.ceil(oldest + WINDOW - now))


def _name(name: str) -> str:
    return hashed(name.casefold())
