"""What any tracing library makes of a case, told from its spans alone and in no library's own terms."""

import gc
import importlib
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

from tests.row_files import table
from tests.spans.record import SWITCHES

INSTRUMENTORS: dict[str, dict[str, str]] = table(__file__, "instrumentors")
KINDS = ("openinference.span.kind", "gen_ai.operation.name", "langfuse.observation.type", "traceloop.span.kind")
INDEXING = re.compile(r"embed|transform|splitter|node_?pars|ingest", re.IGNORECASE)
RETRIEVAL = re.compile(r"retriev|\bFixed\b", re.IGNORECASE)
WHO = {"session": "conversation-1", "user": "user-ada", "tags": "tag-beta"}
PLAIN = re.compile("[\0\ud800-\udfff]")
"""What no protocol carries: a text is looked for as far as the first of these."""
AMBIENT = "GET /ask"


class Counted(SpanProcessor):
    """Keeps every ended span and counts those which began."""

    def __init__(self) -> None:
        self.begun = 0
        self.ended: list[Any] = []

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        self.begun += 1

    def on_end(self, span: Any) -> None:
        self.ended.append(span)

    def settle(self) -> None:
        """Some libraries end spans on a thread of theirs, or when an abandoned stream is collected."""
        limit = time.monotonic() + 1
        gc.collect()
        while len(self.ended) < self.begun and time.monotonic() < limit:
            time.sleep(0.01)


def load(framework: str, library: str) -> Any:
    """The library's instrumentor class, or its handler's; raises ImportError where it is not installed."""
    os.environ.update(SWITCHES)  # what cannot be seen cannot be judged
    module, _, name = INSTRUMENTORS[framework][library].partition(":")
    return getattr(importlib.import_module(module), name)


def traced(framework: str, library: str) -> tuple[Any, Counted, dict[str, Any]]:
    """A provider that the library traces to, what it gathers, and the configuration that calls have to be given."""
    made = load(framework, library)
    provider, counted = TracerProvider(shutdown_on_exit=False), Counted()
    provider.add_span_processor(counted)
    trace.set_tracer_provider(provider)
    if library == "langfuse":
        from langfuse import Langfuse  # type: ignore[import-not-found,unused-ignore]

        # Port 9 discards: its own exporter must reach nobody.
        Langfuse(public_key="pk", secret_key="sk", host="http://127.0.0.1:9", tracer_provider=provider)
        return provider, counted, {"callbacks": [made()]}
    options = {}
    if library == "ragtrace":
        from ragtrace.capture.content import ContentPolicy

        options["capture"] = ContentPolicy(spans=True, openinference=True)  # tags are among OpenInference's attributes
    made().instrument(tracer_provider=provider, **options)
    return provider, counted, {}


def watch(run: Callable[[dict[str, Any]], object], framework: str, library: str, ambient: bool) -> Counted:
    provider, counted, config = traced(framework, library)
    if ambient:
        with provider.get_tracer("web").start_as_current_span(AMBIENT):
            run(config)
    else:
        run(config)
    counted.settle()
    return counted


def faults(case: Any, passages: Mapping[str, str], counted: Counted) -> list[str]:
    """Where spans fall short of what a case expects, in words; empty if nowhere. `passages`: text by document id."""
    spans = _of_requests(counted.ended)
    if not spans:
        return ["nothing"]
    traces = {s.context.trace_id for s in spans}
    ids = {s.context.span_id for s in spans}
    roots = [s for s in spans if s.parent is None]
    found: list[str] = []
    if len(traces) != case.traces:
        found.append(f"{len(traces)} {'trace' if len(traces) == 1 else 'traces'} for {case.traces}")
    elif len(roots) > case.traces:
        found.append(f"{len(roots)} roots for {case.traces}")
    orphans = sum(s.parent is not None and s.parent.span_id not in ids for s in spans)
    found += [f"{orphans} without parent"] if orphans else []
    unended = counted.begun - len(counted.ended)
    found += [f"{unended} never ended"] if unended else []
    return found + _texts(case, passages, spans, roots) + _outcome(case, spans)


def _of_requests(spans: Sequence[Any]) -> list[Any]:
    """Without the traces of building an index, which belongs to no request."""
    building = {s.context.trace_id for s in spans} - {s.context.trace_id for s in spans if not INDEXING.search(s.name)}
    return [s for s in spans if s.context.trace_id not in building]


def _texts(case: Any, passages: Mapping[str, str], spans: Sequence[Any], roots: Sequence[Any]) -> list[str]:
    found = []
    above = {root.context.span_id for root in roots}
    tops = [s for s in roots if s.name != AMBIENT] or [s for s in spans if s.parent and s.parent.span_id in above]
    for what, text in (("question", case.question), ("answer", None if case.cancelled or case.error else case.answer)):
        if text and not all(PLAIN.split(text)[0] in _content(s) for s in tops):
            found.append(f"no {what} on root")
    retrievals = [s for s in spans if RETRIEVAL.search(" ".join([s.name, *(_kind(s))]))]
    if passages and not case.error:
        seen = "".join(_content(s) for s in retrievals)
        count = sum(text in seen or f'"{identity}"' in seen for identity, text in passages.items())
        if count < len(passages):
            found.append(f"{count} of {len(passages)} documents" if retrievals else "no retrieval")
    return found


def _outcome(case: Any, spans: Sequence[Any]) -> list[str]:
    failed = [s for s in spans if s.status.status_code.name == "ERROR"]
    if case.error:
        return [] if failed else ["error not seen"]
    found = ["cancelled is an error" if case.cancelled else "an error without one"] if failed else []
    if getattr(case, "who", False):
        for what, mark in WHO.items():
            having = sum(mark in _content(s) for s in spans)
            found += [f"{what} on {having} of {len(spans)} spans"] if having < len(spans) else []
    return found


def _kind(span: Any) -> list[str]:
    return [str((span.attributes or {}).get(name, "")) for name in KINDS]


def _content(span: Any) -> str:
    return "\n".join(str(value) for value in (span.attributes or {}).values())
