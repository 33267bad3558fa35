"""What the tests with the vendors' clients share."""

import os
from collections.abc import Iterator

import pytest

from tests.llama_index.conftest import _open_databases  # noqa: F401 fixture: it collects the clients' connections, too
from tests.vendors.replies import Reply
from tests.vendors.server import Vendors, serving


@pytest.fixture(scope="module")
def _vendors() -> Iterator[Vendors]:
    with serving() as server:
        yield server


@pytest.fixture
def vendors(_vendors: Vendors) -> Vendors:
    _vendors.answers(Reply("No answer was set."))
    _vendors.requests.clear()
    return _vendors


@pytest.fixture(autouse=True)
def _no_key_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients take keys and addresses from the environment: none may reach a vendor."""
    for name in list(os.environ):
        if name.startswith(("OPENAI_", "ANTHROPIC_", "COHERE_", "CO_", "AZURE_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
