"""An answer laid beside its context: word pieces, their embeddings, and what the surface of the words tells.

What the groundedness model reads, in training and in production alike. Chunks are encoded on their own, so that a
chunk that recurs is encoded once.
"""

from __future__ import annotations

import re
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ragtrace.lazy import Lazy
from ragtrace.models import model_file
from ragtrace.models.embedding import encoder_session, open_session
from ragtrace.text.sentences import Span, split

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WINDOW = 180
"""Word pieces that are encoded together. Windows end where sentences do; a longer sentence is cut."""
_RUN = 8
_NGRAM = 8
ANSWER_FEATURES = 20
CONTEXT_FEATURES = 4
_CLS, _SEP = 101, 102
_CACHE_BYTES = 96 * 1024 * 1024
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_WORD = re.compile(r"\w+")
_LISTED = """
a an the and or but if then than so as at by for from in into of on onto to with without within is are was were be been
being am do does did have has had will would can could may might must shall should it its this that these those he she
they them his her their i we you our your my me us which who whom whose what when where why how not no nor also there
here s t re ve d ll m more most such other some any each both all up out over about
"""
FUNCTION_WORDS = frozenset(_LISTED.split())
_NUMBERS = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
eighteen nineteen twenty
"""
_NUMBER_WORDS = {word: str(i) for i, word in enumerate(_NUMBERS.split())}


@dataclass(frozen=True, slots=True)
class Pieces:
    """A text's word pieces."""

    text: str
    ids: tuple[int, ...]
    starts: tuple[int, ...]
    """Piece i stands at text[starts[i]:ends[i]]."""
    ends: tuple[int, ...]
    words: tuple[int, ...]
    """Piece i belongs to word words[i]; words count from 0."""
    sentences: tuple[Span, ...]
    sentence: tuple[int, ...]
    """Piece i belongs to sentences[sentence[i]]."""
    windows: tuple[tuple[int, int], ...]
    """Pieces a to b are encoded together."""


class Reader:
    """Cuts texts into pieces and encodes them; what recurs is encoded once. Safe to use from threads."""

    def __init__(self, threads: int = 1) -> None:
        """Raises MissingExtraError or ModelError where the encoder cannot be loaded."""
        from tokenizers import BertWordPieceTokenizer

        self._tokenizer = BertWordPieceTokenizer(str(model_file("vocabulary")), lowercase=True)
        self._session = open_session(model_file("embedding"), threads) if threads > 1 else encoder_session()
        self._inputs = [i.name for i in self._session.get_inputs()]
        self._known: OrderedDict[tuple[int, ...], Any] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def read(self, text: str, limit: int = 2_000) -> Pieces:
        """The pieces of a text, in at most `limit` sentences."""
        if not text.isascii():
            text = text.encode("utf-8", "replace").decode("utf-8")  # lone surrogates: the tokenizer raises on them
        cuts = [m.start() for m in _CAMEL.finditer(text)]
        spaced = _CAMEL.sub(" ", text)
        shifted = [c + i + 1 for i, c in enumerate(cuts)]
        made = self._tokenizer.encode(spaced, add_special_tokens=False)
        sentences = split(text, limit)
        begins = [s.start for s in sentences]
        ids, starts, ends, words, sentence = [], [], [], [], []
        for piece, (a, b), word in zip(made.ids, made.offsets, made.word_ids, strict=True):
            start, end = a - bisect_right(shifted, a), b - bisect_right(shifted, b - 1)
            at = bisect_right(begins, start) - 1
            if at < 0 or start >= sentences[at].end:
                continue  # beyond the limit
            ids.append(piece)
            starts.append(start)
            ends.append(end)
            words.append(word)
            sentence.append(at)
        return Pieces(
            text,
            tuple(ids),
            tuple(starts),
            tuple(ends),
            tuple(words),
            tuple(sentences),
            tuple(sentence),
            tuple(_windows(sentence)),
        )

    def encode(self, texts: Sequence[Pieces]) -> list[NDArray[np.float32]]:
        """Per text its pieces' contextual embeddings, (n, 384) float32."""
        import numpy as np

        found = [np.zeros((len(t.ids), 384), np.float32) for t in texts]
        jobs = [(i, a, b) for i, t in enumerate(texts) for a, b in t.windows]
        jobs.sort(key=lambda job: job[2] - job[1])
        for start in range(0, len(jobs), _RUN):
            run = jobs[start : start + _RUN]
            width = max(b - a for _, a, b in run) + 2
            ids = np.zeros((len(run), width), np.int64)
            mask = np.zeros_like(ids)
            for row, (i, a, b) in enumerate(run):
                ids[row, : b - a + 2] = (_CLS, *texts[i].ids[a:b], _SEP)
                mask[row, : b - a + 2] = 1
            feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
            hidden = self._session.run(None, {name: feed[name] for name in self._inputs})[0]
            for row, (i, a, b) in enumerate(run):
                found[i][a:b] = hidden[row, 1 : b - a + 1]
        return found

    def cached(self, windows: Sequence[Pieces]) -> list[NDArray[np.float32]]:
        """The windows' embeddings, from memory where they were seen before; bounded by bytes, least recently used first
        out."""
        import numpy as np

        found: dict[tuple[int, ...], Any] = {}
        with self._lock:
            for window in windows:
                if window.ids in self._known:
                    self._known.move_to_end(window.ids)
                    found[window.ids] = self._known[window.ids]
        missing = {w.ids: w for w in windows if w.ids not in found}
        made = self.encode(list(missing.values()))
        with self._lock:
            for ids, hidden in zip(missing, made, strict=True):
                found[ids] = small = hidden.astype(np.float16)
                if ids not in self._known:
                    self._known[ids] = small
                    self._bytes += small.nbytes + 8 * len(ids) + 300
            while self._bytes > _CACHE_BYTES and self._known:
                ids, small = self._known.popitem(last=False)
                self._bytes -= small.nbytes + 8 * len(ids) + 300
        return [found[w.ids].astype(np.float32) for w in windows]


