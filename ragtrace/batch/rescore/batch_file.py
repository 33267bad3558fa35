"""What a run in batches keeps until its end, in one file of SQLite: requests to the judge, batches, replies."""

import contextlib
import json
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ragtrace.base.private_file import create_private
from ragtrace.errors import SettingError
from ragtrace.evaluate.judge.budget import Reservation

_APPLICATION = 0x52544A42
"""That SQLite keeps in the file: what it is."""
_TABLES = """
CREATE TABLE IF NOT EXISTS batches (number INTEGER PRIMARY KEY, reserved TEXT, file TEXT, batch TEXT, ended INTEGER);
CREATE TABLE IF NOT EXISTS requests (
    id TEXT PRIMARY KEY, body TEXT NOT NULL, nano INTEGER NOT NULL, number INTEGER, reply TEXT, error TEXT
);
CREATE INDEX IF NOT EXISTS requests_of_batch ON requests (number);
CREATE TABLE IF NOT EXISTS run (headroom REAL NOT NULL);
"""


@dataclass(frozen=True, slots=True)
class WaitingRequest:
    """A request that no batch has."""

    id: str
    body: str
    """JSON, as a single call would send it."""
    nano: int
    """What it can cost at most, at the price of batches, in billionths of a dollar."""


@dataclass(frozen=True, slots=True)
class SentBatch:
    """A batch that has not ended. `file` and `batch` are the provider's ids, empty as long as it has given none."""

    number: int
    reserved: Reservation
    file: str
    batch: str


@dataclass(frozen=True, slots=True)
class SavedReply:
    """A chat completion as JSON, or the reason why it is missing."""

    text: str
    error: str


