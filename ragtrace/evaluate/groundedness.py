"""Checks by the embedded reader: what of an answer its context supports, and what contradicts it.

A refusal is neither grounded nor hallucinated: it has the label `refusal` and no value. An answer that claims nothing
(code, a courtesy, a question) and one in a language that the model does not know are `not_applicable`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ragtrace.base.lazy import Recent
from ragtrace.evaluate.causes import NO_CONTEXT
from ragtrace.evaluate.models.answer_reader import SUPPORTED
from ragtrace.evaluate.models.language_id import foreign_language, foreign_question
from ragtrace.evaluate.refusals import declines, read_answer
from ragtrace.evaluation import NOT_APPLICABLE, Direction, Evaluator, evaluator, label
from ragtrace.records import LONG_PROMPT, Evidence, Score, Trace
from ragtrace.settings import Settings
from ragtrace.text.claims import Statement, states_amount
from ragtrace.text.speech_acts import act_of
from ragtrace.text.words import asks_nothing, is_empty

if TYPE_CHECKING:
    from ragtrace.evaluate.models.answer_reader import AnswerSupport, StatementSupport

REFUSAL = "refusal"
_EARLIER = "; nothing was retrieved: compared with the chunks of the session's earlier turns"


@dataclass(frozen=True, slots=True)
class Checked:
    """An answer's claims with what the model says of each."""

    claims: tuple[tuple[Statement, StatementSupport], ...]
    support: AnswerSupport
    text: str
    complete: bool
    """Whether the answer was read to its end."""

    def supported(self) -> list[float]:
        """Per claim the probability that the context supports it."""
        return [j.supported for _, j in self.claims]

    def share(self) -> float:
        """Supported claims / claims."""
        return sum(p >= SUPPORTED for p in self.supported()) / len(self.claims)


_recent: Recent[Checked | str] = Recent(256)


def check(query: str, answer: str, chunks: Sequence[str]) -> Checked | str:
    """The claims of an answer compared with chunks, or the reason why none can be.

    Several evaluators need it for one trace: the last 256 results are remembered."""
    return _recent.get((query, answer, *chunks), lambda: _check(query, answer, chunks))


def _check(query: str, answer: str, chunks: Sequence[str]) -> Checked | str:
    from ragtrace.evaluate.models.answer_reader import Question, reader

    reading = read_answer(answer)
    if declines(reading):
        return REFUSAL
    if not reading.claims:
        return "the answer claims nothing"
    if not any(c.strip() for c in chunks):
        return "the chunks hold no text"
    for text, what in ((answer, "answer"), (" ".join(c[:500] for c in chunks[:4]), "context")):
        if (language := foreign_language(text)) is not None:
            return f"the model knows English; the {what} is in {language}"
    # The model reads the claims without courtesies and citation marks: they would change the verdict.
    support = reader().assess(Question(query, reading.text, [(s.start, s.end) for s in reading.claims], chunks))
    if support is None:
        return "the answer or the chunks hold no words"
    claims = tuple(zip(reading.claims, support.statements, strict=True))
    return Checked(claims, support, answer, reading.complete)


def check_reference(trace: Trace, chunks: Sequence[str]) -> Checked | str:
    """The same of the trace's reference, in the place of the answer."""
    result = check(trace.query, trace.reference or "", chunks)
    if not isinstance(result, str):
        return result
    return "the reference declines" if result == REFUSAL else result.replace("answer", "reference")


def _check_trace(trace: Trace) -> Checked | str:
    reading = read_answer(trace.answer)
    texts = [reading.text[claim.start : claim.end] for claim in reading.claims]
    if not _has_context(trace):
        # "I'll pass you on to a colleague" is no invention; an invented address is.
        texts = [text for text in texts if states_amount(text) or act_of(text) != "redirect"]
    if declines(reading):
        return REFUSAL
    if not texts:
        return "the answer claims nothing"
    if trace.documents:
        return check(trace.query, trace.answer, [d.content for d in trace.documents])
    if asks_nothing(trace.query) or is_empty(trace.answer):
        return "the answer claims nothing"
    language = foreign_language(trace.answer)
    return NO_CONTEXT if language is None else f"the model knows English; the answer is in {language}"


def _has_context(trace: Trace) -> bool:
    """Whether more is known than a short prompt that an answer could be made of."""
    return any(d.source != "prompt" or len(d.content) >= LONG_PROMPT for d in trace.documents)


