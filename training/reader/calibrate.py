"""Make probabilities of the reader's logits: python training/reader/calibrate.py --data FOLDER [--rows 400]

FOLDER holds dev/. Reads the blind answers of benchmarks/ and samples of dev's labelled sets with the shipped weights
(the logits are remembered in build/reader/logits.pickle), fits the weights of reader_calibration.json, and prints for
each set AUROC, and the wrong answers that are caught while 92 % of the good ones pass; for the blind sets also pairs,
and the share of good answers by score, where each half of the groups has the probabilities of a fit without it.
"""

import argparse
import json
import pickle
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
from blind import caught, pairs, reliability  # noqa: E402
from labelled import BLIND, flattened, rows  # noqa: E402

from ragtrace.evaluate.models.answer_reader import Measurement, Question, reader, sigmoid, weighted  # noqa: E402
from ragtrace.evaluate.refusals import declines, read_answer  # noqa: E402

OUT = ROOT / "ragtrace" / "evaluate" / "models" / "data" / "reader_calibration.json"
DEV = {"ragtruth_dev": 4, "wice": 1, "qags_cnndm": 1, "begin_cmu": 1, "begin_wow": 1, "handmade/rag": 2}
"""Sets of dev, with how many times `--rows` are read."""
_BLIND_WEIGHT = 4.0
"""What the blind sets weigh beside all of dev: their answers are like those that users have."""


@dataclass(frozen=True)
class Read:
    """An answer that claims something, as the reader sees it."""

    bad: bool
    logits: Measurement
    group: str
    question: str
    task: str
    importance: float


def measured(name: str, of_set: Sequence[dict[str, Any]]) -> list[Read]:
    """The rows of a set that claim something. In each set right and wrong answers weigh the same."""
    share = _BLIND_WEIGHT / len(BLIND) if name in BLIND else 1 / len(DEV)
    found = []
    for row in of_set:
        answer = read_answer(row["answer"])
        if declines(answer) or not answer.claims:
            continue
        places = [(s.start, s.end) for s in answer.claims]
        logits = reader().measure(Question(row["query"] or "", answer.text, places, row["contexts"]))
        if logits is not None:
            bad = row["expect"] == "fail" if "expect" in row else bool(row["label"])
            group = str(row.get("group", row.get("source_id", "")))
            question = f"{group} {row['query']}"
            found.append(Read(bad, logits, group, question, row.get("task", ""), 0.0))
    alike = Counter(f.bad for f in found)
    return [replace(f, importance=500 * share / alike[f.bad]) for f in found]


def worst(logits: Measurement, weights: Sequence[float]) -> tuple[float, float]:
    """The two logits of the claim that is supported least."""
    part = max(logits.parts, key=lambda p: weighted(weights, p.doubt, p.whole))
    return part.doubt, part.whole


def fitted(found: Sequence[Read]) -> list[float]:
    """Weights of a logistic regression over the worst claim's logits; which claim is worst depends on them."""
    weights = [0.0, 0.5, 0.5]
    for _ in range(4):
        weights = logistic([worst(f.logits, weights) for f in found], found)
    return weights


def logistic(features: Sequence[tuple[float, ...]], found: Sequence[Read]) -> list[float]:
    """The constant and the weights of a logistic regression of `bad`, with a little weight decay."""
    model = LogisticRegression(C=1_000).fit(features, [f.bad for f in found], [f.importance for f in found])
    return [round(float(v), 4) for v in (*model.intercept_, *model.coef_[0])]


def whole(logits: Measurement) -> tuple[float, float]:
    """The largest logits of a claim and of what was read together."""
    return max(p.doubt for p in logits.parts), logits.whole


def read_sets(data: Path, count: int, cache: Path) -> dict[str, list[Read]]:
    """The rows of all sets with their logits."""
    if cache.exists():
        remembered: dict[str, list[Read]] = pickle.loads(cache.read_bytes())
        return remembered
    sets = {name: measured(name, flattened(name)) for name in BLIND}
    for name, times in DEV.items():
        of_set = [r for r in rows(data / "dev", name) if r.get("quality", "good") == "good"]
        random.Random(3).shuffle(of_set)
        sets[name] = measured(name, of_set[: times * count])
        print(name, len(sets[name]), file=sys.stderr, flush=True)
    cache.parent.mkdir(parents=True, exist_ok=True)
    cache.write_bytes(pickle.dumps(sets))
    return sets


def figures(name: str, of_set: Sequence[Read], weights: Sequence[float]) -> Iterator[str]:
    """Lines for a set, and for each task of it."""
    scores: dict[str, Callable[[Measurement], float]] = {
        "worst claim": lambda m: weighted(weights, *worst(m, weights)),
        "claims' logit alone": lambda m: whole(m)[0],
        "answer's logit alone": lambda m: m.whole,
    }
    tasks = sorted({f.task for f in of_set})
    for task in tasks if len(tasks) > 1 else [""]:
        mine = [f for f in of_set if not task or f.task == task]
        bad = np.array([f.bad for f in mine])
        for what, score in scores.items():
            z = np.array([score(f.logits) for f in mine])
            line = f"{name} {task} {what}: {len(mine)} rows, {bad.sum()} bad, AUROC {roc_auc_score(bad, z):.3f}"
            line += f", caught {caught(z, bad):.2f}"
            yield line + (f", pairs {pairs(z, bad, [f.question for f in mine]):.3f}" if name in BLIND else "")


def held_out(name: str, sets: dict[str, list[Read]]) -> tuple[np.ndarray, np.ndarray]:
    """(n,) probabilities of a blind set's rows by a fit without their half of the groups, and (n,) whether bad."""
    groups = sorted({f.group for f in sets[name]})
    values, bad = [], []
    for half in (0, 1):
        out = set(groups[half::2])
        weights = fitted([f for s, of_set in sets.items() for f in of_set if s != name or f.group not in out])
        for f in sets[name]:
            if f.group in out:
                values.append(1 - sigmoid(weighted(weights, *worst(f.logits, weights))))
                bad.append(f.bad)
    return np.array(values), np.array(bad)


def main() -> None:
    """Fit, write and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--cache", type=Path, default=Path("build/reader/logits.pickle"))
    given = parser.parse_args()
    sets = read_sets(given.data, given.rows, given.cache)
    found = [f for of_set in sets.values() for f in of_set]
    claim = fitted(found)
    weights = {"claim": claim, "answer": logistic([whole(f.logits) for f in found], found)}
    OUT.write_text("{\n" + ",\n".join(f'"{k}": {json.dumps(v)}' for k, v in weights.items()) + "\n}\n")
    print(OUT.read_text())
    for name, of_set in sets.items():
        print("\n".join(figures(name, of_set, claim)))
    for name in BLIND:
        print(f"\n{name}, held out\n{reliability(*held_out(name, sets))}")


if __name__ == "__main__":
    main()
