"""A new key for a store, or a first one."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Select, delete, insert, or_, select, text, update

from ragtrace.chatlogs import engine as engines
from ragtrace.chatlogs import schema_upgrade
from ragtrace.chatlogs.encryption import Keys
from ragtrace.chatlogs.read import CONTENT, DETAILS
from ragtrace.chatlogs.retention import rewrite_files
from ragtrace.chatlogs.schema import contents, details, feedback, meta, reviews, scores, traces
from ragtrace.chatlogs.store import Store
from ragtrace.errors import SettingError

_BATCH = 200
_TABLES: tuple[tuple[Any, str, tuple[str, ...]], ...] = (
    (contents, "trace", CONTENT),
    (details, "score", DETAILS),
    (reviews, "id", ("comment", "corrected")),
    (feedback, "id", ("comment",)),
)


def rekey(url: str, key: str, *, rewrite: bool = True) -> int:
    """Encrypt all content with the first of the keys; how many traces. The others unseal what they sealed.

    Of a store without a key it makes one with: the search index goes, and (with `rewrite`) the file is written anew,
    so that nothing stays readable in it. Those who write meanwhile should have both keys, the new one first. Stopped
    half-way it is called again. Raises SettingError where a key of the store is missing.
    """
    keys = Keys(key)
    address = engines.parse_url(url)
    store = Store(engines.create_store_engine(address), engines.display_name(address), keys)
    try:
        with store.writing() as connection:
            schema_upgrade.upgrade(connection, store.name)
            _begin(store, keys, connection)
        done = 0
        for table, own, names in _TABLES:
            count = _reseal(store, keys, (table, own, names))
            done = count if table is contents else done
        with store.writing() as connection:
            others = meta.c.name.startswith("key:") & (meta.c.name != f"key:{keys.ids[0]}")
            connection.execute(delete(meta).where(others))
        if rewrite:
            rewrite_files(store)
        return done
    finally:
        store.close()


def _begin(store: Store, keys: Keys, connection: Connection) -> None:
    known = {name[4:] for name in connection.scalars(select(meta.c.name).where(meta.c.name.startswith("key:")))}
    if missing := sorted(known.difference(keys.ids)):
        raise SettingError(
            f"the store {store.name} is encrypted with the key {', '.join(missing)}, which store_key does not have; "
            "give the new key first, and after it those that sealed so far"
        )
    if keys.ids[0] not in known:
        connection.execute(insert(meta).values(name=f"key:{keys.ids[0]}", value=str(int(time.time()))))
    if store.sqlite:
        connection.execute(text("INSERT INTO search (search) VALUES ('delete-all')"))
    else:
        connection.execute(text("DELETE FROM search"))


def _reseal(store: Store, keys: Keys, what: tuple[Any, str, tuple[str, ...]]) -> int:
    table, own, names = what
    old = or_(table.c.key.is_(None), table.c.key != keys.ids[0])
    done, last = 0, -1
    while True:
        with store.writing() as connection:
            query = _with_trace(table).where(old, table.c[own] > last).order_by(table.c[own]).limit(_BATCH)
            rows = connection.execute(query).mappings().all()
            for row in rows:
                texts = store.unseal(row["of"], row, names)
                connection.execute(update(table).where(table.c[own] == row[own]).values(**store.seal(row["of"], texts)))
                if table is contents:
                    _hide_user(store, connection, row, texts)
        if not rows:
            return done
        done, last = done + len(rows), rows[-1][own]


def _with_trace(table: Any) -> Select[Any]:
    """The rows of a table, each with the trace id that its content is bound to, as `of`."""
    if table is feedback:
        return select(table, table.c.trace_id.label("of"))
    query = select(table, traces.c.trace_id.label("of"))
    if table is details:
        return query.join(scores, scores.c.id == table.c.score).join(traces, traces.c.id == scores.c.trace)
    return query.join(traces, traces.c.id == table.c.trace)


def _hide_user(store: Store, connection: Connection, row: Mapping[Any, Any], texts: Mapping[str, str | None]) -> None:
    user = json.loads(texts["attributes"] or "{}").get("facts", {}).get("user_id")
    hidden = None if user in (None, "") else store.hidden(str(user))
    connection.execute(update(traces).where(traces.c.id == row["trace"]).values(user_key=hidden))
