"""The default suite's thresholds are those that the rule of `benchmarks/thresholds.py` gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragtrace import plugins

_RECORD = Path(__file__).parents[2] / "benchmarks" / "thresholds.json"
RECORD: dict[str, dict[str, Any]] = json.loads(_RECORD.read_text(encoding="utf-8"))
OF_CLAIMS = ("faithfulness", "groundedness", "hallucination")
CHANGING = frozenset({*OF_CLAIMS, "refusal"})
"""`groundedness` and its kin keep a verdict at the threshold of the rule, although it finds less than half of the bad
rows of all sets together. `refusal` keeps 0.5, from which on
the answer declines: the rule gives 0.48 (0.47 to 0.77)."""
HOW = "run benchmarks/thresholds.py --data FOLDER --only {0}, and set what it prints"


@pytest.mark.parametrize("name", sorted({*plugins.DEFAULT_SUITE, *RECORD} - CHANGING))
def test_shipped_thresholds_are_those_of_the_rule(name: str) -> None:
    """Every evaluator of the default suite has the threshold that the rule gave, for the version that was measured."""
    check = plugins.load(name)
    assert name in RECORD, f"{name} has not been measured: {HOW.format(name)}"
    assert check.version == RECORD[name]["version"], f"{name} has changed since: {HOW.format(name)}"
    assert check.threshold == RECORD[name]["threshold"], f"{name} has another threshold: {HOW.format(name)}"


@pytest.mark.parametrize("name", OF_CLAIMS)
def test_grounding_fails_few_good_answers(name: str) -> None:
    """At their thresholds at most 5 % of the good rows fail, and at most 10 % of those written by hand."""
    check = plugins.load(name)
    assert (check.version, check.threshold) == (RECORD[name]["version"], RECORD[name]["by_rule"])
    assert RECORD[name]["good_failing"] <= 0.05
    assert RECORD[name]["sets"]["handmade grounding"]["good_failing"] <= 0.1


@pytest.mark.parametrize("name", sorted(RECORD))
def test_a_verdict_needs_a_useful_recall(name: str) -> None:
    """A threshold is recorded only where at most 5 % of the good rows fail and at least half of the bad ones do."""
    entry = RECORD[name]
    if entry["threshold"] is not None:
        assert entry["good_failing"] <= 0.05
        assert entry["recall"] >= 0.5
