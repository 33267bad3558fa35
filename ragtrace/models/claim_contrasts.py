"""Where a claim and the sentences of its passage contradict each other: negations, opposites, orders and slots.

A slot is a number or a name of the claim; its rivals are the other numbers or names of the passage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from ragtrace.models.claim_alignment import AlignedClaim
from ragtrace.models.claim_words import OPPOSITES, Word, Words, likeness

Features = dict[str, float]

_SLOTS = 8
"""Numbers and names of a claim that are looked for."""
_NEAR = 10
"""Words to either side that count as near a number or a name."""
_ALIKE = 0.5
"""Likeness from which a word counts as met."""
_YES = frozenset({"yes", "sure", "certainly", "correct"})
_CLASSES = {
    "all": "all every each any always entire whole both everyone everything",
    "some": "some several few many sometimes partly part partial somebody",
    "most": "most mostly usually typically generally often normally majority",
    "only": "only solely exclusively just alone",
    "must": "must required mandatory need needs have shall obliged compulsory requires require",
    "may": "may can might could optional possible possibly perhaps allowed",
    "least": "least minimum more above over exceed exceeding exceeds greater higher longer",
    "at_most": "maximum up under below less fewer within lower shorter limited",
    "before": "before until earlier prior previous previously first",
    "after": "after later from since following then next last once",
    "condition": "if unless provided when where except subject condition",
    "about": "about approximately around roughly nearly almost estimated",
    "with": "with including included include includes plus and",
    "or": "or either alternatively",
}
_CLASS_WORDS = {name: frozenset(words.split()) for name, words in _CLASSES.items()}


def negations(c: AlignedClaim) -> Features:
    """Negations that only one side has. Each weighs by how much of what it negates is there."""
    first = c.closest
    sentence = c.sentences[first]
    others = [i for i in range(len(c.sentences)) if i != first]
    second = max(others, key=c.covered.__getitem__) if others else first
    return {
        "one_side_negated": bool(c.claim.negations) != bool(sentence.negations),
        "negation_lost": _unmatched(sentence, c.claim),
        "negation_new": _unmatched(c.claim, sentence),
        "negation_of_second_lost": _unmatched(c.sentences[second], c.claim) * c.covered[second] if others else 0.0,
    }


def _unmatched(a: Words, b: Words) -> float:
    """How far `b` has the words that a negation of `a` negates, without the negation; the highest one, in [0, 1]."""
    if not a.negations or not b.content:
        return 0.0
    alike = likeness(a, b)
    worst = 0.0
    for place in a.negations:
        after = [i for i, p in enumerate(a.places) if place < p <= place + 6][:3]
        scope = after + [i for i, p in enumerate(a.places) if place - 4 <= p < place][-1:]
        if not scope:
            continue
        rows = alike[scope]
        places = [b.places[int(row.argmax())] for row in rows if row.max() >= _ALIKE]
        if not any(abs(p - n) <= 5 for p in places for n in b.negations):
            worst = max(worst, float(rows.max(1).mean()))
    return worst


def polarity(c: AlignedClaim) -> Features:
    """What is affirmed by one side and denied by the other, word by word; "Yes" and "No" answer the question."""
    words = c.claim.words
    yes = bool(words) and words[0].normal in _YES
    no = bool(words) and words[0].normal == "no"
    skipped = int(yes or no)
    own = [place for place in c.claim.negations if place >= skipped]
    sentence = c.sentences[c.closest_to_both]
    features: Features = {
        "asked_sentence_negations": len(sentence.negations),
        "yes": yes,
        "no": no,
        "yes_to_negation": yes * len(sentence.negations),
        "no_without_negation": no and not sentence.negations,
        "asked_one_side_negated": bool(own or no) != bool(sentence.negations),
    }
    for name, k in (("sentence", c.closest), ("asked", c.closest_to_both)):
        features |= _denied(c, k, own, no and not own, name)
    return features


def _denied(c: AlignedClaim, k: int, own: Sequence[int], denies: bool, name: str) -> Features:
    """Shares of the claim's words that are near a negation on one side only."""
    sentence, alike = c.sentences[k], c.alike[k]
    lost = new = total = 0.0
    for i, place in enumerate(c.claim.places if alike.shape[1] else ()):
        j = int(alike[i].argmax())
        if alike[i, j] < _ALIKE:
            continue
        weight = float(alike[i, j] * c.rarity[i])
        total += weight
        here, there = denies or _is_denied(place, own), _is_denied(sentence.places[j], sentence.negations)
        lost += weight * (there and not here)
        new += weight * (here and not there)
    return {f"denial_lost_{name}": lost / total if total else 0.0, f"denial_new_{name}": new / total if total else 0.0}


def _is_denied(place: int, negations: Sequence[int]) -> bool:
    return any(place - 5 <= n <= place + 2 for n in negations)


def wording(c: AlignedClaim) -> Features:
    """Opposites, prefixes that negate, and words of strength, time and condition that only one side has."""
    own, sentence = c.claim.normals, c.sentences[c.closest].normals
    both = c.sentences[c.closest_to_both].normals
    passage = frozenset().union(*(s.normals for s in c.sentences))
    features: Features = {
        "opposites": _opposites(own, sentence),
        "asked_opposites": _opposites(own, both),
        "passage_opposites": sum(w not in passage and OPPOSITES.get(w) in passage for w in own),
        "prefixes": _prefixes(own, sentence) + _prefixes(sentence, own),
        "passive": ("by" in own) != ("by" in sentence),
    }
    for name, words in _CLASS_WORDS.items():
        features[f"{name}_new"] = bool(own & words) and not sentence & words
        features[f"{name}_lost"] = bool(sentence & words) and not own & words
    return features


