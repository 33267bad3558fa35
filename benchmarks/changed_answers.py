"""Verdicts on faithful answers and on those with one thing changed, by kind of change. Printed by `quality.py`."""

from __future__ import annotations

from collections import Counter, defaultdict

from labelled import Row, trace
from sklearn.metrics import roc_auc_score

from ragtrace import plugins
from ragtrace.evaluation import run

JUDGES = ("groundedness", "faithfulness", "groundedness_lexical")
"""The last one counts words."""


def by_kind(written: list[Row]) -> None:
    """Print how many answers get the right verdict, by kind, and how many faithful ones pass the default suite."""
    right: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    values: dict[str, list[tuple[bool, float]]] = defaultdict(list)
    failing: Counter[str] = Counter()
    passed = 0
    for row in (r for r in written if r["expect"] in ("pass", "fail")):
        kind = (row["expect"], str(row["category"]))
        judged = {name: run(plugins.load(name), [trace(row)])[0][0] for name in JUDGES}
        for name, score in judged.items():
            if score.value is not None:
                values[name].append((row["expect"] == "pass", score.value))
        for total in (kind, (row["expect"], "all")):
            right["rows"][total] += 1
            for name, score in judged.items():
                right[name][total] += score.label == row["expect"]
        if row["expect"] == "pass":
            scores = [run(plugins.load(name), [trace(row)])[0][0] for name in plugins.DEFAULT_SUITE]
            failed = [score.name for score in scores if score.label == "fail"]
            failing.update(failed)
            passed += not failed
    print("| answers | kind | rows | " + " | ".join(JUDGES) + " |\n|---" + "|---" * (len(JUDGES) + 2) + "|")
    for expect, kind in sorted(right["rows"], key=lambda k: (k[0] == "fail", k[1] == "all", k[1])):
        shares = [f"{right[name][expect, kind]}" for name in JUDGES]
        what = "faithful: passed" if expect == "pass" else "wrong: caught"
        print("|", " | ".join([what, kind.replace("_", " "), str(right["rows"][expect, kind]), *shares]), "|")
    areas = ", ".join(f"{name} {roc_auc_score(*zip(*pairs, strict=True)):.2f}" for name, pairs in values.items())
    print(f"\nAUROC of the values: {areas}.")
    print(f"Faithful answers that pass the whole default suite: {passed} of {right['rows']['pass', 'all']}. ", end="")
    print("The others fail: " + ", ".join(f"{name} {count}" for name, count in failing.most_common()) + "\n")
