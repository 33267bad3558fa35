"""Features of an answer's word pieces beside its context, which the groundedness model reads, in training and in
production alike."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from enum import IntEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ragtrace.models.alignment import Pieces
from ragtrace.models.products import product
from ragtrace.text.function_words import FUNCTION_WORDS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CONTEXT_FEATURES = 4
_VOCABULARY = 30_522
"""Word pieces that the encoder knows."""
_NGRAM = 8
"""Pieces of the longest run that is looked for."""
_WORD = re.compile(r"\w+")
_NUMBERS = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
eighteen nineteen twenty
"""
_NUMBER_WORDS = {word: str(i) for i, word in enumerate(_NUMBERS.split())}


class Column(IntEnum):
    """The features of a piece of the answer, in the order that the trained head reads."""

    IN_CONTEXT = 0
    """Its word is in the context."""
    STEM_IN_CONTEXT = 1
    """Its word, or one with the same first five letters, is in the context."""
    IN_QUERY = 2
    DIGIT = 3
    NEW_DIGIT = 4
    """Its word has a digit and is not in the context."""
    CAPITAL = 5
    """Its word begins with a capital letter and is not the first of its sentence."""
    NEW_CAPITAL = 6
    FUNCTION_WORD = 7
    SIGN = 8
    """It is neither a letter nor a digit."""
    PAIR_BEFORE = 9
    """It and the piece before it are a pair in the context."""
    PAIR_AFTER = 10
    TRIPLE = 11
    """It is the middle of three pieces that the context has in this order."""
    RUN = 12
    """Length of the longest run of pieces around it that the context has, up to 8: logarithm, in [0, 1]."""
    PIECE_ID = 13
    """Its id / size of the vocabulary."""
    SENTENCE_KNOWN = 14
    """Share of its sentence's content words that are in the context."""
    SENTENCE_OVERLAP = 15
    """Highest share of its sentence's content words in a single sentence of the context."""
    POSITION = 16
    """Place in the answer, in [0, 1)."""
    COSINE = 17
    """Highest cosine with a piece of the context; this and the next two are of `nearness`."""
    SAME_COSINE = 18
    """Highest cosine with a piece of the context that has the same id."""
    SENTENCE_COSINE = 19
    """Mean of COSINE over its sentence."""


ANSWER_FEATURES = len(Column)


class Context:
    """What the surface features need to know of the context: its word pieces' n-grams and its words."""

    def __init__(self, chunks: Sequence[Pieces]) -> None:
        self.ids = [i for c in chunks for i in c.ids]
        self.ngrams: list[set[tuple[int, ...]]] = [set() for _ in range(_NGRAM + 1)]
        self.words: set[str] = set()
        self.sentence_words: list[frozenset[str]] = []
        for chunk in chunks:
            for n in range(1, _NGRAM + 1):
                self.ngrams[n].update(zip(*(chunk.ids[k:] for k in range(n)), strict=False))
            for span in chunk.sentences:
                words = frozenset(normal(w) for w in _WORD.findall(chunk.text[span.start : span.end]))
                self.sentence_words.append(words)
                self.words.update(words)
        self.stems = {w[:5] for w in self.words}


def normal(word: str) -> str:
    """A word in lower case, a small number as digits."""
    low = word.lower()
    return _NUMBER_WORDS.get(low, low)


def content_words(text: str) -> frozenset[str]:
    """The words of a text that carry meaning, in lower case, small numbers as digits."""
    return frozenset(w for w in map(normal, _WORD.findall(text)) if w not in FUNCTION_WORDS)


def surface(answer: Pieces, context: Context, query: Pieces | None) -> NDArray[np.float32]:
    """(n, ANSWER_FEATURES) float32 for the answer's pieces; the columns of `nearness` are 0."""
    import numpy as np

    out = np.zeros((len(answer.ids), ANSWER_FEATURES), np.float32)
    if len(answer.ids):
        query_words = {normal(w) for w in _WORD.findall(query.text)} if query is not None else set()
        sentences = _fill_words(out, answer, context, query_words)
        _fill_runs(out, answer, context)
        _fill_sentences(out, answer, context, sentences)
    return out


