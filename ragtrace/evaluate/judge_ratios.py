"""The catalogue's ratios with the judge as the one who tells claims and says what supports them.

Each `<name>_judge` has the definition of `<name>`; the local form is the default. Definitions in the formulas' sources.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ragtrace.evaluate.arithmetic import average_precision, f1, mean
from ragtrace.evaluate.judge import Prompt
from ragtrace.evaluate.judge_questions import (
    FLAG,
    NUMBERS,
    TEXT,
    Asker,
    chunks,
    contradictions,
    judged,
    key,
    listing,
    marked,
    numbered,
    portion,
    portion_of,
    quoted,
    shape,
)
from ragtrace.records import Score, Trace
from ragtrace.text.sentences import split

_EJENTO = "Ejento evaluation metrics"
_RAG = "RAG generator metrics"
_GUIDE = "RAG evaluation guide"
_H2O = "H2O Eval Studio"
_SENTENCES = 200
_QUESTIONS = 3
CLAIMS_WEIGHT, SIMILARITY_WEIGHT = 0.75, 0.25
_VERDICT = {"type": "string", "enum": ["supported", "unsupported", "contradicted"]}

CLAIMS = Prompt(
    "claims",
    "1",
    "Break the answer down into its single factual claims: short, complete, each understandable on its own. For each "
    "claim say whether the context supports it (`supported`), says the opposite (`contradicted`), or neither "
    "(`unsupported`). Courtesies, questions and statements that nothing was found are no claims.\n\n"
    "{question}\n\n{context}\n\n{answer}",
    shape({"claims": listing({"claim": TEXT, "verdict": _VERDICT})}),
)
CONTRADICTIONS = Prompt(
    "contradictions",
    "1",
    "For each numbered context, say whether any part of the answer directly contradicts it. An answer that is silent "
    "about a context does not contradict it. Give the numbers of the contradicted contexts.\n\n{contexts}\n\n{answer}",
    shape({"contradicted": NUMBERS}),
)
STATEMENTS = Prompt(
    "statements",
    "1",
    "Break the answer down into its single statements, and say of each whether it is relevant to the question: helps "
    "to answer it, or gives background to it.\n\n{question}\n\n{answer}",
    shape({"statements": listing({"statement": TEXT, "relevant": FLAG})}),
)
QUESTIONS = Prompt(
    "questions",
    "1",
    f"Write {_QUESTIONS} different questions, each of which the answer answers completely.\n\n{{answer}}",
    shape({"questions": {"type": "array", "items": TEXT, "minItems": 1}}),
)
CORRECTNESS = Prompt(
    "correctness",
    "1",
    "Break the answer and the reference down into their single statements. List the statements that stand in both, "
    "those that stand in the answer only, and those that stand in the reference only.\n\n"
    "{question}\n\n{answer}\n\n{reference}",
    shape({name: {"type": "array", "items": TEXT} for name in ("both", "answer_only", "reference_only")}),
)
NOISE = Prompt(
    "noise",
    "1",
    "Break the answer down into its single factual claims. For each claim say whether it is correct according to the "
    "reference, and give the numbers of the contexts that entail the claim. Also give the numbers of the relevant "
    "contexts: those that entail at least one claim of the reference.\n\n"
    "{question}\n\n{reference}\n\n{contexts}\n\n{answer}",
    shape({"claims": listing({"claim": TEXT, "correct": FLAG, "contexts": NUMBERS}), "relevant_contexts": NUMBERS}),
)
RELEVANT_CHUNKS = Prompt(
    "relevant_chunks",
    "1",
    "Give the numbers of the contexts that are relevant to the question: those that help to answer it (and to arrive "
    "at the reference, where there is one).\n\n{question}\n\n{reference}\n\n{contexts}",
    shape({"relevant": NUMBERS}),
)
RELEVANT_SENTENCES = Prompt(
    "relevant_sentences",
    "1",
    "Give the numbers of the sentences that are relevant to the question: that help to answer it.\n\n"
    "{question}\n\n{sentences}",
    shape({"relevant": NUMBERS}),
)
SUPPORTING = Prompt(
    "supporting",
    "1",
    "Break the context down into its single statements, and say of each whether it supports the reference answer to "
    "the question: whether it is needed or useful to arrive at it.\n\n{question}\n\n{reference}\n\n{context}",
    shape({"statements": listing({"statement": TEXT, "supporting": FLAG})}),
)
ATTRIBUTED = Prompt(
    "attributed",
    "1",
    "Break the reference down into its single statements, and say of each whether it can be attributed to the "
    "context.\n\n{reference}\n\n{context}",
    shape({"claims": listing({"claim": TEXT, "attributed": FLAG})}),
)
ENTITIES = Prompt(
    "entities",
    "1",
    "List the entities of the reference: people, places, organisations, products, dates, numbers, concepts. Say of "
    "each whether the context names it, too, in whatever wording.\n\n{reference}\n\n{context}",
    shape({"entities": listing({"entity": TEXT, "found": FLAG})}),
)


def _claims(trace: Trace, ask: Asker) -> list[tuple[str, bool]]:
    """The answer's claims, and whether the context supports them."""
    fields = {"question": trace.query, "context": chunks(trace.documents), "answer": trace.answer}
    return [(c["claim"], c["verdict"] == "supported") for c in ask(CLAIMS, fields).value["claims"]]


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
    fields = {"contexts": chunks(trace.documents), "answer": trace.answer}
    hit = _among(ask(CONTRADICTIONS, fields).value["contradicted"], len(trace.documents))
    value = len(hit) / len(trace.documents)
    return Score("context_contradiction_judge", value, explanation=_numbers("contradicted chunks", hit))


