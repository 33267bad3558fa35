"""One stored trace as its page, and the review's, show it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ragtrace.console.chatlogs.overview import ordered
from ragtrace.console.chatlogs.store_types import StoredTrace
from ragtrace.console.pages.evidence import Chunk, Text, answer_text, chunk_texts
from ragtrace.console.safe_text import clip, web_address
from ragtrace.evaluation import NOT_APPLICABLE
from ragtrace.records import Evidence, Score, Trace

_SPANS = 500
_DEPTH = 5
_EMPTY: tuple[object, ...] = (None, "", (), [], {})


@dataclass(frozen=True, slots=True)
class Bar:
    """A span of the waterfall."""

    name: str
    operation: str
    depth: int
    start: float
    """Of the whole, in thousandths."""
    width: float
    seconds: float
    model: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class EvaluatorScore:
    """An evaluator's newest score and those before it."""

    score: Score
    history: tuple[tuple[float, Score], ...]
    """Newest first; the one that is shown among them."""
    threshold: float | None
    direction: str

    @property
    def label(self) -> str:
        """The text of the chip."""
        return "error" if self.score.error else self.score.label or "none"


@dataclass(frozen=True, slots=True)
class Case:
    """All of a trace's page but for what people said of it."""

    stored: StoredTrace
    answer: Text
    chunks: tuple[Chunk, ...]
    evidence_by: str
    """The evaluator whose evidence is shown; empty where none has any."""
    evidence_choices: tuple[str, ...]
    scores: tuple[EvaluatorScore, ...]
    """Failed checks first, then by name."""
    bars: tuple[Bar, ...]
    facts: tuple[tuple[str, str], ...]
    more: tuple[tuple[str, str], ...]
    """Metadata of the application's own."""

    @property
    def trace(self) -> Trace:
        """The request."""
        return self.stored.trace


Limits = Mapping[tuple[str, str], tuple[float | None, str]]
"""Threshold and direction by (evaluator, version)."""


def blind_case(stored: StoredTrace) -> Case:
    """The view for somebody who is to judge it: nothing in it depends on what an evaluator said."""
    return case(replace(stored, evaluation=replace(stored.evaluation, scores=(), cause=None), history=()))


def case(stored: StoredTrace, evidence_by: str = "", limits: Limits | None = None) -> Case:
    """The view of a stored trace, with the evidence of the evaluator that is named, or else of the first that has
    any."""
    trace, scores = stored.trace, stored.evaluation.scores
    having = ordered([score.name for score in scores if score.evidence])
    evaluator = evidence_by if evidence_by in having else having[0] if having else ""
    evidence: Sequence[Evidence] = next((s.evidence for s in scores if s.name == evaluator), ())
    return Case(
        stored,
        answer_text(trace.answer, evidence, trace.documents),
        chunk_texts(trace.documents, evidence),
        evaluator,
        tuple(having),
        _evaluator_scores(stored, limits or {}),
        bars(trace),
        _facts(trace),
        tuple(
            (clip(k, 60), clip(v, 2_000)) for k, v in trace.attributes.items() if k != "constraints" and v not in _EMPTY
        ),
    )


def plain_text(text: str) -> Text:
    """A text without marks, folded where it is long."""
    return answer_text(text, (), ())


def _evaluator_scores(stored: StoredTrace, limits: Limits) -> tuple[EvaluatorScore, ...]:
    results = []
    for score in stored.evaluation.scores:
        history = tuple(pair for pair in reversed(stored.history) if pair[1].name == score.name)
        threshold, direction = limits.get((score.name, score.version), (None, ""))
        results.append(EvaluatorScore(score, history, threshold, direction))
    rank = {"fail": 0, "error": 1, "pass": 2, "none": 3, "refusal": 3, NOT_APPLICABLE: 4}
    place = {name: i for i, name in enumerate(ordered([result.score.name for result in results]))}
    return tuple(sorted(results, key=lambda result: (rank.get(result.label, 3), place[result.score.name])))


def _facts(trace: Trace) -> tuple[tuple[str, str], ...]:
    facts = trace.facts
    tokens = "/".join(f"{count:,}" for count in (facts.input_tokens, facts.output_tokens) if count is not None)
    first = facts.time_to_first_chunk
    rows = [
        ("duration", seconds(trace.duration)), ("first token", seconds(first) if first is not None else ""),
        ("tokens in/out", tokens), ("finish", facts.finish_reason), ("error", trace.error),
        ("tags", ", ".join(facts.tags)),
        ("sampled", f"1 in {1 / trace.sampling_probability:.3g}" if 0 < trace.sampling_probability < 1 else ""),
    ]  # fmt: skip
    return tuple((name, clip(value, 200)) for name, value in rows if value)


