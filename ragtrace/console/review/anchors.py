"""Scores reviewed logs again, to tell a change of the evaluator from a change of the application.

Logs that people judged are anchors: neither their texts nor what people say of them changes. Each day the evaluators
score them again. If the scores move, the evaluator or the judge's model changed; if they stay while the scores of new
requests fall, the application did. `ragtrace.statistics.bets` has the evidence."""

import math
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any

from sqlalchemy import insert, select

from ragtrace import calibrations, plugins
from ragtrace.console.chatlogs.queue_schema import anchor_scores
from ragtrace.console.chatlogs.reader import read_traces
from ragtrace.console.chatlogs.schema import verdicts
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.review.consensus import USABLE, group_by_log
from ragtrace.console.review.true_shares import badness_sign
from ragtrace.console.review.weights import load_verdicts
from ragtrace.errors import DataError, SettingError
from ragtrace.evaluation import Evaluator, run
from ragtrace.records import Score
from ragtrace.settings import Settings, evaluator_shares
from ragtrace.statistics.bets import ALARM, log_wealth_against_move, wealth_against_same

LEAST, MOST = 20, 60
"""Anchors of an evaluator: below the first number nothing is scored again."""
BASELINE = 3
"""Runs before the evidence begins, one an hour: later runs are compared with them."""
_REFERENCE = 20
"""Earlier scores of a log that a new one is compared with, the first ones: more say little, and a page reads them."""
_DAY = 86_400.0
_WEEK = 7 * _DAY
"""A change is shown for so long. Later runs are compared with the runs since it."""


@dataclass(frozen=True, slots=True)
class Drift:
    """What the anchors say of one evaluator."""

    evaluator: str
    anchors: int
    """Of the last run."""
    ran: float
    """Unix time of the last run."""
    log_changed: float = 0.0
    """Log of the e-value against the hypothesis that the evaluator scores as before. From 3 on (an e-value of 20) it
    changed; all evaluators that stay the same reach this with a probability of 5 % at most, in all time."""
    log_same: float = 0.0
    """Log of the e-value against the hypothesis that it fails 10 points more, or fewer, of the anchors than before."""
    changed: float | None = None
    """Unix time of the run that showed a change, in the last week."""
    more: int = 0
    """Anchors that it fails and did not fail before, less those that it failed before only: in the run of the change,
    or in the last one."""
    kinds: tuple[str, ...] = ()
    """The version, with the judge's model, before and after the change; one where it is the same."""

    @property
    def says(self) -> str:
        """What changed if the share of failures did: `evaluator`, `application`, or `unknown` as yet."""
        if self.changed is not None:
            return "evaluator"
        return "application" if self.log_same >= ALARM else "unknown"


def sentence(drift: Drift) -> str:
    """What the anchors say, for people."""
    if drift.says == "unknown":
        return "It is not yet known whether it scores these logs as before."
    if drift.says == "application":
        return "It scores these logs as before. If more answers fail, the application changed."
    cause = f"from {drift.kinds[0]} to {drift.kinds[1]}" if len(drift.kinds) > 1 else "its version is the same"
    moved = f"{abs(drift.more)} {'more' if drift.more >= 0 else 'fewer'} of them fail"
    return f"The evaluator changed ({cause}): it scores these logs otherwise than before, and {moved}."


def score_again(store: Store, settings: Settings, stop: Event | None = None, now: float | None = None) -> int:
    """Scores the anchors of each evaluator whose last run is a day old, or had another version or judge's model;
    returns how many scores were stored. Raises StoreError as the store does."""
    now = time.time() if now is None else now
    settings = _without_memory(settings)
    count = 0
    for (name,) in store.rows(select(verdicts.c.evaluator).distinct().order_by(verdicts.c.evaluator)):
        if (check := _load(name, settings)) is not None and _is_due(store, check, settings, now):
            count += _run(store, check, settings, stop, now)
    return count


def _without_memory(settings: Settings) -> Settings:
    """The settings of a judge that remembers no reply, because it would never change, but all that it spent."""
    ledger = settings.judge_ledger or settings.judge_store or str(Path(_folder().name) / "spending")
    return replace(settings, judge_store="", judge_ledger=ledger)


@cache
def _folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="ragtrace-")


def _load(name: str, settings: Settings) -> Evaluator | None:
    """The evaluator as the settings have it; None where this process cannot run it."""
    for own in (name, *(one for one, _ in evaluator_shares(settings.evaluators) if ":" in one)):
        with suppress(SettingError):  # an evaluator that the application passes as an object
            if (check := plugins.load(own, settings)).name == name:
                file = settings.calibration_file
                return calibrations.File(file)([check])[0] if file else check
    return None


def _kind(check: Evaluator, settings: Settings) -> str:
    """The version, and the model of a judge."""
    return f"{check.version} {settings.judge_model}"[:200] if check.asks_judge else check.version


