"""Verdicts on answers that were written blind: python benchmarks/blind.py [--suite | --control | --neighbours]

The sets are files beside this one: `fresh_answers`, `blind_answers`, `grounding_answers`, and with `--sets` also
`fresh_documents`, `tool_answers`, `fresh_tool_answers`, `call_answers` and `late_tool_answers`. Their writers knew no
code nor data; the second and the third are in the calibration. Right and wrong answers are over chunks that look
alike. Of each judge: the area under the ROC curve with its 95 % interval (bootstrap over groups), pairs (a wrong
answer scores worse than a right one to the same question), wrong answers caught while 92 % of the right ones pass,
and both shares at the threshold; of `groundedness` kinds of answers, and the share of right answers by score.
`--control` takes the chunks of another group: what is then above .5 the answer alone tells.
"""

import argparse
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from labelled import BLIND, FRESH, Row, flattened, trace
from sklearn.metrics import roc_auc_score

from ragtrace import plugins
from ragtrace.evaluation import run

JUDGES = ("groundedness", "faithfulness", "groundedness_lexical", "groundedness_cosine")
"""The last two count words, and compare sentences by their embeddings."""
_KEPT = 0.92
_DRAWS = 300


def pairs(doubt: np.ndarray, bad: np.ndarray, questions: Sequence[str]) -> float:
    """The share of pairs of a right and a wrong answer to one question in which the wrong one is doubted more; ties
    count half."""
    members: dict[str, list[int]] = defaultdict(list)
    for i, question in enumerate(questions):
        members[question].append(i)
    won = [
        (doubt[j] > doubt[i]) + 0.5 * (doubt[j] == doubt[i])
        for of_question in members.values()
        for i in of_question
        for j in of_question
        if bad[j] and not bad[i]
    ]
    return float(np.mean(won)) if won else float("nan")


def caught(doubt: np.ndarray, bad: np.ndarray, kept: float = _KEPT) -> float:
    """The share of wrong answers that are doubted more than so many of the right ones."""
    return float((doubt[bad] > np.quantile(doubt[~bad], kept)).mean())


def interval(doubt: np.ndarray, bad: np.ndarray, groups: Sequence[str]) -> str:
    """The area under the ROC curve with its 95 % interval."""
    chance = np.random.default_rng(7)
    members: dict[str, list[int]] = defaultdict(list)
    for i, group in enumerate(groups):
        members[group].append(i)
    places = [np.array(m) for m in members.values()]
    draws = []
    for _ in range(_DRAWS):
        drawn = np.concatenate([places[k] for k in chance.integers(0, len(places), len(places))])
        draws.append(roc_auc_score(bad[drawn], doubt[drawn]))
    low, high = np.quantile(draws, [0.025, 0.975])
    return f"{roc_auc_score(bad, doubt):.3f} ({low:.2f}-{high:.2f})"


