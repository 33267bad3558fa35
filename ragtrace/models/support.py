"""Whether a context supports what an answer states: a head over the encoder's word pieces, trees, and words.

The head reads the answer's pieces, lets them attend to the context's, and says of each piece and of each statement
supported, unsupported or contradicted. Chunks are encoded on their own, so that a chunk seen before costs nothing. What
the comparison of a claim with its closest passage says, and what counting words, quantities and negations says, is
combined with it. Trained by `training/groundedness` and `training/entailment`; figures and limits are in
docs/models/groundedness.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ragtrace.lazy import Lazy
from ragtrace.models import model_file
from ragtrace.models.alignment import BLOCK, Pieces, blocks, fitting, part, reader, shared_weights
from ragtrace.models.answer_features import (
    ANSWER_FEATURES,
    Column,
    Context,
    answer_features,
    content_words,
    context_surface,
    lexical,
    nearness,
    surface,
)
from ragtrace.models.claim_comparison import ClaimPair, compare_claims
from ragtrace.models.claim_features import ContextFacts, claim_features
from ragtrace.models.closest_passage import Segments
from ragtrace.models.encoder import open_session
from ragtrace.models.products import product
from ragtrace.text.converted_quantities import in_units_of_context
from ragtrace.text.sentences import Span

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_READ = 400_000
"""Characters of a chunk that are read."""
_READ_SENTENCES = 20_000
_COMPARED = 60
"""Claims of an answer that are compared with their passages at most: those that the head trusts most."""
_ENCODED = 6_000
"""Word pieces of the context that are encoded at most: those that share most words with the answer."""
_MEMORY = 1_600
"""Word pieces of the context that the answer is compared with at most: the nearest of those. As in training."""
_DOUBT = 3.0
"""What a number that the context does not hold takes from a claim's log-odds. Of dev's answers (without QAGS, whose
contexts were cut) 0.5 % of the good ones and 9 % of the bad ones have such a number (`benchmarks/claim_marks.py`); the
other features have a part of it already."""
_REVERSED = -2.0
"""The highest log-odds of a claim with a reversed change, the opposite of a word, a word that the context has negated,
a denial that it affirms, or a number of another text. Of the answers of dev and of the training sets nearly all that
have one are bad (docs/models/groundedness.md)."""
_PIECE = 0.35
"""Probability from which a piece is pointed at as unsupported; from dev, for the spans' F1."""


@dataclass(frozen=True, slots=True)
class StatementSupport:
    """What the model says of one statement. The three probabilities sum to 1."""

    supported: float
    unsupported: float
    contradicted: float
    spans: tuple[tuple[int, int], ...] = ()
    """The positions in the answer of the words that the context does not support."""
    chunk: int | None = None
    """The closest passage is chunks[chunk][start:end]."""
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class AnswerSupport:
    """What the model says of an answer."""

    ungrounded: float
    """Calibrated probability that some of the answer is not supported."""
    statements: tuple[StatementSupport, ...]
    """In the order of the statements that were asked about."""
    spans: tuple[tuple[int, int], ...]
    """All unsupported spans of the answer."""
    share: float
    """Share of the context's word pieces that the answer was compared with; below 1 the nearest were chosen."""


