"""Compares two prompt versions, models, periods, or versions of an evaluator by the verdicts on stored requests.
`ragtrace.batch.reporting.comparison` compares two runs over a file instead.

Where the same request or the same question is on both sides, the sides are compared pair by pair, which takes the
difficulty of the questions out of the comparison. All requests of both sides are compared as independent samples."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, and_, func, select

from ragtrace.console.chatlogs.reader import read_questions
from ragtrace.console.chatlogs.schema import evaluators, in_period, scores, traces
from ragtrace.console.chatlogs.store import Store
from ragtrace.errors import SettingError
from ragtrace.statistics import Estimate, weighted
from ragtrace.statistics.differences import (
    ShareDifference,
    change_verdicts,
    difference_sentence,
    independent_difference,
    paired_difference,
)

MOST_REQUESTS = 20_000
"""Most requests of a side that are read, the newest ones."""
LEAST_PAIRS = 10
COVERED = 0.5
"""Share of the requests of each side that pairs must stand for, so that the pairs decide."""
EXAMPLES = 10


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison: the requests of a period that have all of what is set."""

    name: str
    since: float
    """Unix time, inclusive."""
    until: float
    """Unix time, exclusive."""
    app: str = ""
    model: str = ""
    prompt_version: str = ""
    tenant: str = ""
    evaluator_version: str = ""
    """Of the evaluator that is compared; empty for the newest score of each request."""


@dataclass(frozen=True, slots=True)
class EvaluatorDifference:
    """One evaluator on both sides."""

    evaluator: str
    all_requests: ShareDifference
    """The share of failures among all requests, weighted by the sampling probability."""
    pairs: ShareDifference | None
    """The same over requests or questions that are on both sides; None with fewer than `LEAST_PAIRS`."""
    same_requests: bool
    """Whether the pairs are requests; else they are questions, each with its latest request on each side."""
    by_pairs: bool
    """Whether the pairs decide: they are requests, or questions that stand for at least half of each side."""
    verdict: str
    """`worse` or `better` where B differs beyond chance, corrected for the number of evaluators (Holm); else empty."""
    sentence: str
    """What the difference means."""
    worse: tuple[tuple[int, int], ...]
    """Pairs that pass in A and fail in B: the store's ids of both, newest first."""
    better: tuple[tuple[int, int], ...]
    """Pairs that fail in A and pass in B."""

    @property
    def difference(self) -> ShareDifference:
        """The one that decides."""
        return self.pairs if self.by_pairs and self.pairs is not None else self.all_requests


@dataclass(frozen=True, slots=True)
class SideBySide:
    """The comparison."""

    a: Side
    b: Side
    requests_a: int
    """Stored requests of A with a verdict."""
    requests_b: int
    rows: tuple[EvaluatorDifference, ...]
    """Evaluators with verdicts on both sides; what differs beyond chance first."""


@dataclass(frozen=True, slots=True)
class _Verdict:
    trace: int
    failed: bool
    probability: float


_Verdicts = Mapping[str, Sequence[_Verdict]]
"""By evaluator; newest request first."""


def compare_sides(store: Store, a: Side, b: Side, evaluator: str = "") -> SideBySide:
    """Compares two sides by the verdicts of one evaluator, or of all evaluators without a name.

    Raises SettingError for a period that ends before it begins, and for a version without an evaluator's name."""
    for side in (a, b):
        if not side.since < side.until:
            raise SettingError(f"the period of {side.name} ends before it begins: {side.since!r} to {side.until!r}")
        if side.evaluator_version and not evaluator:
            raise SettingError(f"the version {side.evaluator_version!r} needs an evaluator; name one with evaluator")
    with store.reading() as connection:
        verdicts_a, verdicts_b = (_verdicts(connection, side, evaluator) for side in (a, b))
        ids = {verdict.trace for side in (verdicts_a, verdicts_b) for of in side.values() for verdict in of}
        questions = read_questions(connection, store.keys, sorted(ids))
    keys = {trace: " ".join(text.casefold().split()) for trace, text in questions.items()}
    names = sorted(verdicts_a.keys() & verdicts_b.keys())
    rows = [_row(name, (a, b), verdicts_a[name], verdicts_b[name], keys) for name in names]
    verdicts = change_verdicts([row.difference for row in rows])
    rows = [replace(row, verdict=verdict) for row, verdict in zip(rows, verdicts, strict=True)]
    rows = sorted(rows, key=lambda row: (not row.verdict, -abs(row.difference.value)))
    return SideBySide(a, b, _count(verdicts_a), _count(verdicts_b), tuple(rows))


def _count(verdicts: _Verdicts) -> int:
    return len({verdict.trace for of in verdicts.values() for verdict in of})


