"""What the reader reads: the sentences of all chunks that matter for an answer, the question, and the answer.

A chunk is divided into sentences once, and remembered: its word pieces and its stems do not depend on the answer. For
an answer the sentences of all chunks compete for one budget of word pieces, so that a right sentence is beside the
sentence of a chunk that looks like it."""

import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ragtrace.base.lazy import Recent
from ragtrace.evaluate.models.data_sentences import divide
from ragtrace.text.words import FUNCTION_WORDS

BUDGET = 200
"""Word pieces of evidence. A context that has fewer is read whole."""
QUESTION = 64
"""Word pieces of the question: the last ones, where a conversation ends with what is asked."""
_SENTENCE = 64
"""Word pieces of a sentence at most; a longer one is cut into parts."""
_HEADING = 24
"""Word pieces of a heading at most."""
_OF_HEADING = 0.5
"""What a heading is worth beside a claim, where a sentence is worth 1: it names the subject and states nothing."""
_FEW = 30
"""Word pieces of evidence from which the reader, which was trained on passages, knows what is not in them. Fewer are
followed by `_MORE`; without it, claims of another subject pass beside a single sentence."""
_MORE = (
    "// Other notes follow. The page was printed in black. The table below has four rows. The margin is narrow. The "
    "title is in bold."
)
_REMEMBERED = 20_000
"""Characters of a chunk that is remembered."""
_STEM = 5
_WORD = re.compile(r"[^\W_]+(?:[.,'\u2019]\d+)*")
CLS, SEP = 1, 2


class Sentence(NamedTuple):
    """A sentence of a chunk, or a part of a long one."""

    start: int
    end: int
    """Characters of the chunk, end exclusive."""
    ids: tuple[int, ...]
    stems: frozenset[str]
    head: int
    """The number of the sentence that says what this one is about: a heading, a table's first row, or itself."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The sentences that were chosen, in their order."""

    ids: list[int]
    places: list[tuple[int, int, int, int]]
    """(from, to, chunk, sentence) of each: its word pieces are ids[from:to]."""
    share: float
    """Word pieces that were chosen / word pieces of all chunks."""


def stems(text: str) -> frozenset[str]:
    """The first five letters of each content word, in lower case."""
    words = (m.group().lower() for m in _WORD.finditer(text))
    return frozenset(w[:_STEM] for w in words if w not in FUNCTION_WORDS)


class Chunks:
    """Chunks as sentences, by one tokenizer (`tokenizers.Tokenizer`). Remembers the latest."""

    def __init__(self, tokenizer: Any, remembered: int = 256) -> None:
        self.tokenizer = tokenizer
        self._sentences: Recent[list[Sentence]] = Recent(remembered)
        self._between, self._more = self.encode("//").ids, self.encode(_MORE).ids

    def encode(self, text: str) -> Any:
        """The word pieces of a text, with their offsets."""
        if not text.isascii():
            text = text.encode("utf-8", "replace").decode("utf-8")  # lone surrogates: the tokenizer raises on them
        return self.tokenizer.encode(text, add_special_tokens=False)

    def sentences(self, chunk: str) -> list[Sentence]:
        """The sentences of a chunk; of data (JSON) its keys with their values. Very long chunks are not remembered."""
        if len(chunk) > _REMEMBERED:
            return self._divide(chunk)
        return self._sentences.get([chunk], lambda: self._divide(chunk))

    def evidence(self, chunks: Sequence[str], query: str, answer: str, budget: int = BUDGET) -> Excerpt:
        """The sentences that share most with answer and question, of all chunks together."""
        divided = [(number, self.sentences(chunk)) for number, chunk in enumerate(chunks)]
        rows = [(number, i, s) for number, sentences in divided for i, s in enumerate(sentences)]
        total = sum(len(s.ids) for _, _, s in rows)
        order = range(len(rows)) if total + len(chunks) <= budget else _best_rows(rows, query, answer, budget)
        ids: list[int] = []
        places: list[tuple[int, int, int, int]] = []
        for row in order:
            number, i, sentence = rows[row]
            if places and places[-1][2] != number:
                ids += self._between
            places.append((len(ids), len(ids) + len(sentence.ids), number, i))
            ids += sentence.ids
        if 0 < len(ids) < _FEW:
            ids += self._more
        return Excerpt(ids, places, sum(b - a for a, b, _, _ in places) / max(1, total))

    def _divide(self, chunk: str) -> list[Sentence]:
        sentences: list[Sentence] = []
        numbers: dict[int, int] = {}
        for i, part in enumerate(divide(chunk)):
            pieces = self.encode(part.text)
            if not pieces.ids:
                continue
            number = numbers[i] = len(sentences)
            heading = 0 if sentences and len(sentences[0].ids) <= _HEADING else number
            first_head = heading if part.parent is None else numbers.get(part.parent, heading)
            is_prose = part.text == chunk[part.start : part.end]
            for at in range(0, len(pieces.ids), _SENTENCE):
                offsets = pieces.offsets[at : at + _SENTENCE]
                a, b = offsets[0][0], offsets[-1][1]
                place = (part.start + a, part.start + b) if is_prose else (part.start, part.end)
                head = number if at and not is_prose else first_head  # a record's parts bring its first one
                ids = tuple(pieces.ids[at : at + _SENTENCE])
                sentences.append(Sentence(place[0], place[1], ids, stems(part.text[a:b]), head))
        return sentences


