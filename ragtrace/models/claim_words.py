"""Words of a claim and of the sentences that it is compared with: what kind of word each is, and how alike two are.

Likeness is that of the encoder's own word embeddings, reduced to 96 numbers (`word_vectors.npz`, made by
`training/entailment/train.py`), so that "reimbursed" meets "refunded" without a run of the encoder.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ragtrace.lazy import Lazy
from ragtrace.models import model_file
from ragtrace.models.answer_features import normal
from ragtrace.models.products import product
from ragtrace.text.function_words import FUNCTION_WORDS
from ragtrace.text.quantities import Quantity, quantities

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DIMENSIONS = 96
_READ = 1_000
"""Characters of a claim or a sentence that are read."""
_STEM = 5
_WORD = re.compile(r"\d[\d.,:]*\d|\w+(?:['\u2019]\w+)?")
_SENTENCE_START = re.compile(r"[.!?:]\W*\Z")
_NEGATIONS = frozenset(
    [
        "not",
        "no",
        "never",
        "none",
        "nobody",
        "nothing",
        "neither",
        "nor",
        "without",
        "cannot",
        "except",
        "unless",
        "unable",
        "non",
        "excluded",
        "excluding",
    ]
)
_OPPOSITE_PAIRS = """
before after, increase decrease, increased decreased, increases decreases, more less, first last, always never,
all none, high low, higher lower, highest lowest, best worst, up down, most least, old new, older newer, men women,
man woman, male female, north south, northern southern, hot cold, left right, early late, earlier later, large small,
larger smaller, long short, longer shorter, minimum maximum, east west, allowed forbidden, allow forbid,
include exclude, includes excludes, included excluded, accept reject, accepted rejected, approve deny,
approved denied, open closed,
opens closes, opened closed, above below, over under, inside outside, buy sell, buyer seller, bought sold, win lose,
won lost, rise fall, rose fell, gain loss, mandatory optional, required optional, public private, legal illegal,
safe dangerous, free paid, cheap expensive, good bad, better worse, true false, same different, many few,
employer employee, landlord tenant, sender recipient, teacher student, parent child, doctor patient,
morning evening, day night, weekdays weekends, monthly yearly, daily weekly, enable disable, enabled disabled,
enables disables, add remove, added removed, begin end, begins ends, start end, starts ends, started ended, and or,
arrive depart, arrives departs, north south, positive negative, success failure, married divorced, born died,
faster slower, wet dry, full empty, heavy light, young old, rich poor, strong weak, support oppose, supported opposed,
agree disagree, agreed disagreed, love hate, import export, upload download, encrypt decrypt, lock unlock,
credit debit, deposit withdrawal, domestic international, indoor outdoor, permanent temporary, internal external,
minutes hours, hours days, days weeks, weeks months, months years, million billion, percent points, metres kilometres,
january march, february may, april october, june july, august september, november december,
monday thursday, tuesday friday, wednesday sunday, saturday tuesday
"""
OPPOSITES: dict[str, str] = {}
for _pair in _OPPOSITE_PAIRS.replace("\n", " ").split(","):
    _a, _b = _pair.split()
    OPPOSITES.setdefault(_a, _b)
    OPPOSITES.setdefault(_b, _a)
_ALIKE = 0.8
"""Different words are at most so alike: the embeddings take opposites for near relatives."""
_SAME_STEM, _OPPOSITE, _NUMBERS = 0.9, 0.55, 0.2
SAME = 0.85
"""Likeness from which two words count as the same."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a text."""

    normal: str
    stem: str
    """Its first five letters; the whole of a number."""
    is_content: bool
    """It carries meaning and is no negation."""
    is_number: bool
    is_name: bool
    """It begins with a capital letter where no sentence begins."""
    is_negation: bool


@dataclass(frozen=True, slots=True)
class Words:
    """A claim, a question or a sentence as words."""

    text: str
    words: tuple[Word, ...]
    content: tuple[Word, ...]
    """Those that carry meaning."""
    places: tuple[int, ...]
    """content[i] is words[places[i]]."""
    vectors: NDArray[np.float32]
    """(content, DIMENSIONS), of unit length; zeros for a word that the vocabulary cannot spell."""
    stems: frozenset[str]
    """Of the words that carry meaning."""
    normals: frozenset[str]
    """Of all words."""
    negations: tuple[int, ...]
    """Places of the negations among `words`."""
    quantities: tuple[Quantity, ...]


