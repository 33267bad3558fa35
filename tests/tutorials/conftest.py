"""What the tutorials share."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import Recorded
from tests.llama_index.conftest import _open_databases, instrumented  # noqa: F401 fixtures
from tests.vendors.conftest import _no_key_of_the_machine, _vendors, vendors  # noqa: F401 fixtures


def ids(documents: Any) -> list[str]:
    """The ids of a trace's documents, in rank order."""
    return [document.id for document in documents]


@pytest.fixture
def traced_llama_index(instrumented: Recorded) -> Recorded:  # noqa: F811 a fixture
    return instrumented