def judged(of_set: Sequence[Row], name: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns two arrays of length n: how much each answer is doubted (minus its score), and whether it fails. An
    answer without a score has the least doubt of all, because it cannot fail."""
    scores = [run(plugins.load(name), [trace(row)])[0][0] for row in of_set]
    doubt = np.array([-9.0 if s.value is None else -s.value for s in scores])
    return doubt, np.array([s.label == "fail" for s in scores])


def with_other_chunks(of_set: Sequence[Row]) -> list[Row]:
    """Each answer over the chunks of the next group."""
    groups = list(dict.fromkeys(row["group"] for row in of_set))
    chunks = {row["group"]: row["contexts"] for row in of_set}
    following = dict(zip(groups, [*groups[1:], groups[0]], strict=True))
    return [row | {"contexts": chunks[following[row["group"]]]} for row in of_set]


def show(of_set: Sequence[Row], judges: Sequence[str]) -> None:
    """Print the figures of a set."""
    bad = np.array([row["expect"] == "fail" for row in of_set])
    questions = [f"{row['group']} {row['query']}" for row in of_set]
    groups = [row["group"] for row in of_set]
    print("| evaluator | AUROC (95 %) | pairs | caught, 92 % kept | at the threshold: passed; caught |")
    print("|---|---|---|---|---|")
    for name in judges:
        doubt, failed = judged(of_set, name)
        figures = [interval(doubt, bad, groups), f"{pairs(doubt, bad, questions):.3f}", f"{caught(doubt, bad):.2f}"]
        print("|", " | ".join([name, *figures, f"{1 - failed[~bad].mean():.2f}; {failed[bad].mean():.2f}"]), "|")
        if name == judges[0]:
            of_kinds, by_score = kinds(of_set, doubt, failed, bad), reliability(-doubt, bad)
    print(f"\n{of_kinds}\n\n{by_score}\n", flush=True)


def kinds(of_set: Sequence[Row], doubt: np.ndarray, failed: np.ndarray, bad: np.ndarray) -> str:
    """By kind of answer: rows, the share that gets the right verdict, and AUROC beside all of the other sort."""
    lines = [f"| {JUDGES[0]}: answers | kind | rows | right verdict | AUROC |", "|---|---|---|---|---|"]
    for wrong in (False, True):
        names = sorted({row["category"] for row, b in zip(of_set, bad, strict=True) if b == wrong})
        for kind in names:
            mine = np.array([row["category"] == kind for row in of_set]) & (bad == wrong)
            compared = mine | (bad != wrong)
            area = roc_auc_score(bad[compared], doubt[compared])
            right = (failed[mine] == wrong).mean()
            what = "wrong" if wrong else "right"
            lines.append(f"| {what} | {kind.replace('_', ' ')} | {mine.sum()} | {right:.2f} | {area:.2f} |")
    return "\n".join(lines)


def reliability(values: np.ndarray, bad: np.ndarray) -> str:
    """The share of right answers by score."""
    lines = ["| score | rows | right |", "|---|---|---|"]
    tenths = np.clip((values * 10).astype(int), 0, 9)
    for tenth in range(10):
        inside = (tenths == tenth) & (values >= 0)
        right = f"{(~bad[inside]).mean():.2f}" if inside.any() else ""
        lines.append(f"| {tenth / 10:.1f} to {(tenth + 1) / 10:.1f} | {inside.sum()} | {right} |")
    high = values >= 0.8
    lines.append(f"| 0.8 and more | {high.sum()} | {(~bad[high]).mean() if high.any() else float('nan'):.2f} |")
    return "\n".join(lines)


def whole_suite(of_set: Sequence[Row]) -> None:
    """Right answers that pass all evaluators of the default suite, and wrong ones that one of them fails."""
    counts: dict[str, Any] = {"pass": [], "fail": []}
    blamed: dict[tuple[str, str], int] = defaultdict(int)
    for row in of_set:
        failing = [
            name for name in plugins.DEFAULT_SUITE if run(plugins.load(name), [trace(row)])[0][0].label == "fail"
        ]
        counts[row["expect"]].append(bool(failing))
        for name in failing:
            blamed[row["expect"], name] += 1
    passed, caught_share = 1 - np.mean(counts["pass"]), np.mean(counts["fail"])
    print(f"Default suite: {passed:.2f} of the right answers pass, {caught_share:.2f} of the wrong ones are caught.")
    for expect in counts:
        found = sorted(((n, count) for (e, n), count in blamed.items() if e == expect), key=lambda x: -x[1])
        print(f"- expected to {expect}, failed by: " + ", ".join(f"{name} {count}" for name, count in found))
    print()


def neighbours(of_set: Sequence[Row]) -> None:
    """Each right answer with its own question and with another one over the same chunks."""
    asked = {row["group"]: row["query"] for row in of_set}
    right = [row for row in of_set if row["expect"] == "pass" and row["query"] != asked[row["group"]]]
    both = [*right, *(row | {"query": asked[row["group"]]} for row in right)]
    for name in ("answer_relevance", "answer_relevance_cosine") if right else ():
        own, other = np.split(judged(both, name)[0], 2)
        area = roc_auc_score(np.repeat([0, 1], len(own)), np.concatenate([own, other]))
        print(f"{name}: {len(right)} answers, AUROC {area:.3f}, own question higher {(other > own).mean():.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join((*FRESH, *BLIND)))
    parser.add_argument("--suite", action="store_true")
    parser.add_argument("--control", action="store_true")
    parser.add_argument("--neighbours", action="store_true")
    given = parser.parse_args()
    for name in given.sets.split(","):
        of_set = flattened(name)
        wrong = sum(row["expect"] == "fail" for row in of_set)
        print(f"## {name}: {len(of_set) - wrong} right, {wrong} wrong\n")
        if given.control:
            show(with_other_chunks(of_set), ["groundedness"])
        elif given.neighbours:
            neighbours(of_set)
        elif given.suite:
            whole_suite(of_set)
        else:
            show(of_set, JUDGES)


if __name__ == "__main__":
    main()