class WordReader:
    """Reads texts as words; what recurs is read once. Safe to use from threads."""

    def __init__(self) -> None:
        """Raises MissingExtraError or ModelError where a part cannot be loaded."""
        import numpy as np
        from tokenizers import BertWordPieceTokenizer

        self._tokenizer = BertWordPieceTokenizer(str(model_file("vocabulary")), lowercase=True)
        with np.load(model_file("word_vectors")) as saved:
            self._vectors = saved["vectors"]
        self.read = lru_cache(512)(self._read)
        self._vector = lru_cache(20_000)(self._vector_of)

    def _read(self, text: str) -> Words:
        """The words of a text's first 1,000 characters."""
        import numpy as np

        text = text[:_READ].encode("utf-8", "replace").decode()  # lone surrogates: the tokenizer raises on them
        words = tuple(_word(text, match) for match in _WORD.finditer(text))
        places = tuple(i for i, word in enumerate(words) if word.is_content)
        content = tuple(words[i] for i in places)
        vectors = np.zeros((len(content), DIMENSIONS), np.float32)
        for i, word in enumerate(content):
            vectors[i] = self._vector(word.normal)
        return Words(
            text,
            words,
            content,
            places,
            vectors,
            frozenset(word.stem for word in content),
            frozenset(word.normal for word in words),
            tuple(i for i, word in enumerate(words) if word.is_negation),
            tuple(quantities(text)),
        )

    def _vector_of(self, word: str) -> NDArray[np.float32]:
        import numpy as np

        ids = self._tokenizer.encode(word[:60], add_special_tokens=False).ids
        mean = np.zeros(DIMENSIONS, np.float32)
        if ids:
            mean[:] = self._vectors[ids].mean(0)
        return mean / max(float(np.linalg.norm(mean)), 1e-6)


def _word(text: str, match: re.Match[str]) -> Word:
    word = match.group()
    low = normal(word)
    is_number = any(c.isdigit() for c in low)
    is_negation = low in _NEGATIONS or low.endswith(("n't", "n\u2019t"))
    starts = not match.start() or _SENTENCE_START.search(text, max(0, match.start() - 3), match.start()) is not None
    return Word(
        low,
        low if is_number else low[:_STEM],
        low not in FUNCTION_WORDS and not is_negation,
        is_number,
        word[:1].isupper() and not starts,
        is_negation,
    )


def likeness(a: Words, b: Words) -> NDArray[np.float32]:
    """(content of a, content of b): how alike two words are, from 0 to 1 for the same word. Numbers are alike only
    where they are equal."""
    import numpy as np

    alike: NDArray[np.float32] = np.clip(product(a.vectors, b.vectors.T), 0, _ALIKE)
    if not alike.size:
        return alike
    numbers = _column(a, "is_number")[:, None] | _column(b, "is_number")[None, :]
    alike[numbers] = np.minimum(alike[numbers], _NUMBERS)
    long = np.array([len(word.normal) > _STEM - 1 for word in a.content])[:, None]
    same_stem = (_column(a, "stem")[:, None] == _column(b, "stem")[None, :]) & long & ~numbers
    alike[same_stem] = np.maximum(alike[same_stem], _SAME_STEM)
    for i, word in enumerate(a.content):
        if opposite := OPPOSITES.get(word.normal):
            alike[i, [other.normal == opposite for other in b.content]] = _OPPOSITE
    alike[_column(a, "normal")[:, None] == _column(b, "normal")[None, :]] = 1
    return alike


def _column(words: Words, field: str) -> NDArray[Any]:
    import numpy as np

    return np.array([getattr(word, field) for word in words.content])


_reader = Lazy(WordReader)


def read_words(text: str) -> Words:
    """A text as words, by the process's reader, which is loaded on first use."""
    words: Words = _reader.get().read(text)
    return words
