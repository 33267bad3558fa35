"""Picks logs for review by rules. Each rule returns ids of stored traces, the most informative first.

The result of a rule of `policy.CERTAIN` depends on traces, scores and feedback only. It must not depend on whether a
trace was drawn at random or reviewed: otherwise the weights of `ragtrace.console.review.weights` would be wrong."""

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, exists, func, select

from ragtrace.calibrations import entry as calibration_entry
from ragtrace.calibrations import own_version
from ragtrace.console.chatlogs.engine import among
from ragtrace.console.chatlogs.schema import NO_VALUE, bucket, calibrations, evaluators, feedback, items, scores, traces
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.review.policy import BAND, CERTAIN, DAYS, RELATED, Policy
from ragtrace.evaluation import Direction

_FEEDBACK = 5_000
"""Largest number of traces with bad feedback that are considered, newest first."""
_FAILURES = 2_000
"""Largest number of an evaluator's failures that are compared with other evaluators, newest first."""


@dataclass(frozen=True, slots=True)
class StoredEvaluator:
    """The newest version of an evaluator that has scores in the store."""

    name: str
    version: str
    threshold: float | None
    direction: Direction
    """Which values pass: the `higher` or the `lower` ones."""

    def fails(self, value: float | None) -> float:
        """Distance of a value from the threshold on the failing side; negative if it passes, 0 without either or where
        it is not finite."""
        if self.threshold is None or value is None:
            return 0.0
        margin = self.threshold - value if self.direction == "higher" else value - self.threshold
        return margin if math.isfinite(margin) else 0.0


def load_evaluators(connection: Connection) -> dict[str, StoredEvaluator]:
    """Loads the evaluators that have scores in the store, by name, with the calibrations in force."""
    checks: dict[str, StoredEvaluator] = {}
    for row in connection.execute(select(evaluators).order_by(evaluators.c.first_seen)):
        before = checks.get(row.name)
        threshold, direction = row.threshold, row.direction
        if threshold is None:
            # Stored without the evaluator itself: from a file of scores, or under a calibration's version.
            threshold, direction = _default_threshold(row.name, row.version, before)
        checks[row.name] = StoredEvaluator(row.name, row.version, threshold, direction)
    for row in connection.execute(select(calibrations).where(calibrations.c.active)):
        check = checks.get(row.evaluator)
        with suppress(ValueError):  # of a later release
            entry = calibration_entry(row.evaluator, json.loads(row.content))
            if check and (own_version(check.version), check.direction) == (entry.version, entry.direction):
                checks[row.evaluator] = replace(check, version=entry.label, threshold=entry.threshold)
    return checks


def _default_threshold(name: str, version: str, before: StoredEvaluator | None) -> tuple[float | None, Direction]:
    from ragtrace import plugins

    if before is not None and own_version(before.version) == own_version(version):
        return before.threshold, before.direction
    if name in plugins.BUILT_IN:
        check = plugins.load(name)
        return check.threshold, check.direction
    return None, "higher"


def not_picked(trace: ColumnElement[int]) -> ColumnElement[bool]:
    """The condition that no rule of `CERTAIN` has picked the trace with this id yet."""
    return ~exists(select(items.c.id).where(items.c.trace == trace, items.c.slot == 0, items.c.reason.in_(CERTAIN)))


def is_newest() -> ColumnElement[bool]:
    """The condition that a score is its evaluator's newest of the log: an older version may have said otherwise."""
    later = scores.alias("later")
    of_log = (later.c.trace == scores.c.trace) & (later.c.evaluator == scores.c.evaluator)
    return ~exists(select(later.c.id).where(of_log, later.c.id > scores.c.id))


def least_id(connection: Connection, since: float) -> int:
    """The smallest id of the traces that were stored since then."""
    return int(connection.scalar(select(func.min(traces.c.id)).where(traces.c.stored >= since)) or 0)


def pick_traces(store: Store, policy: Policy, now: float, limits: Mapping[str, int]) -> dict[str, list[int]]:
    """Applies each rule, up to its limit. A trace counts for the first rule that picks it."""
    traces_by_reason: dict[str, list[int]] = {}
    picked_before: set[int] = set()
    with store.reading() as connection:
        low = least_id(connection, now - DAYS * 86_400)
        checks = [
            c for c in load_evaluators(connection).values() if not policy.evaluators or c.name in policy.evaluators
        ]
        for reason, rule in _RULES.items():
            count = limits.get(reason, 0)
            if count <= 0:
                continue
            candidates = dict.fromkeys(rule(connection, checks, low, count + len(picked_before)))
            traces_by_reason[reason] = [trace for trace in candidates if trace not in picked_before][:count]
            picked_before.update(traces_by_reason[reason])
    return traces_by_reason


def _bad_feedback(connection: Connection, _checks: Sequence[StoredEvaluator], _low: int, count: int) -> Iterable[int]:
    bad = select(feedback.c.trace_id, func.max(feedback.c.id).label("last")).where(feedback.c.thumbs < 0)
    newest = bad.group_by(feedback.c.trace_id).order_by(func.max(feedback.c.id).desc()).limit(_FEEDBACK).subquery()
    query = select(traces.c.id).join(newest, newest.c.trace_id == traces.c.trace_id)
    query = query.where(traces.c.thumbs < 0, not_picked(traces.c.id))
    return connection.scalars(query.order_by(newest.c.last.desc()).limit(count))