@judged(needs={"query", "answer"}, threshold=0.75, source=f"{_RAG}, LLM based; {_GUIDE}, LLM based", version="2")
def answer_relevancy_statements(trace: Trace, ask: Asker) -> Score | None:
    """Statements of the answer that are relevant to the question / statements of the answer, by the judge."""
    statements = ask(STATEMENTS, {"question": trace.query, "answer": trace.answer}).value["statements"]
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

    questions = ask(QUESTIONS, {"answer": trace.answer}).value["questions"][:_QUESTIONS]
    own, *others = get_embedder(ask.settings.model("embedding")).embed([trace.query, *questions])
    value = mean([min(1.0, max(-1.0, float(own @ other))) for other in others])
    return Score("answer_relevancy_questions", value, explanation=quoted(questions, "questions"))


@judged(needs={"query", "answer", "reference"}, threshold=0.75, source=f"{_EJENTO}, 1.1; {_H2O}; RAGAS", version="2")
def answer_correctness_judge(trace: Trace, ask: Asker) -> Score | None:
    """0.75 · F1 over statements + 0.25 · cosine of answer and reference; F1 = TP / (TP + 0.5 (FP + FN)), by the
    judge."""
    from ragtrace.evaluate.models.embedding import get_embedder

    fields = {"question": trace.query, "answer": trace.answer, "reference": trace.reference or ""}
    statements = ask(CORRECTNESS, fields).value
    lists = [(text, name == "both") for name in ("both", "answer_only", "reference_only") for text in statements[name]]
    doubtful = contradictions(lists)
    both = [text for text in statements["both"] if key(text) not in doubtful]
    tp, fp, fn = len(both), len(statements["answer_only"]), len(statements["reference_only"])
    if not tp + fp + fn:
        return None
    a, b = get_embedder(ask.settings.model("embedding")).embed([trace.answer, trace.reference or ""])
    value = CLAIMS_WEIGHT * f1(tp, fp, fn) + SIMILARITY_WEIGHT * min(1.0, max(0.0, float(a @ b)))
    explanation = f"{tp} statements in both, {fp} in the answer only, {fn} in the reference only"
    return Score("answer_correctness_judge", value, explanation=marked(explanation, doubtful))


def _noise(trace: Trace, ask: Asker, kind: Callable[[set[int], set[int]], object]) -> Score | None:
    """The share of the claims that are wrong, and for which `kind` of the chunks that entail it and of the relevant
    chunks is true. Chunks count from 1."""
    fields = {
        "question": trace.query,
        "reference": trace.reference or "",
        "contexts": chunks(trace.documents),
        "answer": trace.answer,
    }
    reply = ask(NOISE, fields).value
    count = len(trace.documents)
    relevant = _among(reply["relevant_contexts"], count)
    doubtful = contradictions((c["claim"], c["correct"]) for c in reply["claims"])
    # Of a claim with both verdicts, the one that says that it is wrong counts.
    claims = [c for c in reply["claims"] if not (c["correct"] and key(c["claim"]) in doubtful)]
    wrong = [not c["correct"] and bool(kind(_among(c["contexts"], count), relevant)) for c in claims]
    return portion(wrong, marked(None, doubtful))


_NOISE_NEEDS = ("query", "documents", "answer", "reference")


@judged(needs=_NOISE_NEEDS, threshold=0.25, direction="lower", source=f"{_EJENTO}, 2.4", version="2")
def noise_sensitivity_judge(trace: Trace, ask: Asker) -> Score | None:
    """Incorrect claims / claims of the answer, by the judge."""
    return _noise(trace, ask, lambda entailing, relevant: True)


