"""Keeps evaluations in a bounded file while the database does not take them. The file is only appended to, and emptied
when its whole content is stored. Processes that share a store share the file."""

import base64
import fcntl
import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from sqlalchemy import URL

from ragtrace.base.private_file import private_opener
from ragtrace.console.chatlogs.encryption import Keys
from ragtrace.console.chatlogs.evaluation_json import dumps, from_json
from ragtrace.errors import StoreError
from ragtrace.records import Evaluation

_log = logging.getLogger(__name__)
SIZE = 256 * 1024 * 1024
"""Largest size of the file in bytes."""
_BATCH = 200


class SpillFullError(StoreError):
    """The spill file has reached its largest size."""


def spill_path(url: URL) -> Path:
    """Returns the path of the spill file: next to SQLite's file; for PostgreSQL in the user's state folder
    (`$XDG_STATE_HOME/ragtrace`, by default `~/.local/state/ragtrace`)."""
    if url.get_backend_name() == "sqlite":
        return Path(f"{os.path.realpath(str(url.database))}.spill")
    base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    name = hashlib.sha256(f"{url.host}:{url.port}/{url.database}?{url.query.get('host', '')}".encode()).hexdigest()[:16]
    return base / "ragtrace" / f"{name}.spill"


class Spill:
    """The spill file. Any process and thread may append to it. A process that empties it locks it."""

    def __init__(self, path: Path, keys: Keys | None = None, size: int = SIZE) -> None:
        self.path = path
        self._keys = keys
        self._size = size
        self._warned = False

    def __len__(self) -> int:
        """Size of the file in bytes."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def append(self, evaluations: Iterable[Evaluation]) -> None:
        """Appends evaluations durably. Raises OSError if the disk does not take them, and SpillFullError if the file is
        full; then none of them is in the file."""
        lines = b"".join(self._line(each) for each in evaluations)
        with self._locked() as file:
            before = os.fstat(file).st_size
            if before + len(lines) > self._size:
                raise SpillFullError(f"the spill file {self.path} is full ({self._size} bytes)")
            try:
                _write(file, lines)
                os.fsync(file)
            except OSError:
                os.ftruncate(file, before)
                raise

    def drain(self, store: Callable[[Sequence[Evaluation]], int]) -> tuple[int, int]:
        """Passes all evaluations to `store` in batches, which returns how many it took, and empties the file, but for
        lines of a key that is not there. Returns the number of those taken and of unreadable lines. If `store` raises
        an exception, the file stays as it is."""
        if not len(self):
            return 0, 0
        done = damaged = 0
        foreign: list[bytes] = []
        with self._locked() as file, self.path.open("rb") as lines:
            while batch := list(islice(lines, _BATCH)):
                rest = len(foreign)
                evaluations = [each for line in batch if (each := self._read_or_keep(line, foreign)) is not None]
                damaged += len(batch) - len(evaluations) - (len(foreign) - rest)
                done += store(evaluations) if evaluations else 0
            os.ftruncate(file, 0)
            _write(file, b"".join(foreign))
        return done, damaged

    def forget(self, user_id: str) -> int:
        """Deletes the evaluations of one user and returns their number. Raises StoreError if a key is missing."""
        if not len(self):
            return 0
        lines, count = [], 0
        with self._locked():
            for line in self.path.read_bytes().splitlines(keepends=True):
                evaluation = self._read(line)
                if evaluation is not None and str(evaluation.trace.facts.user_id) == user_id:
                    count += 1
                else:
                    lines.append(line)
            if count:
                new_path = self.path.with_name(f"{self.path.name}.new")
                with open(new_path, "wb", opener=private_opener) as new:
                    new.write(b"".join(lines))
                    new.flush()
                    os.fsync(new.fileno())
                new_path.chmod(0o600)  # one that a crash left has the mode that it had
                new_path.replace(self.path)
        return count

    def _line(self, evaluation: Evaluation) -> bytes:
        plain = dumps(evaluation).encode()
        if self._keys is None:
            return plain + b"\n"
        trace_id = f"{evaluation.trace.trace_id:032x}"
        ciphertext = base64.b64encode(self._keys.seal(trace_id, plain)).decode()
        return json.dumps({"sealed": ciphertext, "key": self._keys.ids[0], "of": trace_id}).encode() + b"\n"

    def _read_or_keep(self, line: bytes, foreign: list[bytes]) -> Evaluation | None:
        try:
            return self._read(line)
        except StoreError as error:  # the lines behind it do not wait for its key
            foreign.append(line)
            if not self._warned:
                self._warned = True
                _log.warning("ragtrace: %s; its lines wait there", error)
            return None

    def _read(self, line: bytes) -> Evaluation | None:
        """Reads an evaluation; None for an unfinished line of a killed process, and for any other invalid line."""
        try:
            fields = json.loads(line)
            if "sealed" not in fields:
                return from_json(line)
            if self._keys is None:
                raise StoreError(
                    f"the spill file {self.path} is encrypted with the key {fields['key']}, but store_key is empty"
                )
            return from_json(self._keys.unseal(fields["of"], base64.b64decode(fields["sealed"]), fields["key"]))
        except (ValueError, KeyError, TypeError, AttributeError):
            return None

    @contextmanager
    def _locked(self) -> Iterator[int]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            file = private_opener(str(self.path), os.O_RDWR | os.O_APPEND | os.O_CREAT)
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
                if not self._is_current(file):  # `forget` has replaced the file meanwhile
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
        """Ends the unfinished line of a killed process, so that the next line is not appended to it."""
        size = os.fstat(file).st_size
        if size and os.pread(file, 1, size - 1) != b"\n":
            _write(file, b"\n")


def _write(file: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(file, rest) :]
