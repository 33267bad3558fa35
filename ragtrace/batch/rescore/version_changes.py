"""What changed between two versions of an evaluator, on the stored logs that both have scored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, and_, select

from ragtrace.base.terminal import fitted
from ragtrace.batch.reporting.comparison import comparison_table
from ragtrace.batch.reporting.formats import moment, number
from ragtrace.batch.reporting.results import EvaluationRun, Info, Metric, Result
from ragtrace.batch.rescore.stored_logs import LogSelection
from ragtrace.console.chatlogs.schema import evaluators, in_period, scores, traces
from ragtrace.console.chatlogs.side_by_side import MOST_REQUESTS, Side, compare_sides, evaluator_versions
from ragtrace.errors import DataError, SettingError
from ragtrace.records import Score

if TYPE_CHECKING:
    from ragtrace.console.chatlogs.store import Store

_EXAMPLES = 10
"""Logs that are named as examples at most, for each kind of change."""


@dataclass(frozen=True, slots=True)
class _LogPair:
    """A log with both scores."""

    trace: int
    """The store's id."""
    trace_id: str
    started: float
    a: Score
    b: Score

    @property
    def change(self) -> float:
        """Value of B minus value of A; 0 where one has none."""
        return 0.0 if self.a.value is None or self.b.value is None else self.b.value - self.a.value

    @property
    def line(self) -> str:
        """The log as a line of text."""
        return f"  {self.trace_id}  {moment(self.started)}  {_verdict(self.a)} → {_verdict(self.b)}"


def _verdict(score: Score) -> str:
    value = "" if score.value is None else number(score.value)
    return " ".join(filter(None, (value, score.label or score.error))) or "no value"


def two_versions(store: Store, evaluator: str, versions: Sequence[str]) -> tuple[str, str]:
    """The versions to compare: those that are named, and the last ones in the place of those that are not. Raises
    SettingError for a version that scored nothing, and where there are no two."""
    stored = evaluator_versions(store, evaluator)
    for version in versions:
        if version not in stored:
            listing = f"there are {', '.join(stored)}" if stored else "it has scored nothing"
            raise SettingError(f"{store.name} has no scores of {evaluator} in version {version!r}; {listing}")
    rest = [version for version in stored if version not in versions]
    pair = list(versions) if len(versions) > 1 else [*versions, *rest[len(versions) - 2 :]]
    if len(set(pair)) < 2:
        listing = ", ".join(stored) or "none"
        raise SettingError(f"{store.name} has no two versions of {evaluator!r} to compare: there are {listing}")
    return pair[0], pair[1]


def version_changes(
    store: Store, evaluator: str, versions: tuple[str, str], selection: LogSelection, columns: int | None = None
) -> str:
    """The comparison of two versions as text, for a terminal with so many columns: values and verdicts pair by pair, as
    `reporting.comparison` compares two runs; the difference of the failures in a sentence, as the console's page
    `compare` says it; and the logs whose verdict changed, or else those whose value changed most.

    Of the logs that both versions scored the newest 20,000 count. Raises DataError where no log has both."""
    a, b = versions
    with store.reading() as connection:
        pairs = _pairs(connection, evaluator, versions, selection)
        metrics = [_metric(connection, evaluator, version) for version in versions]
    if not pairs:
        raise DataError(f"{store.name} has no log that {evaluator} scored in both versions, {a} and {b}")
    of_version = ([(pair, pair.a) for pair in pairs], [(pair, pair.b) for pair in pairs])
    runs = [
        EvaluationRun(
            tuple(Result(str(pair.trace), "", "", scores={evaluator: score}) for pair, score in side),
            {evaluator: metric},
            Info(f"version {version}"),
        )
        for side, metric, version in zip(of_version, metrics, versions, strict=True)
    ]
    sides = [
        Side(f"version {version}", selection.since, selection.until, selection.app, evaluator_version=version)
        for version in versions
    ]
    lines = [comparison_table(runs[0], runs[1], columns=columns), ""]
    rows = compare_sides(store, sides[0], sides[1], evaluator).rows
    if rows:
        lines += fitted([rows[0].sentence, ""], columns)
    lines += fitted(_examples(pairs), columns)
    return "\n".join(lines)


def _pairs(
    connection: Connection, evaluator: str, versions: tuple[str, str], selection: LogSelection
) -> list[_LogPair]:
    """The logs that both versions scored, the newest first."""
    one, other = scores.alias(), scores.alias()
    names = ("value", "label", "error")
    columns = [side.c[name].label(f"{prefix}_{name}") for prefix, side in (("a", one), ("b", other)) for name in names]
    where = in_period(selection.since, selection.until, selection.app)
    joined = traces
    for side, version in ((one, versions[0]), (other, versions[1])):
        joined = joined.join(  # type: ignore[assignment]  # a join of the table
            side, and_(side.c.trace == traces.c.id, side.c.evaluator == evaluator, side.c.version == version)
        )
    query = select(traces.c.id, traces.c.trace_id, traces.c.started, *columns).select_from(joined).where(*where)
    rows = connection.execute(query.order_by(traces.c.id.desc()).limit(MOST_REQUESTS)).mappings()
    return [
        _LogPair(row["id"], row["trace_id"], row["started"], _score(row, "a", evaluator), _score(row, "b", evaluator))
        for row in rows
    ]


def _score(row: Any, prefix: str, evaluator: str) -> Score:
    return Score(evaluator, row[f"{prefix}_value"], row[f"{prefix}_label"], error=row[f"{prefix}_error"])


def _metric(connection: Connection, evaluator: str, version: str) -> Metric:
    where = (evaluators.c.name == evaluator) & (evaluators.c.version == version)
    row = connection.execute(select(evaluators).where(where)).mappings().one()
    return Metric(evaluator, row["direction"], row["threshold"], method=row["method"], version=version)


def _examples(pairs: Sequence[_LogPair]) -> list[str]:
    """The logs whose verdict changed, those whose value changed most first; without verdicts, those whose value changed
    most."""
    ordered = sorted(pairs, key=lambda pair: -abs(pair.change))
    lines: list[str] = []
    for title, labels in (("pass, and fail now", ("pass", "fail")), ("fail, and pass now", ("fail", "pass"))):
        logs = [pair for pair in ordered if (pair.a.label, pair.b.label) == labels]
        if logs:
            lines += [f"{len(logs):,} logs that {title}:", *(pair.line for pair in logs[:_EXAMPLES])]
    differences = [pair for pair in ordered if pair.change]
    if not lines and differences:
        lines = ["logs whose value changed most:", *(pair.line for pair in differences[:_EXAMPLES])]
    return lines or ["no verdict and no value changed"]
