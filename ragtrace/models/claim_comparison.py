"""A claim compared with its closest passage: which words, numbers, names, negations and orders differ.

The groundedness head encodes answer and context separately and looks for what the answer says. This comparison works in
both directions, so it sees a negation or a number that only the passage has. Counts and lengths of the claim alone are
no features: they tell writers apart, not true from false. Small boosted trees
(`claim_comparison.onnx`, trained by `training/entailment/train.py`) read these features.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ragtrace.lazy import Lazy
from ragtrace.models import model_file
from ragtrace.models.claim_alignment import AlignedClaim, align
from ragtrace.models.claim_bindings import bindings
from ragtrace.models.claim_contrasts import Features, negations, neighbours, order, polarity, slots, wording
from ragtrace.models.claim_words import SAME, Words
from ragtrace.models.encoder import open_session
from ragtrace.text.dropped_negations import ContextDenials
from ragtrace.text.quantities import Quantity, missing
from ragtrace.text.unstated_numbers import ContextNumbers
from ragtrace.text.worked_out_numbers import calculates

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_ALIKE = 0.5
"""Likeness from which a word counts as covered."""
_QUESTIONS = (
    ("how many", "how much"),
    ("who", "whose", "whom"),
    ("when",),
    ("where",),
    ("which",),
    ("can", "may", "do", "does", "is", "are", "will", "must", "should", "am", "did", "has", "have"),
    ("what",),
    ("why", "how"),
)


class ClaimPair(NamedTuple):
    """A claim, the question that its answer answers, and the passage that it is compared with."""

    claim: str
    query: str
    passage: str


class ClaimComparison:
    """The trees. Safe to use from threads."""

    def __init__(self) -> None:
        """Raises MissingExtraError or ModelError where they cannot be loaded."""
        self._session = open_session(model_file("claim_comparison"))

    def logits(self, pairs: Sequence[ClaimPair]) -> NDArray[np.float64]:
        """(n,) per pair the logit of the probability that the passage supports the claim."""
        import numpy as np

        if not pairs:
            return np.zeros(0)
        features = np.stack([compare_claim(*pair) for pair in pairs])
        unsupported: NDArray[np.float32] = self._session.run(["logits"], {"features": features})[0]
        return -unsupported[:, 0].astype(np.float64)


def compare_claim(claim: str, query: str, passage: str) -> NDArray[np.float32]:
    """(features,) of a claim beside a passage, in the order that the trees read."""
    import numpy as np

    compared = align(claim, query, passage)
    features: Features = {}
    for group in _GROUPS:
        features |= group(compared)
    return np.array(list(features.values()), np.float32)


def _coverage(c: AlignedClaim) -> Features:
    """How much of the claim the closest sentence, the two closest and the passage cover."""
    import numpy as np

    first = c.closest
    others = sorted((i for i in range(len(c.covered)) if i != first), key=lambda i: -c.covered[i])
    second = others[0] if others else first
    best, total = c.cover[first], float(c.rarity.sum()) or 1.0
    passage = np.max(c.cover, axis=0)
    in_question = np.array([word.stem in c.query.stems for word in c.claim.content], bool)
    features: Features = {
        "covered": c.covered[first],
        "covered_by_two": float(np.maximum(best, c.cover[second]) @ c.rarity) / total,
        "covered_by_passage": float(passage @ c.rarity) / total,
        "lead": c.covered[first] - c.covered[second] if others else 1.0,
    }
    for name, of_words in (("sentence", best), ("passage", passage), ("asked", np.where(in_question, 1, best))):
        features |= _lowest(of_words, name)
    return features | _copied(c)


def _lowest(cover: NDArray[np.float32], name: str) -> Features:
    """The words of the claim that are covered least."""
    import numpy as np

    lowest = np.sort(cover) if len(cover) else np.ones(1)
    return {
        f"lowest_{name}": float(lowest[0]),
        f"lowest_three_{name}": float(lowest[:3].mean()),
        f"uncovered_{name}": float((cover < _ALIKE).sum()),
        f"half_covered_{name}": float(((cover >= _ALIKE) & (cover < SAME)).sum()),
    }


def _copied(c: AlignedClaim) -> Features:
    """What of the closest sentence the claim says, and the longest copy."""
    import numpy as np

    sentence, alike = c.sentences[c.closest], c.alike[c.closest]
    back = alike.max(0) if alike.size else np.zeros(len(sentence.content))
    return {
        "sentence_said": float((back >= 0.8).mean()) if len(back) else 0.0,
        "sentence_unsaid": float((back < _ALIKE).sum()),
        "run": _longest_run(c.claim, sentence) / max(1, len(c.claim.words)),
    }


def _longest_run(a: Words, b: Words) -> int:
    """Words of the longest run that both have."""
    longest, before = 0, [0] * (len(b.words) + 1)
    for word in a.words:
        row = [0] * (len(b.words) + 1)
        for j, other in enumerate(b.words):
            if word.normal == other.normal:
                row[j + 1] = before[j] + 1
                longest = max(longest, row[j + 1])
        before = row
    return longest


def _quantities(c: AlignedClaim) -> Features:
    """Quantities that the sentence or the passage lacks, and those of the sentence that the claim lacks."""
    of_sentence, of_query = c.sentences[c.closest].quantities, c.query.quantities
    of_passage = [q for sentence in c.sentences for q in sentence.quantities]
    elsewhere = missing(c.claim.quantities, (*of_sentence, *of_query))
    rivals: list[Quantity] = missing(of_sentence, c.claim.quantities)
    numbers = ContextNumbers([chunk.text for chunk in c.chunks], c.query.text)
    return {
        "quantities_not_in_passage": len(missing(c.claim.quantities, (*of_passage, *of_query))),
        "quantities_elsewhere": len(elsewhere),
        "quantity_rivals": len(rivals),
        "quantity_rivals_of_kind": sum(any(r.kind == q.kind for r in rivals) for q in elsewhere),
        "quantity_exchanged": bool(elsewhere) and bool(rivals),
        "number_unstated": numbers.unstated_in(c.claim.text) is not None,
        "calculates": calculates(c.claim.text, ""),
        "calculates_as_asked": calculates("", c.query.text),
    }


def _denials(c: AlignedClaim) -> Features:
    """Whether the claim affirms what the passage denies."""
    place = ContextDenials([chunk.text for chunk in c.chunks]).affirmed_in(c.claim.text, c.query.text)
    return {"affirms_denial": place is not None}


def _names(c: AlignedClaim) -> Features:
    """Names that the sentence or the passage lacks, and those of the sentence that neither claim nor question has."""
    import numpy as np

    passage = np.max(c.cover, axis=0)
    names = [i for i, word in enumerate(c.claim.content) if word.is_name and not word.is_number]
    own = c.claim.stems | c.query.stems
    sentence = c.sentences[c.closest].content
    return {
        "names_not_in_passage": float((passage[names] < SAME).sum()),
        "names_elsewhere": float((c.cover[c.closest][names] < SAME).sum()),
        "name_rivals": sum(w.is_name and not w.is_number and w.stem not in own for w in sentence),
    }


def _asked(c: AlignedClaim) -> Features:
    """What the question adds: the sentence that answers it, and how much of the claim it covers."""
    best = c.closest_to_both
    of_question = max(range(len(c.question_cover)), key=c.question_cover.__getitem__) if c.query.content else best
    both = sorted((c.covered_with_question(i) for i in range(len(c.covered))), reverse=True)
    begin = " ".join(word.normal for word in c.query.words[:2])
    kinds = [any(begin == w or begin.startswith(w + " ") for w in words) for words in _QUESTIONS]
    features: Features = {
        "asked": c.question_cover[best],
        "asked_covered": c.covered[best],
        "asked_both": both[0],
        "asked_lead": both[0] - both[1] if len(both) > 1 else 1.0,
        "asked_is_closest": best == c.closest,
        "question_covered": c.covered[of_question],
        "question_is_both": of_question == best,
        "question_kind": kinds.index(True) + 1 if True in kinds else 0,
    }
    return features | _unsaid(c, best)


def _unsaid(c: AlignedClaim, sentence: int) -> Features:
    """What of the claim is neither asked nor said in a sentence, and what is only related to it."""
    import numpy as np

    cover, total = c.cover[sentence], float(c.rarity.sum()) or 1.0
    new = np.array([word.stem not in c.query.stems for word in c.claim.content], bool)
    unsaid = new & (cover < 0.4)
    related = (cover >= 0.35) & (cover < 0.75)
    return {
        "asked_related": float(related @ c.rarity) / total,
        "asked_unsaid": float(unsaid.sum()),
        "asked_unsaid_share": float(unsaid @ c.rarity) / total,
    }


_GROUPS = (
    _coverage,
    _quantities,
    _denials,
    _names,
    negations,
    polarity,
    wording,
    order,
    neighbours,
    slots,
    _asked,
    bindings,
)
_trees = Lazy(ClaimComparison)


def compare_claims(pairs: Sequence[ClaimPair]) -> NDArray[np.float64]:
    """`ClaimComparison.logits` by the process's trees, which are loaded on first use."""
    logits: NDArray[np.float64] = _trees.get().logits(pairs)
    return logits