def joined(evidence: Sequence[int], question: Sequence[int], answer: Sequence[int]) -> list[int]:
    """What the reader reads, as word pieces. The answer ends one piece before the end."""
    query = [*question[-QUESTION:], SEP] if question else []
    return [CLS, *evidence, SEP, *query, *answer, SEP]


def passage(
    chunks: Sequence[Sequence[Sentence]], read: Collection[tuple[int, int]], query: str, claim: str, wrong: str
) -> tuple[int, int] | None:
    """Of the sentences that were `read`, each (chunk, sentence), the one to show beside a claim; None where none shares
    a stem with it or the question.

    The chunk shares most with the question and with what is not `wrong` in the claim: a wrong value may be that of
    a chunk that looks alike. Of its sentences it is the one that shares most with the whole claim."""
    of_chunks = [frozenset().union(*(s.stems for s in sentences)) for sentences in chunks]
    frequency = Counter(stem for of_chunk in of_chunks for stem in of_chunk)
    right = stems(query) | (stems(claim) - stems(wrong))
    worth = iter(_worth([s for sentences in chunks for s in sentences], query, claim))
    best: tuple[float, int, int] | None = None
    for number, sentences in enumerate(chunks):
        heads = {s.head for i, s in enumerate(sentences) if s.head != i and len(sentences[s.head].ids) <= _HEADING}
        own = [w * (_OF_HEADING if i in heads else 1.0) for i, w in zip(range(len(sentences)), worth, strict=False)]
        place = max((i for i in range(len(own)) if (number, i) in read), key=own.__getitem__, default=None)
        if place is not None and own[place] > 0:
            shared = sum(math.log(0.5 + len(chunks) / frequency[stem]) for stem in of_chunks[number] & right)
            best = max(best or (-1.0, 0, 0), (shared + 0.3 * own[place], -number, place))
    return (-best[1], best[2]) if best else None


def _worth(sentences: Sequence[Sentence], query: str, answer: str) -> list[float]:
    """Per sentence the stems that it shares with the answer and, for six tenths, with the question, by their rarity."""
    frequency = Counter(stem for s in sentences for stem in s.stems)
    rarity = {stem: math.log(1 + len(sentences) / n) for stem, n in frequency.items()}
    of_answer, of_query = stems(answer), stems(query)
    return [
        (sum(rarity[x] for x in s.stems & of_answer) + 0.6 * sum(rarity[x] for x in (s.stems & of_query) - of_answer))
        / (1 + 0.004 * len(s.ids))
        for s in sentences
    ]


def _best_rows(rows: Sequence[tuple[int, int, Sentence]], query: str, answer: str, budget: int) -> list[int]:
    """The rows that fit, by shared stems weighted with their rarity; a neighbour's worth counts a quarter, and the
    head of a sentence comes along."""
    own = _worth([s for _, _, s in rows], query, answer)
    worth = []
    for at, (number, _, _) in enumerate(rows):
        beside = [own[j] for j in (at - 1, at + 1) if 0 <= j < len(rows) and rows[j][0] == number]
        worth.append(own[at] + 0.25 * max(beside, default=0.0))
    rows_in: set[int] = set()
    used = 0
    for at in sorted(range(len(rows)), key=lambda i: -worth[i]):
        _, i, sentence = rows[at]
        added = {at, at - i + sentence.head} - rows_in
        cost = sum(len(rows[j][2].ids) for j in added)
        if used + cost > budget:
            if used > budget * 0.75:
                break
            continue
        rows_in |= added
        used += cost
    return sorted(rows_in)