def _fill_words(
    out: NDArray[np.float32], answer: Pieces, context: Context, query_words: set[str]
) -> dict[int, list[tuple[str, bool]]]:
    """Set the columns of single words; returns each sentence's content words, and whether the context has them."""
    groups: dict[int, list[int]] = {}
    for i, number in enumerate(answer.words):
        groups.setdefault(number, []).append(i)
    sentences: dict[int, list[tuple[str, bool]]] = {}
    started: set[int] = set()
    for pieces in groups.values():
        raw = answer.text[answer.starts[pieces[0]] : answer.ends[pieces[-1]]]
        word = normal(raw)
        alphanumeric = raw[:1].isalnum()
        in_context = word in context.words
        digit = any(c.isdigit() for c in word)
        sentence = answer.sentence[pieces[0]]
        capital = raw[:1].isupper() and sentence in started
        if alphanumeric:
            started.add(sentence)
        function = word in FUNCTION_WORDS
        if alphanumeric and not function:
            sentences.setdefault(sentence, []).append((word, in_context))
        values = {
            Column.IN_CONTEXT: in_context,
            Column.STEM_IN_CONTEXT: in_context or (len(word) > 4 and word[:5] in context.stems),
            Column.IN_QUERY: word in query_words,
            Column.DIGIT: digit,
            Column.NEW_DIGIT: digit and not in_context,
            Column.CAPITAL: capital,
            Column.NEW_CAPITAL: capital and not in_context,
            Column.FUNCTION_WORD: function,
            Column.SIGN: not alphanumeric,
        }
        out[pieces[0] : pieces[-1] + 1, list(values)] = list(values.values())
    return sentences


def _fill_runs(out: NDArray[np.float32], answer: Pieces, context: Context) -> None:
    """Set the columns of pairs, triples and longer runs of pieces."""
    import numpy as np

    ids, n = answer.ids, len(answer.ids)
    longest = [0] * n
    for i in range(n):
        length = 0
        while length < _NGRAM and i + length < n and ids[i : i + length + 1] in context.ngrams[length + 1]:
            length += 1
        for k in range(i, i + length):
            longest[k] = max(longest[k], length)
    pairs, triples = context.ngrams[2], context.ngrams[3]
    for i in range(n):
        out[i, Column.PAIR_BEFORE] = i > 0 and ids[i - 1 : i + 1] in pairs
        out[i, Column.PAIR_AFTER] = i + 1 < n and ids[i : i + 2] in pairs
        out[i, Column.TRIPLE] = 0 < i < n - 1 and ids[i - 1 : i + 2] in triples
        out[i, Column.RUN] = np.log1p(longest[i]) / np.log1p(_NGRAM)
        out[i, Column.PIECE_ID] = ids[i] / _VOCABULARY


def _fill_sentences(
    out: NDArray[np.float32], answer: Pieces, context: Context, sentences: Mapping[int, Sequence[tuple[str, bool]]]
) -> None:
    """Set the columns that all pieces of a sentence share, and the position."""
    shares: dict[int, tuple[float, float]] = {}
    for sentence, words in sentences.items():
        distinct = {word for word, _ in words}
        overlap = max((len(distinct & other) for other in context.sentence_words), default=0) / len(distinct)
        shares[sentence] = (sum(in_context for _, in_context in words) / len(words), overlap)
    for i, sentence in enumerate(answer.sentence):
        out[i, Column.SENTENCE_KNOWN], out[i, Column.SENTENCE_OVERLAP] = shares.get(sentence, (1.0, 1.0))
        out[i, Column.POSITION] = i / len(answer.ids)


