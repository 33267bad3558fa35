"""The evaluators' thresholds, by one rule: python benchmarks/thresholds.py --data FOLDER [--rows N] [--only NAME,...]

FOLDER holds dev/ with the labelled sets and dev/handmade/. The rule: of the thresholds (in steps of 0.01) at which at
most 5 % of the good rows fail, at most 15 % of those of each set, and at most 10 % of those of each set written by hand
(they are nearest to what users ask), the one with the largest share of bad rows that fail minus twice that of good rows
(in traffic good rows are commoner, so a false alarm costs more); of several the shipped one, or else the middle one.
Each set has the same weight, however many rows it has. What then finds less than half of the bad rows gets no verdict:
its threshold is None. A row without a value does not fail, so a bad one is missed.

Prints, for each evaluator, the threshold, the share of good rows that fail and the share of bad rows that are found
(recall), with 95 % intervals (bootstrap over sources inside each set), and the same for each set. Writes them to
benchmarks/thresholds.json; with --only, the other evaluators keep their entries. A test compares the file with the
evaluators: after a change of scores, give the evaluator a new version, run this, and set the threshold that it prints.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from labelled import SETS, Example

from ragtrace import plugins
from ragtrace.evaluation import Evaluator, run

RECORD = Path(__file__).with_name("thresholds.json")
MAX_GOOD_FAILING = 0.05
MAX_SET_FAILING = 0.15
"""Of each set: a mean hides that one style of answers fails often."""
MAX_HANDMADE_FAILING = 0.1
"""Of each set that was written by hand: it is what a user sees first."""
MIN_RECALL = 0.5
_FALSE_ALARM = 2
"""What a share of good rows that fails costs, beside the same share of bad rows that pass."""
_DRAWS = 300
_STEPS = 100
_PER_SOURCE = 3

_GROUNDING = (
    "ragtruth_dev QA, ragtruth_dev Summary, ragtruth_dev Data2txt, qags_cnndm, wice, begin, handmade grounding, "
    "handmade grounded exchanges, handmade changed answers"
)
_CHUNKS = (
    "own and foreign chunks, msmarco_hardneg, wice_context, handmade questions, handmade other words, "
    "handmade exchanges"
)
_ANSWERS = (
    "qa_swap, handmade questions, handmade exchanges, handmade lists and code, handmade questions of changed answers"
)
_TOXIC = (
    "openai_moderation, surge_toxicity, xstest_prompts, handmade toxicity, own toxic answers, ragtruth answers, "
    "handmade answers"
)
# HateCheck labels hate: insults of individuals and abuse of objects are among its rows without it.
_LOOPS = "loop_synth, ragtruth answers, handmade answers"
EVIDENCE: Mapping[str, str] = {
    "groundedness": _GROUNDING, "faithfulness": _GROUNDING, "hallucination": _GROUNDING,
    "hallucination_cross_encoder": _GROUNDING, "groundedness_lexical": _GROUNDING,
    "answer_correctness": "ragtruth references", "answer_relevance": _ANSWERS, "answer_relevance_cosine": _ANSWERS,
    "answer_relevance_max": _ANSWERS, "context_relevancy": _CHUNKS, "context_relevancy_recall": _CHUNKS,
    "context_relevancy_precision": _CHUNKS,
    "refusal": "ragtruth_refusal, own refusals, handmade refusal, handmade full_refusal, handmade answers",
    "no_answer": "empty answers, ragtruth answers, handmade answers, answers of languages", "toxicity": _TOXIC,
    "pii_leakage": "presidio_pii, handmade pii, handmade answers",
    "sensitive_data_leakage": "secrets_synth, handmade secrets, handmade answers", "looping_unique_sentences": _LOOPS,
    "looping_repeated_ngrams": _LOOPS, "looping_repeated_substring": _LOOPS, "looping_compression_ratio": _LOOPS,
    "language_mismatch": "lang_mismatch, handmade answers",
}  # fmt: skip
"""The sets of `labelled.SETS` that speak for an evaluator. XSTest's answers are not here: the refusal
head was trained on them."""


@dataclass(frozen=True, slots=True)
class Scored:
    """The rows of one set with an evaluator's values."""

    good: np.ndarray
    """(n,) bool."""
    values: np.ndarray
    """(n,) float; Higher is better, whatever the evaluator's direction; infinite where it gives no value."""
    sources: tuple[np.ndarray, ...]
    """For each source the indexes of its rows."""
    is_handmade: bool = False

    def drawn(self, chance: np.random.Generator) -> Scored:
        """As many sources, drawn with replacement."""
        picked = np.concatenate([self.sources[k] for k in chance.integers(0, len(self.sources), len(self.sources))])
        return Scored(self.good[picked], self.values[picked], (), self.is_handmade)


