"""The order in which evaluators are shown."""

from __future__ import annotations

from collections.abc import Sequence

FIRST = ("faithfulness", "groundedness", "correctness", "answer_correctness", "answer_relevance")
"""Evaluators whose question comes first, where nothing else was chosen."""


def ordered(names: Sequence[str]) -> list[str]:
    """Evaluators, the main ones first, the others by name."""
    place = {name: i for i, name in enumerate(FIRST)}
    return sorted(set(names), key=lambda name: (place.get(name, len(place)), name))
