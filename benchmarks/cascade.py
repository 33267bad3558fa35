"""What a judge behind a local evaluator buys: python benchmarks/cascade.py --data FOLDER [--set NAME] [--task TASK]

FOLDER holds labelled sets as gzipped JSON lines (query, contexts, answer, label, task). The local evaluator runs for
real. The judge is simulated: its verdict is the label, turned over at random so often that its balanced accuracy is the
one stated, which is drawn anew 200 times. Prints, for bands of growing width around the local threshold, the share of
rows that the judge is asked about (that is its cost, beside asking always) and the balanced accuracy of the cascade.
"""

import argparse
import random
from pathlib import Path

import numpy as np
from labelled import rows, trace

from ragtrace import plugins
from ragtrace.evaluate.cascade import distance
from ragtrace.evaluation import run

BANDS = (0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.07, 0.1, 0.3, 1.01)
JUDGES = (0.75, 0.80, 0.85, 0.90)


def balanced(bad: np.ndarray, said_bad: np.ndarray) -> float:
    """Mean of the shares of bad and of good rows that are told right."""
    return float((said_bad[bad].mean() + (~said_bad[~bad]).mean()) / 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--set", default="ragtruth_dev")
    parser.add_argument("--task", default="QA")
    parser.add_argument("--evaluator", default="faithfulness")
    options = parser.parse_args()
    every = [row for row in rows(options.data, options.set) if row["task"] == options.task]
    chosen = random.Random(7).sample(every, min(800, len(every)))
    check = plugins.load(options.evaluator)
    scores = [score for (score,) in run(check, [trace(row) for row in chosen])]
    valid = [i for i, score in enumerate(scores) if score.value is not None]
    value = np.array([scores[i].value for i in valid])
    distances = np.array([distance(scores[i], check.threshold) for i in valid])
    bad = np.array([bool(chosen[i]["label"]) for i in valid])
    local = value < check.threshold
    print(f"{options.evaluator} on {options.set} {options.task}: {len(valid)} rows, {bad.mean():.2f} bad, threshold "
          f"{check.threshold:g}\n")  # fmt: skip
    heads = " | ".join(f"judge {accuracy:.2f}" for accuracy in JUDGES)
    print(f"| half the band | asked | {heads} |\n|---|---|" + "---|" * len(JUDGES))
    for band in BANDS:
        uncertain = distances < band
        cells = []
        for accuracy in JUDGES:
            chance = np.random.default_rng(7)
            samples = []
            for _ in range(200):
                judge = bad ^ (chance.random(len(bad)) >= accuracy)
                samples.append(balanced(bad, np.where(uncertain, judge, local)))
            cells.append(f"{np.mean(samples):.3f}")
        print(f"| {'all' if band > 1 else f'{band:.2f}'} | {uncertain.mean():.0%} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
