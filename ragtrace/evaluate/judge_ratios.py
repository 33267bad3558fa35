"""The catalogue's ratios with the judge as the one who tells claims and says what supports them.

Each `<name>_judge` has the definition of `<name>`; the local form is the default. Definitions in the formulas' sources.
"""

from collections.abc import Callable, Sequence
from typing import Any

from ragtrace.evaluate.arithmetic import average_precision, correctness, mean
from ragtrace.evaluate.judge_questions import (
    Asker,
    contradictions,
    judged,
    key,
    marked,
    numbered,
    portion,
    portion_of,
    quoted,
)
from ragtrace.evaluate.similarity import cosine_of
from ragtrace.records import Score, Trace
from ragtrace.text.sentences import split

_EJENTO = "Ejento evaluation metrics"
_RAG = "RAG generator metrics"
_GUIDE = "RAG evaluation guide"
_H2O = "H2O Eval Studio"
_SENTENCES = 200
_QUESTIONS = 3


def _claims(trace: Trace, ask: Asker) -> list[tuple[str, bool]]:
    """The answer's claims, and whether the context supports them."""
    return [(c["claim"], c["verdict"] == "supported") for c in ask.of("claims", trace)["claims"]]


@judged(
    needs={"documents", "answer"},
    threshold=0.75,
    source=f"{_EJENTO}, 1.6; {_RAG}; {_GUIDE}; {_H2O}; RAGAS",
    version="2",
)
def faithfulness_judge(trace: Trace, ask: Asker) -> Score | None:
    """Claims of the answer that the context supports / claims of the answer, by the judge."""
    return portion_of(_claims(trace, ask), "not supported")


@judged(needs={"documents", "answer"}, threshold=0.25, direction="lower", source=_RAG, version="2")
def hallucination_judge(trace: Trace, ask: Asker) -> Score | None:
    """Claims of the answer that the context does not support / claims of the answer, by the judge."""
    return portion_of(_claims(trace, ask), "not supported", count_bad=True)


@judged(needs={"documents", "answer"}, threshold=0.25, direction="lower", source=f"{_GUIDE}, Hallucination Check")
def context_contradiction_judge(trace: Trace, ask: Asker) -> Score:
    """Chunks that the answer contradicts / chunks, by the judge."""
    hit = _among(ask.of("contradictions", trace)["contradicted"], len(trace.documents))
    value = len(hit) / len(trace.documents)
    return Score("context_contradiction_judge", value, explanation=_numbers("contradicted chunks", hit))


@judged(needs={"query", "answer"}, threshold=0.75, source=f"{_RAG}, LLM based; {_GUIDE}, LLM based", version="2")
def answer_relevancy_statements(trace: Trace, ask: Asker) -> Score | None:
    """Statements of the answer that are relevant to the question / statements of the answer, by the judge."""
    statements = ask.of("statements", trace)["statements"]
    return portion_of([(s["statement"], s["relevant"]) for s in statements], "not relevant")


@judged(
    needs={"query", "answer"},
    threshold=0.75,
    range=(-1.0, 1.0),
    source=f"{_RAG}, string based; {_GUIDE}, similarity based; {_H2O}; RAGAS",
)
def answer_relevancy_questions(trace: Trace, ask: Asker) -> Score:
    """Mean cosine of the question with three questions that the judge writes for the answer."""
    from ragtrace.evaluate.models.embedding import get_embedder

    questions = ask.of("questions", trace)["questions"][:_QUESTIONS]
    own, *others = get_embedder(ask.settings.model("embedding")).embed([trace.query, *questions])
    value = mean([min(1.0, max(-1.0, float(own @ other))) for other in others])
    return Score("answer_relevancy_questions", value, explanation=quoted(questions, "questions"))


@judged(needs={"query", "answer", "reference"}, threshold=0.75, source=f"{_EJENTO}, 1.1; {_H2O}; RAGAS", version="2")
def answer_correctness_judge(trace: Trace, ask: Asker) -> Score | None:
    """0.75 · F1 over statements + 0.25 · cosine of answer and reference; F1 = TP / (TP + 0.5 (FP + FN))."""
    statements = ask.of("correctness", trace)
    lists = [(text, name == "both") for name in ("both", "answer_only", "reference_only") for text in statements[name]]
    doubtful = contradictions(lists)
    both = [text for text in statements["both"] if key(text) not in doubtful]
    tp, fp, fn = len(both), len(statements["answer_only"]), len(statements["reference_only"])
    if not tp + fp + fn:
        return None
    value = correctness(tp, fp, fn, cosine_of(trace.answer, trace.reference or "", ask.settings))
    explanation = f"{tp} statements in both, {fp} in the answer only, {fn} in the reference only"
    return Score("answer_correctness_judge", value, explanation=marked(explanation, doubtful))


