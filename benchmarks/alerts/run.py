"""Do the shipped alerts page when they should, and only then?

    python benchmarks/alerts/run.py [--quick] [--only quiet falls targets rules estimates troubles] [--jobs 2]
        [--kinds rhythm usual noisy "bad nights"] [--when steady busy any]
        [--rates 20 200 2000] [--sampling 1% 5% 20% biased] [--runs 40] [--months 2] [--days 30] [--step 60] [--seed 1]

Needs prometheus and promtool, numpy and pyyaml. Applications with a daily and weekly rhythm are simulated minute by
minute and written as OpenMetrics; promtool makes them blocks; a Prometheus evaluates the recording and alerting rules
of grafana/rules over them; `for` and `keep_firing_for` are applied to what it answers. Beside them stands what is
usually made: avg_over_time(score[15m]) < 0.8, over a gauge with the mean score since the last scrape, where an answer
that passes scores 1 and another 0.

Scrapes and evaluations come every `--step` seconds where nothing happens; around a sudden fall every minute, in the
eight days before it, later than three hours after it, and for creeping falls every five minutes. Delays beyond three
hours are therefore up to five minutes too long. Progress goes to stderr.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import estimates
import falls
import quiet
import report
import troubles
from traffic import SAMPLINGS

LEVELS = (0.85, 0.75, 0.5)
PARTS = ("quiet", "falls", "targets", "rules", "estimates", "troubles")
Job = tuple[Callable[..., Any], tuple[Any, ...]]


def calm_jobs(o: argparse.Namespace) -> list[Job]:
    """30 days in which nothing happens."""
    some = [(rate, sampling) for rate in o.rates for sampling in o.sampling]
    calms = [quiet.Calm(*each, kind) for kind in ("rhythm", "usual") for each in some]
    calms += [quiet.Calm(rate, "5%", kind) for kind in ("noisy", "bad nights") for rate in o.rates]
    calms = [calm for calm in calms if calm.kind in o.kinds]
    return [(quiet.pages, (calm, o.months, o.seed, o.days, o.step)) for calm in calms]


def fall_jobs(o: argparse.Namespace) -> list[Job]:
    """Sudden falls under every sampling, others at 5 %."""
    jobs = [falls.Fall(r, s, level) for r in o.rates for s in o.sampling for level in LEVELS]
    others = ("creeping", False), ("tenant", False), ("sudden", True)
    jobs += [falls.Fall(r, "5%", level, shape, noisy=n) for shape, n in others for r in o.rates for level in LEVELS]
    return [(falls.delays, (fall, o.runs, o.seed, "page")) for fall in jobs]


def target_jobs(o: argparse.Namespace) -> list[Job]:
    """The falls for which there is a target."""
    aims = [(r, level) for r, level in report.TARGETS if r in o.rates]
    jobs = [falls.Fall(r, "5%", level, when=w) for w in o.when for r, level in aims]
    return [(falls.delays, (fall, 5 * o.runs, o.seed + 1, "page")) for fall in jobs]


def rule_jobs(o: argparse.Namespace) -> list[Job]:
    """Falls whose delays are shown by rule."""
    jobs = [falls.Fall(200, "5%", level) for level in LEVELS] + [falls.Fall(200, "5%", 0.75, "creeping")]
    return [(falls.delays, (fall, o.runs, o.seed + 2, "page", "ticket")) for fall in jobs]


def estimate_jobs(o: argparse.Namespace) -> list[Job]:
    """Rates under error-biased sampling."""
    some = [(usual, sampling) for sampling in ("biased", "biased 10%") for usual in (0.96, 0.92, 0.85)]
    return [(estimates.errors, (usual, sampling, 5 * o.runs, o.seed)) for usual, sampling in some]


def jobs(o: argparse.Namespace) -> dict[str, list[Job]]:
    """All that is to be done, by part."""
    jobs: dict[str, list[Job]] = {
        "quiet": calm_jobs(o),
        "falls": fall_jobs(o),
        "targets": target_jobs(o),
        "rules": rule_jobs(o),
        "estimates": estimate_jobs(o),
        "troubles": [(troubles.harm, (kind, rate, 4, o.seed)) for kind in troubles.KINDS for rate in (20, 200)],
    }
    return {part: jobs[part] for part in PARTS if part in o.only}


TITLES: dict[str, tuple[str, tuple[Callable[..., str], ...]]] = {
    "quiet": ("False pages where nothing happens", (report.quiet, report.quiet_rules)),
    "falls": ("From a fall to the first page, at any hour of the week", (report.falls,)),
    "targets": ("Targets, at 5 % sampling", (report.targets,)),
    "rules": ("By rule, at 200 requests a minute and 5 %: median / p90", (report.rules,)),
    "estimates": ("Failure rate under error-biased sampling, in percentage points", (report.estimates,)),
    "troubles": ("Resets, deaths, clocks: three days of two workers", (report.troubles,)),
}


def run(todo: dict[str, list[Job]], workers: int) -> None:
    """Do it, with a line for each thing that is done, and print the tables of each part at its end."""
    started, done, whole = time.monotonic(), 0, sum(map(len, todo.values()))
    with ProcessPoolExecutor(workers) as pool:
        waiting = {part: [pool.submit(f, *arguments) for f, arguments in some] for part, some in todo.items()}
        for part, some in waiting.items():
            for future, (_, arguments) in zip(some, todo[part], strict=True):
                future.result()
                done += 1
                seconds = time.monotonic() - started
                print(f"{seconds:5.0f} s, {done} of {whole}: {part} {arguments[0]}", file=sys.stderr, flush=True)
            title, tables = TITLES[part]
            print(f"## {title}\n")
            for make in tables:
                print(make([future.result() for future in some]) + "\n", flush=True)


def options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of it, every five minutes: for a look")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--rates", nargs="+", type=float, default=[20, 200, 2000], help="requests a minute")
    parser.add_argument("--sampling", nargs="+", choices=list(SAMPLINGS), default=list(SAMPLINGS)[:4])
    parser.add_argument(
        "--kinds", nargs="+", choices=quiet.KINDS, default=list(quiet.KINDS), help="where nothing happens"
    )
    parser.add_argument("--when", nargs="+", choices=falls.WHEN, default=list(falls.WHEN), help="hours of targets")
    parser.add_argument("--runs", type=int, default=40, help="falls in each scenario; five times as many for targets")
    parser.add_argument("--months", type=int, default=2, help="applications in each scenario where nothing happens")
    parser.add_argument("--days", type=float, default=30, help="how long nothing happens")
    parser.add_argument("--step", type=int, default=60, help="seconds between evaluations where nothing happens")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    if options.quick:
        options.runs, options.months, options.step, options.sampling = (
            8,
            1,
            300,
            [s for s in options.sampling if s != "20%"],
        )
    return options


def main() -> None:
    o = options()
    print(f"seed {o.seed}, {o.runs} runs, {o.months} months of {o.days:g} days at {o.step} s\n")
    run(jobs(o), o.jobs)


if __name__ == "__main__":
    main()
