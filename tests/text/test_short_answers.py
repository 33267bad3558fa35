"""A short answer to the question is one statement with the sentence that explains it."""

from __future__ import annotations

import pytest

from ragtrace.text.claims import claims, read


def _claims(answer: str) -> list[str]:
    return [answer[s.start : s.end].strip() for s in claims(answer)]


@pytest.mark.parametrize(
    "short",
    [
        "Yes.",
        "No!",
        "**Yes.**",
        "Yes, you can.",
        "No, they aren't.",
        "Partly.",
        "Not quite.",
        "It depends.",
        "Ja.",
        "Non.",
        "Sí,",
    ],
)
def test_it_is_one_statement_with_its_explanation(short: str) -> None:
    answer = f"{short} Guests may stay for three nights. Breakfast costs 9 euros."
    assert _claims(answer) == [f"{short} Guests may stay for three nights.", "Breakfast costs 9 euros."]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("Yes.", ["Yes."]),
        ("Yes. Is that all?", ["Yes."]),
        ("Yes, guests may stay. They pay 9 euros.", ["Yes, guests may stay.", "They pay 9 euros."]),
        ("Guests may stay here. They pay 9 euros.", ["Guests may stay here.", "They pay 9 euros."]),
        ("Both models are red. Each costs 9 euros.", ["Both models are red.", "Each costs 9 euros."]),
        ("Yes, for 60 months. The pump weighs 9 kg.", ["Yes, for 60 months.", "The pump weighs 9 kg."]),
    ],
)
def test_what_says_more_or_has_no_explanation_stays_as_it_is(answer: str, expected: list[str]) -> None:
    assert _claims(answer) == expected


def test_an_abstention_after_it_is_not_joined() -> None:
    """Only a claim explains: what abstains stays an abstention."""
    kinds = [s.kind for s in read("No! The documents do not say whether guests may stay.").statements]
    assert kinds == ["claim", "abstention"]