@judged(
    needs=_NOISE_NEEDS, threshold=0.25, direction="lower", source=f"{_RAG}, Relevant Noise Sensitivity", version="2"
)
def noise_sensitivity_relevant_judge(trace: Trace, ask: Asker) -> Score | None:
    """Incorrect claims that a relevant chunk entails / claims of the answer, by the judge."""
    return _noise(trace, ask, lambda entailing, relevant: entailing & relevant)


@judged(
    needs=_NOISE_NEEDS, threshold=0.25, direction="lower", source=f"{_RAG}, Irrelevant Noise Sensitivity", version="2"
)
def noise_sensitivity_irrelevant_judge(trace: Trace, ask: Asker) -> Score | None:
    """Incorrect claims that an irrelevant chunk entails / claims of the answer, by the judge."""
    return _noise(trace, ask, lambda entailing, relevant: entailing - relevant)


@judged(needs={"query", "documents"}, threshold=0.75, source=f"{_GUIDE}, Contextual Precision; {_H2O}; RAGAS")
def context_precision_judge(trace: Trace, ask: Asker) -> Score:
    """Average precision of the chunks' order: (1 / relevant chunks) Σₖ (relevant up to k / k) · rₖ, by the judge. 0
    where no chunk is relevant."""
    fields = {
        "question": trace.query,
        "reference": trace.reference or "(none)",
        "contexts": chunks(trace.documents),
    }
    hit = _among(ask(RELEVANT_CHUNKS, fields).value["relevant"], len(trace.documents))
    value = average_precision([k in hit for k in range(1, len(trace.documents) + 1)])
    return Score("context_precision_judge", value, explanation=_numbers("relevant chunks", hit))


@judged(needs={"query", "documents", "reference"}, threshold=0.75, source=f"{_EJENTO}, 2.3", version="2")
def context_precision_statements_judge(trace: Trace, ask: Asker) -> Score | None:
    """Retrieved statements that support the reference / retrieved statements, by the judge."""
    fields = {"question": trace.query, "reference": trace.reference or "", "context": chunks(trace.documents)}
    statements = ask(SUPPORTING, fields).value["statements"]
    return portion_of([(s["statement"], s["supporting"]) for s in statements])


@judged(
    needs={"documents", "reference"}, threshold=0.75, source=f"{_EJENTO}, 2.1; {_GUIDE}; {_H2O}; RAGAS", version="2"
)
def context_recall_judge(trace: Trace, ask: Asker) -> Score | None:
    """Claims of the reference that can be attributed to the context / claims of the reference, by the judge."""
    fields = {"reference": trace.reference or "", "context": chunks(trace.documents)}
    claims = ask(ATTRIBUTED, fields).value["claims"]
    return portion_of([(c["claim"], c["attributed"]) for c in claims], "missing")


@judged(needs={"documents", "reference"}, threshold=0.75, source=f"{_EJENTO}, 2.2", version="2")
def context_entities_recall_judge(trace: Trace, ask: Asker) -> Score | None:
    """Entities of the reference that the context names / entities of the reference, by the judge."""
    fields = {"reference": trace.reference or "", "context": chunks(trace.documents)}
    entities = ask(ENTITIES, fields).value["entities"]
    return portion_of([(e["entity"], e["found"]) for e in entities], "missing")


@judged(needs={"query", "documents"}, threshold=0.75, source=f"{_GUIDE}, Contextual Relevancy; {_H2O}; RAGAS")
def context_relevancy_judge(trace: Trace, ask: Asker) -> Score | None:
    """Context sentences that are relevant to the question / context sentences, by the judge. The first 200 sentences
    are looked at."""
    sentences = [d.content[s.start : s.end] for d in trace.documents for s in split(d.content, _SENTENCES)]
    sentences = sentences[:_SENTENCES]
    if not sentences:
        return None
    fields = {"question": trace.query, "sentences": numbered(sentences)}
    hit = _among(ask(RELEVANT_SENTENCES, fields).value["relevant"], len(sentences))
    explanation = f"{len(hit)} of {len(sentences)} sentences"
    return Score("context_relevancy_judge", len(hit) / len(sentences), explanation=explanation)


def _among(numbers: Sequence[int], count: int) -> set[int]:
    """The numbers from 1 to `count`; a judge that names others has named nothing there."""
    return {n for n in numbers if 1 <= n <= count}


def _numbers(what: str, hit: set[int]) -> str:
    return f"{what}: {', '.join(map(str, sorted(hit))) or 'none'}"
