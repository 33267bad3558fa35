"""The store: one file of SQLite, or PostgreSQL."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from ragtrace.background import after_fork
from ragtrace.errors import MissingExtraError, SettingError, StoreError

try:
    from sqlalchemy import Connection, Engine, insert, select
    from sqlalchemy.exc import DBAPIError, IntegrityError
except ImportError as error:
    raise MissingExtraError("sqlalchemy", "store", "The store of chat logs") from error

from ragtrace.chatlogs import engine as engines
from ragtrace.chatlogs import schema_upgrade
from ragtrace.chatlogs.encryption import Keys, clean, seal_columns, unseal_columns
from ragtrace.chatlogs.read import stored
from ragtrace.chatlogs.records import StoredTrace
from ragtrace.chatlogs.schema import meta, traces
from ragtrace.chatlogs.write import prepared, remember, write

if TYPE_CHECKING:
    from ragtrace.evaluation import Evaluator
    from ragtrace.records import Evaluation

_TRIES = 3


class Store:
    """Stored evaluations. Any number of threads may use one; `open_store` makes it."""

    def __init__(self, engine: Engine, name: str, keys: Keys | None = None) -> None:
        self.engine = engine
        self.name = name
        """Its address without a password."""
        self.keys = keys
        # SQLite has one writer at a time: threads of this process queue up instead of polling the file's lock.
        self._turn: Any = threading.Lock() if self.sqlite else nullcontext()
        after_fork(self._reset)

    def _reset(self) -> None:
        # In a forked child: a connection belongs to the process that opened it, and the lock may have been held.
        self.engine.dispose(close=False)
        if self.sqlite:
            self._turn = threading.Lock()

    @property
    def sqlite(self) -> bool:
        """Whether it is one file."""
        return self.engine.dialect.name == "sqlite"

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection that sees one state of the store. Raises StoreError if the database cannot be read."""
        try:
            with self.engine.connect() as connection:
                if not self.sqlite:
                    connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
                yield connection
        except DBAPIError as error:
            raise self._told(error) from error.orig

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A connection in a transaction that is committed at the end, and rolled back by an exception.

        What was committed survives a kill. Not to be nested. Raises StoreError if the database cannot be written:
        away, full, locked for longer than 15 seconds. Constraints that are violated raise SQLAlchemy's IntegrityError.
        """
        try:
            with self._turn, self.engine.connect() as connection:
                connection.execution_options(immediate=True)
                with connection.begin():
                    yield connection
        except IntegrityError:
            raise
        except DBAPIError as error:
            raise self._told(error) from error.orig

    def _told(self, error: DBAPIError) -> BaseException:
        return engines.store_error(error, self.engine.url) if engines.is_transient(error) else error

    # --- evaluations -----------------------------------------------------------------------------

    def write(
        self, evaluations: Sequence[Evaluation], checks: Sequence[Evaluator] = (), now: float | None = None
    ) -> int:
        """Store evaluations in one transaction; how many of them brought a trace or a score that was not there.

        A trace that is there already stays as it is, and so does a score of the same evaluator and version; new ones
        are added to it. Evaluations that were dropped have nothing to store. `checks` tell thresholds and directions
        of the evaluators, `now` is the time of storing and scoring. Raises StoreError as `writing` does.
        """
        rows = prepared(self, evaluations, time.time() if now is None else now)
        for attempt in range(_TRIES):
            try:
                with self.writing() as connection:
                    remember(connection, checks, rows)
                    return write(connection, rows)
            except IntegrityError:  # somebody else stored the same between our look and our insert
                if attempt == _TRIES - 1:
                    raise
        raise AssertionError

    def get(self, trace_id: str | int) -> StoredTrace | None:
        """A stored trace by its 32 hexadecimal digits or its id here; None if it is not there."""
        with self.reading() as connection:
            return stored(self, connection, trace_id)

    # --- content ---------------------------------------------------------------------------------

    def seal(self, trace_hex: str, texts: Mapping[str, str | None]) -> dict[str, Any]:
        """Values for the columns of a table with content: those of `texts` by name, `sealed` and `key`.

        Without a key the texts as they are; with one they are None, and `sealed` has them all, encrypted for this
        trace (32 hexadecimal digits) alone.
        """
        return seal_columns(self.keys, trace_hex, texts)

    def unseal(self, trace_hex: str, row: Mapping[Any, Any], names: Iterable[str]) -> dict[str, str | None]:
        """The texts of a row (a mapping with these columns, `sealed` and `key`), whether it is sealed or not. Raises
        StoreError where the key is not there or the bytes were altered."""
        return unseal_columns(self.keys, trace_hex, row, names)

    def hidden(self, user_id: str) -> str:
        """What stands in `traces.user_key` for a user from now on."""
        return self.hidings(user_id)[0]

    def hidings(self, user_id: str) -> tuple[str, ...]:
        """All that may stand there for this user: one for each key."""
        if self.keys is not None:
            return self.keys.hidden(user_id)
        plain = clean(user_id) or ""
        if len(plain) > 200:
            plain = hashlib.sha256(user_id.encode("utf-8", "surrogatepass")).hexdigest()
        return (plain,)

    # --- its life --------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of the database. Safe to call twice."""
        self.engine.dispose()


