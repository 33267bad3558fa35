"""The rules that pick logs for review. Each gives ids of stored traces, the most telling first.

What a rule of `CERTAIN` gives depends on traces, scores and feedback alone: whether a trace was also drawn at random,
or reviewed, must not change it, else the weights in `weighing` would not hold.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Connection, Select, exists, func, select

from ragtrace.calibrations import own
from ragtrace.chatlogs.schema import NO_VALUE, bucket, evaluators, feedback, items, scores, traces
from ragtrace.review.policy import CERTAIN, Policy

if TYPE_CHECKING:
    from ragtrace.chatlogs.store import Store

_FEEDBACK = 5_000
"""The newest bad feedback that is looked at."""
_FAILURES = 2_000
"""The newest failures of an evaluator in which others' passes are looked for."""
_AT_ONCE = 500
"""Traces asked for in one query."""


@dataclass(frozen=True, slots=True)
class StoredEvaluator:
    """What the store knows of an evaluator's newest version."""

    name: str
    version: str
    threshold: float | None
    higher: bool

    def fails(self, value: float) -> float:
        """How far a value is on the failing side; negative where it passes. 0 without a threshold."""
        if self.threshold is None:
            return 0.0
        return self.threshold - value if self.higher else value - self.threshold


def load_evaluators(connection: Connection) -> dict[str, StoredEvaluator]:
    """The evaluators that have scored something, by name."""
    found: dict[str, StoredEvaluator] = {}
    for row in connection.execute(select(evaluators).order_by(evaluators.c.first_seen)):
        before = found.get(row.name)
        threshold, higher = row.threshold, row.direction == "higher"
        if threshold is None:
            # Whoever stored it did not know the evaluator itself: a file of scores, or a version of a calibration.
            threshold, higher = _told(row.name, row.version, before)
        found[row.name] = StoredEvaluator(row.name, row.version, threshold, higher)
    return found


def _told(name: str, version: str, before: StoredEvaluator | None) -> tuple[float | None, bool]:
    from ragtrace import plugins

    if before is not None and own(before.version) == own(version):
        return before.threshold, before.higher
    if name in plugins.BUILT_IN:
        check = plugins.load(name)
        return check.threshold, check.direction == "higher"
    return None, True


def not_certain() -> ColumnElement[bool]:
    """That no rule has picked the trace yet."""
    return ~exists(
        select(items.c.id).where(items.c.trace == scores.c.trace, items.c.slot == 0, items.c.reason.in_(CERTAIN))
    )


def least_id(connection: Connection, since: float) -> int:
    """The least id among traces that were stored since then."""
    return int(connection.scalar(select(func.min(traces.c.id)).where(traces.c.stored >= since)) or 0)


def pick_traces(store: Store, policy: Policy, now: float, wanted: Mapping[str, int]) -> dict[str, list[int]]:
    """What each rule picks, up to as many as are wanted of it; a trace counts for the first rule that has it."""
    found: dict[str, list[int]] = {}
    taken: set[int] = set()
    with store.reading() as connection:
        low = least_id(connection, now - policy.days * 86_400)
        checks = [
            c for c in load_evaluators(connection).values() if not policy.evaluators or c.name in policy.evaluators
        ]
        for reason, rule in _RULES.items():
            count = wanted.get(reason, 0)
            if count <= 0:
                continue
            given = rule(connection, policy, checks, low, count + len(taken))
            found[reason] = [trace for trace in dict.fromkeys(given) if trace not in taken][:count]
            taken.update(found[reason])
    return found


def _bad_feedback(
    connection: Connection, _policy: Policy, _checks: Sequence[StoredEvaluator], _low: int, count: int
) -> Iterable[int]:
    said = select(feedback.c.trace_id, func.max(feedback.c.id).label("last")).where(feedback.c.thumbs < 0)
    newest = said.group_by(feedback.c.trace_id).order_by(func.max(feedback.c.id).desc()).limit(_FEEDBACK).subquery()
    query = select(traces.c.id).join(newest, newest.c.trace_id == traces.c.trace_id)
    certain = exists(
        select(items.c.id).where(items.c.trace == traces.c.id, items.c.slot == 0, items.c.reason.in_(CERTAIN))
    )
    return connection.scalars(query.where(traces.c.thumbs < 0, ~certain).order_by(newest.c.last.desc()).limit(count))


def _disagreements(
    connection: Connection, policy: Policy, checks: Sequence[StoredEvaluator], low: int, count: int
) -> Iterable[int]:
    """Most where both are sure: the two distances from the thresholds, added up. Of each evaluator the newest failures
    are looked at."""
    found: list[tuple[float, int]] = []
    by_name = {check.name: check for check in checks}
    for group in policy.related:
        names = sorted(group.intersection(by_name))
        if len(names) < 2:
            continue
        failing = {name: _failing(connection, name, low) for name in names}
        passing = _passing(connection, names, sorted(set().union(*failing.values())))
        for name, values in failing.items():
            for trace, value in values.items():
                sure = _margin(by_name[name], value)
                found += [(sure - _margin(by_name[other], own), trace) for other, own in passing.get(trace, ())]
    return [trace for _, trace in sorted(found, reverse=True)][: 20 * count]


