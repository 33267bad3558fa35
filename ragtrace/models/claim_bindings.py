"""Whether each word of a claim is where the rest of the claim and its question belong.

Look-alike chunks have every word of a wrong claim: the price is there, but in the chunk of another tariff.
So each word that the question does not have is left out in turn. What is left of claim and question is looked for in
the chunks, and in the sentences, that have the word and in those that do not have it. The difference is the word's
lead; it is negative where the rest fits better to a place without the word. A word is misplaced where another place has
all that its own place has of the rest, and more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ragtrace.models.claim_alignment import AlignedClaim, highest
from ragtrace.models.claim_contrasts import Features
from ragtrace.models.claim_words import SAME, Words, likeness

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_BEHIND = -0.02
"""Lead below which a word counts as being at the wrong place."""


class _Places(NamedTuple):
    """The chunks or sentences of a passage, and how they fit to a claim and its question."""

    cover: NDArray[np.float32]
    """(places, words of the claim) highest likeness."""
    of_query: NDArray[np.float32]
    """(places, words of the question that the claim lacks) highest likeness."""
    rarity: NDArray[np.float64]
    """(words of the claim,) how few places have it."""
    fit: NDArray[np.float64]
    """(places,) what of claim and question a place has, rare words weighing more; `total` at most."""
    total: float


def bindings(c: AlignedClaim) -> Features:
    """The leads of the claim's words, and the lead of the place that fits best, for chunks and for sentences."""
    import numpy as np

    own = [word.stem for word in c.claim.content]
    new = np.array([stem not in c.query.stems for stem in own], bool)
    is_number = np.array([word.is_number for word in c.claim.content], bool)
    is_slot = is_number | np.array([word.is_name for word in c.claim.content], bool)
    features: Features = {}
    for name, units in (("chunk", c.chunks), ("sentence", c.sentences)):
        if not own:
            features |= dict.fromkeys(_names(name), 0.0)
            continue
        places = _places(c, units)
        leads = _leads(places, new)
        is_known = ~np.isnan(leads)
        best = int(places.fit.argmax())
        ranked = np.sort(places.fit)[::-1]
        rarity, cover = places.rarity[new], places.cover[best][new]
        values = (
            _lowest(leads[is_known]),
            _lowest(leads[is_known & is_slot]),
            _lowest(leads[is_known & is_number]),
            leads[is_known].mean() if is_known.any() else 0.0,
            (leads[is_known] < _BEHIND).sum(),
            ranked[0] / places.total,
            (ranked[0] - ranked[1]) / places.total if len(ranked) > 1 else 1.0,
            rarity @ cover / max(rarity.sum(), 1e-6) if new.any() else 1.0,
            cover.min() if new.any() else 1.0,
        )
        is_name = is_slot & ~is_number
        misplaced = (
            _misplaced(places, new & is_number, _rivals(c, units, is_number=True)).sum(),
            _misplaced(places, new & is_name, _rivals(c, units, is_number=False)).sum(),
            _misplaced(places, new & ~is_slot, np.ones(len(units), bool)).sum(),
        )
        features |= {key: float(value) for key, value in zip(_names(name), (*values, *misplaced), strict=True)}
    return features


def _names(place: str) -> list[str]:
    """The features of `bindings` in their order; `place` is chunk or sentence."""
    of_words = ("lead", "lead_of_slot", "lead_of_number", "mean_lead", "behind", "fit")
    of_place = (
        "lead_of_place",
        "new_words",
        "lowest_new_word",
        "misplaced_numbers",
        "misplaced_names",
        "misplaced_words",
    )
    return [f"{name}_in_{place}" for name in (*of_words, *of_place)]


def _places(c: AlignedClaim, units: Sequence[Words]) -> _Places:
    import numpy as np

    cover = np.stack([highest(likeness(c.claim, unit)) for unit in units])
    of_query = np.stack([highest(likeness(c.query, unit)) for unit in units])
    of_query = of_query[:, [word.stem not in c.claim.stems for word in c.query.content]]
    rarity, query_rarity = _rarity(cover), _rarity(of_query)
    total = float(rarity.sum() + query_rarity.sum()) or 1.0
    return _Places(cover, of_query, rarity, cover @ rarity + of_query @ query_rarity, total)


def _rarity(cover: NDArray[np.float32]) -> NDArray[np.float64]:
    import numpy as np

    rarity: NDArray[np.float64] = np.log(1 + (len(cover) + 1) / ((cover >= SAME).sum(0) + 0.5))
    return rarity


def _leads(places: _Places, new: NDArray[np.bool_]) -> NDArray[np.float64]:
    """(words of the claim,) the lead of each new word, in [-1, 1]; NaN where all places or none have the word."""
    import numpy as np

    leads = np.full(len(new), np.nan)
    for i in np.flatnonzero(new):
        has = places.cover[:, i] >= SAME
        if has.any() and not has.all():
            rest = places.fit - places.cover[:, i] * places.rarity[i]
            leads[i] = (rest[has].max() - rest[~has].max()) / places.total
    return leads


def _misplaced(places: _Places, new: NDArray[np.bool_], has_rival: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(words of the claim,) which of the new ones are misplaced; the other place has a rival of it."""
    import numpy as np

    has = places.cover >= SAME
    both = np.concatenate([has, places.of_query >= SAME], axis=1)
    misplaced = np.zeros(len(new), bool)
    for i in np.flatnonzero(new & has.any(0) & ~has.all(0)):
        rest = np.delete(both, i, axis=1)
        own, other = rest[has[:, i]], rest[~has[:, i] & has_rival]
        is_more = (other[None] | ~own[:, None]).all(2) & (other.sum(1)[None] > own.sum(1)[:, None])
        misplaced[i] = bool(is_more.any(1).all())
    return misplaced


def _rivals(c: AlignedClaim, units: Sequence[Words], *, is_number: bool) -> NDArray[np.bool_]:
    """(places,) which have another number, or another name, than claim and question."""
    import numpy as np

    stems = c.claim.stems | c.query.stems
    return np.array(
        [
            any(w.is_number == is_number and (w.is_number or w.is_name) and w.stem not in stems for w in unit.content)
            for unit in units
        ],
        bool,
    )


def _lowest(leads: NDArray[np.float64]) -> float:
    return float(leads.min()) if len(leads) else 0.0
