"""The logs of a store that evaluators have not scored in their present versions, and how new scores join them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Connection, and_, func, or_, select

from ragtrace.base.rows import Item, Row
from ragtrace.batch.batches import ScoredRow
from ragtrace.console.chatlogs.engine import chunks
from ragtrace.console.chatlogs.reader import read_traces
from ragtrace.console.chatlogs.schema import in_period, scores, traces
from ragtrace.errors import DataError
from ragtrace.evaluate.causes import cause
from ragtrace.evaluation import Evaluator
from ragtrace.records import Evaluation, Facts, Trace

if TYPE_CHECKING:
    from ragtrace.console.chatlogs.store import Store

_CHUNK = 100
"""Logs that are read at once."""
_HIGHEST = 2**62


@dataclass(frozen=True, slots=True)
class LogSelection:
    """The logs that are evaluated: those that started in [since, until), in Unix seconds, of one application."""

    since: float = 0.0
    until: float = 4e9
    app: str = ""
    """Empty for all applications."""


@dataclass(frozen=True, slots=True)
class Missing:
    """What is to be done."""

    logs: int
    """Logs of the selection."""
    unfinished: int
    """Those of them that lack a score."""
    evaluations: dict[str, int]
    """Logs without a score of the evaluator's present version, by the evaluator's name."""


class StoredLogs:
    """The logs of a selection, and the scores that they lack.

    A log has a score if the store has one of the same evaluator in the same version; the error of a live evaluation is
    one, too. The newest log comes first, so that a run that is stopped has done the most recent ones."""

    def __init__(self, store: Store, checks: Sequence[Evaluator], selection: LogSelection) -> None:
        """`checks` have the versions that their scores will have."""
        self._store, self._checks = store, tuple(checks)
        self._where = in_period(selection.since, selection.until, selection.app)
        self._is_present = is_present(checks)

    def count(self) -> Missing:
        """Counts what is to be done. Raises StoreError as the store does."""
        joined = traces.join(scores, scores.c.trace == traces.c.id)
        with self._store.reading() as connection:
            logs = connection.scalar(select(func.count()).select_from(traces).where(*self._where)) or 0
            unfinished = connection.scalar(select(func.count()).select_from(traces).where(*self._unfinished())) or 0
            query = select(scores.c.evaluator, func.count()).select_from(joined)
            query = query.where(*self._where, self._is_present).group_by(scores.c.evaluator)
            present = {row[0]: row[1] for row in connection.execute(query)}
        return Missing(logs, unfinished, {check.name: logs - present.get(check.name, 0) for check in self._checks})

    def _unfinished(self) -> list[Any]:
        """The conditions that a row of `traces` lacks a score."""
        present = select(func.count()).where(scores.c.trace == traces.c.id, self._is_present)
        return [*self._where, present.scalar_subquery() < len(self._checks)]

    def rows(self) -> Iterator[Item]:
        """The unfinished logs, each with the evaluators that it lacks; for one that cannot be read, the error that says
        why. Logs that are stored meanwhile are left out, and so are those that are deleted."""
        last = _HIGHEST
        while True:
            query = select(traces.c.id).where(traces.c.id < last, *self._unfinished())
            with self._store.reading() as connection:
                chunk = list(connection.scalars(query.order_by(traces.c.id.desc()).limit(_CHUNK)))
                items = list(self._items(connection, chunk))
            yield from items
            if len(chunk) < _CHUNK:
                return
            last = chunk[-1]

    def ids(self) -> list[int]:
        """The store's ids of the unfinished logs, the newest first."""
        with self._store.reading() as connection:
            query = select(traces.c.id).where(*self._unfinished()).order_by(traces.c.id.desc())
            return list(connection.scalars(query))

    def read(self, ids: Sequence[int]) -> list[Item]:
        """The logs of these ids that are still there, each with the evaluators that it lacks."""
        with self._store.reading() as connection:
            return list(self._items(connection, ids))

    def _items(self, connection: Connection, ids: Sequence[int]) -> Iterator[Item]:
        present: defaultdict[int, set[str]] = defaultdict(set)
        query = select(scores.c.trace, scores.c.evaluator).where(scores.c.trace.in_(ids), self._is_present)
        for trace, name in connection.execute(query):
            present[trace].add(name)
        names = {check.name for check in self._checks}
        logs = self._read(connection, ids)
        for log in ids:
            item = logs.get(log)
            if isinstance(item, DataError):
                yield item
            elif item is not None:
                yield Row(f"{item.trace_id:032x}", item, evaluators=frozenset(names - present[log]))

    def _read(self, connection: Connection, ids: Sequence[int]) -> Mapping[int, Trace | DataError]:
        """The logs of these ids; where one is damaged each is read by itself."""
        try:
            return read_traces(connection, self._store.keys, ids)
        except DataError as error:
            if len(ids) == 1:
                return {ids[0]: error}
        return {log: item for one in ids for log, item in self._read(connection, [one]).items()}

    def write(self, rows: Sequence[ScoredRow]) -> None:
        """Adds the scores of these logs to the store, in one transaction. Evaluations that failed are left out, so that
        the next run tries them again. Logs that were deleted meanwhile stay deleted. Raises StoreError as the store
        does."""
        self._store.write([_further_scores(row) for row in rows], self._checks)


