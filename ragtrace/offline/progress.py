"""What of a run is done already: lines beside the output file, so that a run that was stopped goes on where it was."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from ragtrace.errors import DataError
from ragtrace.records import Score
from ragtrace.reporting.files import score_of, sparse


class Part:
    """The file `OUT.part`: a first line that says which run it belongs to, then a line for each row that is done, in
    the input's order. A last line that was not finished is taken away."""

    def __init__(self, path: Path, belongs: str, *, fresh: bool = False) -> None:
        """`belongs` identifies the run: its input, its evaluators, its settings. A part of another run is replaced, as
        is one of this run with `fresh`. Raises DataError if the file cannot be written."""
        self.path = path
        self.done = 0
        """Rows that were done before."""
        try:
            if fresh or not self._is_ours(belongs):
                path.write_text(json.dumps({"run": belongs}) + "\n", encoding="utf-8")
            self._file: IO[bytes] = path.open("ab")
        except OSError as error:
            raise DataError(f"{path} cannot be written: {error}") from error

    def _is_ours(self, belongs: str) -> bool:
        if not self.path.is_file():
            return False
        with self.path.open("rb+") as file:
            try:
                ours = bool(json.loads(file.readline())["run"] == belongs)
            except (ValueError, KeyError, TypeError):
                return False
            whole = file.tell()
            for line in file:
                if not line.endswith(b"\n"):
                    break
                whole += len(line)
                self.done += 1
            file.truncate(whole)
        if not ours:
            self.done = 0
        return ours

    def rows(self) -> Iterator[tuple[Any, dict[str, Score]]]:
        """The rows that are there, each with its id and its scores."""
        with self.path.open("rb") as file:
            file.readline()
            for line in file:
                saved = json.loads(line)
                yield saved["id"], {name: score_of(name, given) for name, given in saved["scores"].items()}

    def add(self, rows: Iterator[tuple[Any, Mapping[str, Score]]]) -> None:
        """Append rows; they are on the disk when this returns, also if the process is killed thereafter."""
        for own, scores in rows:
            saved = {"id": own, "scores": {name: sparse(score) for name, score in scores.items()}}
            self._file.write(json.dumps(saved).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self, *, remove: bool) -> None:
        """Close the file, and remove it where the run is done."""
        self._file.close()
        if remove:
            self.path.unlink(missing_ok=True)


def identity(path: Path, more: Any) -> str:
    """Tells a run by its input file and whatever else decides its results."""
    found = path.stat()
    what = (str(path.resolve()), found.st_size, found.st_mtime_ns, more)
    return hashlib.sha256(json.dumps(what, default=str).encode()).hexdigest()
