"""Durations and token counts of a request, collected as its spans end."""

import re
from collections.abc import Iterator, Mapping, Sequence

from ragtrace import semconv
from ragtrace.base.model_prices import ModelUsage, usage_of
from ragtrace.capture.request import Request, Run
from ragtrace.text.sanitizer import Sanitizer

STAGES = {
    semconv.OP_RETRIEVAL: "retrieval", semconv.OP_RERANK: "rerank", semconv.OP_EMBEDDINGS: "embeddings",
    semconv.OP_CHAT: "generation", semconv.OP_TEXT: "generation", semconv.OP_TOOL: "tool",
}  # fmt: skip
"""Stage by operation. A workflow has no stage: it is the whole request."""
NO_DURATION = object()
"""State of a run that was noted by hand when it was over: nobody knows how long it took."""
_SPAN_FACTS = {
    "model": semconv.REQUEST_MODEL, "input_tokens": semconv.INPUT_TOKENS, "output_tokens": semconv.OUTPUT_TOKENS,
}  # fmt: skip
_TOKENS = (semconv.INPUT_TOKENS, semconv.OUTPUT_TOKENS, semconv.CACHE_READ_TOKENS, semconv.CACHE_WRITE_TOKENS)
MAX_NAME = 1_000
"""Characters of a name: a model, an application, a prompt version."""
_MAX_SPANS = 10_000
"""Spans of a request whose durations are kept: a request that embeds a whole library must not fill the memory."""
_MAX_LISTED = 200
"""Spans of a request that its trace lists."""
_PREFIX = re.compile(r"(?:models|openai|anthropic|google|mistralai|deepseek)/|arn:.*/")
"""What Gemini, gateways such as OpenRouter, and Bedrock put before a model's name."""


def record(request: Request, run: Run, finished: int) -> None:
    """Record the duration of a span that ends at `finished` (Unix nanoseconds). Lists: several threads append."""
    if len(request.finished) < _MAX_LISTED:
        request.finished.append((run, finished))
    stage = STAGES.get(run.operation)
    if run.state is NO_DURATION or stage is None:
        return
    # Not below a span of the same stage, e.g. a retriever of an ensemble: that span counts these seconds already.
    is_inner = any(STAGES.get(above.operation) == stage for above in run.above())
    if len(request.stage_times) < _MAX_SPANS and not is_inner:
        request.stage_times.append((stage, max(0, finished - run.started)))


def spans(root: Run, finished: Sequence[tuple[Run, int]]) -> tuple[dict[str, object], ...]:
    """The request's spans in the order of their starts, for a waterfall: `name`, `operation`, `start` (seconds after
    the request's), `duration` (seconds), `parent` (index of the nearest listed span above, or None), and where known
    `model`, `input_tokens`, `output_tokens`, `error`."""
    ordered = sorted(finished, key=lambda each: (each[0].started, each[0] is not root))
    places = {id(run): place for place, (run, _) in enumerate(ordered)}
    return tuple(_span(root, run, end, places) for run, end in ordered)


def _span(root: Run, run: Run, end: int, places: Mapping[int, int]) -> dict[str, object]:
    parent = next((places[id(above)] for above in run.above() if id(above) in places), None)
    span: dict[str, object] = {
        "name": run.name, "operation": run.operation, "start": max(0, run.started - root.started) / 1e9,
        "duration": max(0, end - run.started) / 1e9, "parent": parent,
    }  # fmt: skip
    for key, name in _SPAN_FACTS.items():
        if name in run.attributes:
            span[key] = run.attributes[name]
    if run.failure is not None:
        span["error"] = run.failure
    return span


def seconds_by_stage(stage_times: Sequence[tuple[str, int]]) -> dict[str, float]:
    """Seconds by stage, summed over the request's spans."""
    stages: dict[str, float] = {}
    for stage, nanoseconds in tuple(stage_times):
        stages[stage] = stages.get(stage, 0.0) + nanoseconds / 1e9
    return stages


def usage_by_model(calls: Sequence[Run], sanitizer: Sanitizer) -> dict[str, ModelUsage]:
    """The usage by the models' names as they leave the process, of the innermost calls that have counts."""
    usage: dict[str, ModelUsage] = {}
    counted = [(call, counts) for call in calls if any(counts := [_count(call, name) for name in _TOKENS])]
    above = {id(call.parent) for call, _ in counted}
    for call, counts in counted:
        if id(call) not in above:
            names = [call.attributes.get(name) for name in (semconv.REQUEST_MODEL, semconv.RESPONSE_MODEL)]
            model = sanitizer.text(names[0] or "", MAX_NAME)
            of_call = usage_of(_listed_names(call, names), *counts)
            if not counts[0]:  # unknown, and not free
                of_call = of_call._replace(cost=None)
            usage[model] = usage[model].plus(of_call) if model in usage else of_call
    return usage


def _listed_names(call: Run, names: Sequence[object]) -> Iterator[object]:
    """The names of a call's model, and those that litellm's list may have for it: behind its provider, or alone."""
    yield from names
    texts, provider = [name for name in names if isinstance(name, str)], str(call.attributes.get(semconv.PROVIDER))
    for of_provider in (provider, provider.removesuffix("_ai"), f"{provider}_ai"):
        yield from (f"{of_provider}/{text}" for text in texts)
    yield from (_PREFIX.sub("", text).lower() for text in texts)


def _count(call: Run, name: str) -> int:
    value = call.attributes.get(name)
    return value if isinstance(value, int) and value > 0 else 0