def _verdicts(connection: Connection, side: Side, evaluator: str) -> dict[str, list[_Verdict]]:
    where = in_period(side.since, side.until, side.app)
    for name in ("model", "prompt_version", "tenant"):
        if value := getattr(side, name):
            where.append(traces.c[name] == value)
    requests = select(traces.c.id).where(*where).order_by(traces.c.id.desc()).limit(MOST_REQUESTS).subquery()
    has_verdict = [scores.c.trace == requests.c.id, scores.c.label.in_(("pass", "fail"))]
    if evaluator:
        has_verdict.append(scores.c.evaluator == evaluator)
    if side.evaluator_version:
        has_verdict.append(scores.c.version == side.evaluator_version)
    query = select(requests.c.id, scores.c.evaluator, scores.c.label, scores.c.probability)
    query = query.join(scores, and_(*has_verdict)).order_by(requests.c.id.desc(), scores.c.id)
    newest: defaultdict[str, dict[int, _Verdict]] = defaultdict(dict)
    for trace, name, label, probability in connection.execute(query):
        newest[name][trace] = _Verdict(trace, label == "fail", probability)
    return {name: list(of.values()) for name, of in newest.items()}


def _row(
    evaluator: str, sides: tuple[Side, Side], a: Sequence[_Verdict], b: Sequence[_Verdict], keys: Mapping[int, str]
) -> EvaluatorDifference:
    # Of two times that overlap, the requests of both have one verdict: they say nothing.
    versions = sides[0].evaluator_version != sides[1].evaluator_version
    whole = independent_difference(_rate(a), _rate(b))
    same = versions and bool({verdict.trace for verdict in a} & {verdict.trace for verdict in b})
    key_of = {trace: trace for trace in keys} if same else {trace: key for trace, key in keys.items() if key}
    pairs = _pairs(a, b, key_of)
    difference = None
    if len(pairs) >= LEAST_PAIRS:
        # Of one request both scores are needed: the rarer one decides. Each question counts once, whatever its weight.
        weights = [min(x.probability, y.probability) if same else 1.0 for x, y in pairs]
        difference = paired_difference([(x.failed, y.failed) for x, y in pairs], weights)
    shared = {key_of[x.trace] for x, _ in pairs}
    covers = all(sum(key_of.get(verdict.trace) in shared for verdict in of) >= COVERED * len(of) for of in (a, b))
    covers &= (
        len({verdict.probability for verdict in (*a, *b)}) == 1
    )  # else the latest ones are mostly the certain ones
    by_pairs = difference is not None and (same or covers)
    decisive = difference if difference is not None and by_pairs else whole
    worse = tuple((x.trace, y.trace) for x, y in pairs if y.failed and not x.failed)
    better = tuple((x.trace, y.trace) for x, y in pairs if x.failed and not y.failed)
    sentence = difference_sentence(sides[0].name, sides[1].name, decisive)
    return EvaluatorDifference(
        evaluator, whole, difference, same, by_pairs, "", sentence, worse[:EXAMPLES], better[:EXAMPLES]
    )


def _rate(verdicts: Sequence[_Verdict]) -> Estimate:
    return weighted([float(one.failed) for one in verdicts], [one.probability for one in verdicts], rate=True)


def _pairs(a: Sequence[_Verdict], b: Sequence[_Verdict], key_of: Mapping[int, Any]) -> list[tuple[_Verdict, _Verdict]]:
    """The latest verdict of each side for each key that both have, in the order of B."""
    latest: dict[Any, _Verdict] = {}
    for verdict in a:
        if verdict.trace in key_of:
            latest.setdefault(key_of[verdict.trace], verdict)
    pairs: dict[Any, tuple[_Verdict, _Verdict]] = {}
    for verdict in b:
        key = key_of.get(verdict.trace)
        if key in latest and key not in pairs:
            pairs[key] = (latest[key], verdict)
    return list(pairs.values())


def names_in_use(store: Store, column: str, since: float, until: float, app: str = "") -> dict[str, int]:
    """The values of `prompt_version`, `model` or `tenant` in a period, in the order in which they were first seen
    there, and the number of stored requests of each; at most the 200 newest."""
    name = traces.c[column]
    where = [*in_period(since, until, app), name.is_not(None), name != ""]
    first = select(name, func.min(traces.c.id), func.count()).where(*where).group_by(name)
    rows = sorted(store.rows(first), key=lambda row: row[1])
    return {value: count for value, _, count in rows[-200:]}


def evaluator_versions(store: Store, evaluator: str) -> list[str]:
    """The versions of an evaluator that scored something, the first one first."""
    query = select(evaluators.c.version).where(evaluators.c.name == evaluator).order_by(evaluators.c.first_seen)
    return [version for (version,) in store.rows(query)][-200:]
