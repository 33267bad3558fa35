"""Checks by the cosine of sentence embeddings: how close the answer is to the question, and to the chunks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ragtrace.evaluate.arithmetic import mean
from ragtrace.evaluate.coverage import coverage
from ragtrace.evaluate.models.language_id import SURE, foreign_question, identify
from ragtrace.evaluate.models.products import product
from ragtrace.evaluation import NOT_APPLICABLE, Evaluator, evaluator
from ragtrace.records import Evidence, Score, Trace
from ragtrace.settings import Settings
from ragtrace.text.sentences import Span, passages, prose, split
from ragtrace.text.words import FUNCTION_WORDS, asks_nothing

if TYPE_CHECKING:
    from ragtrace.evaluate.models.embedding import Vectors

_H2O = "H2O Eval Studio"
_ANSWER_SENTENCES = 40
_CHUNK_SENTENCES = 60
_CHUNK_CHARS = 100_000
_CONTEXT_SENTENCES = 240
"""Sentences that are embedded at most, of an answer, a chunk, all chunks. The explanation names what is beyond."""
_WORD = re.compile(r"[^\W\d_]{2,}")
_UNSPACED = re.compile(r"[぀-ヿ㐀-鿿]")
_READ = 2_000
"""Characters of an answer whose words are counted."""
_FEW_WORDS, _FEW_IN_ALL = 3, 5
"""Up to so many words that carry meaning, and so many in all, "42 days", "Yes, on a leash" or a name do not tell what
the question was about: of the five right ones among the answers written by hand four are below 0.2. A sentence such as
"The pump has a warranty of two years" does tell."""


def prose_or_first(text: str, limit: int) -> list[Span]:
    """`prose`, or the first sentence of a text that is only code, a table or a word."""
    return prose(text, limit) or split(text, 1)


@dataclass(frozen=True, slots=True)
class _Sentence:
    rank: int
    span: Span
    text: str


def _context_sentences(trace: Trace) -> list[_Sentence]:
    sentences: list[_Sentence] = []
    for rank, document in enumerate(trace.documents):
        room = min(_CHUNK_SENTENCES, _CONTEXT_SENTENCES - len(sentences))
        if room <= 0:
            break
        text = document.content[:_CHUNK_CHARS]
        sentences.extend(_Sentence(rank, span, text[span.start : span.end]) for span in prose_or_first(text, room))
    return sentences


def embed_groups(groups: Sequence[Sequence[str]], settings: Settings) -> list[Vectors]:
    """Each group's vectors; all of a micro-batch in one call, so that what recurs is embedded once."""
    from ragtrace.evaluate.models.embedding import get_embedder

    vectors = get_embedder(settings.model("embedding")).embed([text for group in groups for text in group])
    parts, start = [], 0
    for group in groups:
        parts.append(vectors[start : start + len(group)])
        start += len(group)
    return parts


def _embed_pairs(pairs: Sequence[tuple[list[str], list[str]]], settings: Settings) -> list[tuple[Vectors, Vectors]]:
    vectors = iter(embed_groups([group for pair in pairs for group in pair], settings))
    return list(zip(vectors, vectors, strict=True))


def cosine_of(one: str, other: str, settings: Settings) -> float:
    """Cosine of the embeddings of two texts; below 0 counts as 0."""
    (a,), (b,) = embed_groups([[one], [other]], settings)
    return _clipped(a @ b)


def _answer_to_query(traces: Sequence[Trace], settings: Settings) -> list[Any]:
    """Per trace the cosines of its answer's passages with the query, or what the model that `models.similarity` names
    says of its sentences. Empty for an answer of too few words."""
    if settings.model("similarity"):
        return [_by_named_model(trace, settings.model("similarity")) for trace in traces]
    pairs = []
    for trace in traces:
        spans = passages(trace.answer, _ANSWER_SENTENCES) if _names_subject(trace.answer) else []
        pairs.append(([trace.query], [trace.answer[s.start : s.end] for s in spans]))
    return [product(sentences, query[0]) for query, sentences in _embed_pairs(pairs, settings)]


def _names_subject(answer: str) -> bool:
    """Whether an answer has enough words; two signs of a script without spaces count as one that carries meaning."""
    text = answer[:_READ]
    signs = len(_UNSPACED.findall(text))
    others = _UNSPACED.sub(" ", text).lower()
    meaning = sum(word not in FUNCTION_WORDS for word in _WORD.findall(others)) + signs // 2
    return meaning > _FEW_WORDS or len(others.split()) > _FEW_IN_ALL


