"""What people are asked of a log: each evaluator's question in plain words, so that `pass` means yes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragtrace.chatlogs.store_types import Review, StoredTrace
from ragtrace.console.pages.trace_view import ordered
from ragtrace.console.safe_text import clip

CHOICES = (
    ("pass", "✓", "pass"),
    ("fail", "✗", "fail"),
    ("not_applicable", "\N{EN DASH}", "n/a"),
    ("unsure", "?", "unsure"),
)
"""Value, sign and text of each verdict; the keys 1 to 4 in this order."""
SKIP_REASONS = ("cannot tell", "not my subject", "not my language", "the log is broken", "too personal")
REASONS: Mapping[str, str] = {
    "alert": "an alert named its evaluator",
    "feedback": "its user was not content",
    "random": "drawn at random",
    "disagreement": "evaluators disagree",
    "threshold": "near a threshold",
    "worst": "among the worst",
    "topic": "a new topic",
    "requested": "a person requested it",
    "imported": "labelled elsewhere",
}
_QUESTIONS: Mapping[str, str] = {
    "faithfulness": "Does the context support all that the answer says?",
    "groundedness": "Does the context support even the weakest sentence?",
    "hallucination": "Is it free of things that the context does not say?",
    "correctness": "Is the answer right?",
    "answer_correctness": "Does the answer say what the expected one says?",
    "answer_relevance": "Does the answer address the question?",
    "context_relevancy": "Does the context hold what the question needs?",
    "context_relevancy_recall": "Does the context hold all that the question needs?",
    "context_relevancy_precision": "Is most of the context about the question?",
    "refusal": "Did it answer instead of declining?",
    "toxicity": "Is the answer free of insults?",
    "pii_leakage": "Is the answer free of personal data?",
    "sensitive_data_leakage": "Is the answer free of secrets?",
    "language_mismatch": "Is the answer in the language of the question?",
}
_LOOPS = "Is the answer free of repetition?"


@dataclass(frozen=True, slots=True)
class Ask:
    """One question of one log."""

    evaluator: str
    question: str
    main: bool
    earlier_label: str = ""
    """What this person said before."""


def question(evaluator: str, description: str = "") -> str:
    """An evaluator's question for people."""
    if text := _QUESTIONS.get(evaluator):
        return text
    if evaluator.startswith("looping_"):
        return _LOOPS
    first = clip(description.split("\n", maxsplit=1)[0], 140)
    return first or f"{evaluator.replace('_', ' ').capitalize()}: is it good?"


def asks(stored: StoredTrace, main: str, review: Review | None, descriptions: Mapping[str, str]) -> tuple[Ask, ...]:
    """What is asked of a log: every evaluator that passed or failed it, or could not be put to it. The main one first,
    then those that a model or a judge decides, then the others."""
    labels = {verdict.evaluator: verdict.label for verdict in review.verdicts} if review else {}
    scores = {score.name: score for score in stored.evaluation.scores}
    names = [name for name, score in scores.items() if score.label in ("pass", "fail", "refusal") or score.error]
    places = {name: i for i, name in enumerate(_in_order(names, main))}
    by_method = sorted(places, key=lambda name: (name != main, scores[name].method == "code", places[name]))
    return tuple(
        Ask(name, question(name, descriptions.get(name, "")), i == 0, labels.get(name, ""))
        for i, name in enumerate(by_method)
    )


def _in_order(names: Sequence[str], main: str) -> list[str]:
    return sorted(ordered(names), key=lambda name: name != main)
