"""One application in several processes: each writes what it counted, and the one that is scraped shows the sum.

A directory holds a file for each process and one, `ended`, for all that ended. A file is replaced as a whole, so a
reader sees one moment of its process. Its process holds a lock on it while it lives, which the kernel releases however
the process dies; a process id does not tell this, because it is used again. A scrape shows only what is in files, so
what it has shown is still there after a `kill -9`, and no counter falls."""

import contextlib
import fcntl
import hashlib
import json
import logging
import os
import secrets
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from prometheus_client.samples import Exemplar

from ragtrace_prometheus.families import Family
from ragtrace_prometheus.totals import Snapshot, compact, merge

_log = logging.getLogger(__name__)
_ENDED = "ragtrace-ended.json"
_TRIES = 100
"""How often a file is opened that is replaced meanwhile; its process writes once in a second."""
_OLD = 60.0
"""Seconds after which an unfinished file is removed."""
_FIRST_COUNTS = 3.0
"""Seconds that a scrape waits at most for a process that has not written what it counted alone."""
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class _File:
    """What is in a file."""

    path: Path
    snapshots: Sequence[Snapshot] = ()
    """Of a process that ended only the metrics that outlive it."""
    alive: bool = False
    """Whether its process lives."""
    absorbed: frozenset[str] = frozenset()
    """Names of files whose counts are in this one too; they could not be removed yet."""
    readable: bool = True


def meeting_place(*identity: object) -> Path:
    """The directory in which the processes with this identity (of one user, started in one folder) meet by themselves.

    Raises OSError where it belongs to somebody else."""
    key = hashlib.sha256(repr((*identity, os.getcwd())).encode()).hexdigest()[:16]
    parent = Path(tempfile.gettempdir()) / f"ragtrace-{os.getuid()}"
    parent.mkdir(mode=0o700, exist_ok=True)
    state = parent.lstat()
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid() or state.st_mode & 0o022:
        raise PermissionError(f"{parent} is not a directory that this user alone may write in")
    return parent / f"metrics-{key}"


class Processes:
    """This process's place in the directory. Not thread-safe: the sink holds a lock around each use."""

    def __init__(self, directory: str | os.PathLike[str], *, lasting: bool = True) -> None:
        """The counts in a `lasting` directory outlive its processes. Another one begins at 0 with the first process,
        which writes there only when a second one comes. Raises OSError for a directory that cannot be created or
        written in."""
        self._directory = Path(directory)
        self._lasting = self._company = lasting
        self._file = -1
        self.reset()
        with self._locked(fcntl.LOCK_SH):
            pass
        self._compact()

    def reset(self) -> None:
        """Begin with a file that no process had before; the process id in its name is for people. A forked child is a
        process of its own, and leaves the parent's file to the parent."""
        self.close()
        self._name = f"ragtrace-{os.getpid()}-{secrets.token_hex(8)}.json"

    def write(self, families: Snapshot) -> None:
        """Replace this process's file. Raises OSError where that fails; then the previous one remains."""
        self._directory.mkdir(parents=True, exist_ok=True)
        file = _replace(self._directory / self._name, [families])
        self.close()
        self._file = file

    def close(self) -> None:
        """Release the file: if no other was written, the next scrape adds it to those that ended."""
        file, self._file = self._file, -1  # first: a child that is forked right here would close it again, and fail
        if file >= 0:
            os.close(file)

    def enter(self, work: Callable[[bool], R]) -> R:
        """Call `work` with whether this process is the first one, and let no other process enter meanwhile.

        Returns what `work` returns. Raises OSError."""
        with self._locked(fcntl.LOCK_EX):
            first = not self._company and not any(file.alive for file in self._others(self._name))
            if first:
                self._clear()
            if self._file < 0:
                self.write([])  # the others see that it lives
            return work(first)

    def has_company(self) -> bool:
        """Whether there is another process, or was one: then this one writes what it counts."""
        if not self._company:
            self._company = any(path.name != self._name for path in self._directory.glob("ragtrace-*.json"))
        return self._company

    def leave(self) -> None:
        """Release the file. The last process removes the files of a directory that is not lasting."""
        self.close()
        if not self._lasting:
            with contextlib.suppress(OSError), self._locked(fcntl.LOCK_EX):
                if not any(file.alive for file in self._others("")):
                    self._name = ""
                    self._clear()

    def _clear(self) -> None:
        for path in self._directory.glob("ragtrace-*.json"):
            if path.name != self._name:
                path.unlink(missing_ok=True)

    def merged(self, own: Snapshot | None) -> list[Family]:
        """What all processes wrote; `own` is what this one wrote last, None to read that too. Raises OSError."""
        until = time.monotonic() + _FIRST_COUNTS
        while True:
            with self._locked(fcntl.LOCK_SH):
                files = self._others(self._name if own is not None else "")
                ended = self._ended()
            if time.monotonic() > until or all(any(file.snapshots) for file in files if file.alive and file.readable):
                break
            # A process that was alone notices this one in a second: without its counts a total would fall.
            time.sleep(0.05)
        if not all(file.alive for file in files):
            with contextlib.suppress(OSError):  # a full disk: they are read one by one until there is room
                self._compact()
        counted = [file for file in (*files, ended) if file.path.name not in ended.absorbed]
        return merge([own or (), *(snapshot for file in counted for snapshot in file.snapshots)])

    def _compact(self) -> None:
        """Put the files of processes that ended into one. Does nothing while another process does so or reads.

        A file that was added, but could not be removed, is named in `ended` and not counted again."""
        with contextlib.suppress(BlockingIOError), self._locked(fcntl.LOCK_EX | fcntl.LOCK_NB):
            for path in self._directory.glob("ragtrace-*.tmp"):
                with contextlib.suppress(OSError):
                    if time.time() - path.stat().st_mtime > _OLD:
                        path.unlink()
            ended = self._ended()
            files = [file for file in self._others(self._name) if not file.alive]
            new = [file for file in files if file.readable and file.path.name not in ended.absorbed]
            if new:
                snapshots = compact(snapshot for file in (ended, *new) for snapshot in file.snapshots)
                os.close(_replace(self._directory / _ENDED, snapshots, [file.path.name for file in files]))
            for file in files:
                if not file.readable:
                    _log.warning("ragtrace: %s cannot be read; what that process counted is lost", file.path)
                file.path.unlink(missing_ok=True)

    def _others(self, own: str) -> list[_File]:
        paths = sorted(self._directory.glob("ragtrace-*-*.json"))
        return [file for path in paths if path.name != own and (file := _read(path)) is not None]

    def _ended(self) -> _File:
        path = self._directory / _ENDED
        file = _read(path)
        if file is not None and not file.readable:
            _log.warning("ragtrace: %s cannot be read; what ended processes counted is lost", path)
            with contextlib.suppress(OSError):
                path.replace(path.with_suffix(".broken"))
        return file or _File(path)

    @contextlib.contextmanager
    def _locked(self, operation: int) -> Iterator[None]:
        self._directory.mkdir(parents=True, exist_ok=True)
        file = os.open(self._directory / "ragtrace.lock", os.O_RDONLY | os.O_CREAT, 0o644)
        try:
            fcntl.flock(file, operation)
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)  # a child that was forked meanwhile has this file open too
            os.close(file)


