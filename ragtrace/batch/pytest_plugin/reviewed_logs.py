"""Reviewed logs as cases for tests: from a store, or from a file that `ragtrace export` wrote."""

import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ragtrace.base.readers import Record, records
from ragtrace.base.rows import row_of
from ragtrace.errors import DataError, SettingError
from ragtrace.records import Document
from ragtrace.settings import load

_LOGS = pytest.StashKey["list[ReviewedCase]"]()


@dataclass(frozen=True, slots=True)
class ReviewedCase:
    """A request that people reviewed."""

    id: str
    """The trace id; in a file of another origin, its id or the number of its line."""
    query: str
    contexts: tuple[Document, ...] = field(repr=False)
    """The chunks that the model saw then, in rank order."""
    answer: str = field(repr=False)
    """The answer of then; `reference` is what it should have been."""
    reference: str | None = field(repr=False)
    """The corrected answer of a reviewer, or the expected one; None where there is neither."""
    verdicts: Mapping[str, str]
    """The reviewers' most frequent label by evaluator: `pass`, `fail` or `not_applicable`."""
    model: str = ""
    """The model that answered."""


def logs_of(config: pytest.Config) -> list[ReviewedCase]:
    """The logs that the options name, read once in a run. Raises SettingError without a source, and the errors of
    `read_logs`."""
    if _LOGS not in config.stash:
        source = config.getoption("--ragtrace-logs")
        if not source and (source := config.getini("ragtrace_logs")) and "://" not in source:
            source = str(config.rootpath / source)
        if not source:
            raise SettingError(
                "no reviewed logs are named: give --ragtrace-logs SOURCE, or set ragtrace_logs in pytest's "
                "configuration, to a store or to a file of `ragtrace export`"
            )
        config.stash[_LOGS] = read_logs(source)
    return config.stash[_LOGS]


def read_logs(source: str) -> list[ReviewedCase]:
    """All reviewed logs of a store (its URL or file) or of a data set, in their order.

    Raises DataError for a file that cannot be read, a line that is no log, and a source without logs; SettingError and
    StoreError as `open_store` does. A store of an older version is not upgraded."""
    lines = enumerate(_store_rows(source), 1) if _is_store(source) else _file_rows(source)
    logs = [_log(source, number, fields) for number, fields in lines]
    if not logs:
        raise DataError(f"{source} has no reviewed logs")
    doubled = [id for id, count in Counter(log.id for log in logs).items() if count > 1]
    if doubled:
        raise DataError(f"{source} has several logs with the id {doubled[0]!r}; give each its own")
    return logs


def _is_store(source: str) -> bool:
    """Asks SQLite, because to open and close the file here would take SQLite's locks from a store that the tested
    application has open in this process."""
    if "://" in source:
        return True
    try:
        if Path(source).stat().st_size == 0 or Path(source).is_dir():
            return False
    except OSError as error:
        raise DataError(f"{source} cannot be read: {error.strerror or error}") from error
    connection = sqlite3.connect(source)
    try:
        connection.execute("PRAGMA schema_version").fetchone()
    except sqlite3.OperationalError:  # it cannot be opened or is locked; the store's own error says more
        return os.access(source, os.R_OK)
    except sqlite3.DatabaseError:
        return False
    finally:
        connection.close()
    return True


def _store_rows(source: str) -> Iterable[Mapping[str, Any]]:
    from ragtrace.console.chatlogs.encryption import read_keys
    from ragtrace.console.chatlogs.store import open_store
    from ragtrace.console.review.dataset_export import Options, reviewed_rows

    store = open_store(source, key=read_keys(load().store_key), upgrade=False, create=False)
    try:
        return list(reviewed_rows(store, Options(), Counter()))
    finally:
        store.close()


def _file_rows(source: str) -> Iterator[Record]:
    try:
        yield from records(Path(source))
    except (OSError, EOFError) as error:
        raise DataError(f"{source} cannot be read: {error}") from error


def _log(source: str, number: int, fields: Mapping[str, Any] | ValueError) -> ReviewedCase:
    try:
        if isinstance(fields, ValueError):
            raise fields
        row = row_of(fields, number)
        verdicts = {one["evaluator"]: one["label"] for one in fields.get("verdicts") or ()}
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise DataError(f"{source}, line {number}: {error}") from error
    trace = row.trace
    return ReviewedCase(str(row.id), trace.query, trace.documents, trace.answer, trace.reference, verdicts, row.model)
