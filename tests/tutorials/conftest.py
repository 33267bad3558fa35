"""What the tutorials share."""

from __future__ import annotations

from typing import Any

from tests.vendors.conftest import _no_key_of_the_machine, _vendors, vendors  # noqa: F401 fixtures


def ids(documents: Any) -> list[str]:
    """The ids of a trace's documents, in rank order."""
    return [document.id for document in documents]
