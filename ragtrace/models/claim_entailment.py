"""A claim read together with its closest passage, by a small cross-encoder.

The groundedness head encodes answer and context apart, and the trees (`claim_comparison`) compare words. This model
reads both texts at once, so that it can see who does what to whom, and under which condition. Trained by
`training/entailment/cross_encoder.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ragtrace.lazy import Lazy
from ragtrace.models import model_file
from ragtrace.models.claim_comparison import ClaimPair
from ragtrace.models.embedding import open_session, open_tokenizer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PASSAGE_CHARS = 640
"""Characters of a passage. As in training."""
_CLAIM, _QUERY, _PASSAGE = 64, 24, 168
"""Word pieces of each part that are read. As in training."""
_CLS, _SEP = 101, 102


class ClaimEntailment:
    """The cross-encoder. Safe to use from threads."""

    def __init__(self) -> None:
        """Raises MissingExtraError or ModelError where it cannot be loaded."""
        self._session = open_session(model_file("claim_entailment"))
        self._tokenizer = open_tokenizer(_PASSAGE)

    def logits(self, pairs: Sequence[ClaimPair]) -> NDArray[np.float64]:
        """(n,) per pair the logit of the probability that the passage supports the claim.

        Pairs are run one by one: int8 activations share one scale in a run, so that in a batch one pair would change
        the score of another.
        """
        import numpy as np

        return np.array([self._logit(pair) for pair in pairs], np.float64)

    def _logit(self, pair: ClaimPair) -> float:
        import numpy as np

        ids, types = pair_ids(self._tokenizer, pair)
        feed = {
            "input_ids": np.array([ids], np.int64),
            "attention_mask": np.ones((1, len(ids)), np.int64),
            "token_type_ids": np.array([types], np.int64),
        }
        supported, *others = self._session.run(["logits"], feed)[0][0]
        return float(supported - np.logaddexp.reduce(others))


def pair_ids(tokenizer: Any, pair: ClaimPair) -> tuple[list[int], list[int]]:
    """The ids and the segments of `[CLS] claim [SEP] question [SEP] passage [SEP]`; the claim is segment 0."""
    claim = _pieces(tokenizer, pair.claim[:1_000], _CLAIM)
    query = _pieces(tokenizer, pair.query[:400], _QUERY)
    passage = _pieces(tokenizer, pair.passage[:2_000], _PASSAGE)
    ids = [_CLS, *claim, _SEP, *query, _SEP, *passage, _SEP]
    return ids, [0] * (len(claim) + 2) + [1] * (len(query) + len(passage) + 2)


def _pieces(tokenizer: Any, text: str, limit: int) -> list[int]:
    cut = text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
    ids: list[int] = tokenizer.encode(cut, add_special_tokens=False).ids[:limit]
    return ids


_model = Lazy(ClaimEntailment)


def claim_logits(pairs: Sequence[ClaimPair]) -> NDArray[np.float64]:
    """(n,) by the process's model, which is loaded on first use."""
    logits: NDArray[np.float64] = _model.get().logits(pairs)
    return logits
