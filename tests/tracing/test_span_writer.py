"""Attributes arrive on a span as the SDK itself would set them."""

import io
import json
import threading
from collections import Counter
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

from ragtrace import semconv
from ragtrace.capture.content import ContentPolicy, quoted
from ragtrace.capture.recorder import Recorder
from ragtrace.capture.span_writer import attributes_of, defer_attributes
from ragtrace.settings import load
from ragtrace.text.sanitizer import Sanitizer
from ragtrace_langchain import RagtraceCallbackHandler
from tests.conftest import Recorded
from tests.langchain.test_handler import make_chain
from tests.llama_index.cases import engine
from tests.llama_index.conftest import traced

PLAIN = {"text": "a", "count": 1, "share": 0.5, "on": True, "names": ("a", "b"), "none": ()}


@pytest.mark.parametrize(
    ("limits", "attributes"),
    [
        (None, PLAIN),
        (None, {**PLAIN, "list": ["a", "b"], "odd": object(), "mixed": ("a", 1), "bytes": b"x"}),
        (SpanLimits(max_attribute_length=3), {**PLAIN, "long": "abcdef"}),
        (SpanLimits(max_attributes=4), PLAIN),
        (SpanLimits(max_attributes=0), PLAIN),
    ],
    ids=["plain", "odd values", "length", "number", "none at all"],
)
def test_a_span_has_what_the_sdk_would_give_it(limits: SpanLimits | None, attributes: dict[str, Any]) -> None:
    """Values of any kind, keys that are set again and limits: the same attributes and the same dropped count."""
    tracer = TracerProvider(shutdown_on_exit=False, span_limits=limits).get_tracer("test")
    spans: list[Any] = [tracer.start_span("a", attributes={"text": "before"}) for _ in range(2)]
    ours, theirs = spans
    defer_attributes(ours, lambda: attributes)
    assert dict(attributes_of(ours)) == dict(theirs.attributes)
    theirs.set_attributes(attributes)
    assert (dict(ours.attributes), ours.dropped_attributes) == (dict(theirs.attributes), theirs.dropped_attributes)


def test_redaction_is_no_work_of_the_request() -> None:
    """Texts are redacted in the thread that exports, once for each text, and no processor sees them before."""
    threads: list[str] = []

    def redact(text: str) -> str:
        threads.append(threading.current_thread().name)
        return text.replace("Ada", "[name]")

    out, provider = io.StringIO(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(ConsoleSpanExporter(out=out)))
    recorder = Recorder(provider, capture=ContentPolicy(spans=True, sanitizer=Sanitizer(redact)))
    run = recorder.start("root", None, semconv.OP_WORKFLOW, "chain")
    assert run is not None
    run.query, run.answer, threads[:] = "I am Ada.", "Hello Ada.", []
    recorder.end("root", error=ValueError("Ada"))
    here = threading.current_thread().name
    assert threads == [here] * 3, "of an exception: status, message, stack"
    flush = threading.Thread(target=provider.force_flush)  # the SDK exports in the thread that flushes
    flush.start()
    flush.join()
    assert "Ada" not in out.getvalue()
    assert out.getvalue().count("[name]") >= 4
    assert threads[3:]
    assert here not in threads[3:]


ORDINARY = "The pump is covered for 24 months. “Really?” Yes, and in Köln it is, too. "


@given(st.text(), st.lists(st.sampled_from(['"', "\\", "\n", "\r", "\t", "\0", "\x1f", "\b", "\x7f", "”", "\ud800"])))
@example("", ['"', "\\", "\n", '\\"'])
def test_a_text_as_a_json_string(text: str, special: list[str]) -> None:
    for whole in (text, "".join(special), ORDINARY * 20 + text + "".join(special), (text + "".join(special)) * 40):
        assert quoted(whole) == json.dumps(whole, ensure_ascii=False)


OTHERS = tuple(value for name, value in vars(semconv).items() if name.startswith("OI_") and isinstance(value, str))


def ask_langchain(recorded: Recorded) -> None:
    make_chain().invoke("How long?", {"callbacks": [RagtraceCallbackHandler(recorded.provider, True)]})


def ask_llama_index(recorded: Recorded) -> None:
    with traced(recorded, capture_content=True):
        engine().query("How long?")


@pytest.mark.parametrize("ask", [ask_langchain, ask_llama_index])
def test_one_dialect_and_each_text_once(ask: Any, recorded: Recorded) -> None:
    """A chunk stands on its retrieval and in the prompt; no name is OpenInference's."""
    ask(recorded)
    places: Counter[str] = Counter()
    for span in recorded.spans:
        for key, value in (span.attributes or {}).items():
            assert not key.startswith(OTHERS), key
            places[key] += str(value).count("assage 1")
    assert +places == Counter({semconv.RETRIEVAL_DOCUMENTS: 1, semconv.INPUT_MESSAGES: 1})


def test_phoenix_asks_for_openinference() -> None:
    """Phoenix reads OpenInference's names alone, so its address asks for them."""
    assert not load({}, {}).openinference
    assert load({"phoenix_url": "http://localhost:6006"}, {}).openinference


@pytest.mark.parametrize(
    ("wish", "names"), [("", {"workflow"}), ("gen_ai", {"agent"}), ("gen_ai/dup", {"workflow", "agent"})]
)
def test_names_by_release(wish: str, names: set[str], recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    """v0.1.0 of the conventions calls a workflow's name an agent's."""
    monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", f"http,{wish}")
    ask_langchain(recorded)
    root = next(dict(span.attributes or {}) for span in recorded.spans if span.parent is None)
    assert {key.split(".")[1] for key, value in root.items() if value == "rag"} == names