def _failing(connection: Connection, name: str, low: int) -> dict[int, float | None]:
    """The newest failures of an evaluator that no rule has picked, trace to value."""
    query = (
        select(scores.c.trace, scores.c.value)
        .where(scores.c.evaluator == name, scores.c.label == "fail", scores.c.trace >= low, not_certain())
        .order_by(scores.c.trace.desc())
        .limit(_FAILURES)
    )
    return {int(trace): value for trace, value in connection.execute(query)}


def _passing(
    connection: Connection, names: Sequence[str], wanted: Sequence[int]
) -> dict[int, list[tuple[str, float | None]]]:
    """What these evaluators pass of some traces. Asked trace by trace: joined, a planner may read every score."""
    found: defaultdict[int, list[tuple[str, float | None]]] = defaultdict(list)
    for start in range(0, len(wanted), _AT_ONCE):
        query = select(scores.c.trace, scores.c.evaluator, scores.c.value).where(
            scores.c.trace.in_(wanted[start : start + _AT_ONCE]),
            scores.c.evaluator.in_(names),
            scores.c.label == "pass",
        )
        for trace, name, value in connection.execute(query):
            found[int(trace)].append((name, value))
    return found


def _margin(check: StoredEvaluator, value: float | None) -> float:
    found = 0.0 if value is None else check.fails(value)
    return found if math.isfinite(found) else 0.0


def _near(
    connection: Connection, policy: Policy, checks: Sequence[StoredEvaluator], low: int, count: int
) -> Iterable[int]:
    found: list[tuple[float, int]] = []
    for check in checks:
        if check.threshold is not None and math.isfinite(check.threshold):
            found += _nearest(connection, policy.band, check, check.threshold, low, count)
    return [trace for _, trace in sorted(found)]


def _nearest(  # noqa: PLR0917 a rule's arguments, and its evaluator
    connection: Connection, band: float, check: StoredEvaluator, threshold: float, low: int, count: int
) -> list[tuple[float, int]]:
    found: list[tuple[float, int]] = []
    for width in (band / 20, band / 5, band):  # of a million values most lie in the whole band: few need be sorted
        query = _valued(check, low).where(scores.c.bucket.between(bucket(threshold - width), bucket(threshold + width)))
        # Evaluators that say 0 or 1 are never near anything.
        query = query.where(scores.c.value.between(threshold - width, threshold + width))
        query = query.where(scores.c.value.not_in((0.0, 1.0)))
        query = query.order_by(func.abs(scores.c.value - threshold), scores.c.trace.desc()).limit(count)
        found = [(abs(value - threshold), int(trace)) for trace, value in connection.execute(query)]
        if len(found) >= count:
            break
    return found


def _worst(
    connection: Connection, policy: Policy, checks: Sequence[StoredEvaluator], low: int, count: int
) -> Iterable[int]:
    """By turns the worst of each evaluator that has failures: their values have different scales."""
    lists = []
    for check in checks:
        if check.threshold is not None and math.isfinite(check.threshold):
            lists.append([trace for trace, _ in worst_of(connection, check, low, count)])
    return [each[i] for i in range(count) for each in lists if i < len(each)]


def worst_of(connection: Connection, check: StoredEvaluator, low: int, count: int) -> list[tuple[int, float]]:
    """The failures of an evaluator that no rule has picked yet, worst first, of equals the newest."""
    threshold = check.threshold if check.threshold is not None else 0.0
    side = scores.c.bucket <= bucket(threshold) if check.higher else scores.c.bucket >= bucket(threshold)
    beyond = scores.c.value < threshold if check.higher else scores.c.value > threshold
    order = scores.c.bucket if check.higher else scores.c.bucket.desc()
    query = _valued(check, low).where(side, beyond).order_by(order, scores.c.trace.desc()).limit(count)
    rows = [(int(trace), float(value)) for trace, value in connection.execute(query)]
    return sorted(rows, key=lambda row: (-check.fails(row[1]), -row[0]))


def _valued(check: StoredEvaluator, low: int) -> Select[Any]:
    return select(scores.c.trace, scores.c.value).where(
        scores.c.evaluator == check.name, scores.c.bucket > NO_VALUE, scores.c.trace >= low, not_certain()
    )


_RULES = {"feedback": _bad_feedback, "disagreement": _disagreements, "threshold": _near, "worst": _worst}
