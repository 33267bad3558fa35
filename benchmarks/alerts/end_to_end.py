"""How long users wait for a page with the real evaluator: python benchmarks/alerts/end_to_end.py --data FOLDER

Labelled answers of RAGTruth's questions (FOLDER is that of benchmarks/quality.py) are put through `faithfulness`, once
as they are, once with the chunks of another question, once without chunks. What it says is the traffic of simulated
applications, whose counters the rules read (`model.begins`). Four things happen: bad answers become more frequent (.92
to .75 are good), the retriever returns other chunks, the model is exchanged (the best for the worst of RAGTruth), the
prompt loses its context. Beside each stands a perfect evaluator, which says what the labels say.
"""

import argparse
import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from model import DAY_STEPS, HISTORY, STEP, begins, phase
from traffic import DAY, rhythm

from ragtrace import plugins
from ragtrace.evaluation import run
from ragtrace.records import Facts
from ragtrace.testing import make_trace

BEST, WORST = "gpt-4-0613", "llama-2-7b-chat"
RATES = ((20, 0.05), (60, 0.05), (200, 0.05), (200, 0.20))
Verdicts = list[bool]


def failing(rows: Sequence[dict[str, Any]], contexts: str = "own") -> list[bool | None]:
    """Whether the evaluator fails each answer; None where it does not apply."""
    check = plugins.load("faithfulness")
    traces = []
    for i, row in enumerate(rows):
        other = next(each for each in (*rows[i:], *rows) if each["source_id"] != row["source_id"])
        chunks = {"own": row["contexts"], "others": other["contexts"], "none": []}[contexts]
        traces.append(make_trace(row["query"] or "", chunks, row["answer"], facts=Facts(name="rag")))
    labels = [scores[0].label for scores in run(check, traces)]
    return [label == "fail" if label in ("pass", "fail") else None for label in labels]


def share(verdicts: Sequence[bool | None]) -> tuple[float, float]:
    """The failing share of the answers that it applies to, and how many these are."""
    known = [v for v in verdicts if v is not None]
    return sum(known) / max(1, len(known)), len(known) / max(1, len(verdicts))


def delays(rate: float, sampled: float, before: tuple[float, float], after: tuple[float, float], busy: bool) -> str:
    """Median and 95 % of the minutes to the page, of 60 falls."""
    random = np.random.default_rng([7, int(rate), int(1_000 * before[0]), int(1_000 * after[0])])
    drop = HISTORY * DAY
    times = np.arange(0, int((HISTORY + 1.5) * DAY) + 1, STEP).astype(float)
    counts = []
    for _ in range(60):
        flow = rhythm(times + phase(random, drop, busy=True)) if busy else np.full(len(times), 0.4)
        applies, fails = (np.where(times > drop, after[i], before[i]) for i in (1, 0))
        n = random.poisson(rate * STEP / 60 * flow * sampled * applies)
        counts.append((random.binomial(n, fails), n))
    fails, n = (np.array([each[i] for each in counts]) / sampled for i in (0, 1))
    starts = begins(fails, n, n / sampled)
    first = int(drop // STEP) + 1
    early = starts[:, DAY_STEPS:first].any(axis=1).mean()
    late = [float(np.argmax(row[first:]) + 1) * 5 if row[first:].any() else np.inf for row in starts]
    median, most = np.quantile(late, (0.5, 0.95), method="lower")
    text = [f"{value:.0f} min" if np.isfinite(value) else "never" for value in (median, most)]
    return f"{text[0]}; {text[1]}" + (f" ({early:.0%} paged before)" if early > 0.1 else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=300, help="answers of each kind")
    o = parser.parse_args()
    with gzip.open(o.data / "ragtruth_dev.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [row for row in map(json.loads, lines) if row["task"] == "QA"]
    good, bad = ([row for row in rows if bool(row["label"]) is kind][: o.rows] for kind in (False, True))
    (g, covered), (b, _) = share(failing(good)), share(failing(bad))
    print(f"faithfulness fails {b:.1%} of the bad and {g:.1%} of the good answers; it applies to {covered:.0%}")
    models = [[row for row in rows if row["model"] == name][: o.rows] for name in (BEST, WORST)]
    shown = [share(failing(part)) for part in models]
    true = [sum(bool(row["label"]) for row in part) / len(part) for part in models]

    def mixed(bad_share: float) -> tuple[float, float]:
        return bad_share * b + (1 - bad_share) * g, covered

    other, none = share(failing(good, "others")), share(failing(good, "none"))
    stories = (
        (".92 to .75 are good", mixed(0.08), mixed(0.25), 0.08, 0.25), ("other chunks", mixed(0.08), other, 0.08, 1.0),
        (f"{BEST} to {WORST}", shown[0], shown[1], true[0], true[1]), ("no context", mixed(0.08), none, 0.08, 1.0),
    )  # fmt: skip
    for name, before, after, is_bad, becomes_bad in stories:
        print(
            f"\n{name}: the evaluator fails {before[0]:.1%}, then {after[0]:.1%}; true {is_bad:.0%}, {becomes_bad:.0%}"
        )
        for rate, sampled in RATES:
            for busy in (True, False):
                mine = delays(rate, sampled, before, after, busy)
                perfect = delays(rate, sampled, (is_bad, 1.0), (becomes_bad, 1.0), busy)
                hours = "busy" if busy else "quiet"
                print(f"| {rate} a minute, {sampled:.0%}, {hours} hours | {mine} | {perfect} |", flush=True)


if __name__ == "__main__":
    main()
