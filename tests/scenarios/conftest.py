"""The frameworks, traced with content."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ragtrace_langchain import RagtraceLangChainInstrumentor
from tests.conftest import Recorded
from tests.llama_index.conftest import _open_databases, instrumented  # noqa: F401 fixtures


@pytest.fixture
def langchain(recorded: Recorded) -> Iterator[Recorded]:
    instrumentor = RagtraceLangChainInstrumentor()
    instrumentor.instrument(tracer_provider=recorded.provider, capture_content=True, consumer=recorded.consumer)
    yield recorded
    instrumentor.uninstrument()


@pytest.fixture
def llama_index(instrumented: Recorded) -> Recorded:  # noqa: F811 a fixture
    return instrumented