def _opposites(own: frozenset[str], other: frozenset[str]) -> int:
    return sum(w not in other and OPPOSITES.get(w) in other and OPPOSITES.get(w) not in own for w in own)


def _prefixes(own: frozenset[str], other: frozenset[str]) -> int:
    """The number of words such as "invalid" for which the other side has the word without its prefix."""
    prefixes = ("un", "in", "im", "dis", "non", "ir")
    return sum(
        any(w.startswith(p) and len(w) > len(p) + 3 and w[len(p) :] in other for p in prefixes)
        for w in own
        if w not in other
    )


def order(c: AlignedClaim) -> Features:
    """Whether the claim's words come in another order in the sentence, as exchanged roles do."""
    features: Features = {}
    for name, k in (("sentence", c.closest), ("asked", c.closest_to_both)):
        alike = c.alike[k]
        places = [int(row.argmax()) for row in alike if row.max() >= 0.6] if alike.shape[1] else []
        pairs = [(a, b) for i, a in enumerate(places) for b in places[i + 1 :] if a != b]
        features[f"turned_{name}"] = sum(a > b for a, b in pairs) / len(pairs) if pairs else 0.0
        features[f"spread_{name}"] = (max(places) - min(places) + 1) / len(set(places)) if places else 0.0
    sentence = [word.stem for word in c.sentences[c.closest].content]
    once = [sentence.index(word.stem) for word in c.claim.content if sentence.count(word.stem) == 1]
    steps = [b < a for a, b in pairwise(once)]
    return features | {"steps_back": sum(steps), "share_back": sum(steps) / max(1, len(steps))}


def _slot_places(words: Words) -> Iterator[int]:
    return (i for i, word in enumerate(words.content) if word.is_number or word.is_name)


def _rivals(word: Word, other: Word) -> bool:
    """Whether a word of the passage is of the same kind as a number or a name of the claim."""
    return other.is_number == word.is_number and (other.is_number or other.is_name)


def neighbours(c: AlignedClaim) -> Features:
    """Whether the words beside a number or a name in the claim are beside a rival of it in the passage."""
    worst, lowest = 0.0, 1.0
    for i in list(_slot_places(c.claim))[:12]:
        word, near = c.claim.content[i], _beside(c.claim, i)
        if not near:
            continue
        own, rivals = [0.0], [0.0]
        for sentence in c.sentences:
            for j, other in enumerate(sentence.content):
                if other.stem == word.stem:
                    own.append(len(near & _beside(sentence, j)) / len(near))
                elif _rivals(word, other):
                    rivals.append(len(near & _beside(sentence, j)) / len(near))
        worst, lowest = max(worst, max(rivals) - max(own)), min(lowest, max(own))
    return {"neighbours_of_rival": worst, "neighbours": lowest}


def _beside(words: Words, i: int) -> frozenset[str]:
    """Stems of up to three words that carry meaning to either side, at most four words away."""
    place, content = words.places[i], words.content
    left = [j for j in range(max(0, i - 3), i) if words.places[j] >= place - 4]
    right = [j for j in range(i + 1, min(len(content), i + 4)) if words.places[j] <= place + 4]
    return frozenset(content[j].stem for j in left + right)


def slots(c: AlignedClaim) -> Features:
    """Whether the words of claim and question are nearer to a rival of a slot than to the slot itself."""
    new = [word for word in map(c.claim.content.__getitem__, _slot_places(c.claim)) if word.stem not in c.query.stems]
    worst = worst_sentence = 0.0
    rank = absent = 0
    for word in new[:_SLOTS]:
        own, rivals = _said_of(c, word)
        absent += not own
        if own and rivals:
            nearest = max(near for near, _ in own)
            worst = max(worst, max(near for near, _ in rivals) - nearest)
            worst_sentence = max(worst_sentence, max(n for _, n in rivals) - max(n for _, n in own))
            rank = max(rank, sum(near > nearest for near, _ in rivals))
    return {
        "slots_absent": absent,
        "slot_of_rival": worst,
        "slot_of_rival_sentence": worst_sentence,
        "slot_rank": rank,
    }


def _said_of(c: AlignedClaim, word: Word) -> tuple[list[tuple[float, int]], list[tuple[float, int]]]:
    """How many words of claim and question are near each occurrence of a word in the passage, and near each rival."""
    target = c.claim.stems | c.query.stems
    own: list[tuple[float, int]] = []
    rivals: list[tuple[float, int]] = []
    for sentence in c.sentences:
        for j, other in enumerate(sentence.content):
            if other.stem == word.stem:
                own.append(_said_near(sentence, j, target - {word.stem}))
            elif other.stem not in target and _rivals(word, other):
                rivals.append(_said_near(sentence, j, target - {word.stem}))
    return own, rivals


def _said_near(sentence: Words, j: int, target: frozenset[str]) -> tuple[float, int]:
    """How many of the target's stems are near content[j], nearer ones weighing more, and how many its sentence has."""
    place = sentence.places[j]
    nearest: dict[str, int] = {}
    for word, other in zip(sentence.content, sentence.places, strict=True):
        distance = abs(other - place)
        if 0 < distance <= _NEAR and word.stem in target:
            nearest[word.stem] = min(nearest.get(word.stem, _NEAR), distance)
    return sum(1 / (1 + 0.15 * d) for d in nearest.values()), len(sentence.stems & target)
