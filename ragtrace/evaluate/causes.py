"""Why an answer is bad, in one word, from what the scores and the trace tell."""

from collections.abc import Sequence

from ragtrace.evaluate.refusals import declines
from ragtrace.records import Score, Trace
from ragtrace.text.claims import read

NO_CONTEXT = "answered_without_context"
_CUT_OFF = frozenset({"length", "max_tokens", "MAX_TOKENS", "max_output_tokens", "content_filter"})


def cause(trace: Trace, scores: Sequence[Score]) -> str | None:
    """The first that holds, in this order:

    `leak_by_model`, `leak_from_context` (as the leakage checks say) · `no_answer` (the answer says nothing) ·
    `truncated` (the model stopped at its limit) ·
    for refusals `right_refusal` (nothing fit to answer from) or `wrong_refusal` (there was) ·
    `answered_without_context` · `nothing_retrieved` (by a retrieval) ·
    for ungrounded answers `contradicts_context`, `irrelevant_context` (no chunk fits the question), `unsupported` ·
    `irrelevant_context` when the chunks' relevance alone tells (not of a grounded answer) · `none` when everything that
    was checked passed. None where nothing was checked, or where what failed tells no cause."""
    usable = {s.name: s for s in scores if s.error is None and s.label != "not_applicable"}
    if not usable:
        return None
    causes = {s.cause for s in usable.values() if s.cause}
    for first in ("leak_by_model", "leak_from_context", "no_answer"):
        if first in causes:
            return first
    if trace.facts.finish_reason in _CUT_OFF:
        return "truncated"
    relevance = usable.get("context_relevancy_recall")
    fits = relevance is not None and relevance.value is not None and relevance.label != "fail"
    if _declined(trace, usable):
        return "wrong_refusal" if fits else "right_refusal"
    if NO_CONTEXT in causes:
        return NO_CONTEXT
    if not trace.chunks and trace.query and trace.facts.retrievals:
        return "nothing_retrieved"
    if "contradicts_context" in causes:
        return "contradicts_context"
    is_grounded = any(name in usable and usable[name].label == "pass" for name in ("groundedness", "faithfulness"))
    if relevance is not None and not fits and not is_grounded:
        return "irrelevant_context"
    if "unsupported" in causes:
        return "unsupported"
    return None if any(s.label == "fail" for s in usable.values()) else "none"


def _declined(trace: Trace, usable: dict[str, Score]) -> bool:
    """Whether the answer is a refusal, as the evaluators found; by its statements alone where none of them ran, since
    this runs in the application's process and loads no neural network."""
    verdicts = {s.label for s in usable.values()}
    if "refusal" in usable or "refusal" in verdicts:
        return "refusal" in verdicts or usable["refusal"].label == "fail"
    return declines(read(trace.answer))
