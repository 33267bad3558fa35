"""The handler that an application passes by hand."""

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from ragtrace.capture.request import Run
from ragtrace_langchain import RagtraceCallbackHandler
from tests.conftest import Recorded


@pytest.fixture
def handler(recorded: Recorded) -> Iterator[RagtraceCallbackHandler]:
    """Afterwards no run is kept, whatever way it ended."""
    handler = RagtraceCallbackHandler(recorded.provider, True, consumer=recorded.consumer)
    yield handler
    gc.collect()
    assert not any(isinstance(run, Run) for run in handler._recorder._runs.values())
    assert not handler._recorder._roots


@pytest.fixture
def config(handler: RagtraceCallbackHandler) -> Any:
    return {"callbacks": [handler]}
