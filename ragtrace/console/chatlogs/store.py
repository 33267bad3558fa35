"""Opens the store of chat logs: one file of SQLite, or PostgreSQL."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from ragtrace.base.background import after_fork
from ragtrace.errors import MissingExtraError, SettingError, StoreError, package

try:
    from sqlalchemy import Connection, Engine, Executable, Row, insert, select
    from sqlalchemy.exc import DBAPIError, IntegrityError
except ImportError as error:
    raise MissingExtraError("sqlalchemy", "store", "The store of chat logs") from error

from ragtrace.console.chatlogs import engine as engines
from ragtrace.console.chatlogs import schema_upgrade
from ragtrace.console.chatlogs.encryption import Keys, seal_columns, unseal_columns
from ragtrace.console.chatlogs.reader import read_trace
from ragtrace.console.chatlogs.schema import meta, traces
from ragtrace.console.chatlogs.store_types import StoredTrace
from ragtrace.console.chatlogs.writer import Rows, prepare_rows, write_evaluators, write_rows

if TYPE_CHECKING:
    from ragtrace.evaluation import Evaluator
    from ragtrace.records import Evaluation

_TRIES = 3


class Store:
    """A store of evaluations. Any number of threads may use it. `open_store` creates it."""

    def __init__(self, engine: Engine, name: str, keys: Keys | None = None) -> None:
        """`name` is the address without a password."""
        self.engine = engine
        self.name = name
        self.keys = keys
        self._file: tuple[int, int] | None = None
        # SQLite has one writer at a time: threads of this process queue up instead of polling the file's lock.
        self._writer_lock: Any = threading.Lock() if self.sqlite else nullcontext()
        after_fork(self._reset)

    def _reset(self) -> None:
        """In a forked child: the connections belong to the parent, and another thread may have held the lock."""
        self.engine.dispose(close=False)
        if self.sqlite:
            self._writer_lock = threading.Lock()

    @property
    def sqlite(self) -> bool:
        """Whether the store is one file of SQLite."""
        return self.engine.dialect.name == "sqlite"

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Opens a connection that sees one state of the store. Raises StoreError if the database cannot be read."""
        with self._translated_errors(), self._connected() as connection:
            if not self.sqlite:
                connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            yield connection

    def rows(self, query: Executable) -> Sequence[Row[*tuple[Any, ...]]]:
        """All rows of one query. Raises StoreError as `reading` does."""
        with self.reading() as connection:
            return connection.execute(query).all()

    def scalar(self, query: Executable) -> Any:
        """The first value of one query; None without a row. Raises StoreError as `reading` does."""
        with self.reading() as connection:
            return connection.scalar(query)

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Opens a connection in a transaction that is committed at the end, and rolled back by an exception.

        Committed data survives a kill. Must not be nested. Raises StoreError if the database cannot be written:
        unreachable, full, or locked for more than 15 seconds. A violated constraint raises SQLAlchemy's IntegrityError.
        """
        with self._translated_errors(), self._writer_lock, self._connected() as connection:
            connection.execution_options(immediate=True)
            with connection.begin():
                yield connection

    def execute(self, statement: Executable) -> int:
        """Runs one statement as `writing` does, with its errors; returns the number of rows that it changed."""
        with self.writing() as connection:
            return connection.execute(statement).rowcount

    def _connected(self) -> Connection:
        if self.is_gone():  # e.g. a backup was restored: what is written into the old file would be lost
            self.engine.dispose()
            if _identity(self.engine.url.database) is None:
                raise StoreError(f"the store {self.name} was deleted; restore it, or start this process again")
            self.note_file()
        return self.engine.connect()

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        try:
            yield
        except IntegrityError:
            raise
        except DBAPIError as error:
            is_transient = engines.is_transient(error)
            raise (engines.store_error(error, self.engine.url) if is_transient else error) from error.orig

    # --- evaluations -----------------------------------------------------------------------------

    def write(
        self, evaluations: Sequence[Evaluation], checks: Sequence[Evaluator] = (), now: float | None = None
    ) -> int:
        """Stores evaluations in one transaction. Returns how many of them added a trace or a score.

        A stored trace stays as it is, and so does a stored score of the same evaluator and version; new scores are
        added to it. Dropped evaluations are ignored. `checks` provide the thresholds and directions of the evaluators,
        `now` is the time of storing and scoring. Raises StoreError as `writing` does."""
        rows = prepare_rows(self.keys, evaluations, time.time() if now is None else now)
        for _ in range(_TRIES - 1):
            try:
                return self._write(rows, checks)
            except IntegrityError:  # another process stored the same trace between our query and our insert
                continue
        return self._write(rows, checks)

    def _write(self, rows: Sequence[Rows], checks: Sequence[Evaluator]) -> int:
        with self.writing() as connection:
            write_evaluators(connection, checks, rows)
            return write_rows(connection, rows)

    def get(self, trace_id: str | int) -> StoredTrace | None:
        """Reads a trace by its 32 hexadecimal digits, or by the store's id; None if it is not stored."""
        with self.reading() as connection:
            return read_trace(connection, self.keys, trace_id)

    # --- content ---------------------------------------------------------------------------------

    def seal(self, trace_hex: str, texts: Mapping[str, str | None]) -> dict[str, Any]:
        """The values of a table's content columns, and of `sealed` and `key`; see `encryption.seal_columns`."""
        return seal_columns(self.keys, trace_hex, texts)

    def unseal(self, trace_hex: str, row: Mapping[Any, Any], names: Iterable[str]) -> dict[str, str | None]:
        """The texts of a row, encrypted or not; see `encryption.unseal_columns`."""
        return unseal_columns(self.keys, trace_hex, row, names)

    # --- life cycle ------------------------------------------------------------------------------

    def is_gone(self) -> bool:
        """Whether the file of the store was deleted or replaced since it was opened: writes to it would be lost."""
        return self.sqlite and self._file is not None and self._file != _identity(self.engine.url.database)

    def check_version(self) -> None:
        """Raises SettingError if a newer version of ragtrace has upgraded the tables meanwhile, StoreError as `reading`
        does."""
        with self.reading() as connection:
            schema_upgrade.check_newest(connection, self.name)

    def note_file(self) -> None:
        """Remembers which file the store is, for `is_gone`."""
        self._file = _identity(self.engine.url.database) if self.sqlite else None

    def close(self) -> None:
        """Closes the connections. Safe to call twice."""
        self.engine.dispose()