@dataclass(frozen=True, slots=True)
class StoredLogReader:
    """Reads logs of a store by its ids, in another process. A value that can be pickled: the store's key is read there,
    from what the setting store_key names."""

    address: str
    store_key: str
    versions: Mapping[str, str]
    """Of each evaluator, those under which a score is present."""

    def __call__(self, ids: Sequence[int], checks: Sequence[Evaluator]) -> list[Item]:
        """The logs that are still there, each with those of the evaluators that it lacks. Raises SettingError and
        StoreError as the store does."""
        store = _open_once(self.address, self.store_key)
        versioned = [replace(check, version=self.versions[check.name]) for check in checks]
        return StoredLogs(store, versioned, LogSelection()).read(ids)


@cache
def _open_once(address: str, store_key: str) -> Store:
    from ragtrace.console.chatlogs.encryption import read_keys
    from ragtrace.console.chatlogs.store import open_store

    return open_store(address, key=read_keys(store_key), upgrade=False, create=False)


class ImportedLogs:
    """Requests of a file, and the scores that they lack in a store. A request that is not stored is added to it."""

    def __init__(self, store: Store, checks: Sequence[Evaluator], rows: Sequence[Row]) -> None:
        """`checks` have the versions that their scores will have. Raises StoreError as the store does."""
        self._store, self._checks, self._logs = store, tuple(checks), len(rows)
        names = frozenset(check.name for check in checks)
        self._unfinished: list[Row] = []
        with store.reading() as connection:
            for part in chunks(rows):
                present = self._present(connection, part)
                lacking = [replace(row, evaluators=names - present[_span_of(row.trace)]) for row in part]
                self._unfinished += [row for row in lacking if row.evaluators]

    def count(self) -> Missing:
        """Counts what is to be done."""
        counts = Counter(name for row in self._unfinished for name in row.evaluators or ())
        return Missing(self._logs, len(self._unfinished), {check.name: counts[check.name] for check in self._checks})

    def rows(self) -> Iterator[Row]:
        """The unfinished requests, each with the evaluators that it lacks."""
        return iter(self._unfinished)

    def _present(self, connection: Connection, rows: Sequence[Row]) -> defaultdict[tuple[str, str], set[str]]:
        present: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        query = select(traces.c.trace_id, traces.c.span_id, scores.c.evaluator)
        query = query.join(scores, scores.c.trace == traces.c.id)
        ids = {_span_of(row.trace)[0] for row in rows}
        for trace_id, span_id, name in connection.execute(
            query.where(traces.c.trace_id.in_(ids), is_present(self._checks))
        ):
            present[trace_id, span_id].add(name)
        return present

    def write(self, rows: Sequence[ScoredRow]) -> None:
        """Adds these requests and their scores to the store, in one transaction; failed evaluations are left out.
        Raises StoreError as the store does."""
        evaluations = []
        for row in rows:
            usable = tuple(score for score in row.scores.values() if score.error is None)
            evaluations.append(Evaluation(row.row.trace, usable, cause=cause(row.row.trace, usable)))
        self._store.write(evaluations, self._checks)


def _span_of(trace: Trace) -> tuple[str, str]:
    return f"{trace.trace_id:032x}", f"{trace.span_id:016x}"


def is_present(checks: Sequence[Evaluator]) -> ColumnElement[bool]:
    """The condition that a row of `scores` is of one of these evaluators in its version, and no failed evaluation."""
    own = (and_(scores.c.evaluator == check.name, scores.c.version == check.version) for check in checks)
    return and_(scores.c.error.is_(None), or_(*own))


def without_texts(trace: Trace) -> Trace:
    """The trace with what its scores need to join the store."""
    facts = Facts(app=trace.facts.app, env=trace.facts.env, model=trace.facts.model)
    return replace(trace, query="", documents=(), answer="", reference=None, attributes={}, facts=facts)


def _further_scores(row: ScoredRow) -> Evaluation:
    """The scores of a stored log, without its texts: these are stored already."""
    usable = tuple(score for score in row.scores.values() if score.error is None)
    return Evaluation(without_texts(row.row.trace), usable, is_late=True)
