"""What the tests share."""

import logging
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import pytest
from opentelemetry import trace as otel
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ragtrace.capture import manual
from ragtrace.capture.content import ContentPolicy
from ragtrace.capture.recorder import Recorder
from ragtrace.records import Trace
from ragtrace.sampling import Decision
from tests.databases import migrated_file, postgresql, shared_store, store, store_url  # noqa: F401 fixtures for stores
from tests.kinds import (  # noqa: F401 hooks
    pytest_addoption,
    pytest_collection_finish,
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_ignore_collect,
    pytest_itemcollected,
)
from tests.redis_server import redis_server  # noqa: F401 a fixture

# A shell starts what it runs in the background with SIGINT ignored, and so are then all processes that tests start: a
# Ctrl-C that a test sends them would do nothing.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # before its import: nothing is fetched


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Have one test process take all of tests/backends: its modules share servers, which take long to start."""
    from xdist.scheduler import LoadScopeScheduling

    class SharedServers(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            folder = "tests/backends/"
            return folder if nodeid.startswith(folder) else str(super()._split_scope(nodeid))

    return SharedServers(config, log) if config.getvalue("dist") == "loadscope" else None


@dataclass(slots=True)
class Gathering:
    traces: list[Trace] = field(default_factory=list)

    def sample(self, trace: Trace) -> Decision:
        return Decision(True, 1.0, "test")

    def submit(self, trace: Trace, decision: Decision | None = None) -> bool:
        self.traces.append(trace)
        return True


@dataclass(slots=True)
class Recorded:
    """Where spans and traces of a test go."""

    provider: TracerProvider
    exporter: InMemorySpanExporter
    consumer: Gathering

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    @property
    def traces(self) -> list[Trace]:
        return self.consumer.traces

    def named(self, start: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name.startswith(start)]

    def tree(self) -> list[Any]:
        """The spans as nested (name, children) in the order of their starts; a span without its parent fails."""
        ids = {span.context.span_id for span in self.spans}
        for span in self.spans:
            assert span.parent is None or span.parent.span_id in ids or span.parent.is_remote, (
                f"{span.name} is an orphan"
            )

        def below(parent: int | None) -> list[Any]:
            children = [s for s in self.spans if (s.parent.span_id if s.parent else None) == parent]
            children.sort(key=lambda s: s.start_time or 0)
            return [(s.name, below(s.context.span_id)) for s in children]

        return below(None)

    def clear(self) -> None:
        self.exporter.clear()
        self.consumer.traces.clear()


@pytest.fixture
def recorded() -> Iterator[Recorded]:
    """Spans and traces in memory. What a test records is valid against OpenTelemetry's schemas, or the test fails."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield Recorded(provider, exporter, Gathering())
    if find_spec("jsonschema") is None:  # the oldest supported releases are tested without it
        return
    from tests.genai_schemas import violations

    errors = [error for span in exporter.get_finished_spans() for error in violations(span.attributes or {})]
    assert not errors


@pytest.fixture(autouse=True)
def _nothing_goes_wrong_inside(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """A failure inside an adapter is counted, not raised: here it fails the test."""
    with caplog.at_level(logging.WARNING, logger="ragtrace.capture.recorder"):
        yield
    failed = [r for r in caplog.get_records("call") if r.name == "ragtrace.capture.recorder"]
    assert not failed, [r.getMessage() + str(r.exc_info) for r in failed]


@pytest.fixture(autouse=True)
def _both_dialects(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Adapters are tested with OpenInference's attributes, too: `test_span_writer.py` has the spans without them."""
    if request.path.parent.name in {"langchain", "llama_index", "vendors", "scenarios"}:
        of = ContentPolicy.of
        monkeypatch.setattr(
            ContentPolicy, "of", lambda content=None, **more: of(content, **({"openinference": True} | more))
        )


@pytest.fixture
def traced_langchain(recorded: Recorded) -> Iterator[Recorded]:
    from ragtrace_langchain import RagtraceLangChainInstrumentor

    instrumentor = RagtraceLangChainInstrumentor()
    instrumentor.instrument(tracer_provider=recorded.provider, capture_content=True, consumer=recorded.consumer)
    yield recorded
    instrumentor.uninstrument()


@pytest.fixture
def by_hand(recorded: Recorded) -> Iterator[Recorded]:
    manual.set_recorder(Recorder(recorded.provider, capture=ContentPolicy(spans=True), consumer=recorded.consumer))
    yield recorded
    manual.set_recorder(None)
    assert not otel.get_current_span().get_span_context().is_valid