def _disagreements(connection: Connection, checks: Sequence[StoredEvaluator], low: int, count: int) -> Iterable[int]:
    """Ranks traces by the sum of the two evaluators' distances from their thresholds, largest first. Considers the
    newest failures of each evaluator."""
    ranked: list[tuple[float, int]] = []
    by_name = {check.name: check for check in checks}
    for group in RELATED:
        names = sorted(group.intersection(by_name))
        if len(names) < 2:
            continue
        failing = {name: _failing(connection, name, low) for name in names}
        passing = _passing(connection, names, sorted(set().union(*failing.values())))
        for name, values in failing.items():
            for trace, value in values.items():
                margin = by_name[name].fails(value)
                ranked += [
                    (margin - by_name[other].fails(other_value), trace) for other, other_value in passing.get(trace, ())
                ]
    return [trace for _, trace in sorted(ranked, reverse=True)][: 20 * count]


def _failing(connection: Connection, name: str, low: int) -> dict[int, float | None]:
    """Values by trace of the newest failures of an evaluator that no rule has picked."""
    query = (
        select(scores.c.trace, scores.c.value)
        .where(scores.c.evaluator == name, scores.c.label == "fail", scores.c.trace >= low, is_newest())
        .where(not_picked(scores.c.trace)) .order_by(scores.c.trace.desc()) .limit(_FAILURES)
    )  # fmt: skip
    return {int(trace): value for trace, value in connection.execute(query)}


def _passing(
    connection: Connection, names: Sequence[str], ids: Sequence[int]
) -> dict[int, list[tuple[str, float | None]]]:
    """Names and values of the evaluators that pass these traces, by trace. Queries by ids, because a planner may read
    every score for a join."""
    passes: defaultdict[int, list[tuple[str, float | None]]] = defaultdict(list)
    query = select(scores.c.trace, scores.c.evaluator, scores.c.value).where(
        among(connection, scores.c.trace, ids), scores.c.evaluator.in_(names), scores.c.label == "pass", is_newest()
    )
    for trace, name, value in connection.execute(query):
        passes[int(trace)].append((name, value))
    return passes


def _near(connection: Connection, checks: Sequence[StoredEvaluator], low: int, count: int) -> Iterable[int]:
    ranked: list[tuple[float, int]] = []
    for check in _with_threshold(checks):
        ranked += _nearest(connection, check, check.threshold or 0.0, low, count)
    return [trace for _, trace in sorted(ranked)]


def _with_threshold(checks: Iterable[StoredEvaluator]) -> list[StoredEvaluator]:
    return [check for check in checks if check.threshold is not None and math.isfinite(check.threshold)]


def _nearest(
    connection: Connection, check: StoredEvaluator, threshold: float, low: int, count: int
) -> list[tuple[float, int]]:
    nearest: list[tuple[float, int]] = []
    for width in (BAND / 20, BAND / 5, BAND):  # narrow bands first: most of a million values are in the whole band
        query = _valued(check, low).where(scores.c.bucket.between(bucket(threshold - width), bucket(threshold + width)))
        # The values 0 and 1 are never near a threshold: some evaluators return nothing else.
        query = query.where(scores.c.value.between(threshold - width, threshold + width))
        query = query.where(scores.c.value.not_in((0.0, 1.0)))
        query = query.order_by(func.abs(scores.c.value - threshold), scores.c.trace.desc()).limit(count)
        nearest = [(abs(value - threshold), int(trace)) for trace, value in connection.execute(query)]
        if len(nearest) >= count:
            break
    return nearest


def _worst(connection: Connection, checks: Sequence[StoredEvaluator], low: int, count: int) -> Iterable[int]:
    """Takes the worst traces of each evaluator in turn, because their values have different scales."""
    lists = [[trace for trace, _ in worst_of(connection, check, low, count)] for check in _with_threshold(checks)]
    return [each[i] for i in range(count) for each in lists if i < len(each)]


def worst_of(connection: Connection, check: StoredEvaluator, low: int, count: int) -> list[tuple[int, float]]:
    """Lists up to `count` failures (trace, value) of an evaluator that no rule has picked yet, worst first, the newest
    of equals first."""
    threshold = check.threshold if check.threshold is not None else 0.0
    if check.direction == "higher":
        side, beyond, order = scores.c.bucket <= bucket(threshold), scores.c.value < threshold, scores.c.bucket.asc()
    else:
        side, beyond, order = scores.c.bucket >= bucket(threshold), scores.c.value > threshold, scores.c.bucket.desc()
    query = _valued(check, low).where(side, beyond).order_by(order, scores.c.trace.desc()).limit(count)
    rows = [(int(trace), float(value)) for trace, value in connection.execute(query)]
    return sorted(rows, key=lambda row: (-check.fails(row[1]), -row[0]))


def _valued(check: StoredEvaluator, low: int) -> Select[Any]:
    return select(scores.c.trace, scores.c.value).where(
        scores.c.evaluator == check.name, scores.c.bucket > NO_VALUE, scores.c.trace >= low, is_newest(),
        not_picked(scores.c.trace),
    )  # fmt: skip


_RULES = {"feedback": _bad_feedback, "disagreement": _disagreements, "threshold": _near, "worst": _worst}
