"""Checks against an expected answer, and of the order of the chunks, by the embedded groundedness model."""

from collections.abc import Sequence
from typing import Any

from ragtrace.evaluate.arithmetic import average_precision, correctness
from ragtrace.evaluate.groundedness import by_model, check, check_reference, not_scored
from ragtrace.evaluate.similarity import cosine_of, embed_groups, prose_or_first
from ragtrace.evaluation import evaluator
from ragtrace.records import Score, Trace
from ragtrace.settings import Settings

_RELEVANT = 0.5
"""Cosine of a chunk's best sentence with the query from which the chunk counts as relevant, without a reference."""
_CORRECT = 0.5  # beside a reference a claim counts as correct if its support is likelier than not
_CHUNKS = 20
_COMPARISONS = 300
"""Claims times chunks that are compared at most, but for one chunk."""
_RAGAS = "RAGAS; by the embedded model"
_OF_NOISE: dict[str, Any] = {
    "needs": {"query", "documents", "answer", "reference"}, "threshold": 0.25, "direction": "lower",
    "method": "model", "version": "7",
}  # fmt: skip


def _judged(query: str, text: str, chunks: Sequence[str]) -> list[bool] | str:
    """Per claim of a text whether the chunks support it, or the reason why none can be compared."""
    result = check(query, text, chunks)
    return result if isinstance(result, str) else [p >= _CORRECT for p in result.supported()]


def _supported(query: str, text: str, *chunks: str) -> list[bool]:
    """The same, empty where none can be compared."""
    result = _judged(query, text, chunks)
    return [] if isinstance(result, str) else result


def _as_context(trace: Trace, answer: str) -> str:
    """An answer behind its question: a bare "Oslo" or "Yes" says too little to support a sentence."""
    return f"{trace.query} {answer}"


def _correct(trace: Trace) -> list[bool] | str:
    """The answer's claims judged against the reference."""
    return _judged(trace.query, trace.answer, [_as_context(trace, trace.reference or "")])


@evaluator(**_OF_NOISE, source="Ejento evaluation metrics, 2.4")
def noise_sensitivity(trace: Trace) -> Score:
    """Incorrect claims / claims of the answer; a claim is incorrect if the reference does not support it."""
    result = _correct(trace)
    if isinstance(result, str):
        return not_scored("noise_sensitivity", result)
    wrong = result.count(False)
    return Score("noise_sensitivity", value=wrong / len(result), explanation=f"{wrong} of {len(result)} claims")


def _blamed(name: str, trace: Trace, relevant: bool) -> Score:
    result = _correct(trace)
    if isinstance(result, str):
        return not_scored(name, result)
    wrong = [not is_right for is_right in result]
    blamed = [False] * len(wrong)
    chunks = trace.documents[: min(_CHUNKS, max(1, _COMPARISONS // len(wrong)))]
    for document in chunks:
        if any(_supported(trace.query, trace.reference or "", document.content)) is relevant:
            entailed = _supported(trace.query, trace.answer, document.content)
            blamed = [b or e for b, e in zip(blamed, entailed or blamed, strict=True)]
    count = sum(w and b for w, b in zip(wrong, blamed, strict=True))
    kind = "relevant" if relevant else "irrelevant"
    part = f"; the first {len(chunks)} chunks were looked at" if len(chunks) < len(trace.documents) else ""
    text = f"{count} of {len(wrong)} claims are wrong and from {kind} chunks{part}"
    return Score(name, value=count / len(wrong), explanation=text)


@evaluator(**_OF_NOISE, source=_RAGAS)
def noise_sensitivity_relevant(trace: Trace) -> Score:
    """Incorrect claims that a relevant chunk entails / claims of the answer. A chunk is relevant if it entails a claim
    of the reference. The first 20 chunks are looked at, fewer beyond 15 claims."""
    return _blamed("noise_sensitivity_relevant", trace, True)


@evaluator(**_OF_NOISE, source=_RAGAS)
def noise_sensitivity_irrelevant(trace: Trace) -> Score:
    """Incorrect claims that an irrelevant chunk entails / claims of the answer. The first 20 chunks are looked
    at, fewer beyond 15 claims."""
    return _blamed("noise_sensitivity_irrelevant", trace, False)


@by_model(
    {"query", "answer", "reference"},
    "Ejento evaluation metrics, 1.1; RAGAS answer correctness, by the embedded models",
    "7",
)
def answer_correctness(trace: Trace, *, settings: Settings) -> Score:
    """0.75 · F1 over statements + 0.25 · cosine of answer and reference.

    F1 = TP / (TP + 0.5 (FP + FN)): TP are the answer's claims that the reference supports, FP its others, FN the
    reference's claims that the answer does not support."""
    result = _correct(trace)
    missing = _supported(trace.query, trace.reference or "", _as_context(trace, trace.answer)).count(False)
    if isinstance(result, str):
        return not_scored("answer_correctness", result)
    tp, fp = result.count(True), result.count(False)
    value = correctness(tp, fp, missing, cosine_of(trace.answer, trace.reference or "", settings))
    said_so = f"{tp} claims agree, {fp} are not in the reference, {missing} of the reference are missing"
    return Score("answer_correctness", value, explanation=said_so)


@by_model({"query", "documents"}, "RAG evaluation guide; RAGAS context precision, by the embedded models", "6")
def context_precision(trace: Trace, *, settings: Settings) -> Score:
    """Average precision of the chunks' order: (1 / relevant chunks) Σₖ (relevant up to k / k) · rₖ.

    A chunk is relevant if it supports a claim of the reference, or if one needs it; without a reference, if a sentence
    is near the question. The first 20 chunks count."""
    chunks = [d.content for d in trace.documents[:_CHUNKS]]
    if trace.reference:
        checked = check_reference(trace, chunks)
        if isinstance(checked, str):
            return not_scored("context_precision", checked)
        together = [p >= _CORRECT for p in checked.supported()]
        relevant = _supporting(trace.query, trace.reference, chunks, together)
        by = "supports the reference"
    else:
        relevant = [c >= _RELEVANT for c in _nearness(trace.query, chunks, settings)]
        by = "near the question"
    ranks = ", ".join(str(k) for k, r in enumerate(relevant) if r) or "none"
    return Score(
        "context_precision", value=average_precision(relevant), explanation=f"ranks of relevant chunks ({by}): {ranks}"
    )


def _supporting(query: str, reference: str, chunks: Sequence[str], together: Sequence[bool]) -> list[bool]:
    """Per chunk whether it supports a claim of the reference alone, or is needed for one that all together support."""
    alone = [_supported(query, reference, chunk) for chunk in chunks]
    joint = [i for i, is_supported in enumerate(together) if is_supported and not any(a[i] for a in alone if a)]
    if not joint:
        return list(map(any, alone))
    rest = [_supported(query, reference, *chunks[:k], *chunks[k + 1 :]) for k in range(len(chunks))]
    return [any(a) or any(not r or not r[i] for i in joint) for a, r in zip(alone, rest, strict=True)]


def _nearness(query: str, chunks: Sequence[str], settings: Settings) -> list[float]:
    groups = [[c[s.start : s.end] for s in prose_or_first(c, 60)] for c in chunks]
    (own,), *of_chunks = embed_groups([[query], *groups], settings)
    return [float((vectors @ own).max()) if len(vectors) else -1.0 for vectors in of_chunks]
