"""The formulas of the catalogue, apart from who gives the verdicts."""

from collections.abc import Sequence


def mean(values: Sequence[float]) -> float | None:
    """None for no values."""
    return sum(values) / len(values) if values else None


def share(verdicts: Sequence[bool]) -> float | None:
    """True verdicts / verdicts, in [0, 1]; None for no verdicts."""
    return mean([float(v) for v in verdicts])


def average_precision(relevant: Sequence[bool]) -> float:
    """(1 / relevant items) Σₖ (relevant up to k / k) · rₖ over ranks k from 1; in [0, 1], 0 where none is relevant."""
    hits, total = 0, 0.0
    for k, hit in enumerate(relevant, 1):
        if hit:
            hits += 1
            total += hits / k
    return total / hits if hits else 0.0


def f1(tp: int, fp: int, fn: int) -> float:
    """TP / (TP + 0.5 (FP + FN)); 0 without a true positive."""
    return tp / (tp + 0.5 * (fp + fn)) if tp else 0.0


def correctness(tp: int, fp: int, fn: int, similarity: float) -> float:
    """0.75 · F1 over statements + 0.25 · the similarity of answer and reference."""
    return 0.75 * f1(tp, fp, fn) + 0.25 * similarity


def harmonic_mean(values: Sequence[float]) -> float | None:
    """n / Σ 1/v of values that are at least 0; 0 if one of them is 0, None for no values."""
    if not values:
        return None
    if min(values) <= 0:
        return 0.0
    return len(values) / sum(1 / v for v in values)


def majority(votes: Sequence[bool]) -> bool:
    """Whether more than half of the votes are True."""
    return 2 * sum(votes) > len(votes)


def failures(answer_fails: bool, context_fails: bool) -> tuple[str, ...]:
    """`Score.failures` of a check that passes or fails: `retrieval` where the retrieved context fails it, `generation`
    where the answer does though the context does not."""
    if context_fails:
        return ("retrieval",)
    return ("generation",) if answer_fails else ()