def _windows(sentence: Sequence[int]) -> list[tuple[int, int]]:
    """Runs of pieces, at most WINDOW long, that end where a sentence ends if one does."""
    ends = [i + 1 for i, (a, b) in enumerate(pairwise(sentence)) if a != b]
    ends.append(len(sentence))
    windows: list[tuple[int, int]] = []
    start = last = 0
    for end in ends:
        while end - start > WINDOW:
            cut = last if last > start else start + WINDOW
            windows.append((start, cut))
            start = last = cut
        last = end
    if last > start:
        windows.append((start, last))
    return windows


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


def part(text: Pieces, a: int, b: int) -> Pieces:
    """Pieces a to b as a text of their own, with the sentences that they touch."""
    kept = sorted(set(text.sentence[a:b]))
    number = {old: new for new, old in enumerate(kept)}
    return Pieces(
        text.text,
        text.ids[a:b],
        text.starts[a:b],
        text.ends[a:b],
        text.words[a:b],
        tuple(text.sentences[k] for k in kept),
        tuple(number[k] for k in text.sentence[a:b]),
        tuple((max(x, a) - a, min(y, b) - a) for x, y in text.windows if x < b and y > a),
    )


def surface(answer: Pieces, context: Context, query: Pieces | None) -> NDArray[np.float32]:
    """(n, ANSWER_FEATURES) float32 for the answer's pieces, without those that need embeddings (the last three)."""
    import numpy as np

    n = len(answer.ids)
    out = np.zeros((n, ANSWER_FEATURES), np.float32)
    if not n:
        return out
    ids = answer.ids
    asked = {normal(w) for w in _WORD.findall(query.text)} if query is not None else set()
    cover = [0] * n
    for i in range(n):
        length = 0
        while length < _NGRAM and i + length < n and ids[i : i + length + 1] in context.ngrams[length + 1]:
            length += 1
        for k in range(i, i + length):
            cover[k] = max(cover[k], length)
    groups: dict[int, list[int]] = {}
    for i, number in enumerate(answer.words):
        groups.setdefault(number, []).append(i)
    per_sentence: dict[int, list[tuple[str, bool]]] = {}
    first_word: dict[int, bool] = {}
    for pieces in groups.values():
        start, end = answer.starts[pieces[0]], answer.ends[pieces[-1]]
        raw = answer.text[start:end]
        word = normal(raw)
        alphanumeric = raw[:1].isalnum()
        known = word in context.words
        digit = any(c.isdigit() for c in word)
        at = answer.sentence[pieces[0]]
        capital = raw[:1].isupper() and first_word.get(at, False)
        if alphanumeric:
            first_word[at] = True
        function = word in FUNCTION_WORDS
        if alphanumeric and not function:
            per_sentence.setdefault(at, []).append((word, known))
        row = (
            float(known),
            float(known or (len(word) > 4 and word[:5] in context.stems)),
            float(word in asked),
            float(digit),
            float(digit and not known),
            float(capital),
            float(capital and not known),
            float(function),
            float(not alphanumeric),
        )
        for i in pieces:
            out[i, :9] = row
    grams2, grams3 = context.ngrams[2], context.ngrams[3]
    for i in range(n):
        out[i, 9] = i > 0 and ids[i - 1 : i + 1] in grams2
        out[i, 10] = i + 1 < n and ids[i : i + 2] in grams2
        out[i, 11] = 0 < i < n - 1 and ids[i - 1 : i + 2] in grams3
        out[i, 12] = np.log1p(cover[i]) / np.log1p(_NGRAM)
        out[i, 13] = ids[i] / 30522
    share: dict[int, tuple[float, float]] = {}
    for at, said in per_sentence.items():
        mine = {w for w, _ in said}
        best = max((len(mine & other) for other in context.sentence_words), default=0) / len(mine)
        share[at] = (sum(k for _, k in said) / len(said), best)
    for i in range(n):
        out[i, 14], out[i, 15] = share.get(answer.sentence[i], (1.0, 1.0))
        out[i, 16] = i / n
    return out


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
    cosines = a @ c.T
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

    word, letter = (features[:, 8] == 0) & (features[:, 7] == 0), features[:, 8] == 0
    word = word if word.any() else np.ones(len(features), bool)
    number = np.asarray(sentence)
    each = [features[number == k] for k in sorted(set(sentence))]
    overlap, cover, near = ([float(f[:, column].mean()) for f in each] for column in (15, 12, 17))
    novel = features[:, 4].sum() / max(1, len(each))
    rest = [1 - min(overlap), 1 - float(np.mean(overlap)), 1 - min(cover), 1 - min(near), 1 - features[:, 18].mean()]
    pairs = 1 - features[letter, 9].mean() if letter.any() else 0.0
    phrases = [pairs, 1 - features[:, 11].mean(), 1 - features[:, 12].mean(), novel, features[:, 6].mean()]
    return np.array([1 - features[word, 0].mean(), 1 - features[word, 1].mean(), *phrases, *rest], np.float64)