def shares_failing(sets: Sequence[Scored], good: bool, grid: np.ndarray) -> np.ndarray:
    """Per threshold the share of the good (or bad) rows with a lower value: the mean of the sets that have any."""
    shares = []
    for of_set in sets:
        values = np.sort(of_set.values[of_set.good == good])
        if len(values):
            shares.append(np.searchsorted(values, grid, side="left") / len(values))
    return np.mean(shares, axis=0) if shares else np.zeros(len(grid))


def by_rule(sets: Sequence[Scored], grid: np.ndarray, shipped: float | None = None) -> int:
    """The index of the threshold that the rule gives, in an ascending grid."""
    failing, recall = (shares_failing(sets, good, grid) for good in (True, False))
    allowed = failing <= MAX_GOOD_FAILING
    for of_set in sets:
        limit = MAX_HANDMADE_FAILING if of_set.is_handmade else MAX_SET_FAILING
        allowed &= shares_failing([of_set], True, grid) <= limit
    gain = np.where(allowed, recall - _FALSE_ALARM * failing, -1.0)
    best = np.flatnonzero(np.isclose(gain, gain.max()))
    if shipped is not None and len(same := best[np.isclose(grid[best], shipped)]):
        return int(same[0])
    return int(best[(len(best) - 1) // 2])


def scored(name: str, examples: Sequence[Example], values: Sequence[float | None], sign: int) -> Scored:
    """The examples of the named set with an evaluator's values; sign is -1 where lower values are better."""
    sources: dict[str, list[int]] = defaultdict(list)
    for place, example in enumerate(examples):
        sources[example.source].append(place)
    return Scored(
        np.array([example.good for example in examples]),
        np.array([np.inf if value is None else sign * value for value in values]),
        tuple(np.array(places) for places in sources.values()), name.startswith("handmade"),
    )  # fmt: skip


def proposal(check: Evaluator, results: Mapping[str, tuple[list[Example], list[float | None]]]) -> dict[str, Any]:
    """An evaluator's entry in the record, from the rows and values of each set."""
    sign = 1 if check.direction == "higher" else -1
    sets = [scored(set_name, examples, values, sign) for set_name, (examples, values) in results.items()]
    low, high = check.range
    grid = np.sort(sign * np.round(np.linspace(low, high, round((high - low) * _STEPS) + 1), 2))
    chosen = by_rule(sets, grid, None if check.threshold is None else sign * check.threshold)
    failing, recall = (float(shares_failing(sets, good, grid)[chosen]) for good in (True, False))
    chance = np.random.default_rng(7)
    draws = []
    for _ in range(_DRAWS):
        drawn = [s.drawn(chance) for s in sets]
        shares = [shares_failing(drawn, good, grid)[chosen] for good in (True, False)]
        draws.append((*shares, sign * grid[by_rule(drawn, grid)]))
    failing_95, recall_95, thresholds_95 = np.quantile(np.array(draws), [0.025, 0.975], axis=0).T
    threshold = round(float(sign * grid[chosen]), 2) + 0.0
    return {
        "version": check.version, "threshold": threshold if recall >= MIN_RECALL else None, "by_rule": threshold,
        "by_rule_95": _rounded(thresholds_95), "good_failing": round(failing, 3),
        "good_failing_95": _rounded(failing_95), "recall": round(recall, 3), "recall_95": _rounded(recall_95),
        "sets": {name: _of_set(s, grid[chosen : chosen + 1]) for name, s in zip(results, sets, strict=True)},
    }  # fmt: skip


def _rounded(numbers: Sequence[float]) -> list[float]:
    return [round(float(number), 3) + 0.0 for number in numbers]


def _of_set(of_set: Scored, threshold: np.ndarray) -> dict[str, Any]:
    """Rows, rows with a value, and what fails, of one set."""
    good, bad = int(of_set.good.sum()), int((~of_set.good).sum())
    entry: dict[str, Any] = {"good": good, "bad": bad, "with_value": int(np.isfinite(of_set.values).sum())}
    if good:
        entry["good_failing"] = round(float(shares_failing([of_set], True, threshold)[0]), 3)
    if bad:
        entry["recall"] = round(float(shares_failing([of_set], False, threshold)[0]), 3)
    return entry


def sample(examples: list[Example], count: int) -> list[Example]:
    """At most `count` good and `count` bad rows of a set, at most three of a kind from a source where there are more.
    Sources are drawn by lot; the rows of one stand together, so that the chunks that they share are encoded once."""
    by_source: dict[str, list[Example]] = defaultdict(list)
    for example in examples:
        by_source[example.source].append(example)
    sources = sorted(by_source)
    random.Random(7).shuffle(sources)
    room = dict.fromkeys((True, False), count)
    rare = {kind: sum(e.good == kind for e in examples) <= count for kind in room}
    chosen: list[Example] = []
    for source in sources:
        for kind in room:
            of_kind = [e for e in by_source[source] if e.good == kind]
            taken = of_kind if rare[kind] else of_kind[: min(_PER_SOURCE, room[kind])]
            room[kind] -= len(taken)
            chosen += taken
    return chosen


Results = dict[str, dict[str, tuple[list[Example], list[float | None]]]]
"""By evaluator and set: rows and values."""


def evaluate(folder: Path, names: Sequence[str], count: int) -> Results:
    """Put each row through all its evaluators at once: they share results."""
    checks = {name: plugins.load(name) for name in names}
    evidence = {name: [s.strip() for s in EVIDENCE[name].split(",")] for name in names}
    results: Results = {name: {} for name in names}
    for set_name in dict.fromkeys(s for sets in evidence.values() for s in sets):
        speaks_for = [name for name in names if set_name in evidence[name]]
        started = time.process_time()
        examples = sample(list(SETS[set_name](folder)), count)
        values: dict[str, list[float | None]] = {name: [] for name in speaks_for}
        for example in examples:
            for name in speaks_for:
                ((score,),) = run(checks[name], [example.trace])
                values[name].append(score.value)
        for name in speaks_for:
            results[name][set_name] = (examples, values[name])
        took = time.process_time() - started
        print(
            f"{set_name}: {len(examples)} rows for {', '.join(speaks_for)}, {took:.0f} s", file=sys.stderr, flush=True
        )
    return results


def show(entries: Mapping[str, Mapping[str, Any]]) -> None:
    """Print a line for each evaluator, and one for each of its sets."""
    print("| evaluator | shipped | by the rule (95 %) | good rows that fail (95 %) | recall (95 %) | good / bad rows |")
    print("|---|---|---|---|---|---|")
    for name, entry in entries.items():
        low, high = entry["by_rule_95"]
        by_rule = f"{entry['by_rule']:.2f} ({low:.2f} to {high:.2f})"
        if entry["threshold"] is None:
            by_rule += ", no verdict"
        shares = [
            f"{entry[what]:.1%} ({entry[what + '_95'][0]:.1%} to {entry[what + '_95'][1]:.1%})" for what in _SHARES
        ]
        sizes = " / ".join(str(sum(s[kind] for s in entry["sets"].values())) for kind in ("good", "bad"))
        print("|", " | ".join([f"`{name}`", str(plugins.load(name).threshold), by_rule, *shares, sizes]), "|")
        for set_name, s in entry["sets"].items():
            shares = [f"{s[what]:.1%}" if what in s else "" for what in _SHARES]
            print("|", " | ".join([f"… {set_name}", "", "", *shares, f"{s['good']} / {s['bad']}"]), "|")


_SHARES = ("good_failing", "recall")


def main() -> None:
    """Evaluate, propose, print, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds dev/")
    parser.add_argument("--rows", type=int, default=100, help="most good and most bad rows of a set; 100")
    parser.add_argument("--only", default="", help=f"evaluators, separated by commas, of {', '.join(EVIDENCE)}")
    parser.add_argument("--dry", action="store_true", help="print without writing the record")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else list(EVIDENCE)
    if unknown := [name for name in names if name not in EVIDENCE]:
        parser.error(f"no rows speak for {', '.join(unknown)}; choose from {', '.join(EVIDENCE)}")
    results = evaluate(options.data / "dev", names, options.rows)
    entries = {name: proposal(plugins.load(name), results[name]) for name in names}
    show(entries)
    if not options.dry:
        previous = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
        merged = {name: entry for name, entry in {**previous, **entries}.items() if name in EVIDENCE}
        RECORD.write_text(json.dumps(dict(sorted(merged.items())), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
