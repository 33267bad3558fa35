"""How consistent an answer is with its context, from a model's probabilities for pairs of their pieces."""

from collections.abc import Sequence
from dataclasses import dataclass

from ragtrace.evaluate.models.external.minicheck import CausalMiniCheck, Seq2SeqMiniCheck
from ragtrace.evaluate.models.external.pair_models import CrossEncoder, Hhem
from ragtrace.evaluate.models.external.passages import nearest, windows

_PAIRS = 64
"""Pairs that are judged for one answer at most."""
_PARTS = 8
"""Parts of a long answer that are judged at most."""
_STATEMENTS = 32
"""Sentences of an answer that are judged at most."""
_HALF = 0.5
"""Probability under which a piece counts as not supported."""


@dataclass(frozen=True, slots=True)
class Consistency:
    """How consistent an answer is with its context, and how much of both the model read."""

    value: float
    """In [0, 1]."""
    windows: int
    windows_in_all: int
    parts: int
    """Of the answer: more than one where it is too long to be read at once, or where the model judges sentences."""
    parts_in_all: int
    window_rule: str = "best"
    """Which of the windows counts: `best` or `worst`."""
    unsupported: tuple[str, ...] = ()
    """Pieces of the answer that the model calls not supported, if it judges pieces."""


PairModel = CrossEncoder | Hhem
SentenceModel = Seq2SeqMiniCheck | CausalMiniCheck


def by_pairs(model: PairModel, context: str, answer: str) -> Consistency:
    """A context that is too long for the model is read in windows, and the one that supports the answer best counts; of
    an answer that is too long, the part that is supported least."""
    parts = windows(answer, max(16, model.room // 2), model.tokens)
    longest = max((model.tokens(part) for part in parts), default=0)
    return _judged(model, windows(context, max(16, model.room - longest), model.tokens), parts, _PARTS)


def by_sentences(model: SentenceModel, context: str, answer: str) -> Consistency:
    """Each sentence is judged by the passage that supports it best, and the sentence that is supported least counts."""
    statements = model.statements(answer)
    longest = max((model.tokens(statement) for statement in statements), default=0)
    return _judged(model, model.passages(context, longest), statements, _STATEMENTS)


def _judged(model: PairModel | SentenceModel, pieces: Sequence[str], parts: Sequence[str], most: int) -> Consistency:
    """Of very many pieces, those are read that share most words with the part."""
    read = parts[:most]
    count = min(len(pieces), max(1, _PAIRS // max(1, len(read))))
    pairs = [(piece, part) for part in read for piece in nearest(pieces, part, count)]
    scores = model.entails(pairs)
    best = [max(scores[i : i + count]) for i in range(0, len(scores), count)]
    value = min(1.0, max(0.0, min(best, default=0.0)))
    low = [part for part, score in zip(read, best, strict=True) if score < _HALF] if len(parts) > 1 else []
    return Consistency(value, count, len(pieces), len(read), len(parts), unsupported=tuple(low))
