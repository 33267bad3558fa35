"""How many cores, bytes and dollars an installation takes: python benchmarks/scale_model.py [--write]

Computed from the figures in scale_figures.json, which the other benchmarks measured, and from the assumptions below.
Prints the tables of docs/scale.md; --write puts them there.
"""

import argparse
import json
import math
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "scale.md"
BEGIN, END = "<!-- tables: python benchmarks/scale_model.py --write -->\n", "<!-- end of the tables -->\n"
RATES = (10, 100, 1_000, 10_000)
"""Traces a second."""
SAMPLES = (0.01, 0.1, 1.0)
USE = 0.7
"""Share of its time that a core may work, so that bursts do not queue up."""
CORE_HOUR = 0.04
"""US dollars for a core for an hour."""
JUDGE_TOKENS = (3_000, 250)
"""Tokens of a prompt with five chunks, and of its answer."""
JUDGE_SECONDS = 2.5
"""Seconds for one request to the judge."""
JUDGE_REQUESTS = 8
"""Requests that one process has open: the default of `judge_concurrency`."""
PRICES = {
    "gpt-5-nano": (0.05, 0.40), "gpt-4o-mini": (0.15, 0.60), "claude-haiku-4-5": (1.00, 5.00),
    "claude-sonnet-4-5": (3.00, 15.00),
}  # fmt: skip
"""US dollars for a million tokens of prompt and of answer: litellm's list on 23 November 2026."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What the benchmarks measured."""

    spans_per_core: float
    """Spans a second that a worker takes, reads and sends on, on one core."""
    spans: float
    """Spans of a trace."""
    bytes: float
    """Bytes of a trace on the wire, with all texts."""
    stored: float
    """Traces a second that one store takes."""
    evaluators: dict[str, float]
    """Milliseconds of one core for a trace, by suite."""


def load() -> Figures:
    """The figures of scale_figures.json."""
    entries = {name: entry["value"] for name, entry in json.loads((HERE / "scale_figures.json").read_text()).items()}
    return Figures(
        entries["spans_per_second_per_core"], entries["spans_per_trace"], entries["bytes_per_trace"],
        entries["store_traces_per_second"], entries["evaluator_ms"],
    )  # fmt: skip


def intake_cores(figures: Figures, rate: float) -> float:
    """Cores that receive, read and send `rate` traces a second: all of them, because sampling comes after it."""
    return rate * figures.spans / figures.spans_per_core / USE


def evaluation_cores(milliseconds: float, rate: float, sample: float) -> float:
    """Cores that evaluate a share `sample` of `rate` traces a second."""
    return rate * sample * milliseconds / 1000 / USE


def judge_dollars(model: str, traces: float) -> float:
    """US dollars for one request about each trace."""
    return traces * sum(tokens * price for tokens, price in zip(JUDGE_TOKENS, PRICES[model], strict=True)) / 1e6


def core_dollars(milliseconds: float, traces: float) -> float:
    """US dollars of processor time for traces that take so long on one core."""
    return traces * milliseconds / 1000 / USE / 3600 * CORE_HOUR


def capacities(figures: Figures, sample: float) -> dict[str, float]:
    """Traces a second that each part of the smallest installation takes: one core for each process, one store."""
    return {
        "taking spans": figures.spans_per_core / figures.spans * USE,
        **{f"evaluating, {name}": 1000 / ms * USE / sample for name, ms in figures.evaluators.items()},
        "asking the judge": JUDGE_REQUESTS / JUDGE_SECONDS / sample, "storing (SQLite)": figures.stored / sample,
    }  # fmt: skip


def _cores(value: float) -> str:
    return f"{math.ceil(value):,}"


def _dollars(value: float) -> str:
    return "< 0.01" if value < 0.005 else f"{value:,.2f}" if value < 10 else f"{value:,.0f}"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |\n"


def _head(*cells: str) -> str:
    return _row(*cells) + "|" + "---|" * len(cells) + "\n"


def sizing(figures: Figures) -> str:
    """Cores, judge's requests and bytes by traces a second and share that is evaluated."""
    lines = _head(
        "traces a second", "evaluated", "cores that take spans", *(f"cores: {name}" for name in figures.evaluators),
        "judge: open requests", "processes with a judge", "network, MB/s", "texts stored a day, GB",
    )  # fmt: skip
    for rate in RATES:
        for sample in SAMPLES:
            requests = rate * sample * JUDGE_SECONDS
            lines += _row(
                f"{rate:,}",
                f"{sample:.0%}",
                _cores(intake_cores(figures, rate)),
                *(_cores(evaluation_cores(ms, rate, sample)) for ms in figures.evaluators.values()),
                f"{math.ceil(requests):,}",
                _cores(requests / JUDGE_REQUESTS),
                f"{rate * figures.bytes / 1e6:,.1f}",
                f"{rate * sample * figures.bytes * 86_400 / 1e9:,.0f}",
            )
    return lines


def costs(figures: Figures) -> str:
    """US dollars for a million traces that arrive, by evaluator and share that is evaluated."""
    lines = _head("evaluator", *(f"{sample:.0%} evaluated" for sample in SAMPLES))
    for name, ms in figures.evaluators.items():
        lines += _row(name, *(_dollars(core_dollars(ms, 1e6 * sample)) for sample in SAMPLES))
    for model in PRICES:
        lines += _row(f"one question to {model}", *(_dollars(judge_dollars(model, 1e6 * sample)) for sample in SAMPLES))
    taking = _dollars(core_dollars(1000 * figures.spans / figures.spans_per_core, 1e6))
    return lines + _row("taking the spans", *[taking] * len(SAMPLES))


def bottlenecks(figures: Figures) -> str:
    """Traces a second at which each part is full, the first one in bold."""
    lines = _head("part, one of each", *(f"{sample:.0%} evaluated" for sample in SAMPLES))
    columns = [capacities(figures, sample) for sample in SAMPLES]
    for part in columns[0]:
        cells = []
        for column in columns:
            text = f"{column[part]:,.0f}" if column[part] >= 10 else f"{column[part]:.1f}"
            cells.append(f"**{text}**" if column[part] == min(column.values()) else text)
        lines += _row(part, *cells)
    return lines


def tables(figures: Figures) -> str:
    """All tables of the page."""
    return (
        f"### Sizes\n\n{sizing(figures)}\n### Cost of a million traces, US dollars\n\n{costs(figures)}\n"
        f"### Where the first bottleneck is, traces a second\n\n{bottlenecks(figures)}"
    )


def main() -> None:
    """Print the tables, or write them into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="replace the tables of docs/scale.md")
    text = tables(load())
    if not parser.parse_args().write:
        print(text)
        return
    page = PAGE.read_text("utf-8")
    before, rest = page.split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}", "utf-8")


if __name__ == "__main__":
    main()
