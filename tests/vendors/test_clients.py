"""What stands on the span of a model, when a vendor's real client asked a server that answers as the vendor does."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan

from ragtrace import semconv
from ragtrace.evaluate.causes import _CUT_OFF
from ragtrace_langchain import RagtraceLangChainInstrumentor
from ragtrace_llama_index import RagtraceLlamaIndexInstrumentor
from tests.conftest import Recorded
from tests.llama_index.conftest import traced
from tests.row_files import table
from tests.vendors.clients import CASES, PICTURE, PIXEL, Case, Client
from tests.vendors.replies import Call, Reply, Usage
from tests.vendors.server import Vendors

QUESTION = "How long is the warranty?"
ANSWER = "It lasts two years."
SEARCH = Call("search", {"query": "warranty"})
WAYS = ("ask", "stream", "ask_async", "stream_async")
INSTRUMENTORS = {"langchain": RagtraceLangChainInstrumentor, "llama_index": RagtraceLlamaIndexInstrumentor}

pytestmark = [
    # Some clients leave their connections to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


def of(pairs: list[tuple[Case, str]], name: str) -> pytest.MarkDecorator:
    """Parametrize a test with cases and something else."""
    return pytest.mark.parametrize(("case", name), pairs, ids=[f"{case}-{other}" for case, other in pairs])


@pytest.fixture(params=CASES, ids=str)
def case(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """One event loop for all clients: some share their connections, which belong to it."""
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def ask(way: str, client: Client, loop: asyncio.AbstractEventLoop) -> str:
    answer = getattr(client, way)(QUESTION)
    return str(loop.run_until_complete(answer) if way.endswith("async") else answer)


@pytest.fixture
def client(case: Case, recorded: Recorded, vendors: Vendors) -> Iterator[Client]:
    with traced(recorded, INSTRUMENTORS[case.framework], capture_content=True):
        yield case.make(vendors.url)


def only(recorded: Recorded) -> ReadableSpan:
    (span,) = recorded.spans
    return span


def messages(span: ReadableSpan, side: str) -> list[Any]:
    return list(json.loads(str((span.attributes or {})[f"gen_ai.{side}.messages"])))


def parts(span: ReadableSpan, side: str) -> list[Any]:
    return [part for message in messages(span, side) for part in message["parts"]]


@of([(case, way) for case in CASES for way in WAYS if way not in case.fails], "way")
def test_an_answer_is_whole_in_every_way_of_asking(  # noqa: PLR0917 fixtures
    way: str, case: Case, client: Client, recorded: Recorded, vendors: Vendors, loop: asyncio.AbstractEventLoop
) -> None:
    vendors.answers(Reply(ANSWER, usage=Usage(cache_read=8)))
    assert ask(way, client, loop) == ANSWER
    span = only(recorded)
    attributes = dict(span.attributes or {})
    is_streamed = "stream" in way
    assert parts(span, "output") == [{"type": "text", "content": ANSWER}]
    assert (attributes["input.value"], attributes["output.value"]) == (QUESTION, ANSWER)
    expected = {
        "gen_ai.provider.name": case.provider, "gen_ai.request.model": case.model,
        "gen_ai.response.model": "model-2026-01-01", "gen_ai.response.id": "reply-1",
        "gen_ai.response.finish_reasons": (case.reason,),
        "gen_ai.usage.input_tokens": case.billed_in_streams if is_streamed else 18, "gen_ai.usage.output_tokens": 7,
        "gen_ai.usage.cache_read.input_tokens": 8 if case.reads_cache else None,
        "gen_ai.request.stream": True if is_streamed else None,
        "llm.token_count.prompt": case.billed_in_streams if is_streamed else 18, "llm.token_count.completion": 7,
    }  # fmt: skip
    expected |= dict.fromkeys((*case.lacks, *(case.lacks_in_streams if is_streamed else ())))
    assert {name: attributes.get(name) for name in expected} == expected
    assert ("gen_ai.response.time_to_first_chunk" in attributes) == is_streamed
    (trace,) = recorded.traces
    assert (trace.query, trace.answer) == (QUESTION, ANSWER)


@of([(c, tool) for c in CASES for tool in ("ask_tool", "stream_tool") if tool not in c.fails], "tool")
def test_a_tool_call_is_whole(tool: str, case: Case, client: Client, recorded: Recorded, vendors: Vendors) -> None:
    vendors.answers(Reply(calls=(SEARCH,)))
    client.call_tool(QUESTION, is_streamed=tool == "stream_tool")
    span = only(recorded)
    calls = [part for part in parts(span, "output") if part["type"] == "tool_call"]
    assert [(call["name"], call["arguments"]) for call in calls] == [("search", {"query": "warranty"})]
    assert dict(span.attributes or {})["gen_ai.response.finish_reasons"] == (case.reason_of_call,)
    assert calls[0].get("id", "call_1") == "call_1"


def test_a_tool_result_answers_its_call(client: Client, recorded: Recorded, vendors: Vendors) -> None:
    vendors.answers(Reply(ANSWER))
    client.after_tool(QUESTION)
    question, called, result = messages(only(recorded), "input")
    assert question == {"role": "user", "parts": [{"type": "text", "content": QUESTION}]}
    call = {"type": "tool_call", "id": "call_1", "name": "search", "arguments": {"query": "warranty"}}
    assert (called["role"], called["parts"]) == ("assistant", [call])
    response = {"type": "tool_call_response", "id": "call_1", "response": "The warranty lasts two years."}
    assert (result["role"], result["parts"]) == ("tool", [response])


@of([(case, kind) for case in CASES for kind in case.images], "kind")
def test_an_image_is_a_part_of_its_message(kind: str, client: Client, recorded: Recorded, vendors: Vendors) -> None:
    vendors.answers(Reply(ANSWER))
    is_inline = kind == "inline"
    client.show(QUESTION, is_inline)
    text, image = parts(only(recorded), "input")
    assert text == {"type": "text", "content": QUESTION}
    expected = {"type": "blob", "content": PIXEL} if is_inline else {"type": "uri", "uri": PICTURE}
    assert {name: image.get(name) for name in expected} == expected
    assert image["modality"] == "image"


@of([(case, way) for case in CASES if case.reasons for way in ("ask", "stream")], "way")
def test_reasoning_is_a_part_and_not_the_answer(way: str, client: Client, recorded: Recorded, vendors: Vendors) -> None:
    vendors.answers(Reply(ANSWER, reasoning="The manual says so."))
    getattr(client, way)(QUESTION)
    span = only(recorded)
    reasoning, text = parts(span, "output")
    assert reasoning == {"type": "reasoning", "content": "The manual says so."}
    assert text == {"type": "text", "content": ANSWER}
    assert dict(span.attributes or {})["output.value"] == ANSWER
    assert recorded.traces[0].answer == ANSWER


USAGES: dict[str, list[dict[str, int]]] = table(__file__, "usages")


@pytest.mark.parametrize("way", ["ask", "stream"])
@of([(case, kind) for kind in USAGES for case in CASES if getattr(case, kind)], "kind")
def test_tokens_of_cache_and_sound(way: str, kind: str, client: Client, recorded: Recorded, vendors: Vendors) -> None:
    """Input tokens include what the cache gave and took, and sound; each is counted apart, too."""
    usage, expected = USAGES[kind]
    vendors.answers(Reply(ANSWER, usage=Usage(**usage)))
    getattr(client, way)(QUESTION)
    attributes = dict(only(recorded).attributes or {})
    expected = {semconv.INPUT_TOKENS: 100, **expected}
    assert {name: attributes.get(name) for name in expected} == expected
    assert recorded.traces[0].facts.input_tokens == 100


@pytest.mark.parametrize("way", ["ask", "stream"])
def test_a_cut_answer_is_known(way: str, case: Case, client: Client, recorded: Recorded, vendors: Vendors) -> None:
    """The finish reason of an answer that reached its limit counts as cut off, in every vendor's word."""
    vendors.answers(Reply(ANSWER, is_cut=True))
    getattr(client, way)(QUESTION)
    assert recorded.traces[0].facts.finish_reason == case.reason_of_cut
    assert case.reason_of_cut in _CUT_OFF