def _is_due(store: Store, check: Evaluator, settings: Settings, now: float) -> bool:
    own = select(anchor_scores.c.time, anchor_scores.c.kind).where(anchor_scores.c.evaluator == check.name).distinct()
    runs = store.rows(own.order_by(anchor_scores.c.time.desc()).limit(BASELINE))
    return len(runs) < BASELINE or runs[0].time <= now - _DAY or runs[0].kind != _kind(check, settings)


def _run(store: Store, check: Evaluator, settings: Settings, stop: Event | None, now: float) -> int:
    from ragtrace.evaluate.judge import close_judge

    ids = _anchors(store, check.name)
    if len(ids) < LEAST:
        return 0
    rows = []
    try:
        for trace in ids:
            if stop is not None and stop.is_set():
                return 0
            if (score := _score(store, check, trace)) is not None:
                rows.append({"trace": trace, "evaluator": check.name, "time": now, "kind": _kind(check, settings),
                             "value": score.value, "label": score.label})  # fmt: skip
    finally:
        close_judge(settings)
    if rows:
        store.execute(insert(anchor_scores).values(rows))
    return len(rows)


def _score(store: Store, check: Evaluator, trace: int) -> Score | None:
    """The verdict on one log; None for a log that is damaged or gone, and for an evaluation that failed."""
    from ragtrace.evaluate.judge import deadline

    with suppress(DataError), store.reading() as connection:
        for log in read_traces(connection, store.keys, [trace]).values():
            with deadline(60.0):
                scores = run(check, [log])[0]
            return next((one for one in scores if one.name == check.name and one.label in USABLE), None)
    return None


def _anchors(store: Store, evaluator: str) -> list[int]:
    """Logs that people fail and that they pass, half of each where there are so many: those that were scored again
    before, so that there is something to compare with, and then the newest."""
    logs = group_by_log(load_verdicts(store, evaluator), weighted=False)
    own = select(anchor_scores.c.trace).where(anchor_scores.c.evaluator == evaluator)
    before = {trace for (trace,) in store.rows(own.distinct())}
    logs.sort(key=lambda log: (log.trace not in before, -log.trace))
    bad, good = [[log.trace for log in logs if (log.bad >= 0.5) is side] for side in (True, False)]
    half = MOST // 2
    return sorted((bad[: max(half, MOST - len(good))] + good[: max(half, MOST - len(bad))])[:MOST])


def drifts(store: Store, now: float | None = None) -> list[Drift]:
    """What the anchors say of each evaluator that has scored them again."""
    now = time.time() if now is None else now
    query = select(anchor_scores).order_by(anchor_scores.c.evaluator, anchor_scores.c.time, anchor_scores.c.trace)
    by_name = groupby(store.rows(query), key=lambda row: row.evaluator)
    return [_drift(store, name, list(own), now) for name, own in by_name]


class _Rescored:
    """A score of an anchor: more is worse."""

    def __init__(self, row: Any, sign: float, is_bad: bool) -> None:
        self.trace, self.kind, self.is_bad = row.trace, row.kind, is_bad
        self.fails = row.label == "fail"
        self.value = float(self.fails) if row.value is None else sign * row.value


_Past = defaultdict[int, list[_Rescored]]
"""The first scores of each anchor since the last change, at most `_REFERENCE`."""


def _drift(store: Store, evaluator: str, rows: Sequence[Any], now: float) -> Drift:
    bad = {log.trace: log.bad >= 0.5 for log in group_by_log(load_verdicts(store, evaluator), weighted=False)}
    sign = badness_sign(store, evaluator)
    runs: list[Drift] = []
    past, count, kind, wealth = _Past(list), 0, rows[0].kind, list[float]()  # scores and runs since the last change
    for moment, group in groupby(rows, key=lambda row: row.time):
        fresh = [_Rescored(row, sign, bad[row.trace]) for row in group if row.trace in bad]
        drift = Drift(evaluator, len(fresh), moment)
        if count >= BASELINE and fresh:
            pairs = [(one, past[one.trace]) for one in fresh if one.trace in past]
            scores = [(one.value, [before.value for before in own], one.is_bad) for one, own in pairs]
            wealth = wealth_against_same(scores, count + 1 - BASELINE, wealth)
            log, moves = math.log(fmean(wealth)), [one.fails - own[0].fails for one, own in pairs]
            drift = replace(drift, log_changed=log, more=sum(moves))
            if log < ALARM:
                drift = replace(drift, log_same=log_wealth_against_move(moves))
            else:
                drift = replace(drift, changed=moment, kinds=tuple(dict.fromkeys((kind, fresh[0].kind))))
                past, count, kind, wealth = _Past(list), 0, fresh[0].kind, []
        count += 1
        for one in fresh:
            if len(past[one.trace]) < _REFERENCE:
                past[one.trace].append(one)
        runs.append(drift)
    changes = [one for one in runs if one.changed is not None and now - one.changed <= _WEEK]
    return replace(changes[-1], ran=runs[-1].ran) if changes else runs[-1]
