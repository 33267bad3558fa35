"""One application in several processes: each writes what it counted, and whoever is scraped shows the sum.

A directory holds a file for each process and one, `ended`, for all that are gone. A file is replaced as a whole, so a
reader finds one moment of its process. Its process holds a lock on it while it lives, which the kernel lets go however
it dies: process ids, which are used again, say nothing here. A scrape shows only what stands in files; so what it has
shown is there after a `kill -9` as well, and no counter falls.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragtrace_prometheus.families import Exemplar, Spec, Taken
from ragtrace_prometheus.merging import Part, Process, merge

_log = logging.getLogger(__name__)
_ENDED = "ragtrace-ended.json"
_LOCK = "ragtrace.lock"
_TRIES = 100
"""How often a file is opened that is replaced meanwhile; its process writes once in a second."""
_UNREADABLE = (ValueError, LookupError, TypeError)
"""What `_parts` raises."""
_OLD = 60.0
"""Seconds after which a file that nobody finished writing is taken away."""


@dataclass(frozen=True, slots=True)
class _File:
    """A process's file, read."""

    path: Path
    process: Process
    readable: bool = True


class Processes:
    """This process's place in the directory. Not safe for several threads: the sink's lock is around it."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        """Raises OSError for a directory that cannot be made or written in."""
        self._directory = Path(directory)
        self._file = -1
        self._name = _new_name()
        with self._locked(fcntl.LOCK_SH):
            pass
        self.compact()

    def forked(self) -> None:
        """In a forked child, which is a process of its own; the parent's file is the parent's."""
        if self._file >= 0:
            os.close(self._file)
        self._file, self._name = -1, _new_name()

    # --- writing -------------------------------------------------------------------------------------

    def write(self, taken: Sequence[Taken]) -> None:
        """Replace this process's file. Raises OSError where that cannot be done; then the one before it stands."""
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._directory / self._name
        made = _replace(path, _text([Part(each) for each in taken]), lock=True)
        old, self._file = self._file, made
        if old >= 0:
            os.close(old)

    def close(self) -> None:
        """This process counts no more: the next scrape adds its file to those that ended."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    # --- reading -------------------------------------------------------------------------------------

    def merged(self, own: Sequence[Taken] | None) -> list[Taken]:
        """What all processes wrote; `own` is what this one wrote last, None to read that too. Raises OSError."""
        with self._locked(fcntl.LOCK_SH):
            files = list(self._others(self._name if own is not None else ""))
            ended, absorbed = self._ended()
        found = [Process([Part(each) for each in own])] if own is not None else []
        found += [file.process for file in files if file.path.name not in absorbed]
        if not all(file.process.alive for file in files):
            with contextlib.suppress(OSError):  # a full disk: they are read one by one until there is room
                self.compact()
        return [part.taken for part in merge([*found, ended])]

    def compact(self) -> None:
        """Put the files of processes that ended into one. Where another process is at it or reads, it is left to it.

        A file that was added, but could not be taken away, is named in `ended` and not counted again."""
        with contextlib.suppress(BlockingIOError), self._locked(fcntl.LOCK_EX | fcntl.LOCK_NB):
            self._remove_unfinished()
            ended, absorbed = self._ended()
            gone = [file for file in self._others(self._name) if not file.process.alive]
            new = [file for file in gone if file.readable and file.path.name not in absorbed]
            if new:
                parts = merge([ended, *(file.process for file in new)], keep=True)
                names = [file.path.name for file in gone]
                _replace(self._directory / _ENDED, _text(parts, names))
            for file in gone:
                if not file.readable:
                    _log.warning("ragtrace: %s cannot be read; what that process counted is lost", file.path)
                file.path.unlink(missing_ok=True)

    def _others(self, but: str) -> Iterator[_File]:
        for path in sorted(self._directory.glob("ragtrace-*-*.json")):
            if path.name != but and (file := _read(path)) is not None:
                yield file

    def _ended(self) -> tuple[Process, frozenset[str]]:
        path = self._directory / _ENDED
        try:
            known = json.loads(path.read_bytes())
            return Process(_parts(known), alive=False), frozenset(known["absorbed"])
        except FileNotFoundError:
            pass
        except _UNREADABLE:
            _log.warning("ragtrace: %s cannot be read; what ended processes counted is lost", path)
            with contextlib.suppress(OSError):
                path.replace(path.with_suffix(".broken"))
        return Process((), alive=False), frozenset()

    def _remove_unfinished(self) -> None:
        for path in self._directory.glob("ragtrace-*.tmp"):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > _OLD:
                    path.unlink()

    @contextlib.contextmanager
    def _locked(self, how: int) -> Iterator[None]:
        self._directory.mkdir(parents=True, exist_ok=True)
        file = os.open(self._directory / _LOCK, os.O_RDONLY | os.O_CREAT, 0o644)
        try:
            fcntl.flock(file, how)
            try:
                yield
            finally:
                fcntl.flock(file, fcntl.LOCK_UN)  # a child that was forked meanwhile has this file open too
        finally:
            os.close(file)


def _new_name() -> str:
    """A file's name that no process had before; the process's id in it is for people."""
    return f"ragtrace-{os.getpid()}-{secrets.token_hex(8)}.json"


def _replace(path: Path, text: bytes, lock: bool = False) -> int:
    """Write a file whole or not at all. With `lock` its descriptor, which holds the lock, else -1."""
    unfinished = path.with_suffix(".tmp")
    file = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    with contextlib.ExitStack() as undo:
        undo.callback(unfinished.unlink, missing_ok=True)
        undo.callback(os.close, file)
        if lock:  # before the file has its name: under it there is never an unlocked file of a living process
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with os.fdopen(file, "wb", closefd=False) as stream:
            stream.write(text)
        unfinished.replace(path)
        if lock:
            undo.pop_all()  # whoever asked for the lock closes the file
            return file
    return -1


def _read(path: Path) -> _File | None:
    """A process's file and whether its process lives; None if it is gone."""
    try:
        text, alive = _opened(path)
    except FileNotFoundError:
        return None
    try:
        return _File(path, Process(_parts(json.loads(text)), alive))
    except _UNREADABLE:  # the machine went down while it was written
        return _File(path, Process((), alive), readable=False)


