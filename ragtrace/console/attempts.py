"""Limits failed sign-ins, and searches of people who see masked texts. They are counted in the database, so for all
workers together."""

import math
import time
from collections.abc import Mapping

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
_TABLE = schema.attempts
_SEARCH = "(search)"  # no client has this address


def begin(store: Store, name: str, address: str, now: float | None = None) -> int:
    """Count an attempt before it is judged, so that attempts at the same time count too. Seconds to wait; 0 to go on.

    Names are kept as hashes: people type passwords into the field for the name."""
    whence, of_name = _TABLE.c.address == address[:60], _TABLE.c.name == _name(name)
    limits = {and_(of_name, whence): PER_NAME_AND_ADDRESS, whence: PER_ADDRESS, of_name: PER_NAME}
    return _count(store, name, address, limits, time.time() if now is None else now)


def begin_search(store: Store, user: int, now: float | None = None) -> int:
    """Count a search by words of a user who sees masked texts. Seconds to wait; 0 to go on."""
    name = f"user {user}"
    own = and_(_TABLE.c.name == _name(name), _TABLE.c.address == _SEARCH)
    return _count(store, name, _SEARCH, {own: MASKED_SEARCHES}, time.time() if now is None else now)


def forget(connection: Connection, name: str, address: str) -> None:
    """It was the right password: what this name failed from this address no longer counts."""
    connection.execute(delete(_TABLE).where(_TABLE.c.name == _name(name), _TABLE.c.address == address[:60]))


def _count(store: Store, name: str, address: str, limits: Mapping[ColumnElement[bool], int], now: float) -> int:
    """Count an attempt unless there are as many as allowed. `limits` has the allowed number by condition."""
    wait = 0
    with store.writing() as connection:
        connection.execute(delete(_TABLE).where(_TABLE.c.time < now - WINDOW))
        for which, allowed in limits.items():
            failed, oldest = connection.execute(select(func.count(), func.min(_TABLE.c.time)).where(which)).one()
            if failed >= allowed:
                wait = max(wait, 1, math.ceil(oldest + WINDOW - now))
        if not wait:
            connection.execute(insert(_TABLE).values(time=now, name=_name(name), address=address[:60]))
    return wait


def _name(name: str) -> str:
    return hashed(name.casefold())
