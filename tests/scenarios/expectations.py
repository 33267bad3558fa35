"""What is asked of each scenario: its requests, with question and answer, and the operations below them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from ragtrace import semconv
from tests.conftest import Recorded

_SHORT = {
    semconv.OP_AGENT: "agent", semconv.OP_WORKFLOW: "workflow", semconv.OP_TOOL: "tool",
    semconv.OP_RETRIEVAL: "retrieval", semconv.OP_RERANK: "rerank", semconv.OP_TEXT: "completion",
}  # fmt: skip


class Joke(BaseModel):
    """A joke."""

    setup: str


@dataclass(frozen=True)
class Scenario:
    run: Callable[[], Any]
    requests: tuple[tuple[str, str], ...]
    """Question and answer of each request, in any order."""
    operations: str
    """The operations of all spans but embeddings, in the order of their starts; `!` follows one that failed."""
    documents: tuple[str, ...] = ()
    """Ids of the documents of the one request."""
    error: str | None = None
    """Type name of the error of the one request."""


def operations(recorded: Recorded) -> str:
    words = []
    for span in sorted(recorded.spans, key=lambda span: span.start_time or 0):
        operation = str((span.attributes or {})[semconv.OPERATION])
        if operation != semconv.OP_EMBEDDINGS:
            words.append(_SHORT.get(operation, operation) + ("!" if span.status.status_code.name == "ERROR" else ""))
    return " ".join(words)


def check(scenario: Scenario, recorded: Recorded) -> None:
    raised = None
    try:
        scenario.run()
    except Exception as error:  # noqa: BLE001 the application's own, which it must still see
        raised = type(error).__name__
    assert raised == scenario.error
    traces = recorded.traces
    assert sorted((trace.query, trace.answer) for trace in traces) == sorted(scenario.requests)
    assert operations(recorded) == scenario.operations
    assert len({span.context.trace_id for span in recorded.spans if span.parent is None}) >= len(traces)
    recorded.tree()  # fails for a span without its parent
    if scenario.error:
        roots = [dict(span.attributes or {}) for span in recorded.spans if span.parent is None]
        assert [told[semconv.ERROR_TYPE] for told in roots] == [scenario.error]
    if len(traces) == 1:
        assert traces[0].error == scenario.error
        assert tuple(document.id for document in traces[0].chunks) == scenario.documents
