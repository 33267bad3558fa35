"""Saves the rows of a run that are done next to its output file, so that a stopped run can continue."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from ragtrace.base.private_file import create_private
from ragtrace.batch.reporting.files import score_of, sparse
from ragtrace.errors import DataError
from ragtrace.records import Score


class Checkpoint:
    """The file `OUT.part`: a first line that identifies the run, then one line for each row that is done, in the order
    of the input. An incomplete last line is removed."""

    def __init__(self, path: Path, run: str, *, fresh: bool = False) -> None:
        """`run` identifies the run: its input, its evaluators, its settings. The file of another run is replaced; with
        `fresh`, that of this run too. Raises DataError if the file cannot be written."""
        self.path = path
        self.done = 0
        """Number of rows that an earlier process saved."""
        try:
            if fresh or not self._load(run):
                create_private(path)
                path.write_text(json.dumps({"run": run}) + "\n", encoding="utf-8")
            self._file: IO[bytes] = path.open("ab")
        except OSError as error:
            raise DataError(f"{path} cannot be written: {error}") from error

    def _load(self, run: str) -> bool:
        """Count the rows in the file and remove an incomplete one. False if the file belongs to another run."""
        if not self.path.is_file():
            return False
        with self.path.open("rb+") as file:
            try:
                if json.loads(file.readline())["run"] != run:
                    return False
            except (ValueError, KeyError, TypeError):
                return False
            size = file.tell()
            for line in file:
                if not line.endswith(b"\n"):
                    break
                size += len(line)
                self.done += 1
            file.truncate(size)
        return True

    def rows(self) -> Iterator[tuple[Any, dict[str, Score]]]:
        """The id and the scores of each saved row."""
        with self.path.open("rb") as file:
            file.readline()
            for line in file:
                row = json.loads(line)
                yield row["id"], {name: score_of(name, fields) for name, fields in row["scores"].items()}

    def add(self, rows: Iterator[tuple[Any, Mapping[str, Score]]]) -> None:
        """Append rows. They are on the disk when this returns, even if the process is then killed."""
        for id, scores in rows:
            row = {"id": id, "scores": {name: sparse(score) for name, score in scores.items()}}
            self._file.write(json.dumps(row).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self, *, remove: bool) -> None:
        """Close the file, and remove it if the run is complete."""
        self._file.close()
        if remove:
            self.path.unlink(missing_ok=True)


def run_id(path: Path, settings: Any) -> str:
    """Identifies a run by its input file and by everything else that decides its results. Raises DataError for a file
    that cannot be read."""
    try:
        files = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
        parts = (str(path.resolve()), [(str(f), f.stat().st_size, f.stat().st_mtime_ns) for f in files], settings)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()
