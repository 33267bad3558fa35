"""What the judge may spend, and what it answered before: one small database, in memory or in a file for many processes.
The spending may be in a budget that machines share instead."""

import contextlib
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

from ragtrace.base.private_file import create_private, switch_to_wal
from ragtrace.errors import SettingError
from ragtrace.evaluate.judge.budget import NANO, WINDOWS, BudgetError, Reservation, nano_limits, window_starts
from ragtrace.evaluate.judge.shared_budget import SharedBudget

_BUSY = 30.0
_LOOK = 0.05
_LONGEST_LOOK = 0.5
"""Seconds between two looks for room in the budget, at first and at most."""
_MOST_ANSWERS = 10_000
_SPENDING = "CREATE TABLE IF NOT EXISTS {} (kind TEXT, start INTEGER, nano INTEGER NOT NULL, PRIMARY KEY (kind, start))"
_OPEN = "CREATE TABLE IF NOT EXISTS {} (id INTEGER PRIMARY KEY AUTOINCREMENT, until REAL NOT NULL)"
_ANSWERS = "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer TEXT NOT NULL, made REAL NOT NULL)"


def forget_answers(path: str) -> int:
    """Deletes all remembered answers of a `judge_store` file and rewrites the file without them; their number. The
    spending stays. Raises SettingError for a file that cannot be used."""
    if not Path(path).exists():
        return 0
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=_BUSY, isolation_level=None)) as database:
            database.execute(_ANSWERS)
            count = database.execute("DELETE FROM answers").rowcount
            database.execute("VACUUM")
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error as error:
        raise SettingError(f"judge_store ({path}) cannot be used: {error}") from error
    return count


