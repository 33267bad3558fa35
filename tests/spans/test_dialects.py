"""The same application, traced by other libraries, gives the same Trace as far as their spans carry it."""

import json

import pytest

from ragtrace.capture import seen_context
from tests.row_files import rows
from tests.row_files import table as read_table
from tests.spans.applications import PASSAGES
from tests.spans.carried import NEVER, PAGE, PLAIN, facts, table, traces_by_case
from tests.spans.golden_spans import FOLDER, golden_files, golden_spans, traces_of
from tests.spans.model_server import ANSWER, QUESTION

WITHOUT_REQUESTS: dict[str, list[str]] = read_table(__file__, "without_requests")
"""Cases of a retrieval alone, or whose root never ends."""


@pytest.mark.parametrize("name", golden_files())
def test_each_question_is_one_request(name: str) -> None:
    counts = {case: len(traces) for case, traces in traces_by_case(name).items()}
    assert counts == {case: 0 if case in WITHOUT_REQUESTS.get(name, ()) else 1 for case in counts}


@pytest.mark.parametrize("name", golden_files())
def test_no_fact_is_wrong(name: str) -> None:
    assert facts(name.partition("-")[0], traces_by_case(name))


NOT_THERE_TO_READ = {(name, fact) for name, fact, _ in rows(__file__, "not_there_to_read")}
"""What is somewhere in a library's spans, and not as a fact of a retrieval, a model call or a request."""
TOLD: dict[str, str] = read_table(__file__, "told")
"""How the facts of a request are written in JSON that is written in JSON."""


@pytest.mark.parametrize("name", golden_files())
def test_each_fact_that_the_spans_contain_is_read(name: str) -> None:
    """Those of `TOLD` and the error's type are read in every golden input that contains them."""
    framework = name.partition("-")[0]
    cells = facts(framework, traces_by_case(name))
    cases = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))["cases"]
    text = json.dumps(cases[PLAIN[framework]])
    absent = [fact for fact, value in TOLD.items() if cells[fact] == "-" and fact not in NEVER.get(framework, ())]
    unread = {(name, fact) for fact in absent if TOLD[fact] in text}
    if cells["error type"] == "-" and "exception.type" in json.dumps(cases["error"]):
        unread.add((name, "error type"))
    assert unread == {pair for pair in NOT_THERE_TO_READ if pair[0] == name}


@pytest.mark.parametrize("name", golden_files())
def test_order_does_not_matter(name: str) -> None:
    for spans in golden_spans(name).values():
        both = []
        for order in (spans, spans[::-1]):
            seen_context._chunks.clear()
            both.append(traces_of(order))
        assert both[0] == both[1]


def test_the_table_is_what_was_measured() -> None:
    assert table() in PAGE.read_text(encoding="utf-8"), "write it with: python -m tests.spans.carried --write"


def test_usage_is_counted_once() -> None:
    """Below a server span two model calls of 40 and 9 tokens are 80 and 18; the embedding's are not added."""
    for library in ("openinference", "opentelemetry", "traceloop", "langfuse"):
        [trace] = traces_by_case(f"openai-{library}")["server"]
        assert (trace.facts.input_tokens, trace.facts.output_tokens, trace.facts.name) == (80, 18, "POST /ask")


@pytest.mark.parametrize("library", ["openinference", "traceloop", "langfuse", "mlflow"])
def test_a_model_called_by_itself_was_shown_the_chunks_in_its_messages(library: str) -> None:
    """Step by step, as tutorials do, the question is one request with the chunks of the retriever before it."""
    [trace] = traces_by_case(f"langchain-{library}")["steps"]
    assert (trace.query, trace.answer) == (QUESTION, ANSWER)
    assert [document.content for document in trace.documents] == list(PASSAGES.values())
    assert trace.facts.chunks_of_earlier_turns is False