def not_scored(name: str, reason: str) -> Score:
    """The score where `check` gives a reason: a refusal, or not applicable."""
    if reason == REFUSAL:
        return Score(name, label=REFUSAL, explanation="the answer declines; nothing is claimed")
    return Score(name, label=NOT_APPLICABLE, explanation=reason)


def _evidence(checked: Checked, trace: Trace) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(
            statement.start,
            statement.end,
            verdict(claim),
            claim.supported,
            trace.documents[claim.chunk].id if claim.chunk is not None else None,
            claim.chunk,
            claim.start,
            claim.end,
        )
        for statement, claim in checked.claims
    )


def verdict(claim: StatementSupport) -> str:
    """`supported`, `unsupported` or `contradicted`: supported from SUPPORTED on, else the likelier of the other two."""
    return "supported" if claim.supported >= SUPPORTED else _failure(claim)


def _failure(claim: StatementSupport) -> str:
    return "contradicted" if claim.contradicted > claim.unsupported else "unsupported"


def _cause(checked: Checked, trace: Trace) -> str:
    if not _has_context(trace):
        return NO_CONTEXT
    _, worst = min(checked.claims, key=lambda c: c[1].supported)
    return "contradicts_context" if _failure(worst) == "contradicted" else "unsupported"


def _explanation(checked: Checked) -> str:
    """Quotes the least supported claim and the words that are not supported."""
    statement, claim = min(checked.claims, key=lambda c: c[1].supported)
    sentence = checked.text[statement.start : statement.end]
    words = ", ".join(f"“{checked.text[a:b]}”" for a, b in claim.spans[:5])
    kind = "contradicted" if _failure(claim) == "contradicted" else "not supported"
    text = f"least supported: “{sentence}” (supported with probability {claim.supported:.2f}"
    text += f"; {kind}: {words})" if words else ")"
    if not checked.complete:
        text += f"; the first {checked.claims[-1][0].end} of {len(checked.text)} characters were judged"
    share = checked.support.share
    return text if share >= 1.0 else f"{text}; read with the nearest {share:.0%} of the context"


def _score(evaluator_: Evaluator, trace: Trace, value: Callable[[Checked], float]) -> Score:
    checked = _check_trace(trace)
    if checked == NO_CONTEXT:
        worst = 0.0 if evaluator_.direction == "higher" else 1.0
        text = "the answer makes claims, and no chunk, result of a tool or prompt is known that they could be made of"
        return Score(evaluator_.name, worst, None, text, NO_CONTEXT, failures=("retrieval",), method="model")
    if isinstance(checked, str):
        return not_scored(evaluator_.name, checked)
    number = min(1.0, max(0.0, value(checked)))
    return Score(
        evaluator_.name, value=number,
        explanation=_explanation(checked) + (_EARLIER if trace.facts.chunks_of_earlier_turns else ""),
        cause=_cause(checked, trace) if label(evaluator_, number) == "fail" else None,
        evidence=_evidence(checked, trace), method="model",
    )  # fmt: skip


def _model(
    threshold: float, source: str, direction: Direction = "higher", needs: tuple[str, ...] = ("context", "answer")
) -> Callable[[Callable[..., Any]], Evaluator]:
    return evaluator(needs=needs, threshold=threshold, direction=direction, method="model", version="19", source=source)


@_model(0.97, "Ejento evaluation metrics, 1.6; RAGAS faithfulness, by the embedded model")
def faithfulness(trace: Trace) -> Score:
    """Claims of the answer that the context supports / claims. A claim counts as supported where `groundedness` would
    pass it.

    The evidence has every claim with its verdict and the passage to read beside it; the explanation quotes the
    least supported one and its wrong words."""
    return _score(faithfulness, trace, Checked.share)


@_model(0.03, "RAG generator metrics, hallucination; by the embedded model", "lower")
def hallucination(trace: Trace) -> Score:
    """Claims of the answer that the context does not support / claims: 1 - faithfulness."""
    return _score(hallucination, trace, lambda c: 1 - c.share())


@_model(0.14, "H2O Eval Studio, Groundedness Evaluator; with an entailment model in place of cosines")
def groundedness(trace: Trace) -> Score:
    """Minimum over the answer's claims of the probability that the context supports it; names the least grounded one.

    `groundedness_cosine` is the form with sentence embeddings."""
    return _score(groundedness, trace, lambda c: min(c.supported()))


