"""How often somebody is paged for nothing: applications to which nothing happens."""

from __future__ import annotations

import dataclasses

import history
import numpy as np
import replay
import shipped
from falls import DROP
from firing import merged
from traffic import DAY, WEEK, Story, counted


@dataclasses.dataclass(frozen=True)
class Calm:
    """A scenario without a fall: `rhythm` (of day and week, nothing else), `usual` (failure rates wander, too), `noisy`
    (the evaluator errs, besides), or `bad nights` (three hours of each, besides)."""

    rate: float
    sampling: str
    kind: str = "usual"

    def story(self, phase: int, usual: float) -> Story:
        return Story(
            self.rate,
            self.sampling,
            phase=phase,
            noisy=self.kind == "noisy",
            nightly=self.kind == "bad nights",
            wanders=self.kind != "rhythm",
            usual=usual,
        )


@dataclasses.dataclass(frozen=True)
class Pages:
    """For each rule, and for a pager that groups an application's alerts, the pages of each run; `early` are those of
    the first eight days, in which there is no last week to compare with."""

    calm: Calm
    days: float
    rules: dict[str, list[int]]
    pager: list[int]
    early: list[int]
    naive: list[int]


KINDS = ("rhythm", "usual", "noisy", "bad nights")
EVALUATORS = {"faithfulness": 0.92, "pii_leakage": 0.99}
"""And the share that passes usually."""


def pages(calm: Calm, runs: int, seed: int, days: float = 30, step: int = 60) -> Pages:
    """Run one scenario, from the application's first minute on, with scrapes and evaluations every `step` seconds."""
    times = np.arange(DROP, DROP + int(days * DAY) + 1, step)
    writer = history.Writer(times)
    for i in range(runs):
        random = np.random.default_rng([seed, i, int(calm.rate), 7])
        phase = int(random.integers(0, WEEK // 60)) * 60
        for evaluator, usual in EVALUATORS.items():
            counts = counted(random, times, calm.story(phase, usual), 0)
            history.application(writer, counts, f"run{i}", evaluator, whole=True)
            if calm.kind not in ("rhythm", "usual"):
                break
    alerts = shipped.alerts("page")
    fired = replay.fired(writer, [*alerts, replay.NAIVE], [(step, times)])
    mine = {name: [[*by.get(f"run{i}", ()), *by.get("", ())] for i in range(runs)] for name, by in fired.items()}
    naive = [len(e) for e in mine.pop("naive")]
    grouped = [merged(e for several in mine.values() for e in several[i]) for i in range(runs)]
    early = [sum(e.start < DROP + 8 * DAY for e in several) for several in grouped]
    rules = {name: [len(e) for e in several] for name, several in mine.items()}
    return Pages(calm, days, rules, [len(e) for e in grouped], early, naive)
