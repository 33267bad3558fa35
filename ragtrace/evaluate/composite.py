"""Checks that are made of other checks: the harmonic mean of RAGAS, SummaC's, completeness, nearness of statements."""

from collections.abc import Sequence
from dataclasses import replace

from ragtrace import plugins
from ragtrace.evaluate.arithmetic import harmonic_mean, share
from ragtrace.evaluate.groundedness import by_model, check, not_scored
from ragtrace.evaluate.models.answer_reader import SUPPORTED
from ragtrace.evaluate.similarity import cosine_of, embed_groups, prose_or_first
from ragtrace.evaluation import NOT_APPLICABLE, evaluator, run
from ragtrace.records import Score, Trace
from ragtrace.settings import Settings

_H2O = "H2O Eval Studio"
_SENTENCES = 60
_RELEVANT = 0.5
"""Cosine from which a sentence counts as relevant to the question, as in `context_precision`."""
_PARTS = ("faithfulness", "answer_relevance", "context_precision", "context_recall")
_JUDGED = (
    "faithfulness_judge", "answer_relevancy_questions", "context_precision_judge", "context_recall_judge",
)  # fmt: skip


def _sentences(text: str, limit: int = _SENTENCES) -> list[str]:
    return [text[s.start : s.end] for s in prose_or_first(text, limit)]


@by_model({"answer", "reference"}, f"Ejento evaluation metrics, 1.2; {_H2O}, Answer Semantic Similarity Evaluator")
def answer_similarity(trace: Trace, *, settings: Settings) -> float | Score:
    """Cosine of the embeddings of answer and reference; below 0 counts as 0. With the setting `models.similarity` the
    score of the CrossEncoder that it names."""
    from ragtrace.evaluate.models.external import similarity

    if model := settings.model("similarity"):
        (value,) = similarity([(trace.answer, trace.reference or "")], model)
        return Score("answer_similarity", value=value, explanation=f"by {model}")
    return cosine_of(trace.answer, trace.reference or "", settings)


@evaluator(
    needs={"query", "documents"},
    version="2",
    method="model",
    source=f"RAG evaluation guide, Contextual Relevancy; {_H2O}, Context Relevancy Evaluator; by embeddings",
)
def context_relevancy(trace: Trace, *, settings: Settings) -> Score | None:
    """Context sentences that are relevant to the question / context sentences. A sentence is relevant if its cosine
    with the question is at least 0.5. The first 60 sentences of a chunk are looked at, 240 in all.

    No verdict: good contexts of several chunks have values down to 0, so every threshold fails too many of them."""
    sentences = [s for d in trace.documents for s in _sentences(d.content)][:240]
    if not sentences:
        return None
    (own,), others = embed_groups([[trace.query], sentences], settings)
    near = [float(own @ other) >= _RELEVANT for other in others]
    return Score("context_relevancy", share(near), explanation=f"{sum(near)} of {len(near)} sentences")


@by_model({"query", "documents", "reference"}, "Ejento evaluation metrics, 2.3; by the embedded model")
def context_precision_statements(trace: Trace) -> Score | None:
    """Retrieved statements that support the reference / retrieved statements. A sentence of the context supports the
    reference if it supports one of its claims on its own. The first 60 sentences are looked at."""
    sentences = [s for d in trace.documents for s in _sentences(d.content)][:_SENTENCES]
    if not sentences:
        return None
    results = [check(trace.query, trace.reference or "", [s]) for s in sentences]
    why = next((f for f in results if isinstance(f, str)), None)
    if why is not None:
        return Score("context_precision_statements", label=NOT_APPLICABLE, explanation=why)
    useful = [not isinstance(f, str) and max(f.supported()) >= SUPPORTED for f in results]
    explanation = f"{sum(useful)} of {len(useful)} sentences support the reference"
    return Score("context_precision_statements", share(useful), explanation=explanation)


def support_by_sentence(source: str, summary: str) -> list[list[float]] | str:
    """Per claim of the summary the probabilities that each single sentence of the source supports it; or why there is
    nothing to judge."""
    rows: list[list[float]] = []
    for sentence in _sentences(source):
        result = check("", summary, [sentence])
        if isinstance(result, str):
            return result
        rows.append(result.supported())
    return [list(column) for column in zip(*rows, strict=True)] if rows else "no source"