class Ledger:
    """Spending and answers. All threads may call it; with files, all processes that name them."""

    def __init__(
        self,
        path: str = "",
        budget_file: str = "",
        *,
        hour: float,
        day: float,
        clock: Callable[[], float] = time.time,
        shared: SharedBudget | None = None,
    ) -> None:
        """`path` is a file for both, `budget_file` one for the spending alone, which may then be shared without a text
        on the disk; if both are empty, everything is in memory. `hour` and `day` are limits in US dollars. `shared`,
        which has the same limits, counts the spending instead. At most 10,000 answers are remembered. Raises
        SettingError for a file that cannot be used."""
        self._limits = {"hour": hour, "day": day}
        self._nano = nano_limits(self._limits)
        self._shared = shared
        self._clock = clock
        self._path, self._budget_file = path, budget_file
        prefix = "money." if budget_file else ""
        self._spending, self._open_requests = f"{prefix}spending", f"{prefix}open_requests"
        self._lock = threading.Lock()
        self._puts = 0
        self._pid = os.getpid()
        self._database = self._open()

    def _open(self) -> sqlite3.Connection:
        try:
            for path in filter(None, (self._path, self._budget_file)):
                create_private(Path(path))  # answers may quote what users typed
            database = sqlite3.connect(
                self._path or ":memory:", timeout=_BUSY, isolation_level=None, check_same_thread=False
            )
            # Python 3.13 warns of a connection that is deleted open, as with a ledger that nobody closes.
            weakref.finalize(self, database.close).atexit = False
            if self._path:
                switch_to_wal(database, _BUSY)
            if self._budget_file:
                database.execute("ATTACH DATABASE ? AS money", (self._budget_file,))
                switch_to_wal(database, _BUSY, "money")
            database.execute(_SPENDING.format(self._spending))
            database.execute(_OPEN.format(self._open_requests))
            database.execute(_ANSWERS)
        except (OSError, sqlite3.Error) as error:
            names = " and ".join(filter(None, (self._path, self._budget_file)))
            raise SettingError(f"judge_store or judge_ledger ({names}) cannot be used: {error}") from error
        return database

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if self._pid != os.getpid():  # a connection must not be carried across a fork
                self._pid, self._database = os.getpid(), self._open()
            with self._database as database:  # commits at its end, or takes all of it back
                database.execute("BEGIN IMMEDIATE")
                yield database

    def reserve(self, nano: int, seconds: float = 0.0, patience: float = 0.0, id: str = "") -> Reservation:
        """Set money aside for a request that ends within `seconds`. In a shared budget, a second reservation with the
        same `id` takes the place of the first.

        Without room for it, waits up to `patience` seconds, as long as other requests are open: most cost less than was
        set aside for them. Raises BudgetError if a window has no room for it; then nothing is set aside."""
        end = time.monotonic() + patience
        pause = _LOOK
        while True:
            try:
                return self._shared.reserve(nano, seconds, id) if self._shared else self._reserve(nano, seconds)
            except BudgetError as error:
                if not error.may_pass or time.monotonic() >= end:
                    raise
            time.sleep(pause)
            pause = min(_LONGEST_LOOK, pause * 1.5)

    def _reserve(self, nano: int, seconds: float) -> Reservation:
        starts = tuple(window_starts(self._clock()).items())
        with self._transaction() as database:
            for kind, start in starts:
                limit = self._nano[kind]
                if limit is not None and nano and self._sum(database, kind, start) + nano > limit:
                    may_pass = nano <= limit and self._is_open(database)
                    raise BudgetError(kind, self._limits[kind], may_pass)
            query = f"INSERT INTO {self._open_requests} (until) VALUES (?)"
            row = database.execute(query, (self._clock() + seconds,)).lastrowid
            reserved = Reservation(str(row), nano, starts)
            self._add(database, reserved, nano)
        return reserved

    def _is_open(self, database: sqlite3.Connection) -> bool:
        """Whether a request is open. One that should have ended belongs to a process that has died."""
        database.execute(f"DELETE FROM {self._open_requests} WHERE until <= ?", (self._clock(),))
        return database.execute(f"SELECT 1 FROM {self._open_requests} LIMIT 1").fetchone() is not None

    def settle(self, reserved: Reservation, nano: int) -> None:
        """Put what a request really cost in the place of what was set aside for it, in the same windows."""
        if self._shared:
            self._shared.settle(reserved, nano)
            return
        with self._transaction() as database:
            database.execute(f"DELETE FROM {self._open_requests} WHERE id = ?", (int(reserved.id),))
            self._add(database, reserved, nano - reserved.nano)

    def _add(self, database: sqlite3.Connection, reserved: Reservation, nano: int) -> None:
        for kind, start in reserved.starts:
            database.execute(
                f"INSERT INTO {self._spending} VALUES (?, ?, ?) "
                "ON CONFLICT (kind, start) DO UPDATE SET nano = nano + excluded.nano",
                (kind, start, nano),
            )

    def spent(self, window: str) -> float:
        """US dollars spent or set aside in the present `hour` or `day`."""
        if self._shared:
            return self._shared.spent(window)
        with self._transaction() as database:
            return self._sum(database, window, window_starts(self._clock())[window]) / NANO

    def _sum(self, database: sqlite3.Connection, kind: str, start: int) -> int:
        query = f"SELECT nano FROM {self._spending} WHERE kind = ? AND start = ?"
        row = database.execute(query, (kind, start)).fetchone()
        return int(row[0]) if row else 0

    def headroom(self) -> float:
        """In [0, 1]: how the share of the budgets that is left compares with the share of their windows that is left.
        1 where spending at the present pace lasts to the end, 0 where nothing is left."""
        now = self._clock()
        headroom = 1.0
        for window, seconds in WINDOWS.items():
            limit = self._limits[window]
            if limit == float("inf"):
                continue
            left = 1 - self.spent(window) / limit if limit else 0.0
            headroom = min(headroom, max(0.0, left) / (1 - now % seconds / seconds))
        return headroom

    def get(self, key: str) -> str | None:
        """An answer given before."""
        with self._transaction() as database:
            row = database.execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
        return row[0] if row else None

    def put(self, key: str, answer: str) -> None:
        """Remember an answer; beyond the bound the oldest are forgotten."""
        with self._transaction() as database:
            database.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", (key, answer, self._clock()))
            self._puts += 1
            if self._puts % 100 == 0:
                database.execute(
                    "DELETE FROM answers WHERE key NOT IN (SELECT key FROM answers ORDER BY made DESC LIMIT ?)",
                    (_MOST_ANSWERS,),
                )

    def close(self) -> None:
        """Close the database, and the connections to a shared budget."""
        if self._shared:
            self._shared.close()
        with self._lock:
            self._database.close()