def _noise(trace: Trace, ask: Asker, kind: Callable[[set[int], set[int]], object]) -> Score | None:
    """The share of the claims that are wrong, and for which `kind` of the chunks that entail it and of the relevant
    chunks is true. Chunks count from 1."""
    reply = ask.of("noise", trace)
    count = len(trace.documents)
    relevant = _among(reply["relevant_contexts"], count)
    doubtful = contradictions((c["claim"], c["correct"]) for c in reply["claims"])
    # Of a claim with both verdicts, the one that says that it is wrong counts.
    claims = [c for c in reply["claims"] if not (c["correct"] and key(c["claim"]) in doubtful)]
    wrong = [not c["correct"] and bool(kind(_among(c["contexts"], count), relevant)) for c in claims]
    return portion(wrong, marked(None, doubtful))


_NOISE: dict[str, Any] = {"needs": ("query", "documents", "answer", "reference"), "threshold": 0.25, "version": "2"}


@judged(**_NOISE, direction="lower", source=f"{_EJENTO}, 2.4")
def noise_sensitivity_judge(trace: Trace, ask: Asker) -> Score | None:
    """Incorrect claims / claims of the answer, by the judge."""
    return _noise(trace, ask, lambda entailing, relevant: True)


@judged(**_NOISE, direction="lower", source=f"{_RAG}, Relevant Noise Sensitivity")
def noise_sensitivity_relevant_judge(trace: Trace, ask: Asker) -> Score | None:
    """Incorrect claims that a relevant chunk entails / claims of the answer, by the judge."""
    return _noise(trace, ask, lambda entailing, relevant: entailing & relevant)


@judged(**_NOISE, direction="lower", source=f"{_RAG}, Irrelevant Noise Sensitivity")
def noise_sensitivity_irrelevant_judge(trace: Trace, ask: Asker) -> Score | None:
    """Incorrect claims that an irrelevant chunk entails / claims of the answer, by the judge."""
    return _noise(trace, ask, lambda entailing, relevant: entailing - relevant)


@judged(needs={"query", "documents"}, threshold=0.75, source=f"{_GUIDE}, Contextual Precision; {_H2O}; RAGAS")
def context_precision_judge(trace: Trace, ask: Asker) -> Score:
    """Average precision of the chunks' order: (1 / relevant chunks) Σₖ (relevant up to k / k) · rₖ, by the judge. 0
    where no chunk is relevant."""
    reply = ask.of("relevant_chunks", trace, reference=trace.reference or "(none)")
    hit = _among(reply["relevant"], len(trace.documents))
    value = average_precision([k in hit for k in range(1, len(trace.documents) + 1)])
    return Score("context_precision_judge", value, explanation=_numbers("relevant chunks", hit))


@judged(needs={"query", "documents", "reference"}, threshold=0.75, source=f"{_EJENTO}, 2.3", version="2")
def context_precision_statements_judge(trace: Trace, ask: Asker) -> Score | None:
    """Retrieved statements that support the reference / retrieved statements, by the judge."""
    statements = ask.of("supporting", trace)["statements"]
    return portion_of([(s["statement"], s["supporting"]) for s in statements])


@judged(
    needs={"documents", "reference"}, threshold=0.75, source=f"{_EJENTO}, 2.1; {_GUIDE}; {_H2O}; RAGAS", version="2"
)
def context_recall_judge(trace: Trace, ask: Asker) -> Score | None:
    """Claims of the reference that can be attributed to the context / claims of the reference, by the judge."""
    claims = ask.of("attributed", trace)["claims"]
    return portion_of([(c["claim"], c["attributed"]) for c in claims], "missing")


@judged(needs={"documents", "reference"}, threshold=0.75, source=f"{_EJENTO}, 2.2", version="2")
def context_entities_recall_judge(trace: Trace, ask: Asker) -> Score | None:
    """Entities of the reference that the context names / entities of the reference, by the judge."""
    entities = ask.of("entities", trace)["entities"]
    return portion_of([(e["entity"], e["found"]) for e in entities], "missing")


@judged(needs={"query", "documents"}, threshold=0.75, source=f"{_GUIDE}, Contextual Relevancy; {_H2O}; RAGAS")
def context_relevancy_judge(trace: Trace, ask: Asker) -> Score | None:
    """Context sentences that are relevant to the question / context sentences, by the judge. The first 200 sentences
    are looked at."""
    sentences = [d.content[s.start : s.end] for d in trace.documents for s in split(d.content, _SENTENCES)]
    sentences = sentences[:_SENTENCES]
    if not sentences:
        return None
    hit = _among(ask.of("relevant_sentences", trace, sentences=numbered(sentences))["relevant"], len(sentences))
    explanation = f"{len(hit)} of {len(sentences)} sentences"
    return Score("context_relevancy_judge", len(hit) / len(sentences), explanation=explanation)


def _among(numbers: Sequence[int], count: int) -> set[int]:
    """The numbers from 1 to `count`; a judge that names others has named nothing there."""
    return {n for n in numbers if 1 <= n <= count}


def _numbers(what: str, hit: set[int]) -> str:
    return f"{what}: {', '.join(map(str, sorted(hit))) or 'none'}"
