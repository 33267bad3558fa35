"""Checks against an expected answer, and of the order of the chunks, by the embedded groundedness model."""

from collections.abc import Sequence
from typing import Any

from ragtrace.evaluate.arithmetic import average_precision, correctness
from ragtrace.evaluate.groundedness import Checked, by_model, check, not_scored
from ragtrace.evaluate.similarity import cosine_of, embed_groups, prose_or_first
from ragtrace.evaluation import evaluator
from ragtrace.records import Score, Trace
from ragtrace.settings import Settings

_RELEVANT = 0.5
"""Cosine of a chunk's best sentence with the query from which the chunk counts as relevant where there is no
reference."""
_CORRECT = 0.5  # beside a reference a claim counts as correct if its support is likelier than not
_CHUNKS = 20
_COMPARISONS = 300
"""Claims times chunks that are compared at most, but for one chunk."""
_RAGAS = "RAGAS; by the embedded model"
_OF_NOISE: dict[str, Any] = {
    "needs": {"query", "documents", "answer", "reference"},
    "threshold": 0.25,
    "direction": "lower",
    "method": "model",
    "version": "6",
}


def _correct(trace: Trace) -> Checked | str:
    """The answer's claims judged against the reference."""
    return check(trace.query, trace.answer, [trace.reference or ""])


def _entails(chunk: str, query: str, text: str) -> list[bool]:
    """Per claim of a text whether a chunk supports it."""
    result = check(query, text, [chunk])
    return [] if isinstance(result, str) else [p >= _CORRECT for p in result.supported()]


@evaluator(**_OF_NOISE, source="Ejento evaluation metrics, 2.4")
def noise_sensitivity(trace: Trace) -> Score:
    """Incorrect claims / claims of the answer; a claim is incorrect if the reference does not support it."""
    result = _correct(trace)
    if isinstance(result, str):
        return not_scored("noise_sensitivity", result)
    wrong = sum(p < _CORRECT for p in result.supported())
    return Score(
        "noise_sensitivity", value=wrong / len(result.claims), explanation=f"{wrong} of {len(result.claims)} claims"
    )


def _blamed(name: str, trace: Trace, relevant: bool) -> Score:
    result = _correct(trace)
    if isinstance(result, str):
        return not_scored(name, result)
    wrong = [p < _CORRECT for p in result.supported()]
    blamed = [False] * len(wrong)
    chunks = trace.documents[: min(_CHUNKS, max(1, _COMPARISONS // len(wrong)))]
    for document in chunks:
        if any(_entails(document.content, trace.query, trace.reference or "")) is relevant:
            entailed = _entails(document.content, trace.query, trace.answer)
            blamed = [b or e for b, e in zip(blamed, entailed or blamed, strict=True)]
    count = sum(w and b for w, b in zip(wrong, blamed, strict=True))
    kind = "relevant" if relevant else "irrelevant"
    part = f"; the first {len(chunks)} chunks were looked at" if len(chunks) < len(trace.documents) else ""
    text = f"{count} of {len(wrong)} claims are wrong and from {kind} chunks{part}"
    return Score(name, value=count / len(wrong), explanation=text)


@evaluator(**_OF_NOISE, source=_RAGAS)
def noise_sensitivity_relevant(trace: Trace) -> Score:
    """Incorrect claims that a relevant chunk entails / claims of the answer. A chunk is relevant if it entails a claim
    of the reference. The first 20 chunks are looked at. For an answer of more than 15 claims, fewer are."""
    return _blamed("noise_sensitivity_relevant", trace, True)


@evaluator(**_OF_NOISE, source=_RAGAS)
def noise_sensitivity_irrelevant(trace: Trace) -> Score:
    """Incorrect claims that an irrelevant chunk entails / claims of the answer. The first 20 chunks are
    looked at. For an answer of more than 15 claims, fewer are."""
    return _blamed("noise_sensitivity_irrelevant", trace, False)


@by_model(
    {"query", "answer", "reference"},
    "Ejento evaluation metrics, 1.1; RAGAS answer correctness, by the embedded models",
    "6",
)
def answer_correctness(trace: Trace, *, settings: Settings) -> Score:
    """0.75 · F1 over statements + 0.25 · cosine of answer and reference.

    F1 = TP / (TP + 0.5 (FP + FN)): TP are the answer's claims that the reference supports, FP its others, FN the
    reference's claims that the answer does not support."""
    result = _correct(trace)
    expected = check(trace.query, trace.reference or "", [trace.answer])
    if isinstance(result, str):
        return not_scored("answer_correctness", result)
    tp = sum(p >= _CORRECT for p in result.supported())
    fp = len(result.claims) - tp
    fn = 0 if isinstance(expected, str) else sum(p < _CORRECT for p in expected.supported())
    value = correctness(tp, fp, fn, cosine_of(trace.answer, trace.reference or "", settings))
    said_so = f"{tp} claims agree, {fp} are not in the reference, {fn} of the reference are missing"
    return Score("answer_correctness", value, explanation=said_so)


@by_model({"query", "documents"}, "RAG evaluation guide; RAGAS context precision, by the embedded models", "5")
def context_precision(trace: Trace, *, settings: Settings) -> Score:
    """Average precision of the chunks' order: (1 / relevant chunks) Σₖ (relevant up to k / k) · rₖ.

    A chunk is relevant if it supports a claim of the reference; without a reference, if one of its sentences is near
    the question. The first 20 chunks are looked at. 0 where none is relevant."""
    chunks = [d.content for d in trace.documents[:_CHUNKS]]
    if trace.reference:
        relevant = [any(_entails(c, trace.query, trace.reference)) if c.strip() else False for c in chunks]
        by = "supports the reference"
    else:
        relevant = [c >= _RELEVANT for c in _nearness(trace.query, chunks, settings)]
        by = "near the question"
    ranks = ", ".join(str(k) for k, r in enumerate(relevant) if r) or "none"
    return Score(
        "context_precision", value=average_precision(relevant), explanation=f"ranks of relevant chunks ({by}): {ranks}"
    )


def _nearness(query: str, chunks: Sequence[str], settings: Settings) -> list[float]:
    groups = [[c[s.start : s.end] for s in prose_or_first(c, 60)] for c in chunks]
    (own,), *of_chunks = embed_groups([[query], *groups], settings)
    return [float((vectors @ own).max()) if len(vectors) else -1.0 for vectors in of_chunks]
