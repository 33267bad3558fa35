"""The handler that an application passes by hand."""

from __future__ import annotations

from typing import Any

import pytest

from ragtrace_langchain import RagtraceCallbackHandler
from tests.conftest import Recorded


@pytest.fixture
def handler(recorded: Recorded) -> RagtraceCallbackHandler:
    return RagtraceCallbackHandler(recorded.provider, True, consumer=recorded.consumer)


@pytest.fixture
def config(handler: RagtraceCallbackHandler) -> Any:
    return {"callbacks": [handler]}