@dataclass(frozen=True, slots=True)
class Question:
    """What to assess: the statements are characters (start, end) of the answer, in order, not overlapping."""

    query: str
    answer: str
    statements: Sequence[tuple[int, int]]
    chunks: Sequence[str]
    compare: bool = True
    """False: by the head alone, for measures that were trained on what it says of single sentences."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """What the head says of an answer, before a calibration makes probabilities of it."""

    statements: NDArray[np.float32]
    """(s, 3) per statement: supported, unsupported, contradicted."""
    answer: NDArray[np.float64]
    """(19,) see `answer_features`."""
    spans: list[tuple[int, int]]
    places: list[Place]
    share: float


class SupportModel:
    """The encoder, the head and the calibration."""

    def __init__(self) -> None:
        """Raises MissingExtraError or ModelError where a part cannot be loaded."""
        import numpy as np

        self._reader = reader()
        self._session = open_session(model_file("groundedness"))
        with np.load(model_file("groundedness_calibration")) as saved:
            self._calibration = dict(saved)

    def assess(self, questions: Sequence[Question]) -> list[AnswerSupport | None]:
        """Assess answers against their chunks. None where the statements or the chunks hold no word."""
        return [self._assess_in_units(q) for q in questions]

    def _assess_in_units(self, question: Question) -> AnswerSupport | None:
        """Assess an answer as it is, and where it converts quantities also in the units of its context: of a statement
        that was changed, the better one counts."""
        support = self._assess(question)
        converted = in_units_of_context(question.answer, question.statements, question.chunks, question.query)
        if support is None or converted is None or not question.compare:
            return support
        other = self._assess(replace(question, answer=converted.text, statements=converted.statements))
        if other is None:
            return support
        statements = [
            replace(new, spans=()) if is_changed and new.supported > old.supported else old
            for old, new, is_changed in zip(support.statements, other.statements, converted.changed, strict=True)
        ]
        ungrounded = min(support.ungrounded, other.ungrounded)
        return replace(support, ungrounded=ungrounded, statements=tuple(statements))

    def _assess(self, question: Question) -> AnswerSupport | None:
        import numpy as np

        measured = self.measure(question)
        if measured is None:
            return None
        weights = self._calibration
        if question.compare:
            facts = ContextFacts(question.chunks, question.query)
            claims = compare(question, facts, measured.statements[:, 0])
            texts = [question.answer[a:b] for a, b in question.statements]
            changes = [
                facts.wording.reversed_change_in(text)
                or facts.opposites.opposite_in(text)
                or facts.wording.reversed_word_in(text)
                or facts.denials.affirmed_in(text, question.query)
                or facts.places.misplaced_in(text, question.query)
                for text in texts
            ]
            doubts = [facts.numbers.unstated_in(text) for text in texts]
            odds = claims @ weights["claim"][:-1] + weights["claim"][-1]
            odds -= _DOUBT * np.array([span is not None for span in doubts])
            odds = np.where([span is not None for span in changes], np.minimum(odds, _REVERSED), odds)
            supported = _sigmoid(odds)
            marks = [change or doubt for change, doubt in zip(changes, doubts, strict=True)]
            bad = measured.statements[:, 1:].copy()
            bad *= (1 - supported)[:, None] / np.maximum(bad.sum(1, keepdims=True), 1e-6)
        else:
            scaled = np.log(measured.statements + 1e-9) * weights["sentence"][0] + weights["sentence"][1:]
            supported, bad = np.split(_softmax(scaled), [1], axis=1)
            supported = supported[:, 0]
            marks = [None] * len(supported)
        assessed = []
        rows = zip(question.statements, supported, bad, measured.places, marks, strict=True)
        for (start, end), p, (unsupported, contradicted), place, mark in rows:
            inside = tuple((max(a, start), min(b, end)) for a, b in measured.spans if a < end and b > start)
            if mark is not None and not any(a < start + mark[1] and b > start + mark[0] for a, b in inside):
                inside = tuple(sorted((*inside, (start + mark[0], start + mark[1]))))
            assessed.append(StatementSupport(float(p), float(unsupported), float(contradicted), inside, *place))
        ungrounded = _sigmoid(measured.answer @ weights["answer"][:-1] + weights["answer"][-1])
        return AnswerSupport(float(ungrounded), tuple(assessed), tuple(measured.spans), measured.share)

    def measure(self, question: Question) -> Measurement | None:
        """What the head says of an answer; None where the statements or the chunks hold no word."""
        import numpy as np

        answer = self._restated(question)
        query = self._reader.read(question.query[:2_000]) if question.query.strip() else None
        query_hidden = self._reader.encode([query])[0] if query is not None else np.zeros((0, 384), np.float32)
        windows = [(part(c, a, b), i) for i, c in enumerate(map(self._read, question.chunks)) for a, b in c.windows]
        if not windows or all(number < 0 for number in answer.sentence):
            return None
        memory, share = self._memory(windows, answer)
        share *= sum(len(c[:_READ]) for c in question.chunks) / sum(map(len, question.chunks))
        pieces = np.tile(np.array([1, 0, 0], np.float32), (len(answer.ids), 1))
        statements = np.tile(np.array([1, 0, 0], np.float32), (len(question.statements), 1))
        is_read = np.zeros(len(question.statements), bool)
        surfaces = np.zeros((len(answer.ids), ANSWER_FEATURES), np.float32)
        logits = []
        for a, b in blocks(answer):
            numbers = sorted(set(answer.sentence[a:b]))
            if numbers == [-1] and b - a > BLOCK:  # thousands of signs between statements
                continue
            block = part(answer, a, b)
            pieces[a:b], probabilities, own, surfaces[a:b] = self._head(
                block, len(numbers), memory, query, query_hidden
            )
            for k, assessed in zip(numbers, probabilities, strict=True):
                # Of a statement in several parts the one counts that is supported least.
                if k >= 0 and (not is_read[k] or assessed[0] < statements[k, 0]):
                    statements[k], is_read[k] = assessed, True
            logits.append(own)
        features = answer_features(max(logits), statements, pieces, lexical(surfaces, answer.sentence))
        spans = _spans(answer, 1 - pieces[:, 0] >= _PIECE)
        places = memory.closest(answer, self._hidden_of(answer), len(question.statements))
        return Measurement(statements, features, spans, places, share)

    def _restated(self, question: Question) -> Pieces:
        """The answer's pieces, each with its statement's number in place of its sentence's; -1 between statements."""
        pieces = self._reader.read(question.answer)
        number = [-1] * len(pieces.ids)
        at = 0
        for i, start in enumerate(pieces.starts):
            while at < len(question.statements) and question.statements[at][1] <= start:
                at += 1
            if at < len(question.statements) and question.statements[at][0] <= start:
                number[i] = at
        spans = tuple(Span(a, b) for a, b in question.statements)
        return replace(pieces, sentence=tuple(number), sentences=(*spans, Span(0, 0)))  # the last one is number -1

    def _read(self, chunk: str) -> Pieces:
        return self._reader.read(chunk[:_READ], _READ_SENTENCES)

    def _memory(self, windows: list[tuple[Pieces, int]], answer: Pieces) -> tuple[_Memory, float]:
        """What the answer is compared with, and its share of the chunks' pieces."""
        total = sum(len(w.ids) for w, _ in windows)
        worth = shared_weights(windows, answer)
        windows, worth = fitting(windows, worth, _ENCODED)
        hidden = self._reader.cached([w for w, _ in windows])
        if sum(len(w.ids) for w, _ in windows) > _MEMORY:
            mine = _unit(self._hidden_of(answer))
            worth = [w + float(product(mine, _unit(h).T).max(1).mean()) for w, h in zip(worth, hidden, strict=True)]
            by_ids = {id(w): h for (w, _), h in zip(windows, hidden, strict=True)}
            windows, _ = fitting(windows, worth, _MEMORY)
            hidden = [by_ids[id(w)] for w, _ in windows]
        return _Memory(windows, hidden), sum(len(w.ids) for w, _ in windows) / max(1, total)

    def _hidden_of(self, answer: Pieces) -> NDArray[np.float32]:
        import numpy as np

        hidden: NDArray[np.float32] = np.concatenate(
            self._reader.cached([part(answer, a, b) for a, b in answer.windows])
        )
        return hidden

    def _head(
        self, block: Pieces, statements: int, memory: _Memory, query: Pieces | None, query_hidden: NDArray[np.float32]
    ) -> tuple[Any, Any, float, NDArray[np.float32]]:
        import numpy as np

        hidden = self._hidden_of(block)
        features = surface(block, memory.words, query)
        features[:, Column.COSINE :] = nearness(block, hidden, memory.ids, memory.hidden)
        context_features = np.zeros((len(memory.ids) + len(query_hidden), 5), np.float32)
        context_features[: len(memory.ids), :4] = context_surface([w for w, _ in memory.windows], block, query)
        context_features[len(memory.ids) :, 4] = 1
        context_ids = np.concatenate([memory.ids, np.array(query.ids if query else [], np.int64)])
        # One piece of padding on either side: the head looks at neighbours, and there may be a single piece.
        pieces, assessed, own = self._session.run(
            None,
            {
                "hidden": _padded(hidden),
                "features": _padded(features),
                "ids": np.append(np.array(block.ids, np.int64), -1),
                "sentence": np.append(np.array(block.sentence, np.int64), -1),
                "context": _padded(np.concatenate([memory.hidden, query_hidden])),
                "context_features": _padded(context_features),
                "context_ids": np.append(context_ids, -2),
                "index": np.arange(statements),
            },
        )
        return _softmax(pieces[:-1]), _softmax(assessed), float(own), features


