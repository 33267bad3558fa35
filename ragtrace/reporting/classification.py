"""Answers as labels: how often they are the expected one, over a whole data set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ragtrace.evaluators.overlap import as_label
from ragtrace.reporting.results import Result

NAME = "classification"
"""The evaluator whose rows are read as labels."""


@dataclass(frozen=True, slots=True)
class Classification:
    """How answers compare with references, both as labels. Rates lie in [0, 1]; precision, recall and F1 are means over
    the labels, each label weighing the same ("macro"); a label that was never predicted has precision 0, one that was
    never expected has recall 0."""

    model: str
    count: int
    accuracy: float
    precision: float
    recall: float
    f1: float
    labels: tuple[str, ...]
    """All labels expected or predicted, sorted."""
    confusion: tuple[tuple[str, str, int], ...]
    """(expected, predicted, rows) for pairs that occur. Pairs, not a table: answers in prose make many labels."""


def classify(expected: Sequence[str], predicted: Sequence[str], model: str = "") -> Classification:
    """Accuracy, macro precision, recall and F1, and the confusion of labels. Raises ValueError without rows.

    Source: H2O Eval Studio, Classification Evaluator; for several classes the figures are scikit-learn's with
    `average="macro", zero_division=0`.
    """
    if not expected:
        raise ValueError("no labels to compare")
    pairs = Counter(zip(expected, predicted, strict=True))
    labels = tuple(sorted({*expected, *predicted}))
    wanted, given = Counter(expected), Counter(predicted)
    hits = {label: pairs[label, label] for label in labels}
    precisions = [hits[label] / given[label] if given[label] else 0.0 for label in labels]
    recalls = [hits[label] / wanted[label] if wanted[label] else 0.0 for label in labels]
    f1s = [2 * hits[label] / (given[label] + wanted[label]) for label in labels]
    return Classification(
        model=model,
        count=len(expected),
        accuracy=sum(hits.values()) / len(expected),
        precision=sum(precisions) / len(labels),
        recall=sum(recalls) / len(labels),
        f1=sum(f1s) / len(labels),
        labels=labels,
        confusion=tuple((one, other, n) for (one, other), n in sorted(pairs.items())),
    )


def classifications(rows: Iterable[Result]) -> list[Classification]:
    """One for each model, from the rows on which the evaluator `classification` has a value and that have a reference;
    none where there is no such row."""
    of_model: dict[str, list[tuple[str, str]]] = {}
    for row in rows:
        score = row.scores.get(NAME)
        if score is not None and score.value is not None and row.reference is not None:
            of_model.setdefault(row.model, []).append((as_label(row.reference), as_label(row.answer)))
    return [classify([e for e, _ in pairs], [p for _, p in pairs], model) for model, pairs in of_model.items()]
