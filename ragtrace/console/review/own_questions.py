"""Questions of one's own, beside those of the evaluators: a category, a number or a text.

No evaluator answers them, so they have no part in calibration. `ragtrace.console.review.agreement` compares people's
answers, and the export has them."""

import json
import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import insert, select, update

from ragtrace.console.chatlogs.encryption import clean
from ragtrace.console.chatlogs.queue_schema import questions, queues
from ragtrace.console.chatlogs.store import Store
from ragtrace.errors import DataError

KINDS = ("category", "number", "text")
KEYS = "abfilnopqrvyz"
"""Letters that may be the hot key of a category: the console's review page uses no other meaning of them."""
_NAME = re.compile(r"[a-z][a-z0-9_]{0,59}\Z")
_CATEGORIES = 12
_LONGEST = 10_000
"""Characters of a text that answers a question."""


@dataclass(frozen=True, slots=True)
class Category:
    """One of the answers to choose from."""

    label: str
    key: str = ""
    """Its hot key, one of `KEYS`; empty for one that the console chooses."""


@dataclass(frozen=True, slots=True)
class OwnQuestion:
    """A question to reviewers."""

    name: str
    """Names the answers in exports: lower-case letters, digits and underscores, 60 at most."""
    text: str
    """What reviewers read, up to 300 characters."""
    kind: str
    """One of `KINDS`."""
    queue: str = ""
    """Asked of the logs in this named queue only; empty for every log."""
    categories: tuple[Category, ...] = ()
    low: float | None = None
    """Least number, inclusive."""
    high: float | None = None
    """Greatest number, inclusive."""
    closed: bool = False
    """Whether it is asked no more; its answers stay."""


def create(store: Store, question: OwnQuestion, now: float | None = None) -> None:
    """Adds a question. Raises DataError if it is invalid, if its name is taken, or if there is no such queue."""
    _check(question)
    options = {
        "categories": [[category.label, category.key] for category in question.categories],
        "low": question.low,
        "high": question.high,
    }
    row = {name: getattr(question, name) for name in ("name", "text", "kind", "closed")}
    with store.writing() as connection:
        if connection.scalar(select(questions.c.id).where(questions.c.name == question.name)) is not None:
            raise DataError(f"there is a question {question.name!r} already; give another name, or open that one again")
        queue = None
        if question.queue:
            queue = connection.scalar(select(queues.c.id).where(queues.c.name == question.queue))
            if queue is None:
                raise DataError(f"there is no queue {question.queue[:100]!r} to ask the question in")
        created = time.time() if now is None else now
        connection.execute(insert(questions).values(**row, queue=queue, options=json.dumps(options), created=created))


def close(store: Store, name: str, *, closed: bool = True) -> None:
    """Asks a question no more, or again. Raises DataError if no question has that name."""
    if not store.execute(update(questions).where(questions.c.name == name).values(closed=closed)):
        raise DataError(f"there is no question {name[:60]!r}")


def load(store: Store, *, closed: bool = False) -> tuple[OwnQuestion, ...]:
    """The questions that are asked, oldest first; with `closed` also those that are asked no more."""
    query = select(questions, queues.c.name.label("of")).outerjoin(queues, queues.c.id == questions.c.queue)
    if not closed:
        query = query.where(~questions.c.closed)
    return tuple(_question(row) for row in store.rows(query.order_by(questions.c.id)))


def _question(row: Any) -> OwnQuestion:
    options = json.loads(row.options)
    categories = tuple(Category(label, key) for label, key in options["categories"])
    return OwnQuestion(
        row.name, row.text, row.kind, row.of or "", categories, options["low"], options["high"], row.closed
    )


def _check(question: OwnQuestion) -> None:
    if not _NAME.match(question.name):
        raise DataError(
            f"the question's name is {question.name[:60]!r}; give a lower-case letter, then letters, digits and "
            "underscores, 60 at most"
        )
    if not question.text.strip() or len(question.text) > 300 or clean(question.text) != question.text:
        raise DataError(f"the text of the question {question.name} is empty or longer than 300 characters")
    if question.kind not in KINDS:
        raise DataError(f"the kind of the question is {question.kind[:20]!r}; use one of {', '.join(KINDS)}")
    if question.kind == "category":
        _check_categories(question.categories)
    elif question.categories:
        raise DataError(f"a question of the kind {question.kind} has no categories; remove them")
    bounds = [bound for bound in (question.low, question.high) if bound is not None]
    if bounds and question.kind != "number":
        raise DataError(f"a question of the kind {question.kind} has no least or greatest number; remove them")
    if not all(map(math.isfinite, bounds)) or (len(bounds) == 2 and bounds[0] >= bounds[1]):
        raise DataError(f"the bounds are {question.low} and {question.high}; the least must be below the greatest")


def _check_categories(categories: Sequence[Category]) -> None:
    labels = [category.label for category in categories]
    if not 2 <= len(labels) <= _CATEGORIES or len(set(labels)) != len(labels):
        raise DataError(f"a question has 2 to {_CATEGORIES} different categories; {len(labels)} were given")
    for label in labels:
        if not 0 < len(label.strip()) <= 60 or not label.isprintable():
            raise DataError(f"the category {label[:60]!r} is invalid; give 1 to 60 printable characters")
    keys = [category.key for category in categories if category.key]
    for key in keys:
        if len(key) != 1 or key not in KEYS:
            raise DataError(f"the hot key {key[:10]!r} is not free; use one of {' '.join(KEYS)}")
    if len(set(keys)) != len(keys):
        raise DataError("two categories have the same hot key; give each its own")


def check_answers(open_questions: Sequence[OwnQuestion], answers: Mapping[str, object]) -> dict[str, str | float]:
    """The answers as they are stored: categories and texts as texts, numbers as floats. Raises DataError for an answer
    to a question that is not asked, and for one that does not fit its question."""
    by_name = {question.name: question for question in open_questions}
    result: dict[str, str | float] = {}
    for name, answer in answers.items():
        question = by_name.get(name)
        if question is None:
            raise DataError(f"no question {name[:60]!r} is asked")
        result[name] = _check_answer(question, answer)
    return result


def _check_answer(question: OwnQuestion, answer: object) -> str | float:
    if question.kind == "number":
        if isinstance(answer, bool) or not isinstance(answer, (int, float)) or not math.isfinite(answer):
            raise DataError(f"the answer to {question.name} is not a finite number")
        too_low = question.low is not None and answer < question.low
        if too_low or (question.high is not None and answer > question.high):
            low, high = ("-" if bound is None else f"{bound:g}" for bound in (question.low, question.high))
            raise DataError(f"the answer to {question.name} is {answer:g}; give a number from {low} to {high}")
        return float(answer)
    if not isinstance(answer, str) or not answer.strip():
        raise DataError(f"the answer to {question.name} is not a text")
    if question.kind == "category" and answer not in {category.label for category in question.categories}:
        raise DataError(f"the answer to {question.name} is not one of its categories")
    return (clean(answer) or "")[:_LONGEST]