class _Memory:
    """The windows of the context that an answer is compared with, each with its chunk's number."""

    def __init__(self, windows: Sequence[tuple[Pieces, int]], hidden: Sequence[NDArray[np.float32]]) -> None:
        import numpy as np

        self.windows = windows
        self.hidden = np.concatenate(hidden)
        self.ids = np.array([i for w, _ in windows for i in w.ids], np.int64)
        self.words = Context([w for w, _ in windows])

    def closest(self, answer: Pieces, hidden: NDArray[np.float32], statements: int) -> list[Place]:
        """Per statement the sentence of the context that shares most of its words and meaning."""
        import numpy as np

        places: list[tuple[int, int, int]] = []
        means, at = [], 0
        for window, chunk in self.windows:
            number = np.array(window.sentence)
            for k, span in enumerate(window.sentences):
                places.append((chunk, span.start, span.end))
                means.append(self.hidden[at : at + len(window.ids)][number == k].mean(0))
            at += len(window.ids)
        units = _unit(np.stack(means))
        number = np.array(answer.sentence)
        closest: list[Place] = []
        for k in range(statements):
            if not (number == k).any():
                closest.append((None, None, None))
                continue
            span = answer.sentences[k]
            own = content_words(answer.text[span.start : span.end])
            shared = [len(own & words) / max(1, len(own)) for words in self.words.sentence_words]
            cosines = product(units, _unit(hidden[number == k].mean(0)[None])[0])
            closest.append(places[int(np.argmax(cosines + np.array(shared)))])
        return closest


