"""Gives a store a new key, or its first one."""

from collections.abc import Mapping
from contextlib import closing
from typing import Any

from sqlalchemy import Connection, Select, delete, literal, or_, select, text, update

from ragtrace.console.chatlogs import engine as engines
from ragtrace.console.chatlogs import schema_upgrade
from ragtrace.console.chatlogs.encryption import Keys, user_keys
from ragtrace.console.chatlogs.reader import CONTENT, DETAILS, REVIEW, TOPIC, TOPIC_SEAL, parse_attributes
from ragtrace.console.chatlogs.retention import rewrite_files
from ragtrace.console.chatlogs.schema import contents, details, feedback, meta, reviews, scores, topics, traces
from ragtrace.console.chatlogs.store import Store, register_key, registered_keys
from ragtrace.errors import SettingError

_BATCH = 200
_TABLES: tuple[tuple[Any, str, tuple[str, ...]], ...] = (
    (contents, "trace", CONTENT), (details, "score", DETAILS), (reviews, "id", REVIEW),
    (feedback, "id", ("comment",)), (topics, "id", TOPIC),
)  # fmt: skip
"""Tables with content, each with its primary key and its columns of texts."""


def rekey(url: str, key: str, *, rewrite: bool = True) -> int:
    """Encrypts all content with the first of the keys; returns the number of traces. The other keys decrypt it.

    A store without a key becomes an encrypted one: its search index is deleted, and with `rewrite` the file is
    rewritten, so that nothing in it stays readable. Processes that write meanwhile should have both keys, the new one
    first. After an interruption, call it again. Raises SettingError if a key of the store is missing,
    or the file of the store."""
    keys = Keys(key)
    address = engines.parse_url(url)
    engines.require_file(address)
    with closing(Store(engines.create_store_engine(address), engines.display_name(address), keys)) as store:
        with store.writing() as connection:
            schema_upgrade.upgrade(connection, store.name)
            _begin(store, keys, connection)
        counts = [_encrypt_table(store, keys, *table) for table in _TABLES]
        with store.writing() as connection:
            others = meta.c.name.startswith("key:") & (meta.c.name != f"key:{keys.ids[0]}")
            connection.execute(delete(meta).where(others))
        if rewrite:
            rewrite_files(store)
        return counts[0]


def _begin(store: Store, keys: Keys, connection: Connection) -> None:
    registered = registered_keys(connection)
    if missing := sorted(registered.difference(keys.ids)):
        raise SettingError(
            f"the store {store.name} is encrypted with the key {', '.join(missing)}, which store_key does not have; "
            "give the new key first, then the keys that encrypted the content so far"
        )
    if keys.ids[0] not in registered:
        register_key(connection, keys.ids[0])
    # FTS5 deletes from an index without content by a command.
    clear = "INSERT INTO search (search) VALUES ('delete-all')" if store.sqlite else "DELETE FROM search"
    connection.execute(text(clear))


def _encrypt_table(store: Store, keys: Keys, table: Any, primary_key: str, names: tuple[str, ...]) -> int:
    """Encrypts the rows of a table that the first key has not encrypted; returns their number."""
    is_old = or_(table.c.key.is_(None), table.c.key != keys.ids[0])
    column = table.c[primary_key]
    count, last = 0, -1
    while True:
        with store.writing() as connection:
            query = _with_trace_id(table).where(is_old, column > last).order_by(column).limit(_BATCH)
            rows = connection.execute(query).mappings().all()
            for row in rows:
                texts = store.unseal(row["of"], row, names)
                values = store.seal(row["of"], texts)
                connection.execute(update(table).where(column == row[primary_key]).values(**values))
                if table is contents:
                    _update_user(keys, connection, row, texts)
        if not rows:
            return count
        count, last = count + len(rows), rows[-1][primary_key]


def _with_trace_id(table: Any) -> Select[Any]:
    """Selects the rows of a table, and as `of` the trace id that their content is bound to; topics belong to no
    trace."""
    if table is feedback:
        return select(table, table.c.trace_id.label("of"))
    if table is topics:
        return select(table, literal(TOPIC_SEAL).label("of"))
    query = select(table, traces.c.trace_id.label("of"))
    if table is details:
        return query.join(scores, scores.c.id == table.c.score).join(traces, traces.c.id == scores.c.trace)
    return query.join(traces, traces.c.id == table.c.trace)


def _update_user(keys: Keys, connection: Connection, row: Mapping[Any, Any], texts: Mapping[str, str | None]) -> None:
    _, facts = parse_attributes(texts["attributes"])
    user_key = user_keys(keys, str(facts.user_id))[0] if facts.user_id else None
    connection.execute(update(traces).where(traces.c.id == row["trace"]).values(user_key=user_key))