def by_model(needs: set[str], source: str, version: str = "1") -> Callable[[Callable[..., Any]], Evaluator]:
    """The decorator of evaluators that ask an embedded model and have the sources' threshold."""
    return evaluator(needs=needs, threshold=0.75, method="model", version=version, source=source)


@evaluator(needs={"query", "answer"}, threshold=0.15, method="model", version="5", source="Ejento, 1.3, by a model")
def answer_relevance(trace: Trace) -> Score:
    """Probability that the answer answers the question, be it right or wrong."""
    from ragtrace.evaluate.models.answer_reader import reader

    reading = read_answer(trace.answer)
    if declines(reading):
        return not_scored("answer_relevance", REFUSAL)
    if (language := foreign_language(trace.answer) or foreign_question(trace.query)) is not None:
        return not_scored("answer_relevance", f"question or answer is in {language}")
    value = reader().answers(trace.query, reading.text)
    return not_scored("answer_relevance", "no words") if value is None else Score("answer_relevance", value)


@_model(0.5, "H2O Eval Studio, Hallucination Evaluator; with the embedded model in place of HHEM")
def hallucination_cross_encoder(trace: Trace, *, settings: Settings) -> Score:
    """Calibrated probability that the whole answer is consistent with its context: one judgement over context and
    answer, not composed from claims.

    The setting `models.entailment` names another model for it: Vectara's HHEM, a CrossEncoder, a LettuceDetect token
    classifier, or a MiniCheck language model. A context that is too long for that one is read in windows, and the
    explanation says how much was read and what was not supported."""
    if settings.model("entailment"):
        return _by_named_model(trace, settings.model("entailment"))
    return _score(hallucination_cross_encoder, trace, lambda c: 1 - c.support.ungrounded)


def _by_named_model(trace: Trace, model: str) -> Score:
    from ragtrace.evaluate.models.external import consistency

    name = hallucination_cross_encoder.name
    reading = read_answer(trace.answer)
    if declines(reading):
        return not_scored(name, REFUSAL)
    if not reading.claims:
        return not_scored(name, "the answer claims nothing")
    documents = [d.content for d in trace.documents if d.content.strip()]
    if not documents:
        return not_scored(name, "the chunks hold no text")
    result = consistency(trace.query, documents, reading.text, model)
    parts = [f"by {model}"]
    if result.windows_in_all > 1:
        parts.append(
            f"the context was read in {result.windows_in_all} windows, of which the {result.window_rule} counts"
        )
    if result.windows < result.windows_in_all:
        parts.append(f"{result.windows} of them were judged: those that share most words with the answer")
    if result.parts_in_all > 1:
        parts.append(f"the answer was read in {result.parts_in_all} parts, of which the worst counts")
    if result.parts < result.parts_in_all:
        parts.append(f"the first {result.parts} of them were judged")
    if result.unsupported:
        parts.append("not supported: " + ", ".join(f"“{piece}”" for piece in result.unsupported[:5]))
    cause = "unsupported" if label(hallucination_cross_encoder, result.value) == "fail" else None
    return Score(name, value=result.value, explanation="; ".join(parts), cause=cause, method="model")


@_model(0.25, "RAG evaluation guide, Hallucination Check; by the embedded model", "lower", ("documents", "answer"))
def context_contradiction(trace: Trace) -> Score:
    """Chunks that the answer contradicts / chunks. A contradiction belongs to the chunk closest to its claim."""

    def share(checked: Checked) -> float:
        chunks = {c.chunk for _, c in checked.claims if verdict(c) == "contradicted" and c.chunk is not None}
        return len(chunks) / len(trace.documents)

    return _score(context_contradiction, trace, share)


@by_model(
    {"documents", "reference"}, "Ejento evaluation metrics, 2.1; RAGAS context recall, by the embedded model", "6"
)
def context_recall(trace: Trace) -> Score:
    """Claims of the reference answer that the retrieved context supports / claims."""
    checked = check_reference(trace, [d.content for d in trace.documents])
    if isinstance(checked, str):
        return not_scored("context_recall", checked)
    missing = [checked.text[s.start : s.end] for s, j in checked.claims if j.supported < SUPPORTED]
    explanation = f"not in the context: “{missing[0]}”" if missing else None
    return Score("context_recall", value=checked.share(), explanation=explanation)
