"""Forms groups of similar questions from their vectors, and names them by their words. Needs numpy.

All vectors are rows of unit length, so a dot product is a cosine."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

FIT = 0.5
"""Least cosine of a question with the centre of its topic."""
NEAR = 0.5
"""Least cosine of two questions that count as neighbours when a new topic is formed."""
SAME = 0.75
"""Cosine of two centres from which they are one topic."""
_BLOCK = 512
"""Rows of the matrix of similarities that are computed at once."""
_ROUNDS = 5
"""Most rounds in which questions move to the nearest centre."""


def nearest(vectors: Vectors, centres: Vectors) -> tuple[NDArray[np.intp], Vectors]:
    """For each of n vectors the number of the nearest of k centres, and its cosine; -1 and -1.0 without centres."""
    import numpy as np

    if not len(centres):
        return np.full(len(vectors), -1), np.full(len(vectors), -1.0, np.float32)
    similarities = vectors @ centres.T
    best = similarities.argmax(axis=1)
    return best, similarities[np.arange(len(vectors)), best]


def find_groups(vectors: Vectors, least: int, most: int) -> list[NDArray[np.intp]]:
    """Groups of at least `least` of the n vectors, the largest first, at most `most`. A vector is in one group or none.

    A group begins with the vector that has the most neighbours among those left. Then the vectors move to the nearest
    centre in some rounds of spherical k-means (I. Dhillon, D. Modha, Concept decompositions for large sparse text data,
    2001). The same vectors in the same order give the same groups."""
    import numpy as np

    seeds = _dense_seeds(vectors, least, most) if len(vectors) >= least else []
    if not seeds:
        return []
    centres = _merged(np.stack([centre_of(vectors[members]) for members in seeds]))
    members: NDArray[np.intp] = np.empty(0, np.intp)
    for _ in range(_ROUNDS):
        best, similarity = nearest(vectors, centres)
        latest = np.where(similarity >= FIT, best, -1)
        if len(members) and (latest == members).all():
            break
        members = latest
        used = [i for i in range(len(centres)) if (members == i).sum() >= least]
        if not used:
            return []
        centres = _merged(np.stack([centre_of(vectors[members == i]) for i in used]))
    best, similarity = nearest(vectors, centres)
    groups = [np.flatnonzero((best == i) & (similarity >= FIT)) for i in range(len(centres))]
    return sorted((group for group in groups if len(group) >= least), key=len, reverse=True)[:most]


def _dense_seeds(vectors: Vectors, least: int, most: int) -> list[NDArray[np.intp]]:
    """The neighbourhoods of the densest vectors; each one is without the vectors of those before it."""
    import numpy as np

    left = np.ones(len(vectors), bool)
    counts = _count_neighbours(vectors)
    seeds: list[NDArray[np.intp]] = []
    while len(seeds) < most:
        seed = int(np.where(left, counts, -1).argmax())
        if not left[seed] or counts[seed] < least:
            break
        members = np.flatnonzero(left & (vectors @ vectors[seed] >= NEAR))
        left[members] = False
        left[seed] = False
        if len(members) >= least:
            seeds.append(members)
            # The members are no longer neighbours of the vectors that are left.
            counts -= _count_neighbours(vectors, vectors[members])
        else:
            counts[seed] = 0
    return seeds


def _count_neighbours(vectors: Vectors, others: Vectors | None = None) -> NDArray[np.int64]:
    import numpy as np

    others = vectors if others is None else others
    blocks = range(0, len(vectors), _BLOCK)
    counts = [(vectors[start : start + _BLOCK] @ others.T >= NEAR).sum(axis=1) for start in blocks]
    return np.concatenate(counts) if counts else np.zeros(0, np.int64)


def centre_of(vectors: Vectors) -> Vectors:
    """The mean direction of n vectors, of unit length."""
    import numpy as np

    total = vectors.sum(axis=0)
    length = float(np.linalg.norm(total))
    centre: Vectors = (total / max(length, 1e-12)).astype(np.float32)
    return centre


def _merged(centres: Vectors) -> Vectors:
    """The centres without those that are nearly the same as an earlier one."""
    import numpy as np

    result: list[Any] = []
    for centre in centres:
        if all(float(centre @ other) < SAME for other in result):
            result.append(centre)
    merged: Vectors = np.stack(result)
    return merged


# --- names ------------------------------------------------------------------------------------------------------------

_WORD = re.compile(r"[^\W\d_]{3,}")
_STOP = frozenset(
    """
    about after again all also and any are because been before being between both but can cannot could did does doing
    done for from get getting give given had has have having her here him his how into its just let like make many may
    mean means might more most much must need not now off one only other our out over please should some someone
    something such tell than that the their them then there these they this those through too under use used using
    very want was way were what when where which while who whom whose why will with without would you your
    der die das und ist sind ein eine einen einem einer wie was wann warum wer den dem des nicht mit von für auf ich
    les des une est que qui pour dans avec comment quand pourquoi los las una del por para con como cuando qué cómo
    """.split()  # noqa: SIM905 a list of words is read more easily
)
_STEM = 5
"""Words with the same first letters count as one in a name: `return`, `returns`."""
_WORDS = 3
"""Words of a name."""


def words_of(text: str) -> list[str]:
    """The words of a text that can name a topic, in lower case. The kinds that masks leave (`[email]`) are no words."""
    plain = re.sub(r"\[[a-z_]+\]", " ", text)
    return [word for word in (match.casefold() for match in _WORD.findall(plain)) if word not in _STOP]


def name_groups(
    groups: Sequence[Sequence[str]], others: Iterable[str] = (), names_in_use: Iterable[str] = ()
) -> list[str]:
    """A name for each group of texts: the words that are frequent in the group and rare elsewhere, by class-based
    TF-IDF (M. Grootendorst, BERTopic: neural topic modeling with a class-based TF-IDF procedure, 2022). `others` are
    texts of no group; a name in use is not used again.

    A word counts once for each text, together with its other forms, and is in two texts at least where such words
    exist. The names differ from each other."""
    counts = [_count_stems(texts) for texts in groups]
    total = _count_stems(others)
    for count in counts:
        total.update(count)
    average = sum(total.values()) / max(1, len(counts))
    names: list[str] = []
    used = set(names_in_use)
    for count, texts in zip(counts, groups, strict=True):
        size = sum(count.values()) or 1
        ranked = sorted(count, key=lambda stem: (-count[stem] / size * math.log1p(average / total[stem]), stem))
        common = [stem for stem in ranked if count[stem] >= 2]
        forms = Counter(word for text in texts for word in words_of(text))
        names.append(_unused([_form(stem, forms) for stem in (common or ranked)[: _WORDS + 3]], used))
        used.add(names[-1])
    return names


def _count_stems(texts: Iterable[str]) -> Counter[str]:
    return Counter(stem for text in set(texts) for stem in {word[:_STEM] for word in words_of(text)})


def _form(stem: str, forms: Counter[str]) -> str:
    """The most frequent word with this stem, the shortest of several."""
    return min((word for word in forms if word[:_STEM] == stem), key=lambda word: (-forms[word], len(word), word))


def _unused(words: Sequence[str], used: set[str]) -> str:
    """A name of some words; of more words, and at last with a number, where it is used."""
    for end in range(_WORDS, _WORDS + 3):
        name = ", ".join(words[:end]) or "unnamed"
        if name not in used:
            return name
    number = 2
    while f"{name} {number}" in used:
        number += 1
    return f"{name} {number}"