def nearness(
    answer: Pieces, hidden: NDArray[np.float32], ids: NDArray[np.int64], context: NDArray[np.float32]
) -> NDArray[np.float32]:
    """(n, 3): a piece's highest cosine with the context's pieces, with those of its own id, and its sentence's mean
    of the first. `hidden` is (n, 384), `context` (m, 384), `ids` (m,)."""
    import numpy as np

    out = np.zeros((len(answer.ids), 3), np.float32)
    if not len(ids) or not len(answer.ids):
        return out
    a = hidden / np.maximum(np.linalg.norm(hidden, axis=1, keepdims=True), 1e-6)
    c = context / np.maximum(np.linalg.norm(context, axis=1, keepdims=True), 1e-6)
    cosines = product(a, c.T)
    out[:, 0] = cosines.max(1)
    same = np.asarray(answer.ids)[:, None] == ids[None, :]
    out[:, 1] = np.where(same, cosines, 0).max(1)
    sentence = np.asarray(answer.sentence)
    for at in set(answer.sentence):
        out[sentence == at, 2] = out[sentence == at, 0].mean()
    return out


def lexical(features: NDArray[np.float32], sentence: Sequence[int]) -> NDArray[np.float64]:
    """(12,) of a whole answer, from its pieces' features: shares of novel words, stems, pairs, triples and phrases, of
    novel numbers and names, the sentences that share least with the context, and how near the pieces are to it."""
    import numpy as np

    letter = features[:, Column.SIGN] == 0
    word = letter & (features[:, Column.FUNCTION_WORD] == 0)
    word = word if word.any() else np.ones(len(features), bool)
    number = np.asarray(sentence)
    sentences = [features[number == k] for k in sorted(set(sentence))]
    overlap, run, near = (
        [float(s[:, column].mean()) for s in sentences]
        for column in (Column.SENTENCE_OVERLAP, Column.RUN, Column.COSINE)
    )
    return np.array(
        [
            1 - features[word, Column.IN_CONTEXT].mean(),
            1 - features[word, Column.STEM_IN_CONTEXT].mean(),
            1 - features[letter, Column.PAIR_BEFORE].mean() if letter.any() else 0.0,
            1 - features[:, Column.TRIPLE].mean(),
            1 - features[:, Column.RUN].mean(),
            features[:, Column.NEW_DIGIT].sum() / max(1, len(sentences)),
            features[:, Column.NEW_CAPITAL].mean(),
            1 - min(overlap),
            1 - float(np.mean(overlap)),
            1 - min(run),
            1 - min(near),
            1 - features[:, Column.SAME_COSINE].mean(),
        ],
        np.float64,
    )


def context_surface(chunks: Sequence[Pieces], answer: Pieces, query: Pieces | None) -> NDArray[np.float32]:
    """(m, CONTEXT_FEATURES): a context piece is in the answer, its bigram is, it is in the query, it has a digit."""
    import numpy as np

    mine = set(answer.ids)
    bigrams = set(pairwise(answer.ids))
    query_ids = set(query.ids) if query is not None else set()
    rows: list[tuple[bool, bool, bool, bool]] = []
    for chunk in chunks:
        for i, piece in enumerate(chunk.ids):
            pair = i + 1 < len(chunk.ids) and (piece, chunk.ids[i + 1]) in bigrams
            rows.append((piece in mine, pair, piece in query_ids, chunk.text[chunk.starts[i]].isdigit()))
    features: NDArray[np.float32] = np.asarray(rows, np.float32).reshape(-1, CONTEXT_FEATURES)
    return features


def answer_features(own: float, statements: Any, pieces: Any, of_words: NDArray[np.float64]) -> NDArray[np.float64]:
    """(19,) what the probability of the whole answer is made of: the head's own logit, the worst statement's, their
    mean, the worst piece's, the mean of the worst tenth of the pieces, the strongest contradiction, the mean of the
    statements' logits, and what `lexical` says."""
    import numpy as np

    bad, piece = 1 - statements[:, 0], np.sort(1 - pieces[:, 0])
    worst = piece[-max(1, len(piece) // 10) :]
    logits = [logit(p) for p in bad]
    values = [own, max(logits), bad.mean(), logit(piece[-1]), worst.mean(), statements[:, 2].max(), np.mean(logits)]
    return np.array([*values, *of_words], np.float64)


def logit(p: float) -> float:
    """log(p / (1 - p)) of a probability, which is kept 0.0001 away from 0 and 1."""
    p = min(max(float(p), 1e-4), 1 - 1e-4)
    return math.log(p / (1 - p))
