"""What the tutorials share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import Recorded
from tests.llama_index.conftest import _open_databases  # noqa: F401 fixture
from tests.vendors.conftest import _no_key_of_the_machine, _vendors, vendors  # noqa: F401 fixtures


def ids(documents: Any) -> list[str]:
    """The ids of a trace's documents, in rank order."""
    return [document.id for document in documents]


@pytest.fixture
def traced_langchain(recorded: Recorded) -> Iterator[Recorded]:
    """LangChain traced with content."""
    from ragtrace_langchain import RagtraceLangChainInstrumentor

    instrumentor = RagtraceLangChainInstrumentor()
    instrumentor.instrument(tracer_provider=recorded.provider, capture_content=True, consumer=recorded.consumer)
    yield recorded
    instrumentor.uninstrument()


@pytest.fixture
def traced_llama_index(recorded: Recorded) -> Iterator[Recorded]:
    """LlamaIndex traced with content."""
    from ragtrace_llama_index import RagtraceLlamaIndexInstrumentor

    instrumentor = RagtraceLlamaIndexInstrumentor()
    instrumentor.instrument(tracer_provider=recorded.provider, capture_content=True, consumer=recorded.consumer)
    yield recorded
    instrumentor.uninstrument()
