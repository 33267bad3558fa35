"""Compares answers with references as labels, over a whole data set."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ragtrace.batch.reporting.results import Result
from ragtrace.evaluate.overlap import as_label

NAME = "classification"
"""The evaluator whose rows contain labels."""


@dataclass(frozen=True, slots=True)
class Classification:
    """Figures about answers and references, both as labels. All rates are in [0, 1]. Precision, recall and F1 are means
    over the labels with equal weights ("macro"). A label that was never predicted has precision 0, a label that was
    never expected has recall 0."""

    model: str
    count: int
    accuracy: float
    precision: float
    recall: float
    f1: float
    labels: tuple[str, ...]
    """All expected or predicted labels, sorted."""
    confusion: tuple[tuple[str, str, int], ...]
    """(expected, predicted, number of rows) for each pair that occurs. Pairs take less space than a table if answers
    are prose, which makes many labels."""


def classify(expected: Sequence[str], predicted: Sequence[str], model: str = "") -> Classification:
    """Accuracy, macro precision, recall and F1, and the confusion of labels. Raises ValueError without rows.

    Source: H2O Eval Studio, Classification Evaluator; for several classes the figures are scikit-learn's with
    `average="macro", zero_division=0`."""
    if not expected:
        raise ValueError("there are no labels to compare")
    pairs = Counter(zip(expected, predicted, strict=True))
    labels = tuple(sorted({*expected, *predicted}))
    expected_counts, predicted_counts = Counter(expected), Counter(predicted)
    hits = {label: pairs[label, label] for label in labels}
    f1s = [2 * hits[label] / (predicted_counts[label] + expected_counts[label]) for label in labels]
    return Classification(
        model=model, count=len(expected), accuracy=sum(hits.values()) / len(expected),
        precision=_mean_share(hits, predicted_counts), recall=_mean_share(hits, expected_counts),
        f1=sum(f1s) / len(labels), labels=labels,
        confusion=tuple((one, other, n) for (one, other), n in sorted(pairs.items())),
    )  # fmt: skip


def _mean_share(hits: Mapping[str, int], counts: Mapping[str, int]) -> float:
    return sum(hits[label] / counts[label] if counts[label] else 0.0 for label in hits) / len(hits)


def classifications(rows: Iterable[Result]) -> list[Classification]:
    """One classification for each model, from the rows that have a reference and a value of the evaluator
    `classification`. Models without such rows are left out."""
    of_model: dict[str, list[tuple[str, str]]] = {}
    for row in rows:
        score = row.scores.get(NAME)
        if score is not None and score.value is not None and row.reference is not None:
            of_model.setdefault(row.model, []).append((as_label(row.reference), as_label(row.answer)))
    return [classify([e for e, _ in pairs], [p for _, p in pairs], model) for model, pairs in of_model.items()]