def _by_named_model(trace: Trace, model: str) -> Any:
    import numpy as np

    from ragtrace.evaluate.models.external import similarity

    pairs = [(trace.query, trace.answer[s.start : s.end]) for s in prose_or_first(trace.answer, _ANSWER_SENTENCES)]
    return np.array(similarity(pairs, model))


def _by_cosine(
    check: Evaluator, traces: Sequence[Trace], settings: Settings, of: Callable[[Any], float]
) -> list[float | Score]:
    """The scores for the mean or highest cosine of each answer's sentences."""
    missing = Score(check.name, label=NOT_APPLICABLE, explanation="the answer has no sentence, or too few words")
    by = f"by {model}" if (model := settings.model("similarity")) else None
    values = [_clipped(of(c), -1.0) if len(c) else None for c in _answer_to_query(traces, settings)]
    return [missing if value is None else Score(check.name, value=value, explanation=by) for value in values]


def _cosine(threshold: float, source: str) -> Callable[[Callable[..., Any]], Evaluator]:
    return evaluator(
        needs={"query", "answer"}, version="3", threshold=threshold, range=(-1.0, 1.0), method="model", batch=True,
        source=source,
    )  # fmt: skip


@_cosine(0.16, "Ejento evaluation metrics, 1.3")
def answer_relevance_cosine(traces: Sequence[Trace], *, settings: Settings) -> list[float | Score]:
    """Mean over the answer's sentences of cos(sentence, query), or of the scores of the CrossEncoder that the setting
    `models.similarity` names. A list or a table counts as one sentence. `answer_relevance` has a model for it.

    Not applicable, without such a CrossEncoder, to answers of up to five words of which at most three carry meaning:
    "Yes.", "42 days", a name."""
    return _by_cosine(answer_relevance_cosine, traces, settings, lambda cosines: cosines.mean())


@_cosine(0.21, f"{_H2O}, Answer Relevancy (Sentence Similarity)")
def answer_relevance_max(traces: Sequence[Trace], *, settings: Settings) -> list[float | Score]:
    """Maximum over the answer's sentences in place of the mean of `answer_relevance_cosine`."""
    return _by_cosine(answer_relevance_max, traces, settings, lambda cosines: cosines.max())


def _chunk_relevance(trace: Trace, settings: Settings) -> list[float]:
    """For each chunk with text how relevant it is to the query: see `_blended`. Nothing for a turn of a conversation
    that asks nothing of documents. With the embedded encoder a sentence is encoded with the chunk around it."""
    from ragtrace.evaluate.models.chunk_sentences import sentence_vectors
    from ragtrace.evaluate.models.embedding import OnnxEmbedder, get_embedder

    is_embedded = get_embedder(settings.model("embedding")).name == OnnxEmbedder.name
    if asks_nothing(trace.query) or (is_embedded and not _is_comparable(trace)):
        return []
    ((query,),) = embed_groups([[trace.query]], settings)
    relevance = []
    left = _CONTEXT_SENTENCES
    for rank, document in enumerate(trace.documents):
        text, room = document.content[:_CHUNK_CHARS], min(_CHUNK_SENTENCES, left)
        if is_embedded:
            vectors = sentence_vectors(text, room)
        else:
            sentences = [text[s.start : s.end] for s in prose_or_first(text, room)]
            (vectors,) = embed_groups([sentences], settings)
        left -= len(vectors)
        if len(vectors):
            relevance.append(_blended(trace, rank, _clipped(product(vectors, query).max())))
        if left <= 0:
            break
    return relevance


def _is_comparable(trace: Trace) -> bool:
    """Whether the embedded model can compare question and chunks: it does not know what another language calls them."""
    language = foreign_question(trace.query)
    chunks, probability = identify(" ".join(d.content[:500] for d in trace.documents[:4])) or (language, 0.0)
    return language is None or language == chunks or probability < SURE


_OTHER_WORDS = 0.6
"""From own questions with chunks in other words; the hard negatives of dev are ranked as well as without it."""


def _blended(trace: Trace, rank: int, cosine: float) -> float:
    """A third the cosine of a chunk's nearest sentence, two thirds the chunk's coverage of the query's words: what a
    passage is about and whether it names what was asked for. On dev either alone is worse at both sets there are.
    At least a part of the cosine: a chunk that answers in other words holds none of the query's."""
    covered = coverage(trace.query, trace.documents[rank].content[:_CHUNK_CHARS])
    return cosine if covered is None else max((cosine + 2 * covered) / 3, _OTHER_WORDS * cosine)