class BatchFile:
    """The requests, batches and replies of one run. Safe to use from threads; one process at a time has the file."""

    def __init__(self, path: Path) -> None:
        """Creates the file with mode 0600, or continues it. Raises SettingError where it cannot be used, and where
        another process has it."""
        self._path = path
        self._lock = threading.RLock()
        try:
            create_private(path)  # requests quote what users typed
            self._database = sqlite3.connect(path, timeout=0.5, isolation_level=None, check_same_thread=False)
            with contextlib.ExitStack() as undo:
                undo.callback(self._database.close)
                # The lock stays until the file is closed: two commands would send the same requests twice.
                self._database.execute("PRAGMA locking_mode=EXCLUSIVE")
                self._database.execute("BEGIN EXCLUSIVE")
                self._database.execute("COMMIT")
                if not self._is_own():
                    raise SettingError(f"--judge-batch: {path} is another database; give the name of a new file")
                self._database.execute(f"PRAGMA application_id={_APPLICATION}")
                self._database.executescript(_TABLES)
                undo.pop_all()
        except (OSError, sqlite3.Error) as error:
            why = "another command uses it" if "locked" in str(error) else str(error)
            raise SettingError(f"--judge-batch: the file {path} cannot be used: {why}") from error

    def _is_own(self) -> bool:
        """Whether the file is new or of this class: it is removed at the end."""
        tables = self._database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        return not tables or self._database.execute("PRAGMA application_id").fetchone()[0] == _APPLICATION

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All changes inside are stored together at the end, or none of them."""
        with self._lock:
            is_inner = self._database.in_transaction
            if is_inner:
                yield self._database
                return
            with self._database:
                self._database.execute("BEGIN")
                yield self._database

    def begin(self) -> None:
        """Starts a transaction that ends with `commit`: many requests are added at once."""
        with self._lock:
            self._database.execute("BEGIN")

    def commit(self) -> None:
        """Stores what was added since `begin`."""
        with self._lock:
            self._database.execute("COMMIT")

    def first_headroom(self, headroom: float) -> float:
        """The headroom of the budget when the run began; `headroom` is that of now."""
        with self.transaction() as database:
            row = database.execute("SELECT headroom FROM run").fetchone()
            if row is None:
                database.execute("INSERT INTO run VALUES (?)", (headroom,))
        return headroom if row is None else float(row[0])

    def add(self, request: WaitingRequest) -> None:
        """Adds a request; one of the same id stays as it is."""
        with self.transaction() as database:
            query = "INSERT OR IGNORE INTO requests (id, body, nano) VALUES (?, ?, ?)"
            database.execute(query, (request.id, request.body, request.nano))

    def reply(self, id: str) -> SavedReply | None:
        """The reply to a request; None for one without."""
        with self._lock:
            row = self._database.execute("SELECT reply, error FROM requests WHERE id = ?", (id,)).fetchone()
        return SavedReply(row[0] or "", row[1] or "") if row and (row[0] or row[1]) else None

    def waiting(self) -> Iterator[WaitingRequest]:
        """The requests that no batch has, in the order of their ids, which does not change."""
        last = ""
        while True:
            with self._lock:
                query = "SELECT id, body, nano FROM requests WHERE number IS NULL AND id > ? ORDER BY id LIMIT 100"
                rows = self._database.execute(query, (last,)).fetchall()
            yield from (WaitingRequest(*row) for row in rows)
            if not rows:
                return
            last = rows[-1][0]

    def forget_unanswered(self) -> None:
        """Removes the requests that no open batch has and that have no reply: they are collected again."""
        with self.transaction() as database:
            closed = "number IS NULL OR number NOT IN (SELECT number FROM batches WHERE ended IS NULL)"
            database.execute(f"DELETE FROM requests WHERE reply IS NULL AND ({closed})")

    def assign(self, requests: Sequence[str], reserved: Reservation) -> None:
        """Makes a batch of these requests, for which this money is set aside."""
        with self.transaction() as database:
            value = json.dumps([reserved.id, reserved.nano, reserved.starts, reserved.owner])
            number = database.execute("INSERT INTO batches (reserved) VALUES (?)", (value,)).lastrowid
            query = "UPDATE requests SET number = ? WHERE id = ?"
            database.executemany(query, [(number, id) for id in requests])

    def requests(self, number: int) -> list[WaitingRequest]:
        """The requests of a batch, in the order of their ids."""
        with self._lock:
            query = "SELECT id, body, nano FROM requests WHERE number = ? ORDER BY id"
            return [WaitingRequest(*row) for row in self._database.execute(query, (number,))]

    def open_batches(self) -> list[SentBatch]:
        """The batches that have not ended."""
        with self._lock:
            query = "SELECT number, reserved, file, batch FROM batches WHERE ended IS NULL ORDER BY number"
            rows = self._database.execute(query).fetchall()
        return [SentBatch(number, _reservation(text), file or "", batch or "") for number, text, file, batch in rows]

    def note(self, number: int, what: Literal["file", "batch"], id: str) -> None:
        """Keeps the provider's id of a batch or of its file."""
        with self.transaction() as database:
            database.execute(f"UPDATE batches SET {what} = ? WHERE number = ?", (id, number))

    def end(self, number: int, replies: Sequence[tuple[str, SavedReply]]) -> None:
        """Keeps the replies to the requests with these ids; the batch has ended. Ids that it does not have are
        ignored."""
        with self.transaction() as database:
            query = "UPDATE requests SET reply = ?, error = ? WHERE id = ? AND number = ?"
            rows = [(reply.text or None, reply.error or None, id, number) for id, reply in replies]
            database.executemany(query, rows)
            database.execute("UPDATE batches SET ended = 1 WHERE number = ?", (number,))

    def withdraw(self, number: int) -> None:
        """Forgets a batch that was not started: its requests wait again."""
        with self.transaction() as database:
            database.execute("UPDATE requests SET number = NULL WHERE number = ?", (number,))
            database.execute("DELETE FROM batches WHERE number = ?", (number,))

    def close(self, *, remove: bool) -> None:
        """Closes the file, and removes it if the run is done."""
        with self._lock:
            self._database.close()
        if remove:
            self._path.unlink(missing_ok=True)


def _reservation(text: str) -> Reservation:
    id, nano, starts, owner = json.loads(text)
    return Reservation(id, nano, tuple((kind, start) for kind, start in starts), owner)
