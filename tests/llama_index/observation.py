"""What a tracing library makes of each LlamaIndex case: a column of the capture matrix.

usage: python -m tests.llama_index.observation ragtrace|openinference|traceloop|otel

Prints one JSON line per case: whether the traces, the question, the answer and the documents are there. Each library
runs in a process of its own, in an environment that has it.
"""

from __future__ import annotations

import gc
import importlib
import json
import logging
import os
import re
import sys
import time
import warnings
from collections.abc import Sequence
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

INSTRUMENTORS = {
    "ragtrace": ("ragtrace_llama_index", "RagtraceLlamaIndexInstrumentor", {"capture_content": True}),
    "openinference": ("openinference.instrumentation.llama_index", "LlamaIndexInstrumentor", {}),
    "traceloop": ("opentelemetry.instrumentation.llamaindex", "LlamaIndexInstrumentor", {}),
    "otel": ("opentelemetry.instrumentation.genai.llama_index", "LlamaIndexInstrumentor", {}),
}


def instrument(name: str) -> InMemorySpanExporter:
    """Set the library up; its spans go to the exporter. Raises ImportError where it is not installed."""
    os.environ.setdefault("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
    os.environ.setdefault("OTEL_SEMCONV_STABILITY_OPT_IN", "gen_ai_latest_experimental")
    os.environ.setdefault("TRACELOOP_TRACE_CONTENT", "true")
    module, kind, options = INSTRUMENTORS[name]
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    getattr(importlib.import_module(module), kind)().instrument(tracer_provider=provider, **options)
    return exporter


def plain(text: str | None) -> str:
    """The part of a text before the first character that may not be sent."""
    return re.split("[\0\ud800-\udfff]", text or "")[0]


def look(spans: Sequence[ReadableSpan], case: Any) -> dict[str, Any]:
    """What of a case is in its spans, in whatever dialect they speak."""
    ids = {span.context.span_id for span in spans}
    roots = [s for s in spans if s.parent is None and "mbedding" not in s.name]
    orphans = [s for s in spans if s.parent is not None and s.parent.span_id not in ids]
    at_root = [json.dumps(dict(s.attributes or {}), default=str, ensure_ascii=False) for s in roots]
    everywhere = [json.dumps(dict(s.attributes or {}), default=str) for s in spans]
    quoted = {i: (f'"{i}"', f'\\"{i}\\"') for i in case.documents}
    return {
        "case": case.name,
        "traces": len({s.context.trace_id for s in (*roots, *orphans)}),
        "expected": case.traces,
        "orphans": len(orphans),
        "question": bool(at_root) and all(plain(case.question) in told for told in at_root),
        "answer": bool(at_root) and all(plain(case.answer) in told for told in at_root),
        "documents": all(any(q in told for told in everywhere for q in quoted[i]) for i in case.documents),
        "spans": len(spans),
    }


def main(name: str) -> None:
    """Run every case under one library."""
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    exporter = instrument(name)
    from tests.llama_index.cases import CASES

    for case in CASES.values():
        exporter.clear()
        try:
            case.run()
            failed = None
        except Exception as error:  # noqa: BLE001 a library that breaks the application is a finding
            failed = repr(error)[:200]
        gc.collect()
        time.sleep(0.05)  # what ends on other threads
        print(json.dumps({**look(exporter.get_finished_spans(), case), "failed": failed}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