_SOFT = f"{_H2O}, Context Relevancy Evaluator (Soft Recall and Precision)"


@evaluator(needs={"query", "documents"}, version="5", threshold=0.17, method="model", source=_SOFT)
def context_relevancy_recall(trace: Trace, *, settings: Settings) -> float | None:
    """Maximum over the chunks of S(query, chunk): a third the cosine of the query and the chunk's nearest sentence, two
    thirds the share of the query's words that the chunk holds, rare words weighing more; at least 0.6 of the cosine,
    for chunks that say it in other words.

    The source's S is a cosine and its threshold 0.75. Here it is what `benchmarks/thresholds.py` gives: chunks of
    another subject fail, passages on the subject that do not answer pass. Not applicable to "thanks", nor to a query
    neither in English nor in the chunks' language."""
    return max(_chunk_relevance(trace, settings), default=None)


@evaluator(needs={"query", "documents"}, version="5", threshold=0.14, method="model", source=_SOFT)
def context_relevancy_precision(trace: Trace, *, settings: Settings) -> float | None:
    """Mean over the chunks of `context_relevancy_recall`'s S(query, chunk)."""
    return mean(_chunk_relevance(trace, settings))


@evaluator(
    needs={"documents", "answer"}, threshold=0.75, method="model", batch=True, source=f"{_H2O}, Groundedness Evaluator"
)
def groundedness_cosine(traces: Sequence[Trace], *, settings: Settings) -> list[Score | None]:
    """Minimum over the answer's sentences of the maximum over the context's sentences of their cosine.

    The explanation names the least grounded sentence; the evidence has every sentence with its closest passage.
    A cosine does not see a contradiction: a wrong number in the right words is close. `groundedness` has a model for
    it, and is better wherever both can run."""
    answers = [prose_or_first(trace.answer, _ANSWER_SENTENCES) for trace in traces]
    contexts = [_context_sentences(trace) for trace in traces]
    pairs = [
        ([trace.answer[s.start : s.end] for s in spans], [s.text for s in sentences])
        for trace, spans, sentences in zip(traces, answers, contexts, strict=True)
    ]
    vectors = _embed_pairs(pairs, settings)
    return [
        _grounded(trace, spans, sentences, *pair)
        for trace, spans, sentences, pair in zip(traces, answers, contexts, vectors, strict=True)
    ]


def _grounded(
    trace: Trace, spans: list[Span], sentences: list[_Sentence], answer: Vectors, context: Vectors
) -> Score | None:
    if not spans or not sentences:
        return None
    cosines = product(answer, context.T)
    best = cosines.argmax(1)
    threshold = groundedness_cosine.threshold or 0.0
    evidence = []
    for row, span in enumerate(spans):
        source = sentences[int(best[row])]
        support = _clipped(cosines[row, best[row]])
        evidence.append(
            Evidence(
                span.start,
                span.end,
                "supported" if support >= threshold else "unsupported",
                support,
                trace.documents[source.rank].id,
                source.rank,
                source.span.start,
                source.span.end,
            )
        )
    least = min(evidence, key=lambda e: e.probability or 0.0)
    return Score(
        "groundedness_cosine", value=least.probability,
        explanation=f"least grounded: “{trace.answer[least.start : least.end]}”{_unread(trace, sentences)}",
        cause=None if (least.probability or 0.0) >= threshold else "unsupported", evidence=tuple(evidence),
    )  # fmt: skip


def _unread(trace: Trace, sentences: Sequence[_Sentence]) -> str:
    """Says so where not everything was read; never silently."""
    read = Counter(s.rank for s in sentences)
    cut = len(split(trace.answer, _ANSWER_SENTENCES + 1)) > _ANSWER_SENTENCES or any(
        # Only a chunk that filled its room, or came after the room was gone, can have more than was read.
        read[rank] >= _CHUNK_SENTENCES or (len(sentences) >= _CONTEXT_SENTENCES and document.content.strip())
        for rank, document in enumerate(trace.documents)
        if read[rank] < len(prose(document.content[:_CHUNK_CHARS], read[rank] + 1))
    )
    return " (only the first sentences of the answer or of the context were compared)" if cut else ""


def _clipped(value: Any, low: float = 0.0) -> float:
    """A cosine as a float in range: rounding can carry it a hair past 1."""
    return min(1.0, max(low, float(value)))
