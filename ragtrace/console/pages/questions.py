"""What people are asked of a log: each evaluator's question in plain words, so that `pass` means yes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragtrace.console.chatlogs.overview import ordered
from ragtrace.console.chatlogs.store_types import Review, StoredTrace
from ragtrace.console.review.own_questions import KEYS, OwnQuestion
from ragtrace.console.review.verdicts import ANY
from ragtrace.console.safe_text import clip

CHOICES = (
    ("pass", "✓", "pass"), ("fail", "✗", "fail"), ("not_applicable", "\N{EN DASH}", "n/a"), ("unsure", "?", "unsure"),
)  # fmt: skip
"""Value, sign and text of each verdict; the keys 1 to 4 in this order."""
SKIP_REASONS = ("cannot tell", "not my subject", "not my language", "the log is broken", "too personal")
REASONS: Mapping[str, str] = {
    "alert": "an alert named its evaluator", "feedback": "its user was not content", "random": "drawn at random",
    "disagreement": "evaluators disagree", "threshold": "near a threshold", "worst": "among the worst",
    "topic": "a new topic", "requested": "a person requested it", "imported": "labelled elsewhere",
    "conflict": "two reviewers contradict each other",
}  # fmt: skip
_QUESTIONS: Mapping[str, str] = {
    "faithfulness": "Does the context support all that the answer says?",
    "groundedness": "Does the context support even the weakest sentence?",
    "hallucination": "Is it free of things that the context does not say?", "correctness": "Is the answer right?",
    "answer_correctness": "Does the answer say what the expected one says?",
    "answer_relevance": "Does the answer address the question?",
    "context_relevancy": "Does the context hold what the question needs?",
    "context_relevancy_recall": "Does the context hold all that the question needs?",
    "context_relevancy_precision": "Is most of the context about the question?",
    "refusal": "Did it answer instead of declining?", "toxicity": "Is the answer free of insults?",
    "pii_leakage": "Is the answer free of personal data?", "sensitive_data_leakage": "Is the answer free of secrets?",
    "language_mismatch": "Is the answer in the language of the question?",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the answers to choose from."""

    value: str
    text: str
    key: str = ""
    """The hot key that chooses it from anywhere on the page; empty for none."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One question of one log: an evaluator's, or one of one's own."""

    field: str
    """Of the form: `v-` and the evaluator, or `q-` and the question's name."""
    question: str
    label: str
    """Small, beside the question."""
    choices: tuple[Choice, ...]
    """Empty for a number or a text."""
    earlier: str = ""
    """What this person answered before."""
    kind: str = "verdict"
    """`verdict`, or one of `own_questions.KINDS`."""
    low: float | None = None
    high: float | None = None
    key: str = ""
    """The hot key that leads to the field of a number or a text."""


def question(evaluator: str, description: str = "") -> str:
    """An evaluator's question for people."""
    if text := _QUESTIONS.get(evaluator):
        return text
    if evaluator.startswith("looping_"):
        return "Is the answer free of repetition?"
    first = clip(description.split("\n", maxsplit=1)[0], 140)
    return first or f"{evaluator.replace('_', ' ').capitalize()}: is it good?"


def asks(
    stored: StoredTrace,
    main: str,
    review: Review | None,
    descriptions: Mapping[str, str],
    own: Sequence[OwnQuestion] = (),
) -> tuple[Ask, ...]:
    """What is asked of a log: the main evaluator's question, those of one's own, then the other evaluators that passed
    or failed the log, or could not be put to it: those that a model or a judge decides before the others."""
    labels = {verdict.evaluator: verdict.label for verdict in review.verdicts} if review else {}
    names = asked_evaluators(stored, main)
    if ANY not in names:  # that an answer is false can be said of every log
        names.insert(1, ANY)
    keys = _free_keys(own)
    mine = [_own(question, review, keys) for question in own]
    others = [_evaluator(name, labels.get(name, ""), descriptions, _next_key(name, keys)) for name in names[1:]]
    first = [_evaluator(name, labels.get(name, ""), descriptions, "") for name in names[:1]]
    return (*first, *mine, *others)


def asked_evaluators(stored: StoredTrace, main: str) -> list[str]:
    """The evaluators whose questions a log's reviewer is asked, the main one first."""
    scores = {score.name: score for score in stored.evaluation.scores}
    names = [name for name, score in scores.items() if score.label in ("pass", "fail", "refusal") or score.error]
    places = {name: i for i, name in enumerate(ordered(names))}
    return sorted(places, key=lambda name: (name != main, scores[name].method == "code", places[name]))


def _evaluator(name: str, earlier: str, descriptions: Mapping[str, str], key: str) -> Ask:
    """With one letter for both answers: small for pass, capital for fail."""
    keys = {"pass": key, "fail": key.upper()}
    choices = tuple(Choice(value, f"{sign} {text}", keys.get(value, "")) for value, sign, text in CHOICES)
    return Ask(f"v-{name}", question(name, descriptions.get(name, "")), name, choices, earlier)


def _own(question: OwnQuestion, review: Review | None, keys: list[str]) -> Ask:
    value = review.answers.get(question.name, "") if review else ""
    earlier = value if isinstance(value, str) else f"{value:g}"
    choices = tuple(
        Choice(category.label, category.label, category.key or _next_key(category.label, keys))
        for category in question.categories
    )
    key = "" if choices else _next_key(question.name, keys)
    bounds = (question.low, question.high)
    return Ask(f"q-{question.name}", question.text, question.name, choices, earlier, question.kind, *bounds, key)


def _free_keys(own: Sequence[OwnQuestion]) -> list[str]:
    """The letters that no category has for its own."""
    reserved = {category.key for question in own for category in question.categories}
    return [key for key in KEYS if key not in reserved]


def _next_key(name: str, keys: list[str]) -> str:
    """Takes a free key: a letter of the name where one is free, else the first; empty where none is left."""
    key = next((letter for letter in name.lower() if letter in keys), keys[0] if keys else "")
    if key:
        keys.remove(key)
    return key