@by_model({"query", "answer"}, f"{_H2O}, Summarization (SummaC-ZS); Laban et al. 2022; by the embedded model", "5")
def summary_faithfulness_zs(trace: Trace) -> Score:
    """Mean over the summary's claims of the highest probability that a single sentence of the source supports them; the
    source is the query. The first 60 sentences of the source are looked at."""
    columns = support_by_sentence(trace.query, trace.answer)
    if isinstance(columns, str):
        return not_scored("summary_faithfulness_zs", columns)
    value = sum(max(column) for column in columns) / len(columns)
    return Score("summary_faithfulness_zs", value, explanation=f"{len(columns)} claims")


@by_model({"query", "answer"}, f"{_H2O}, Summarization (SummaC-Conv); Laban et al. 2022; by the embedded model", "5")
def summary_faithfulness_conv(trace: Trace) -> Score:
    """Mean over the summary's claims of a learned reading of the histogram of their support by each single sentence of
    the source, which is the query; in [0, 1]. The first 60 sentences of the source are looked at."""
    from ragtrace.evaluate.models.summac import consistency

    columns = support_by_sentence(trace.query, trace.answer)
    if isinstance(columns, str):
        return not_scored("summary_faithfulness_conv", columns)
    values = [consistency(column) for column in columns]
    return Score("summary_faithfulness_conv", sum(values) / len(values), explanation=f"{len(values)} claims")


@by_model(
    {"query", "answer"}, f"{_H2O}, Summarization (Completeness and Faithfulness) Evaluator; by the embedded models", "6"
)
def summary_completeness(trace: Trace, *, settings: Settings) -> Score:
    """Cosine of the source, which is the query, and the faithful part of the summary: its sentences that the source
    supports. 0 without such a part. The source is the mean of its sentences' embeddings, the first 240 of them."""
    result = check("", trace.answer, [trace.query])
    if isinstance(result, str):
        return Score("summary_completeness", label=NOT_APPLICABLE, explanation=result)
    from ragtrace.evaluate.models.embedding import unit_rows

    faithful = [result.text[s.start : s.end] for s, j in result.claims if j.supported >= SUPPORTED]
    explanation = f"{len(faithful)} of {len(result.claims)} statements are faithful"
    if not faithful:
        return Score("summary_completeness", 0.0, explanation=explanation)
    groups = embed_groups([_sentences(trace.query, 240), faithful], settings)
    source, summary = (unit_rows(vectors.mean(0, keepdims=True))[0] for vectors in groups)
    return Score("summary_completeness", min(1.0, max(0.0, float(source @ summary))), explanation=explanation)


@by_model({"query", "documents", "answer", "reference"}, f"{_H2O}, RAGAS Evaluator; of the local forms", "6")
def ragas(trace: Trace, *, settings: Settings) -> Score:
    """Harmonic mean of `faithfulness`, `answer_relevance`, `context_precision` and `context_recall`, if all apply."""
    return _harmonic("ragas", _PARTS, trace, settings)


@evaluator(
    needs={"query", "documents", "answer", "reference"},
    threshold=0.75,
    method="judge",
    asks_judge=True,
    timeout=180.0,
    source=f"{_H2O}, RAGAS Evaluator",
)
def ragas_judge(trace: Trace, *, settings: Settings) -> Score:
    """Harmonic mean of `faithfulness_judge`, `answer_relevancy_questions`, `context_precision_judge` and
    `context_recall_judge`. Does not apply where one of them does not; a negative cosine counts as 0."""
    return _harmonic("ragas_judge", _JUDGED, trace, settings)


def _harmonic(name: str, parts: Sequence[str], trace: Trace, settings: Settings) -> Score:
    scores = [run(plugins.load(part, settings), [trace])[0][0] for part in parts]
    failed = next((s for s in scores if s.error is not None), None)
    absent = next((s for s in scores if s.value is None), None)
    if failed is not None:
        score = Score(name, error=failed.error, explanation=f"{failed.name}: {failed.explanation}")
    elif absent is not None:
        score = Score(name, label=NOT_APPLICABLE, explanation=f"{absent.name}: {absent.label}")
    else:
        values = [max(0.0, s.value or 0.0) for s in scores]
        explanation = ", ".join(f"{s.name} {v:.3f}" for s, v in zip(scores, values, strict=True))
        score = Score(name, harmonic_mean(values), explanation=explanation)
    return replace(
        score, model=next((s.model for s in scores if s.model), None),
        input_tokens=sum(s.input_tokens for s in scores), output_tokens=sum(s.output_tokens for s in scores),
        cost=sum(s.cost for s in scores),
    )  # fmt: skip