def open_store(url: str, *, key: str | None = None, upgrade: bool = True) -> Store:
    """Open a store, and make or upgrade its tables where that is needed.

    `url` is `sqlite:///FILE`, a file's path, or `postgresql://USER:PASSWORD@HOST/NAME`. `key` is one key or more (see
    `sealing.Keys`), with which its content is encrypted; a new store becomes an encrypted one by being opened with a
    key. With `upgrade=False` a store of an older version is refused instead of changed.

    Raises SettingError for an address that is none, a store of a newer version, and a key that is missing or wrong;
    StoreError if the database does not answer; MissingExtraError where a package is missing.
    """
    keys = Keys(key) if key is not None else None
    if keys is not None:
        _require_cryptography()
    address = engines.parse_url(url)
    name = engines.display_name(address)
    store = Store(engines.create_store_engine(address), name, keys)
    with ExitStack() as undo:
        undo.callback(store.close)
        _make_ready(store, upgrade)
        undo.pop_all()
    return store


def _make_ready(store: Store, upgrade: bool) -> None:
    with store.reading() as connection:
        found = schema_upgrade.check(connection, store.name)
        if found == schema_upgrade.HEAD and _keys_known(store, connection):
            return
    if not upgrade and found != schema_upgrade.HEAD:
        raise SettingError(f"the store {store.name} is of an older version; open it with upgrade")
    with store.writing() as connection:
        schema_upgrade.upgrade(connection, store.name)
        _register_key(store, connection)


def _keys_known(store: Store, connection: Connection) -> bool:
    """Whether nothing is to be written down of the keys. Raises SettingError where they are not the store's."""
    known = {name[4:] for name in connection.scalars(select(meta.c.name).where(meta.c.name.startswith("key:")))}
    given = () if store.keys is None else store.keys.ids
    if missing := sorted(known.difference(given)):
        what = "the key that was given is another one" if given else "no key was given"
        raise SettingError(
            f"the store {store.name} is encrypted with the key {', '.join(missing)}; {what}. Name the right one with "
            "the setting store_key"
        )
    if given and not known and connection.execute(select(traces.c.id).limit(1)).first() is not None:
        raise SettingError(
            f"the store {store.name} was begun without a key; `ragtrace store rekey` encrypts what is in it"
        )
    return not given or given[0] in known


def _register_key(store: Store, connection: Connection) -> None:
    if not _keys_known(store, connection) and store.keys is not None:
        connection.execute(insert(meta).values(name=f"key:{store.keys.ids[0]}", value=str(int(time.time()))))


def _require_cryptography() -> None:
    try:
        import cryptography  # noqa: F401 is it there?
    except ImportError:
        raise MissingExtraError("cryptography", "store", "A store with a key") from None


__all__ = ["Store", "StoreError", "open_store"]