def _replace(path: Path, snapshots: Sequence[Snapshot], absorbed: Sequence[str] = ()) -> int:
    """Write a file whole or not at all. Returns its descriptor, which holds its lock."""
    unfinished = path.with_suffix(".tmp")
    file = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # first: no file of a living process is ever unlocked
        with os.fdopen(file, "wb", closefd=False) as stream:
            stream.write(_text(snapshots, absorbed))
        unfinished.replace(path)
    except BaseException:  # an interrupt, too, leaves neither a half-written file nor an open one
        os.close(file)
        unfinished.unlink(missing_ok=True)
        raise
    return file


def _read(path: Path) -> _File | None:
    """A file and whether its process lives; None if it is gone."""
    try:
        text, alive = _open(path)
        content = json.loads(text)
        families = [[_family(each) for each in snapshot] for snapshot in content["snapshots"]]
        snapshots = [[each for each in f if alive or each.type != "gauge" or each.merge == "latest"] for f in families]
        return _File(path, snapshots, alive, frozenset(content["absorbed"]))
    except FileNotFoundError:
        return None
    except (ValueError, LookupError, TypeError):  # the machine went down while it was written
        return _File(path, alive=alive, readable=False)


def _open(path: Path) -> tuple[bytes, bool]:
    """The content of a file, and whether it is locked."""
    for _ in range(_TRIES):
        with path.open("rb") as stream:
            alive = False
            try:
                fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
                fcntl.flock(stream, fcntl.LOCK_UN)
            except BlockingIOError:
                alive = True
            if alive or os.fstat(stream.fileno()).st_nlink:
                return stream.read(), alive
            # Its process has written a new one just now.
    return path.read_bytes(), True


def _text(snapshots: Sequence[Snapshot], absorbed: Sequence[str]) -> bytes:
    # Each metric by itself: while one is written no other thread runs.
    lists = (",\n".join(json.dumps(_as_json(f), separators=(",", ":")) for f in snapshot) for snapshot in snapshots)
    return f'{{"absorbed":{json.dumps(absorbed)},"snapshots":[[{"],[".join(lists)}]]}}\n'.encode()


def _as_json(family: Family) -> list[Any]:
    described = [family.type, family.name, family.documentation, family.labels]
    return [described, family.bounds[:-1], family.merge, family.keys, family.values, list(family.exemplars.items())]


def _family(content: Any) -> Family:
    """Raises ValueError, LookupError or TypeError for what is no family."""
    described, buckets, merging, keys, values, exemplars = content
    family = Family(*described, buckets=buckets, merge=merging)
    if len(values) != len(keys) * len(family.lines):
        raise ValueError(f"{family.name}: {len(values)} values of {len(keys)} series")
    return family.replaced(
        [tuple(key) for key in keys], values, {place: Exemplar(*exemplar) for place, exemplar in exemplars}
    )
