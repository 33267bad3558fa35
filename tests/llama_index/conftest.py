"""What the LlamaIndex tests share."""

import gc
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ragtrace.capture.request import Run
from ragtrace_llama_index import RagtraceLlamaIndexInstrumentor
from tests.conftest import Recorded
from tests.waiting import until


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """LlamaIndex leaves its chat memory's database open."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))


@pytest.fixture(autouse=True, scope="module")
def _open_databases() -> Iterator[None]:
    """Close the databases of LlamaIndex's chat memory, which it leaves open, before the next module begins.

    Only garbage collection closes them; what exists before the module is frozen, so that a collection is cheap."""
    gc.collect()
    gc.freeze()
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@contextmanager
def traced(recorded: Recorded, kind: Any = RagtraceLlamaIndexInstrumentor, **options: Any) -> Iterator[Any]:
    """LlamaIndex, or what the kind of instrumentor traces, with what the options say."""
    instrumentor = kind()
    instrumentor.instrument(**{"tracer_provider": recorded.provider, "consumer": recorded.consumer} | options)
    try:
        yield instrumentor
    finally:
        instrumentor.uninstrument()


@pytest.fixture
def instrumented(recorded: Recorded) -> Iterator[Recorded]:
    """LlamaIndex traced with content; afterwards nothing may be left open."""
    with traced(recorded, capture_content=True) as instrumentor:
        handlers = instrumentor._handlers
        assert handlers is not None
        yield recorded
        left = [run for run in handlers.recorder._runs.values() if isinstance(run, Run)]
    assert not left, "runs that were never ended"
    assert handlers.recorder.failures == 0


def arrived(recorded: Recorded, count: int) -> None:
    """Wait for traces: a stream that was dropped is ended by a thread of its own."""
    until(lambda: len(recorded.traces) >= count, 10)
    assert len(recorded.traces) == count
