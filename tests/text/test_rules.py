"""Every rule of `ragtrace/text/privacy/data` finds an item in its `matches` and nothing in its `misses`."""

import random
import re
from importlib import import_module
from typing import Any

import pytest

from ragtrace.text.privacy.find import RULES, possible
from ragtrace.text.privacy.label_search import labelled_values
from ragtrace.text.privacy.rule_engine import Rule, SearchText, data

BY_ID = {rule.id: rule for rule in RULES}
LABELLED = {rule.kind: rule for rule in RULES if rule.search is labelled_values}
ROWS = {row["id"]: row for group in ("secrets", "personal") for row in data(group)["rules"]}
PATTERNS = [name for name in ROWS if BY_ID[name].search is not labelled_values]
LABELS = data("labels")["labels"]


def expanded(template: str, seed: int) -> str:
    """The text with random characters in the place of `{class:length}`: `{0-9A-F:32}` are 32 hexadecimal digits."""
    chance = random.Random(seed)

    def drawn(match: re.Match[str]) -> str:
        parts = re.findall(r"(.)-(.)|(.)", match[1])
        letters = "".join("".join(map(chr, range(ord(a), ord(b) + 1))) if a else single for a, b, single in parts)
        return "".join(chance.choice(letters) for _ in range(int(match[2])))

    return re.sub(r"\{([^{}:]+):(\d+)\}", drawn, template)


def finds(rule: Rule, text: str) -> bool:
    """Whether a rule finds an item in a text, as its kind is reported, or masked where it is only masked."""
    prepared = SearchText(text)
    return any(other is rule and any(rule.find(prepared, masks=not rule.report)) for _, other in possible(prepared))


@pytest.mark.parametrize(
    ("row", "rule"),
    [*((ROWS[name], BY_ID[name]) for name in PATTERNS), *((row, LABELLED[row["kind"]]) for row in LABELS)],
    ids=[*PATTERNS, *(f"{row['kind']} {row['labels'][0]}" for row in LABELS)],
)
def test_rule_finds_its_matches_and_spares_its_misses(row: dict[str, Any], rule: Rule) -> None:
    assert min(len(row["matches"]), len(row["misses"])) >= 2
    for seed in range(5):
        assert [text for text in row["matches"] if not finds(rule, expanded(text, seed))] == []
        assert [text for text in row["misses"] if finds(rule, expanded(text, seed))] == []


def test_check_digits_are_those_of_a_module() -> None:
    """A name without a module would make the check of this label raise."""
    checks = [row["check"].split(" ")[1] for row in ROWS.values() if row.get("check", "").startswith("stdnum ")]
    for name in (*checks, *(name for row in LABELS for name in row.get("checks", ()))):
        assert callable(import_module(f"stdnum.{name}").is_valid)
