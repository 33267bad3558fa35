"""How soon a fall is paged: many applications that fall at one time, each at another hour of its week."""

from __future__ import annotations

import dataclasses
import math

import history
import numpy as np
import replay
import shipped
from traffic import DAY, HOUR, WEEK, Array, Story, counted, rhythm

DROP = 1_700_006_400 // WEEK * WEEK
"""When all of them fall, in Unix seconds. What is before it is eight days."""
WHEN = ("steady", "busy", "any")
FINE = 3 * HOUR
"""So long after a sudden fall scrapes and evaluations come every minute, later every five."""


@dataclasses.dataclass(frozen=True)
class Fall:
    """A scenario. `when` is `any` hour of the week, `busy` for hours with at least the mean traffic, or `steady` for
    traffic without a rhythm."""

    rate: float
    sampling: str
    after: float
    shape: str = "sudden"
    when: str = "any"
    noisy: bool = False

    @property
    def horizon(self) -> int:
        """Seconds after which a fall counts as missed."""
        return 4 * DAY if self.shape == "creeping" else DAY


@dataclasses.dataclass(frozen=True)
class Delays:
    """Minutes from the fall to the first firing of each rule, one for each run; infinite where there was none."""

    fall: Fall
    rules: dict[str, list[float]]
    pages: list[float]
    naive: list[float]


def axis(fall: Fall) -> tuple[Array, replay.Grid]:
    """When there are scrapes, and the same times with their steps."""
    end = DROP + fall.horizon
    if fall.shape == "creeping":
        times = np.arange(DROP - 8 * DAY, end + 1, 300)
        return times, [(300, times)]
    coarse = np.arange(DROP - 8 * DAY, DROP - 2 * HOUR, 300)
    fine = np.arange(DROP - 2 * HOUR, DROP + FINE + 1, 60)
    late = np.arange(DROP + FINE + 300, end + 1, 300)
    return np.concatenate([coarse, fine, late]), [(300, coarse), (60, fine), (300, late)]


def phase(random: np.random.Generator, when: str) -> int:
    """How far the week has come when the application falls."""
    while True:
        offset = int(random.integers(0, WEEK // 60)) * 60
        if when != "busy" or rhythm(np.array([DROP + offset]))[0] >= 1:
            return offset


def delays(fall: Fall, runs: int, seed: int, *severities: str) -> Delays:
    """Run one scenario through the rules on quality that have these severities."""
    times, grid = axis(fall)
    writer = history.Writer(times)
    for i in range(runs):
        random = np.random.default_rng([seed, i, int(fall.rate), round(fall.after * 100)])
        story = Story(
            fall.rate, fall.sampling, fall.after, fall.shape, phase(random, fall.when), fall.noisy,
            steady=fall.when == "steady",
        )  # fmt: skip
        history.application(writer, counted(random, times, story, DROP), f"run{i}", whole=False)
    alerts = [a for a in shipped.alerts(*severities) if a.name.startswith("Quality")]
    fired = replay.fired(writer, [*alerts, replay.NAIVE], grid, since=DROP)
    results = {
        name: [min(((e.start - DROP) / 60 for e in by.get(f"run{i}", ())), default=math.inf) for i in range(runs)]
        for name, by in fired.items()
    }
    naive = results.pop("naive")
    pages = [results[a.name] for a in alerts if a.severity == "page"]
    return Delays(fall, results, [min(first) for first in zip(*pages, strict=True)], naive)