def _opened(path: Path) -> tuple[bytes, bool]:
    for _ in range(_TRIES):
        with path.open("rb") as stream:
            alive = _is_locked(stream.fileno())
            if alive or os.fstat(stream.fileno()).st_nlink:
                return stream.read(), alive
            # Its process has written a new one just now.
    return path.read_bytes(), True


def _is_locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(file, fcntl.LOCK_UN)
    return False


# --- the format: JSON, one metric after the other -----------------------------------------------------


def _text(parts: Sequence[Part], absorbed: Sequence[str] = ()) -> bytes:
    # Each metric by itself: while one is written no other thread runs.
    families = ",\n".join(json.dumps(_plain(part), separators=(",", ":")) for part in parts)
    return f'{{"absorbed":{json.dumps(absorbed)},"families":[\n{families}]}}\n'.encode()


def _plain(part: Part) -> dict[str, Any]:
    taken, spec = part.taken, part.taken.spec
    return {
        "spec": [spec.name, spec.kind, spec.text, spec.labels, spec.bounds, spec.merge],
        "keys": taken.keys,
        "values": taken.values,
        "more": list(part.more.items()),
        "exemplars": [[at, [e.trace_id, e.value, e.timestamp]] for at, e in taken.exemplars.items()],
    }


def _parts(known: Any) -> list[Part]:
    """Raises ValueError, LookupError or TypeError for what is not such a file."""
    return [_part(each) for each in known["families"]]


def _part(known: Any) -> Part:
    name, kind, text, labels, bounds, how = known["spec"]
    spec = Spec(name, kind, text, tuple(labels), tuple(bounds), how)
    keys, values = [tuple(key) for key in known["keys"]], known["values"]
    if len(values) != len(keys) * spec.width:
        raise ValueError(f"{name}: {len(values)} values of {len(keys)} series")
    exemplars = {at: Exemplar(*exemplar) for at, exemplar in known["exemplars"]}
    return Part(Taken(spec, keys, values, exemplars), dict(known["more"]))
