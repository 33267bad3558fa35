"""Checks by the likelihood of texts under a causal language model: perplexity and GPTScore.

GPTScore: Fu et al. 2023, Evaluate as You Desire. A value is the mean negative log-likelihood of the tokens that follow
an instruction, in nats: the lower, the better."""

import math
from collections.abc import Iterable
from typing import Any

from ragtrace.errors import EvaluationError, MissingExtraError, ModelError, SettingError
from ragtrace.evaluation import Evaluator, evaluator
from ragtrace.records import Score, Trace
from ragtrace.settings import Settings

_INFINITY = float("inf")
_H2O = "H2O Eval Studio"
_BY_MODEL: dict[str, Any] = {"direction": "lower", "range": (0.0, _INFINITY), "method": "model", "timeout": 120.0}


def _read(name: str, parts: Iterable[tuple[str, str]], settings: Settings, value_of: str = "nats") -> Score | None:
    """The score of (prefix, text) pairs: the mean of their cross-entropies; with `perplexity`, its exponential."""
    from ragtrace.evaluate.models.causal import get_causal, likelihood

    try:
        model = get_causal(settings.model("likelihood"))
    except (MissingExtraError, ModelError, SettingError) as error:
        raise EvaluationError("no_model", str(error)) from error
    likelihoods = [likelihood(model, text, prefix) for prefix, text in parts]
    if not all(f.logprobs for f in likelihoods):
        return None
    value = sum(f.cross_entropy for f in likelihoods) / len(likelihoods)
    explanation = f"{sum(len(f.logprobs) for f in likelihoods)} tokens under {model.name}"
    if cut := max(f.cut for f in likelihoods):
        explanation += f"; the last of them without the first {cut} tokens of the text"
    if unread := max(f.unread for f in likelihoods):
        explanation += f"; the last {unread} tokens of a long text were not read"
    if value_of == "perplexity":
        value = math.exp(min(value, 700.0))  # beyond it a double has no number
    return Score(name, value, explanation=explanation)


@evaluator(**_BY_MODEL, needs={"answer"}, version="3", source=f"{_H2O}, Perplexity Evaluator")
def perplexity(trace: Trace, *, settings: Settings) -> Score | None:
    """Exponential of the mean cross-entropy of the answer's tokens, in a sliding window; at least 1.

    No verdict: the source's threshold of 0.5 can be met by no text, and one that fits depends on the model."""
    return _read("perplexity", [("", trace.answer)], settings, "perplexity")


_QA = {
    "interest": "Are the responses of AI interesting?", "engagement": "Are the responses of AI engaging?",
    "understandability": "Are the responses of AI understandable?",
    "relevance": "Are the responses of AI relevant to the conversation?",
    "specific": "Are the responses of AI generic or specific to the conversation?",
    "correctness": "Are the responses of AI correct to conversations?",
    "semantically_appropriate": "Are the responses of AI semantically appropriate?",
    "fluency": "Are the responses of AI fluently written?",
}  # fmt: skip
_TRANSLATION = {
    "accuracy": "Rewrite the following text with its core information and consistent facts:",
    "fluency": "Rewrite the following text to make it more grammatical and well-written:",
    "mqm": "Rewrite the following text into high-quality text with its core information:",
}
_SUMMARY_REF = {
    "semantic_coverage": "Rewrite the following text with the same semantics.",
    "factuality": "Rewrite the following text with consistent facts.",
    "informativeness": "Rewrite the following text with its core information.",
    "coherence": "Rewrite the following text into a coherent text.",
    "relevance": "Rewrite the following text with consistent details.",
    "fluency": "Rewrite the following text into a fluent and grammatical text.",
}  # fmt: skip
_SUMMARY = {
    "semantic_coverage": "Generate a summary with as much semantic coverage as possible for the following text:",
    "factuality": "Generate a summary with consistent facts for the following text:",
    "consistency": "Generate a factually consistent summary for the following text:",
    "informativeness": "Generate an informative summary that captures the key points of the following text:",
    "coherence": "Generate a coherent summary for the following text:",
    "relevance": "Generate a relevant summary with consistent details for the following text:",
    "fluency": "Generate a fluent and grammatical summary for the following text:",
}


def qa_parts(question: str, trace: Trace) -> list[tuple[str, str]]:
    """What comes before `Answer: Yes`, and that."""
    history = f"Human: {trace.query}\nAI: {trace.answer}"
    prefix = (
        "Answer the question based on the conversation between a human and AI.\n"
        f"Question: {question} (a) Yes. (b) No.\nConversation: {history}\n"
    )
    return [(prefix, "Answer: Yes")]


def rewriting_parts(instruction: str, trace: Trace) -> list[tuple[str, str]]:
    """The reference as a rewording of the answer, and the answer as one of the reference."""
    reference = trace.reference or ""
    return [
        (f"{instruction} {one} In other words,", f" {other}")
        for one, other in ((reference, trace.answer), (trace.answer, reference))
    ]


def summary_parts(instruction: str, trace: Trace) -> list[tuple[str, str]]:
    """The answer as the summary of the query."""
    return [(f"{instruction} {trace.query}\nTl;dr\n", trace.answer)]


_FAMILIES = {
    "gptscore_qa": (_QA, qa_parts, {"query", "answer"}, "Question Answering"),
    "gptscore_translation": (_TRANSLATION, rewriting_parts, {"answer", "reference"}, "Machine Translation"),
    "gptscore_summary_ref": (_SUMMARY_REF, rewriting_parts, {"answer", "reference"}, "Summarization with reference"),
    "gptscore_summary": (_SUMMARY, summary_parts, {"query", "answer"}, "Summarization without reference"),
}


def _gptscore(family: str, aspect: str) -> Evaluator:
    instructions, parts, needs, task = _FAMILIES[family]
    name, instruction = f"{family}_{aspect}", instructions[aspect]

    def check(trace: Trace, *, settings: Settings) -> Score | None:
        return _read(name, parts(instruction, trace), settings)

    tokens = {
        qa_parts: "`Answer: Yes`",
        rewriting_parts: "one text given the other, both ways averaged",
        summary_parts: "the answer after `Tl;dr`",
    }[parts]
    check.__doc__ = f"Mean negative log-likelihood, in nats, of {tokens}, under the instruction “{instruction}”"
    source = f"{_H2O}, {task} (GPTScore) Evaluator"
    return evaluator(**_BY_MODEL, name=name, version="2", needs=needs, threshold=_INFINITY, source=source)(check)


GPTSCORES = {
    f"{family}_{aspect}": _gptscore(family, aspect)
    for family, (instructions, _, _, _) in _FAMILIES.items()
    for aspect in instructions
}


def __getattr__(name: str) -> Evaluator:
    if name in GPTSCORES:
        return GPTSCORES[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