@pytest.mark.parametrize("status", [429, 500])
def test_errors_are_on_the_span(status: int, case: Case, client: Client, recorded: Recorded, vendors: Vendors) -> None:
    vendors.answers(Reply(status=status))
    with pytest.raises(Exception):  # noqa: B017, PT011 each client has its own
        client.ask(QUESTION)
    span = only(recorded)
    attributes = dict(span.attributes or {})
    assert span.status.status_code.name == "ERROR"
    assert attributes["error.type"] == (case.error if status == 429 else case.error_of_500)
    assert attributes["input.value"] == QUESTION
    assert [(t.query, t.error) for t in recorded.traces] == [(QUESTION, attributes["error.type"])]


def test_a_stream_that_breaks_keeps_what_had_come(client: Client, recorded: Recorded, vendors: Vendors) -> None:
    """A connection that breaks in the middle of a stream is an error; the words before it stay."""
    vendors.answers(Reply(ANSWER, breaks_after=6))
    with pytest.raises(Exception):  # noqa: B017, PT011 each client has its own
        client.stream(QUESTION)
    span = only(recorded)
    (part,) = parts(span, "output")
    assert part["content"]
    assert part["type"] == "text"
    assert ANSWER.startswith(part["content"])
    assert span.status.status_code.name == "ERROR"
