"""Simulates months of reviews and measures the intervals of the true share: python benchmarks/true_share.py

For each kind of review it prints how many of the 95 % intervals hold the truth (the mean of all months, and the least
and most of the cells), and the width beside an interval of the verdicts alone. A month has 8,000 requests. Suspicious
ones (85 % of the bad and 5 % of the good) are evaluated with p = .9 and others with p = .05, or all with p = .3. The
score is binormal with an area under the ROC curve of .65, .8 or .9.
"""

import argparse
import itertools
import random
import statistics

from ragtrace.console.review.fill_queue import chances
from ragtrace.statistics import Sums
from ragtrace.statistics.true_share import JudgedLog, TrueShare, true_share

REQUESTS = 8_000
NORMAL = statistics.NormalDist()
Row = tuple[float, float, float]
"""Whether people fail it, its score (higher is worse), its probability of being evaluated."""


def month(chance: random.Random, fails: float, area: float, biased: bool) -> list[Row]:
    """The evaluated requests of a month."""
    shift = 2**0.5 * NORMAL.inv_cdf(area)
    rows = []
    for _ in range(REQUESTS):
        bad = chance.random() < fails
        p = 0.3
        if biased:
            p = 0.9 if chance.random() < (0.85 if bad else 0.05) else 0.05
        if chance.random() < p:
            rows.append((float(bad), NORMAL.cdf(chance.gauss(shift * (bad - 0.5), 1.0)), p))
    return rows


def reviewed(chance: random.Random, rows: list[Row], past: list[Row], count: int, kind: str) -> TrueShare:
    """The estimate from reviews of `count` logs: drawn alike, where they say most, or half of them the worst."""
    worst: list[Row] = []
    if kind == "rules":
        ranked = sorted(rows, key=lambda row: -row[1])
        worst, rows = ranked[: count // 2], ranked[count // 2 :]
    scores = Sums()
    for _, score, p in (*rows, *worst):
        scores.add(score, p)
    drawn = count - len(worst)
    if kind == "most":
        parts = chances(
            [(score, 1 / p) for _, score, p in rows], drawn,
            [JudgedLog(bad, score, 1 / p) for bad, score, p in chance.sample(past, 60)],
        )  # fmt: skip
    else:
        parts = [min(1.0, drawn / len(rows))] * len(rows)
    order = sorted(zip(rows, parts, strict=True), key=lambda pair: chance.random() / pair[1])[:drawn]
    verdicts = [JudgedLog(bad, score, 1 / p / part) for (bad, score, p), part in order]
    verdicts += [JudgedLog(bad, score, 1 / p) for bad, score, p in worst]
    share = true_share(verdicts, scores)
    assert share is not None
    return share


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--months", type=int, default=1_000, help="months of each line, over all its cells")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    cells = list(itertools.product((0.05, 0.12, 0.25), (50, 100, 200, 400)))
    print("sampling  review  AUROC   coverage (least, most cell)   width / verdicts alone; / alike")
    for biased, kind, area in itertools.product((False, True), ("alike", "most", "rules"), (0.65, 0.8, 0.9)):
        hits, widths = [], []
        chance = random.Random(options.seed)
        for fails, count in cells:
            months = [
                reviewed(chance, month(chance, fails, area, biased), month(chance, fails, area, biased), count, kind)
                for _ in range(max(1, options.months // len(cells)))
            ]
            hits.append(statistics.mean(m.interval[0] <= fails <= m.interval[1] for m in months))
            widths.append(
                sum(m.interval[1] - m.interval[0] for m in months) / sum(m.alone[1] - m.alone[0] for m in months)
            )
        name = "biased" if biased else "even"
        print(
            f"{name:9} {kind:7} {area:5}   {statistics.mean(hits):6.1%} ({min(hits):.1%}, {max(hits):.1%})"
            f"   {statistics.mean(widths):10.2f}", flush=True,
        )  # fmt: skip


if __name__ == "__main__":
    main()
