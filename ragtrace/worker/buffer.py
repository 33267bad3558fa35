"""The buffer on disk: what was acknowledged survives the death of the process.

One thread writes. It commits what waits together, so that many senders share the cost of one commit. WAL with
`synchronous = FULL`: a commit is on the disk before the sender is answered."""

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from ragtrace.base.background import Background, Bounds
from ragtrace.base.private_file import create_private, private_opener
from ragtrace.capture.spans.pieces import SpanGroup
from ragtrace.errors import SettingError

_TABLES = """
CREATE TABLE IF NOT EXISTS pieces (row INTEGER PRIMARY KEY, trace_id BLOB NOT NULL, payload BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS outcomes (
  trace_id BLOB PRIMARY KEY, marks BLOB NOT NULL, events BLOB NOT NULL, annotations BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS ended (trace_id BLOB PRIMARY KEY, at REAL NOT NULL) WITHOUT ROWID;
"""
_VERSION = 2
_RESERVE = 4 * 1024 * 1024
_BATCH = 256
_MEMORY = 3_600.0
"""Seconds for which an ended trace is remembered: what comes of it again is not evaluated again."""
_PRUNE = 60.0
_SQL_PIECE = "INSERT INTO pieces VALUES (?, ?, ?)"


@dataclass(frozen=True, slots=True)
class TraceOutcome:
    """What an evaluated trace leaves with."""

    marks: bytes
    """An encoded `ExportTraceServiceRequest` with one span for each root: its id, and the attributes that are added."""
    events: bytes
    """An encoded `ExportLogsServiceRequest`."""
    annotations: bytes = b""
    """The scores for Phoenix, MLflow and Langfuse, as `ragtrace_backends.annotations.encode` writes them."""


class Buffer:
    """Where spans are held until they are sent. This one holds nothing itself: the pieces stay in the table of open
    traces."""

    is_durable = False

    def error(self) -> str:
        """Why nothing can be written at present; an empty text if it can."""
        return ""

    def append(self, pieces: Sequence[SpanGroup]) -> None:
        """Hold these pieces, and give each its row. Returns when they are safe. Raises OSError where they are not."""

    def save(self, outcomes: Sequence[tuple[bytes, TraceOutcome]]) -> None:
        """Remember outcomes by trace id. Raises OSError where that fails."""

    def finish(self, rows: Sequence[int], trace_ids: Sequence[bytes], reason: str = "") -> None:
        """Forget pieces that were sent, or dropped for this reason, and remember that these traces have ended. Of their
        outcomes the annotations stay. Raises OSError where that fails."""

    def fail(self, rows: Sequence[int]) -> None:
        """An error of this process has lost these pieces: the next one may try them again."""

    def forget(self, trace_ids: Sequence[bytes]) -> None:
        """Forget the outcomes of traces that were sent and whose annotations were delivered. Does not wait: what a full
        disk keeps is delivered once more by the next process, which changes nothing."""

    def pieces(self) -> Iterator[tuple[int, bytes, bytes]]:
        """Row, trace id and payload of each piece that an earlier process left."""
        return iter(())

    def outcomes(self) -> Mapping[bytes, TraceOutcome]:
        """The outcomes that an earlier process left, by trace id."""
        return {}

    def ended(self) -> list[bytes]:
        """The traces that ended of late, the oldest first."""
        return []

    def close(self) -> None:
        """Write what waits."""


_Work = Callable[[sqlite3.Connection], object]


