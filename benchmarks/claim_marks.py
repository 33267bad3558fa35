"""How many good and bad answers have a place that is doubtful by its words and numbers alone.

    python benchmarks/claim_marks.py --data FOLDER [--limit 6000]

For each labelled set below dev/ and train/ground/ of the folder (at most `--limit` rows, drawn by lot), the number of
good and of bad answers with a number that the context does not hold, a word that the context has negated, a change that
runs the other way, a word of which the context has the opposite, a denial that is affirmed, and a number of another
text (`unstated_numbers.py`, `reversals.py`, `opposites.py`, `dropped_negations.py` and `misplaced_numbers.py` in
`ragtrace/text`). First those of the cases in training/entailment. Prints the sets that have such answers, and the
sums. The figures are those of docs/models/groundedness.md.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from functools import partial
from pathlib import Path

from labelled import Row, rows

from ragtrace.evaluators.refusals import read_answer
from ragtrace.text.dropped_negations import ContextDenials
from ragtrace.text.misplaced_numbers import ContextPlaces
from ragtrace.text.opposites import Opposites
from ragtrace.text.reversals import ContextWording
from ragtrace.text.unstated_numbers import ContextNumbers

_DEV = ("begin_cmu", "begin_wow", "ragtruth_dev", "wice", "qags_cnndm", "handmade/rag", "handmade/rag_long_pairs")
_CUT = "qags_cnndm"
"""Its contexts were cut, so that numbers of good answers are missing."""
_LABELS = {0: "good", 1: "bad", "pass": "good", "fail": "bad"}


def _marks(row: Row) -> set[str]:
    query = row.get("query") or ""
    numbers = ContextNumbers(row["contexts"], query)
    wording = ContextWording([*row["contexts"], query], numbers.by_text)
    reading = read_answer(row["answer"])
    claims = [reading.text[each.start : each.end] for each in reading.statements if each.kind == "claim"]
    checks = {
        "number": numbers.unstated_in,
        "word": wording.reversed_word_in,
        "change": wording.reversed_change_in,
        "opposite": Opposites(row["contexts"]).opposite_in,
        "denial": partial(ContextDenials(row["contexts"]).affirmed_in, query=query),
        "place": partial(ContextPlaces(row["contexts"], numbers.by_text[:-1]).misplaced_in, query=query),
    }
    return {name for name, check in checks.items() if any(map(check, claims))}


def _count(folder: Path, name: str, limit: int) -> Counter[str]:
    """Answers by their label, and by their label and each mark."""
    counts: Counter[str] = Counter()
    for row in rows(folder, name, limit):
        label = _LABELS.get(row.get("label", row.get("expect")))
        if label and row.get("contexts") and row.get("answer"):
            counts.update([label, *(f"{label}, {mark}" for mark in _marks(row))])
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with dev/ and train/")
    parser.add_argument("--limit", type=int, default=6_000, help="rows of a set at most; 0 for all")
    options = parser.parse_args()
    training = options.data / "train" / "ground"
    sets = [(options.data / "dev", name) for name in _DEV]
    sets += [(training, file.name.removesuffix(".jsonl.gz")) for file in sorted(training.glob("*.jsonl.gz"))]
    cases = Path(__file__).parents[1] / "training" / "entailment"
    of_cases: Counter[str] = Counter()
    for file in sorted(cases.glob("*cases/*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            case = json.loads(line)
            for item in case["items"]:
                row = {"contexts": case["contexts"], "query": item["q"], "answer": item["a"]}
                label = "good" if item["ok"] else "bad"
                of_cases.update([label, *(f"{label}, {mark}" for mark in _marks(row))])
    print(f"cases: {dict(sorted(of_cases.items()))}", flush=True)
    total: Counter[str] = Counter()
    dev: Counter[str] = Counter()
    for folder, name in sets:
        counts = _count(folder, name, options.limit)
        total += counts
        if folder.name == "dev" and name != _CUT:
            dev += counts
        if len(counts) > 2:
            print(f"{name}: {dict(sorted(counts.items()))}", flush=True)
    print(f"dev without {_CUT}: {dict(sorted(dev.items()))}\nall: {dict(sorted(total.items()))}")


if __name__ == "__main__":
    main()