def seconds(value: float) -> str:
    """A duration for people."""
    if value < 0.0995:
        return f"{1000 * value:.1f} ms" if value < 0.00995 else f"{1000 * value:.0f} ms"
    if value < 9.95:
        return f"{value:.2f} s"
    return f"{value:.1f} s" if value < 99.5 else f"{value:,.0f} s"


def bars(trace: Trace) -> tuple[Bar, ...]:
    """The waterfall: the recorder's spans, or else the stages one after the other. What is no span is left out."""
    mappings = [(i, span) for i, span in enumerate(trace.facts.spans[:_SPANS]) if isinstance(span, Mapping)]
    if usable := [(i, span) for i, span in mappings if _number(span.get("duration")) is not None]:
        return _spans(usable)
    return _stages(trace.facts.stages, trace.duration)


def _number(value: Any) -> float | None:
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if good else None


def _spans(usable: list[tuple[int, Mapping[str, Any]]]) -> tuple[Bar, ...]:
    spans = dict(usable)
    starts = {i: _number(span.get("start")) or 0.0 for i, span in usable}
    lengths = {i: max(0.0, _number(span.get("duration")) or 0.0) for i, span in usable}
    origin, whole = min(starts.values()), max(starts[i] + lengths[i] for i in spans)
    scale = 1000.0 / max(whole - origin, 1e-9)
    parents = {i: p if type(p := span.get("parent")) is int else None for i, span in usable}
    return tuple(
        Bar(
            clip(spans[i].get("name") or "span", 120),
            clip(spans[i].get("operation") or "", 60),
            _depth(i, parents),
            (starts[i] - origin) * scale,
            max(2.0, lengths[i] * scale),
            lengths[i],
            clip(spans[i].get("model") or "", 80),
            _tokens(spans[i].get("input_tokens")),
            _tokens(spans[i].get("output_tokens")),
            clip(spans[i].get("error") or "", 80),
        )
        for i in _in_order(parents, starts)
    )


def _tokens(value: Any) -> int | None:
    return int(number) if (number := _number(value)) is not None and abs(number) < 1e12 else None


def _in_order(parents: Mapping[int, Any], starts: Mapping[int, float]) -> list[int]:
    """Parents before their children, siblings by time; a span whose parent is missing or in a circle is a root."""
    children: dict[Any, list[int]] = {}
    for i, parent in parents.items():
        children.setdefault(parent if parent in parents and parent != i else None, []).append(i)
    order: list[int] = []
    visited: set[int] = set()
    waiting = sorted(children.get(None, []), key=lambda i: starts[i], reverse=True)
    while waiting or len(order) < len(parents):
        at = waiting.pop() if waiting else next(i for i in parents if i not in visited)
        if at in visited:
            continue
        visited.add(at)
        order.append(at)
        waiting += sorted(children.get(at, []), key=lambda i: starts[i], reverse=True)
    return order


def _depth(at: int, parents: Mapping[int, Any]) -> int:
    depth = 0
    while depth < _DEPTH and (parent := parents[at]) in parents and parent != at:
        at, depth = parent, depth + 1
    return depth


def _stages(stages: Mapping[Any, Any], duration: float) -> tuple[Bar, ...]:
    timed = [(clip(name, 120), max(0.0, t)) for name, value in stages.items() if (t := _number(value)) is not None]
    whole = max(duration, sum(t for _, t in timed), 1e-9)
    bars_, at = [Bar("request", "", 0, 0.0, 1000.0 * duration / whole, duration)], 0.0
    for name, t in timed:
        bars_.append(Bar(name, "stage", 1, 1000.0 * at / whole, max(2.0, 1000.0 * t / whole), t))
        at += t
    return tuple(bars_) if timed else ()


def trace_link(pattern: str, trace_id: str) -> str | None:
    """The trace in its own backend, by a pattern with `{trace_id}`; None where that gives no web address."""
    return web_address(pattern.replace("{trace_id}", trace_id)) if "{trace_id}" in pattern else None