class DiskBuffer(Buffer):
    """A buffer in one SQLite file, of one process at a time."""

    is_durable = True

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Raises SettingError where the file cannot be used, and where another worker uses it."""
        self._path = os.fspath(path)
        try:
            self._connection = self._open()
        except (sqlite3.Error, OSError) as error:
            raise SettingError(
                f"buffer {self._path!r} cannot be used: {error}; give a file that this user may write and that no "
                "other worker has"
            ) from error
        self._reserve = f"{self._path}-reserve"
        self._keep_reserve()
        self._last = self._connection.execute("SELECT coalesce(max(row), 0) FROM pieces").fetchone()[0]
        self._pruned = time.monotonic()
        self._error = ""
        bounds = Bounds(items=1_000_000, batch=_BATCH)
        self._queue: Background[tuple[_Work, Future[None]]] = Background("ragtrace-buffer", self._commit, bounds)

    def _open(self) -> sqlite3.Connection:
        Path(self._path).parent.mkdir(parents=True, exist_ok=True)
        create_private(Path(self._path))
        connection = sqlite3.connect(self._path, timeout=0.0, isolation_level=None, check_same_thread=False)
        with contextlib.ExitStack() as undo:
            undo.callback(connection.close)
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")  # two workers would each send what the other holds
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA journal_size_limit = 67108864")
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, _VERSION):
                raise OSError(f"it was written by another release (version {version}, not {_VERSION})")
            if not version and connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                raise OSError("it is another database, not a worker's buffer")
            if not version:  # on a full disk, what was acknowledged must still be sent
                connection.executescript(_TABLES)
                connection.execute(f"PRAGMA user_version = {_VERSION}")
            undo.pop_all()
        return connection

    def _keep_reserve(self) -> None:
        """Hold room on the disk, which is given up where the disk is full: what was sent can then be removed."""
        ignored = contextlib.suppress(OSError, AttributeError)  # not on every system
        with ignored, open(self._reserve, "ab", opener=private_opener) as file:
            os.posix_fallocate(file.fileno(), 0, _RESERVE)

    # --- writing: the one thread -----------------------------------------------------------------

    def _commit(self, items: list[tuple[_Work, Future[None]]]) -> None:
        error: Exception | None = None
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            for work, _ in items:
                work(self._connection)
            if (now := time.monotonic()) - self._pruned > _PRUNE:
                self._pruned = now
                self._keep_reserve()
                self._connection.execute("DELETE FROM ended WHERE at < ?", (time.time() - _MEMORY,))
            self._connection.execute("COMMIT")
        except sqlite3.Error as failure:
            error = OSError(f"the buffer {self._path} cannot be written: {failure}")
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            with contextlib.suppress(OSError):
                os.remove(self._reserve)
        self._error = str(error or "")
        for _, future in items:
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

    def _do(self, work: _Work) -> None:
        future: Future[None] = Future()
        if self._queue.put((work, future)) is not None:
            raise OSError("the buffer is closed")
        future.result()

    def error(self) -> str:
        """See `Buffer`. After an error it also has something written, so that the answer changes when the disk does."""
        if self._error and not self._queue.waiting:
            # A row that is removed with the next old ones: whether that succeeds is what matters.
            statement = "INSERT OR REPLACE INTO ended VALUES (x'', 0)"
            self._queue.put((lambda connection: connection.execute(statement), Future()))
        return self._error

    def append(self, pieces: Sequence[SpanGroup]) -> None:
        with self._queue.lock:
            for piece in pieces:
                self._last += 1
                piece.row = self._last
        rows = [(piece.row, piece.trace_id, piece.payload) for piece in pieces]
        self._do(lambda connection: connection.executemany(_SQL_PIECE, rows))

    def save(self, outcomes: Sequence[tuple[bytes, TraceOutcome]]) -> None:
        rows = [(trace_id, each.marks, each.events, each.annotations) for trace_id, each in outcomes]
        self._do(lambda connection: connection.executemany("INSERT OR REPLACE INTO outcomes VALUES (?, ?, ?, ?)", rows))

    def finish(self, rows: Sequence[int], trace_ids: Sequence[bytes], reason: str = "") -> None:
        now = time.time()

        def work(connection: sqlite3.Connection) -> None:
            connection.executemany("DELETE FROM pieces WHERE row = ?", [(row,) for row in rows])
            ids = [(each,) for each in trace_ids]
            connection.executemany("DELETE FROM outcomes WHERE trace_id = ? AND annotations = x''", ids)
            connection.executemany("UPDATE outcomes SET marks = x'', events = x'' WHERE trace_id = ?", ids)
            connection.executemany("INSERT OR REPLACE INTO ended VALUES (?, ?)", [(each, now) for each in trace_ids])

        self._do(work)

    def forget(self, trace_ids: Sequence[bytes]) -> None:
        ids = [(each,) for each in trace_ids]
        statement = "DELETE FROM outcomes WHERE trace_id = ?"
        self._queue.put((lambda connection: connection.executemany(statement, ids), Future()))

    # --- reading: before the first writing -------------------------------------------------------

    def pieces(self) -> Iterator[tuple[int, bytes, bytes]]:
        yield from self._connection.execute("SELECT row, trace_id, payload FROM pieces ORDER BY row")

    def outcomes(self) -> dict[bytes, TraceOutcome]:
        rows = self._connection.execute("SELECT trace_id, marks, events, annotations FROM outcomes")
        return {trace_id: TraceOutcome(*outcome) for trace_id, *outcome in rows}

    def ended(self) -> list[bytes]:
        since = time.time() - _MEMORY
        return [
            row[0] for row in self._connection.execute("SELECT trace_id FROM ended WHERE at > ? ORDER BY at", (since,))
        ]

    def close(self) -> None:
        """Write what waits, and close the file."""
        self._queue.close(10.0)
        self._connection.close()
