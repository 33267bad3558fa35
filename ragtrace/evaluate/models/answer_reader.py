"""Whether chunks support what an answer claims: a small transformer reads evidence, question and answer together.

A claim is judged in one pass with the claims around it, with the question, and with the sentences of all chunks that
share most with them (`ragtrace/evaluate/models/evidence.py`). So a sentence about another product is beside the right
one, and the question decides. DeBERTa-v3-xsmall in int8, trained by `training/reader`; docs/models/reader.md has its
data, licences and limits."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from ragtrace.base.lazy import Lazy, groups_of
from ragtrace.errors import package
from ragtrace.evaluate.models import model_file
from ragtrace.evaluate.models.encoder import open_session
from ragtrace.evaluate.models.evidence import Chunks, Excerpt, joined, passage
from ragtrace.text.words import FUNCTION_WORDS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_WINDOW = 96
"""Word pieces of an answer that are read together; a claim that is longer is read in parts of this size."""
_PASSES = 4
"""Times that a window is read at most: after each pass that finds something wrong, without its most doubtful claim."""
_AGAIN = 64
"""Further readings for an answer at most: a long one that is wrong would keep the evaluator for a minute."""
_CALM = -1.0
"""Logit of an answer up to which none of its claims is read alone."""
_READ = 400_000
"""Characters of a chunk that are read."""
_QUERY = 4_000
"""Characters of a question that are read: the last ones."""
_WORD = re.compile(r"[^\W_]+(?:['\u2019.,:/-][^\W_]+)*")
_OF_ANSWER, _OFF_TOPIC = 160, 2
SUPPORTED = 0.14
"""Probability from which a claim counts as supported: the threshold of `groundedness`, so that an answer passes if all
of its claims are supported."""
_DOUBT = 0.5
"""Probability from which a word is shown as wrong, in a claim that is not supported."""


@dataclass(frozen=True, slots=True)
class Question:
    """What to assess: the statements are characters (start, end) of the answer, in order, not overlapping."""

    query: str
    answer: str
    statements: Sequence[tuple[int, int]]
    chunks: Sequence[str]


@dataclass(frozen=True, slots=True)
class StatementSupport:
    """What the reader says of one statement. The three probabilities sum to 1."""

    supported: float
    unsupported: float
    """Probability that the chunks say nothing of it."""
    contradicted: float
    spans: tuple[tuple[int, int], ...] = ()
    """The positions in the answer of the content words that are wrong; none where the statement is supported."""
    chunk: int | None = None
    """The passage that it was judged by is chunks[chunk][start:end]."""
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class AnswerSupport:
    """What the reader says of an answer."""

    ungrounded: float
    """Calibrated probability that some of the answer is not supported."""
    statements: tuple[StatementSupport, ...]
    """In the order of the statements that were asked about."""
    share: float
    """The least share of the chunks' word pieces that a part of the answer was read with; below 1 the sentences that
    share most with it were chosen."""


@dataclass(frozen=True, slots=True)
class Logits:
    """The logits of one pass, before the calibration."""

    answer: NDArray[np.float32]
    """(4,) The first is that of not supported. The others (contradicted, off the question, passage beside the question)
    rank worse than what evaluators use in their place."""
    claims: NDArray[np.float32]
    """(c, 2) not supported; contradicted if not supported."""
    words: NDArray[np.float32]
    """(n,) wrong, for each word piece of the answer."""


Window = Sequence[tuple[int, range]]
"""What is read together: statements with their word pieces."""
Place = tuple[int | None, int | None, int | None]
"""A passage: its chunk and characters."""


@dataclass(frozen=True, slots=True)
class ClaimReading:
    """What the reader says of a statement, or of a part of a long one: logits, wrong words, and the passage."""

    statement: int
    doubt: float
    """Not supported."""
    whole: float
    """Not supported: something of all that was read together. At most 0 for a statement that is not the most doubtful
    one of it, because an error in another statement says nothing against this one."""
    contradicted: float
    words: tuple[tuple[int, int], ...]
    passage: Place


@dataclass(frozen=True, slots=True)
class Measurement:
    """What the reader says of an answer, before the calibration."""

    parts: list[ClaimReading]
    whole: float
    """Logit that some of the answer is not supported: the largest of all that were read."""
    share: float


@dataclass(frozen=True, slots=True)
class _Pass:
    """Statements that were read together."""

    window: Window
    claims: list[range]
    """The places of each among the word pieces of the answer that were read."""
    logits: Logits
    excerpt: Excerpt


class Reader:
    """The model, its tokenizer and its calibration. Safe to use from threads."""

    def __init__(self) -> None:
        """Raises MissingExtraError or ModelError where a part cannot be loaded."""
        import numpy as np

        tokenizers = package("tokenizers", "models", "An embedded model")
        self.chunks = Chunks(tokenizers.Tokenizer.from_file(str(model_file("reader_tokenizer"))))
        self._session = open_session(model_file("reader"))
        with np.load(model_file("reader_words")) as saved:
            self._rows, self._scales = saved["rows"], saved["scales"]
        self._calibration: dict[str, list[float]] = json.loads(model_file("reader_calibration").read_text())

    def read(self, evidence: Sequence[int], query: str, answer: Sequence[int], claims: Sequence[range]) -> Logits:
        """One pass over word pieces; `claims` are places in `answer`. There is at least one."""
        import numpy as np

        question = self.chunks.encode(query[-_QUERY:]).ids if query.strip() else []
        ids = joined(evidence, question, answer)
        at = len(ids) - 1 - len(answer)
        places = np.zeros((len(claims), len(ids)), np.float32)
        for row, claim in zip(places, claims, strict=True):
            row[at + claim.start : at + claim.stop] = 1
        embedded = self._rows[ids] * self._scales[ids, None]
        own, each, words = self._session.run(None, {"embedded": embedded, "claims": places})
        return Logits(own[0], each, words[at : at + len(answer)])

    def measure(self, question: Question) -> Measurement | None:
        """What the reader says of an answer, before the calibration; None where either holds no word."""
        question = replace(question, chunks=[chunk[:_READ] for chunk in question.chunks])
        pieces = self.chunks.encode(question.answer)
        parts = _parts(pieces.offsets, question.statements)
        if not parts or not any(self.chunks.sentences(c) for c in question.chunks):
            return None
        measured: list[ClaimReading] = []
        whole, share, again = -math.inf, 1.0, _AGAIN
        for window in groups_of(parts, lambda part: len(part[1]), _WINDOW):
            for passes in range(_PASSES):
                one = self._pass(question, pieces, window)
                own = float(one.logits.answer[0])
                whole, share = max(whole, own), min(share, one.excerpt.share)
                doubtful = int(one.logits.claims[:, 0].argmax())
                last = own <= 0 or len(window) == 1 or passes == _PASSES - 1 or again <= 0
                # What is wrong in one claim is seen from the others: they are read again without it, and it alone.
                for row in range(len(window)) if last else [doubtful]:
                    of_text = own if row == doubtful else min(0.0, own)
                    part = self._part(question, pieces, one, row, of_text)
                    if row == doubtful and len(window) > 1 and own > _CALM and again > 0:
                        again -= 2
                        alone = self._pass(question, pieces, [window[row]])
                        part = _mean(part, self._part(question, pieces, alone, 0, float(alone.logits.answer[0])))
                    measured.append(part)
                if last:
                    break
                del window[doubtful]
        return Measurement(measured, whole, share)

    def _pass(self, question: Question, pieces: Any, window: Window) -> _Pass:
        """Read statements together."""
        texts = [question.answer[slice(*question.statements[k])] for k, _ in window]
        excerpt = self.chunks.evidence(question.chunks, question.query, " ".join(texts))
        ids = [pieces.ids[i] for _, part in window for i in part]
        ends = list(accumulate(len(part) for _, part in window))
        claims = [range(end - len(part), end) for (_, part), end in zip(window, ends, strict=True)]
        return _Pass(tuple(window), claims, self.read(excerpt.ids, question.query, ids, claims), excerpt)

    def _part(self, question: Question, pieces: Any, one: _Pass, row: int, whole: float) -> ClaimReading:
        k, part = one.window[row]
        claim, logits = one.claims[row], one.logits
        offsets = [pieces.offsets[i] for i in part]
        words = _wrong_words(question.answer, offsets, logits.words[claim.start : claim.stop])
        text = question.answer[slice(*question.statements[k])]
        wrong = " ".join(question.answer[a:b] for a, b in words)
        place = self._place(question, one.excerpt, text, wrong)
        return ClaimReading(k, float(logits.claims[row, 0]), whole, float(logits.claims[row, 1]), words, place)

    def assess(self, question: Question) -> AnswerSupport | None:
        """Assess an answer against its chunks. None where the statements or the chunks hold no word."""
        measured = self.measure(question)
        if measured is None:
            return None
        weights = self._calibration
        by_statement: dict[int, StatementSupport] = {}
        for part in measured.parts:
            bad = sigmoid(weighted(weights["claim"], part.doubt, part.whole))
            if part.statement in by_statement and by_statement[part.statement].supported <= 1 - bad:
                continue  # of a statement in several parts the one counts that is supported least
            contradicted = bad * sigmoid(part.contradicted)
            words = part.words if 1 - bad < SUPPORTED else ()
            by_statement[part.statement] = StatementSupport(
                1 - bad, bad - contradicted, contradicted, words, *part.passage
            )
        statements = tuple(by_statement.get(k, _EMPTY) for k in range(len(question.statements)))
        worst = max(part.doubt for part in measured.parts)
        ungrounded = sigmoid(weighted(weights["answer"], worst, measured.whole))
        return AnswerSupport(ungrounded, statements, measured.share)

    def answers(self, query: str, answer: str) -> float | None:
        """The probability in [0, 1] that an answer answers a question, be it right or wrong; None without words. Of a
        long answer the first 160 word pieces are read."""
        ids = self.chunks.encode(answer).ids[:_OF_ANSWER]
        if not ids or not query.strip() or not _WORD.search(answer):
            return None
        return sigmoid(-float(self.read([], query, ids, [range(len(ids))]).answer[_OFF_TOPIC]))

    def _place(self, question: Question, evidence: Excerpt, claim: str, wrong: str) -> Place:
        """The passage that was read and that a reviewer needs beside a claim."""
        sentences = [self.chunks.sentences(chunk) for chunk in question.chunks]
        read = {(number, i) for _, _, number, i in evidence.places}
        place = passage(sentences, read, question.query, claim, wrong)
        if place is None:
            return (None, None, None)
        sentence = sentences[place[0]][place[1]]
        return (place[0], sentence.start, sentence.end)


_EMPTY = StatementSupport(1.0, 0.0, 0.0)
"""Of a statement without a word."""


def _mean(first: ClaimReading, second: ClaimReading) -> ClaimReading:
    """The mean of two readings of a part: with the words of the more doubtful one."""
    doubtful = max(first, second, key=lambda part: part.doubt)
    return replace(
        doubtful, doubt=(first.doubt + second.doubt) / 2, whole=(first.whole + second.whole) / 2,
        contradicted=(first.contradicted + second.contradicted) / 2,
    )  # fmt: skip


def _parts(offsets: Sequence[tuple[int, int]], statements: Sequence[tuple[int, int]]) -> list[tuple[int, range]]:
    """(statement, its word pieces), in order; a long statement is in several parts."""
    parts = []
    at = 0
    for k, (start, end) in enumerate(statements):
        while at < len(offsets) and offsets[at][1] <= start:
            at += 1
        first = at
        while at < len(offsets) and offsets[at][0] < end:
            at += 1
        parts += [(k, range(i, min(i + _WINDOW, at))) for i in range(first, at, _WINDOW)]
    return parts


def _wrong_words(
    answer: str, offsets: Sequence[tuple[int, int]], logits: NDArray[np.float32]
) -> tuple[tuple[int, int], ...]:
    """The content words of a claim that have a piece that is likely wrong."""
    doubtful = [o for o, z in zip(offsets, logits, strict=True) if sigmoid(float(z)) >= _DOUBT]
    words: list[tuple[int, int]] = []
    for start, end in doubtful:
        if words and words[-1][1] >= end:
            continue
        for match in _WORD.finditer(answer, max(0, answer.rfind(" ", 0, start) + 1)):
            if match.start() >= end:
                break
            if match.end() > start and match.group().lower() not in FUNCTION_WORDS and match.span() not in words:
                words.append(match.span())
    return tuple(words)


def weighted(weights: Sequence[float], *values: float) -> float:
    """The first weight plus the sum of the others times the values."""
    return weights[0] + sum(w * v for w, v in zip(weights[1:], values, strict=True))


def sigmoid(z: float) -> float:
    """1 / (1 + e⁻ᶻ)."""
    return 1 / (1 + math.exp(-max(-40.0, min(40.0, z))))


_reader = Lazy(Reader)


def reader() -> Reader:
    """The process's reader, which is loaded on first use."""
    return _reader.get()