def _identity(path: str | None) -> tuple[int, int] | None:
    try:
        status = os.stat(path or "")
    except OSError:
        return None
    return status.st_dev, status.st_ino


def open_store(
    url: str, *, key: str | None = None, upgrade: bool = True, create: bool = True, is_sink: bool = False
) -> Store:
    """Opens a store, and creates or upgrades its tables if necessary.

    `url` is `sqlite:///FILE`, the path of a file, or `postgresql://USER:PASSWORD@HOST/NAME`. `key` contains one or more
    keys (see `encryption.Keys`) that encrypt the content; opening a new store with a key makes it an encrypted one.
    With `upgrade=False` a store of an older version is refused instead of changed; with `create=False` a file that does
    not exist is refused instead of created. `is_sink`: see `create_store_engine`.

    Raises SettingError for an invalid address, a store of a newer version, and a missing or wrong key; StoreError if
    the database does not answer; MissingExtraError if a package is missing."""
    keys = Keys(key) if key is not None else None
    if keys is not None:
        package("cryptography", "store", "A store with a key")
    address = engines.parse_url(url)
    if not create:
        engines.require_file(address)
    store = Store(engines.create_store_engine(address, is_sink=is_sink), engines.display_name(address), keys)
    with ExitStack() as undo:
        undo.callback(store.close)
        _prepare_tables(store, upgrade)
        store.note_file()
        undo.pop_all()
    return store


def _prepare_tables(store: Store, upgrade: bool) -> None:
    with store.reading() as connection:
        revision = schema_upgrade.check(connection, store.name)
        if revision == schema_upgrade.HEAD and _is_key_registered(store, connection):
            return
    if not upgrade and revision != schema_upgrade.HEAD:
        raise SettingError(f"the store {store.name} was written by an older version of ragtrace; open it with upgrade")
    with store.writing() as connection:
        schema_upgrade.upgrade(connection, store.name)
        if store.keys is not None and not _is_key_registered(store, connection):
            register_key(connection, store.keys.ids[0])


def _is_key_registered(store: Store, connection: Connection) -> bool:
    """Whether the first key is registered; True without a key. Raises SettingError for keys of another store."""
    registered = registered_keys(connection)
    keys = () if store.keys is None else store.keys.ids
    if missing := sorted(registered.difference(keys)):
        problem = "store_key names another key" if keys else "no key is set"
        raise SettingError(
            f"the store {store.name} is encrypted with the key {', '.join(missing)}, but {problem}; name the right key "
            "with the setting store_key"
        )
    if keys and not registered and connection.execute(select(traces.c.id).limit(1)).first() is not None:
        raise SettingError(
            f"the store {store.name} contains unencrypted data, but a key is set; encrypt it with "
            "`ragtrace store rekey` first"
        )
    return not keys or keys[0] in registered


def registered_keys(connection: Connection) -> set[str]:
    """The names of the keys that have encrypted content of the store."""
    names = connection.scalars(select(meta.c.name).where(meta.c.name.startswith("key:")))
    return {name.removeprefix("key:") for name in names}


def register_key(connection: Connection, name: str) -> None:
    """Records that a key encrypts content of the store from now on."""
    connection.execute(insert(meta).values(name=f"key:{name}", value=str(int(time.time()))))