def context_surface(chunks: Sequence[Pieces], answer: Pieces, query: Pieces | None) -> NDArray[np.float32]:
    """(m, CONTEXT_FEATURES): a context piece is in the answer, its bigram is, it is in the query, it has a digit."""
    import numpy as np

    mine = set(answer.ids)
    bigrams = set(pairwise(answer.ids))
    asked = set(query.ids) if query is not None else set()
    rows: list[tuple[bool, bool, bool, bool]] = []
    for chunk in chunks:
        for i, piece in enumerate(chunk.ids):
            pair = i + 1 < len(chunk.ids) and (piece, chunk.ids[i + 1]) in bigrams
            rows.append((piece in mine, pair, piece in asked, chunk.text[chunk.starts[i]].isdigit()))
    made: NDArray[np.float32] = np.asarray(rows, np.float32).reshape(-1, CONTEXT_FEATURES)
    return made


_reader = Lazy(Reader)


def reader() -> Reader:
    """The process's reader: evaluators that look at the same chunks share their encodings."""
    shared: Reader = _reader.get()
    return shared


def sentence_vectors(text: str, limit: int = 2_000) -> tuple[Pieces, NDArray[np.float32]]:
    """A text's pieces and a row of unit length, (s, 384), for each of its sentences that has a piece: the mean of its
    pieces' embeddings, which know the sentences around them. `sentences` of what is returned are those."""
    import numpy as np

    read = reader().read(text, limit)
    whole = part(read, 0, len(read.ids))
    if not whole.ids:
        return whole, np.zeros((0, 384), np.float32)
    hidden = np.concatenate(reader().cached([part(read, a, b) for a, b in read.windows]))
    number = np.asarray(whole.sentence)
    means = np.stack([hidden[number == k].mean(0) for k in range(len(whole.sentences))])
    unit: NDArray[np.float32] = means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-6)
    return whole, unit