def compare(question: Question, facts: ContextFacts, supported: NDArray[np.float32]) -> NDArray[np.float64]:
    """(s, CLAIM_FEATURES) of the statements, from the head's probabilities (s,) and the words."""
    import numpy as np

    texts = [" ".join(question.answer[a:b].split()) for a, b in question.statements]
    segments = Segments(question.chunks)
    comparisons = np.zeros(len(texts))
    trusted_most = np.sort(np.argsort(-supported, kind="stable")[:_COMPARED])
    pairs = [ClaimPair(texts[i], question.query, segments.passage(texts[i], question.query)) for i in trusted_most]
    comparisons[trusted_most] = compare_claims(pairs)
    rows = zip(texts, supported, comparisons, strict=True)
    return np.stack([claim_features(text, facts, p, comparison) for text, p, comparison in rows])


Place = tuple[int | None, int | None, int | None]


def _spans(answer: Pieces, bad: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Runs of pieces that are pointed at, as characters; a gap of one piece is closed."""
    spans: list[tuple[int, int]] = []
    last = -3
    for i, is_bad in enumerate(bad):
        if not is_bad:
            continue
        if i - last <= 2 and spans:
            spans[-1] = (spans[-1][0], answer.ends[i])
        else:
            spans.append((answer.starts[i], answer.ends[i]))
        last = i
    return spans


def _padded(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """The rows and one of zeros."""
    import numpy as np

    return np.concatenate([rows, np.zeros((1, rows.shape[1]), np.float32)])


def _unit(rows: Any) -> Any:
    import numpy as np

    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-6)


def _softmax(rows: Any) -> Any:
    import numpy as np

    raised = np.exp(rows - rows.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


def _sigmoid(z: Any) -> Any:
    import numpy as np

    return 1 / (1 + np.exp(-z))


_model = Lazy(SupportModel)


def assess(questions: Sequence[Question]) -> list[AnswerSupport | None]:
    """Assess answers with the process's model, which is loaded on first use."""
    return _model.get().assess(questions)
