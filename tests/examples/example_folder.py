"""A copy of an example, so that what it writes stays out of the repository; and what its spans say over OTLP."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from ragtrace.console.chatlogs.store import open_store
from ragtrace.console.chatlogs.store_types import StoredTrace
from tests.otlp.receivers import Received, plain

EXAMPLES = Path(__file__).parents[2] / "examples"
VERDICT = "gen_ai.evaluation.{}.label"


def copy_example(name: str, folder: Path) -> Path:
    """Copies `examples/NAME` into a folder, and returns the copy."""
    return Path(shutil.copytree(EXAMPLES / name, folder / name, ignore=shutil.ignore_patterns("__pycache__")))


def scored_spans(received: Received, evaluator: str) -> dict[str, dict[str, Any]]:
    """Returns the attributes of the spans with a verdict of the evaluator, by the hexadecimal id of their trace."""
    scopes = [scope for resource in received.traces.resource_spans for scope in resource.scope_spans]
    spans = [(span.trace_id.hex(), plain(span.attributes)) for scope in scopes for span in scope.spans]
    return {trace: attributes for trace, attributes in spans if VERDICT.format(evaluator) in attributes}


def stored_request(store: Path, trace_id: str) -> StoredTrace:
    """Returns the request of the store with this trace id."""
    opened = open_store(str(store), create=False)
    try:
        stored = opened.get(trace_id)
    finally:
        opened.close()
    assert stored is not None
    return stored
