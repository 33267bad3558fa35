"""The frameworks, traced with content."""

from __future__ import annotations

import pytest

from tests.conftest import Recorded
from tests.langchain.conftest import handler  # noqa: F401 a fixture
from tests.llama_index.conftest import _open_databases, instrumented  # noqa: F401 fixtures


@pytest.fixture
def langchain(traced_langchain: Recorded) -> Recorded:
    return traced_langchain


@pytest.fixture
def llama_index(instrumented: Recorded) -> Recorded:  # noqa: F811 a fixture
    return instrumented
