"""The capture matrix on LangChain and LangGraph, a row a test; and the page that shows it."""

from typing import Any

import pytest

from ragtrace import semconv
from tests.conftest import Recorded
from tests.langchain.cases import ANSWER, CASES, Case
from tests.langchain.matrix import PAGE, rows


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_case(recorded: Recorded, config: Any, case: Case) -> None:
    """Every way of calling gives one tree per request, with its question, its answer and what its model saw."""
    case.run(config)
    assert len(recorded.traces) == case.traces
    assert len({span.context.trace_id for span in recorded.spans}) == case.traces
    tree = recorded.tree()
    conversations = {(span.attributes or {}).get(semconv.CONVERSATION_ID) for span in recorded.spans}
    assert conversations == {"conversation-1" if case.who else None}
    if case.documents == []:
        assert (recorded.named("retrieval")[0].attributes or {})[semconv.DOCUMENTS_COUNT] == 0
    assert len(tree) == case.traces
    for trace in recorded.traces:
        assert (trace.query, bool(trace.error)) == (case.question, case.error)
        assert bool(trace.facts.cancelled) == case.cancelled
        if case.documents is not None:
            seen = [d.content for d in trace.documents]
            # Branches and vector stores have no fixed order among themselves.
            assert (sorted(seen) if case.unordered else seen) == list(case.documents)
        if case.answer == ANSWER:
            assert trace.answer == ANSWER
        elif case.answer:
            assert ANSWER.startswith(trace.answer)
            assert trace.answer
    for _, below in tree:
        assert sorted(name.split()[0] for name, _ in below) == list(case.spans)  # branches run in any order
        assert sum(len(inner) for name, inner in below if name.startswith("retrieval")) == case.inner


def test_the_page_shows_every_case() -> None:
    shown = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    for row in rows("langchain"):
        own = [line.split(" | ")[:2] for line in shown if row.title in line[2:].split(" | ")[0].split("; ")]
        assert {cell for _, cell in own} == {"✔"}, row.title
    cells = [line.split(" | ")[1] for line in shown if not line.startswith(("| case", "| **"))]
    assert set(cells) == {"✔"}
