"""Where evaluations wait while the database does not take them: a bounded file that is only appended to, and emptied
when all that is in it has been stored. Processes that share a store share the file."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from sqlalchemy import URL

from ragtrace.chatlogs.encryption import Keys
from ragtrace.chatlogs.evaluation_json import from_json, to_json
from ragtrace.errors import StoreError
from ragtrace.records import Evaluation

SIZE = 256 * 1024 * 1024
"""Bytes that wait at most."""
_BATCH = 200


class SpillFullError(StoreError):
    """The spill file has reached its size."""


def spill_path(url: URL) -> Path:
    """Where a store's file is: beside SQLite's, for PostgreSQL in the user's folder for state
    (`$XDG_STATE_HOME/ragtrace`, by default `~/.local/state/ragtrace`)."""
    if url.get_backend_name() == "sqlite":
        return Path(f"{url.database}.spill")
    base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    name = hashlib.sha256(f"{url.host}:{url.port}/{url.database}?{url.query.get('host', '')}".encode()).hexdigest()[:16]
    return base / "ragtrace" / f"{name}.spill"


class Spill:
    """The file. Every process and thread may append; whoever empties it holds the others off."""

    def __init__(self, path: Path, keys: Keys | None = None, size: int = SIZE) -> None:
        self.path = path
        self._keys = keys
        self._size = size

    def __len__(self) -> int:
        """Bytes that wait."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def append(self, evaluations: Iterable[Evaluation]) -> None:
        """Write evaluations, and have them on the disk. Raises OSError if the disk does not take them and
        SpillFullError if there are too many already; then none of them is in the file."""
        lines = b"".join(self._line(each) for each in evaluations)
        with self._locked() as file:
            before = os.fstat(file).st_size
            if before + len(lines) > self._size:
                raise SpillFullError(f"{self.path} has reached {self._size} bytes")
            try:
                _write(file, lines)
                os.fsync(file)
            except OSError:
                os.ftruncate(file, before)
                raise

    def drain(self, store: Callable[[Sequence[Evaluation]], object]) -> tuple[int, int]:
        """Give all that waits to `store`, in batches, and empty the file; how many there were, and how many lines
        could not be read. What `store` raises goes on, and the file stays: it is given again the next time."""
        if not len(self):
            return 0, 0
        done = damaged = 0
        with self._locked() as file, self.path.open("rb") as lines:
            while batch := list(islice(lines, _BATCH)):
                found = [each for each in map(self._read, batch) if each is not None]
                damaged += len(batch) - len(found)
                if found:
                    store(found)
                done += len(found)
            os.ftruncate(file, 0)
        return done, damaged

    def forget(self, user_id: str) -> int:
        """Remove what waits of one user; how many lines. Raises StoreError for lines whose key was not given."""
        if not len(self):
            return 0
        kept, gone = [], 0
        with self._locked():
            for line in self.path.read_bytes().splitlines(keepends=True):
                found = self._read(line)
                if found is not None and str(found.trace.facts.user_id) == user_id:
                    gone += 1
                else:
                    kept.append(line)
            if gone:
                aside = self.path.with_name(f"{self.path.name}.new")
                with aside.open("wb") as new:
                    new.write(b"".join(kept))
                    new.flush()
                    os.fsync(new.fileno())
                aside.chmod(0o600)
                aside.replace(self.path)
        return gone

    def _line(self, evaluation: Evaluation) -> bytes:
        plain = to_json(evaluation).encode()
        if self._keys is None:
            return plain + b"\n"
        own = f"{evaluation.trace.trace_id:032x}"
        sealed = base64.b64encode(self._keys.seal(own, plain)).decode()
        return json.dumps({"sealed": sealed, "key": self._keys.ids[0], "of": own}).encode() + b"\n"

    def _read(self, line: bytes) -> Evaluation | None:
        """None for a line that a process which died did not finish, and for one that is none of ours."""
        try:
            given = json.loads(line)
            if "sealed" not in given:
                return from_json(line)
            if self._keys is None:
                raise StoreError(f"{self.path} is encrypted with the key {given['key']}, which was not given")
            return from_json(self._keys.unseal(given["of"], base64.b64decode(given["sealed"]), given["key"]))
        except (ValueError, KeyError, TypeError, AttributeError):
            return None

    @contextmanager
    def _locked(self) -> Iterator[int]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
                if not self._is_current(file):  # `forget` has put another one in its place meanwhile
                    continue
                self._mend(file)
                yield file
                return
            finally:
                os.close(file)  # and with it the lock

    def _is_current(self, file: int) -> bool:
        try:
            return os.path.samestat(self.path.stat(), os.fstat(file))
        except FileNotFoundError:
            return False

    def _mend(self, file: int) -> None:
        """End a line that a process which died did not finish, so that the next one does not become its end."""
        size = os.fstat(file).st_size
        if size and os.pread(file, 1, size - 1) != b"\n":
            _write(file, b"\n")


def _write(file: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(file, rest) :]


__all__ = ["SIZE", "Spill", "SpillFullError", "spill_path"]
