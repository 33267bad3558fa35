"""Requests and components that are recorded by hand."""

from __future__ import annotations

import asyncio
import copy
import gc
import inspect
import json
import pickle
import threading
from collections import abc
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from langchain_core.documents import Document as ChainDocument
from langchain_core.language_models import FakeListChatModel
from langchain_core.runnables import RunnableLambda
from llama_index.core.llms import CompletionResponse, MockLLM
from llama_index.core.schema import NodeWithScore, TextNode
from opentelemetry import trace as otel
from opentelemetry.instrumentation.utils import suppress_instrumentation
from starlette.applications import Starlette
from starlette.responses import StreamingResponse
from starlette.routing import Route
from starlette.testclient import TestClient

import ragtrace
from ragtrace import semconv
from ragtrace.capture import attributes as capture_attributes
from ragtrace.capture import manual
from ragtrace.capture.adapters import failures
from ragtrace.capture.content import ContentPolicy
from ragtrace.capture.recorder import Recorder
from ragtrace.capture.reply_streams import reaper
from ragtrace.capture.seen_context import NOTHING
from ragtrace.records import Document
from ragtrace.text.redaction import mask_pii
from ragtrace.text.sanitizer import Sanitizer
from tests.conftest import Recorded
from tests.hostile import ClosedMapping
from tests.hostile import Unbound as WithoutAttributes
from tests.llama_index.cases import Fixed
from tests.llama_index.cases import engine as engine_of
from tests.llama_index.conftest import arrived, traced
from tests.row_files import rows, table


@pytest.fixture
def with_frameworks(by_hand: Recorded, traced_langchain: Recorded) -> Iterator[Recorded]:
    with traced(by_hand, capture_content=True):
        yield by_hand


def test_a_request_that_is_interrupted_as_it_begins_is_not_around_the_next_ones(by_hand: Recorded) -> None:
    class Interrupted:
        def __str__(self) -> str:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), ragtrace.request(Interrupted()):
        raise AssertionError("it did not begin")
    with ragtrace.request("How long?") as request:
        request.answered("For 24 months.")
    assert by_hand.consumer.traces[-1].query == "How long?"
    assert [span.parent for span in by_hand.spans] == [None, None]


USAGE = SimpleNamespace(prompt_tokens=40, completion_tokens=8, total_tokens=48)


def chunks(text: str) -> list[Any]:
    """A streamed reply as OpenAI's client yields it."""

    def chunk(delta: str | None, reason: str | None = None, usage: Any = None) -> Any:
        choices = [SimpleNamespace(delta=SimpleNamespace(content=delta), finish_reason=reason)] if not usage else []
        return SimpleNamespace(id="chatcmpl-1", model="gpt-4o-2024", choices=choices, usage=usage)

    return [*(chunk(word) for word in text.split(" ")), chunk(None, "stop"), chunk(None, None, USAGE)]


def test_request_by_hand(by_hand: Recorded) -> None:
    names: dict[str, Any] = {"session_id": "s1", "user_id": 7, "tags": ["beta"]}
    with ragtrace.request("How long?", metadata={"reference": "24 months"}, **names) as request:
        request.retrieved([{"content": "24 months.", "id": "w1", "score": 0.9, "metadata": {"page": 3}}])
        request.answered("For 24 months.", usage=USAGE, model="gpt-4o")
    (trace,) = by_hand.traces
    assert (trace.query, trace.answer, trace.reference) == ("How long?", "For 24 months.", "24 months")
    assert trace.documents == (Document("w1", "24 months.", 0.9, {"page": 3}),)
    facts = trace.facts
    assert (facts.session_id, facts.user_id, facts.tags, facts.model) == ("s1", "7", ("beta",), "gpt-4o")
    assert (facts.input_tokens, facts.output_tokens, facts.retrievals, facts.stages) == (40, 8, 1, {})
    assert request.trace_id == f"{trace.trace_id:032x}"
    assert by_hand.tree() == [("invoke_workflow request", [("retrieval by hand", []), ("chat gpt-4o", [])])]


def test_asynchronous_request_and_concurrent_ones(by_hand: Recorded) -> None:
    @ragtrace.retriever
    async def search(query: str) -> list[str]:
        await asyncio.sleep(0)
        return [f"about {query}"]

    async def ask(question: str) -> None:
        async with ragtrace.request(question) as request:
            await search(question)
            request.answered(f"answer to {question}")

    async def ask_all() -> None:
        await asyncio.gather(*(ask(f"q{i}") for i in range(5)))

    asyncio.run(ask_all())
    traces = sorted((t.query, t.documents[0].content, t.answer) for t in by_hand.traces)
    assert traces == [(f"q{i}", f"about q{i}", f"answer to q{i}") for i in range(5)]


DOCUMENTS: dict[str, Any] = {
    "texts": ["24 months."], "mappings": [{"text": "24 months.", "doc_id": "a"}],
    "own": [Document("a", "24 months.")], "langchain": [ChainDocument(page_content="24 months.", id="a")],
    "langchain with scores": [(ChainDocument(page_content="24 months.", id="a"), 0.5)],
    "llama_index": [NodeWithScore(node=TextNode(text="24 months.", id_="a"), score=0.5)],
    "generator": (text for text in ["24 months."]), "mixed": [None, 3, object(), "24 months."],
    "a list for each question": {"ids": [["a"]], "documents": [["24 months."]]},
    "texts and a note": (["24 months."], {"took": 3}), "rows": [("a", "24 months.", 0.5)],
}  # fmt: skip


@pytest.mark.parametrize("form", DOCUMENTS)
def test_documents_of_any_form(by_hand: Recorded, form: str) -> None:
    with ragtrace.request("How long?") as request:
        request.retrieved(DOCUMENTS[form])
    assert [document.content for document in by_hand.traces[0].documents] == ["24 months."]


@pytest.mark.parametrize("client", ["responses", "anthropic"])
def test_a_loop_with_tools_by_hand(by_hand: Recorded, client: str) -> None:
    """What a tool returned is evidence and no question, and the call that asks for it is no request."""
    fields, turn = table(__file__, "loops")[client]
    asks = SimpleNamespace(**fields)
    ask = ragtrace.generation(lambda messages: asks if len(messages) == 1 else "It shipped on 3 May.")
    question = [{"role": "user", "content": "Where is A1?"}]
    ask(question)
    ask([*question, *turn])
    found = [(t.query, t.answer, [d.content for d in t.documents]) for t in by_hand.traces]
    assert found == [("Where is A1?", "It shipped on 3 May.", ["3 May"])]


def test_results_of_other_forms_by_hand(by_hand: Recorded) -> None:
    """Gemini's parts, and a look-up that found nothing."""
    ragtrace.generation(lambda contents: "It weighs 9 kilos.")(rows(__file__, "gemini"))
    with ragtrace.request("Where is order 99?") as request:
        request.used("orders", None, {"order": "99"})
        request.used("orders", "")
        request.answered("There is no order 99.")
    ragtrace.generation(lambda messages: "It weighs 9 kilos.")(rows(__file__, "older"))
    assert [[d.content for d in t.documents] for t in by_hand.traces] == [
        ['item: pump.\n{"weight": "9 kilos"}'], [f"order: 99.\n{NOTHING}", NOTHING], ["9 kilos"],
    ]  # fmt: skip


def test_requests_inside_of_one_another(by_hand: Recorded) -> None:
    """The outer one has the answer of the inner one's chain, and the question of the model."""
    ask = ragtrace.generation(lambda prompt: "24 months.")
    with ragtrace.request(), ragtrace.request() as inner, inner:
        ask("How long?")
    with ragtrace.request("q"), ragtrace.request() as inner:
        inner.answered("It is covered.")
    with ragtrace.request("r") as blank:
        ask("r")
        blank.answered("")
    inner.retrieved(["late"])
    inner.used("late", "late")
    answers = [(t.query, t.answer) for t in by_hand.traces]
    assert answers == [("How long?", "24 months."), ("q", "It is covered."), ("r", "")]
    assert "late" not in str(by_hand.spans)


def test_a_tool_under_a_decorator_of_its_own_is_one_step(by_hand: Recorded) -> None:
    """A framework's tool of the same name calls it."""
    order = ragtrace.tool(name="order")(lambda: "3 May")
    with ragtrace.request("q"):
        ragtrace.tool(name="order")(order)()
    assert [step["tool"] for step in by_hand.traces[0].facts.steps] == ["order"]


def test_metadata_and_tags_that_cannot_be_read_cost_only_themselves(by_hand: Recorded) -> None:
    tags = (1 // zero for zero in [0])
    with ragtrace.request("q", metadata=ClosedMapping(a="b"), tags=tags) as request:
        request.answered("yes")
    [trace] = by_hand.traces
    assert (trace.query, trace.answer, trace.facts.tags) == ("q", "yes", ())


def test_retrieved_by_hand_is_what_counts(by_hand: Recorded) -> None:
    """Documents that are set by hand replace those of the retrievers inside; further calls add to them."""
    search = ragtrace.retriever(name="index")(lambda query: ["one", "two", "three"])
    with ragtrace.request("How long?") as request:
        request.retrieved(search("warranty")[1:])
        request.retrieved(["four"])
    assert [document.content for document in by_hand.traces[0].documents] == ["two", "three", "four"]
    assert by_hand.tree() == [("invoke_workflow request", [("retrieval index", [])])]


def test_chunks_of_one_id_and_of_a_search_that_was_left(by_hand: Recorded) -> None:
    """Two searches may number their chunks alike; one that yields them keeps those that were read."""

    @ragtrace.retriever
    def search(query: str, text: str) -> list[Document]:
        return [Document("0", text)]

    @ragtrace.retriever
    def yields(query: str) -> Iterator[str]:
        yield from ("three", "four")

    with ragtrace.request("How long?"):
        search("a", "one")
        search("b", "two")
        next(yields("c"))
    assert [document.content for document in by_hand.traces[0].documents] == ["one", "two", "three"]


def test_components_below_a_request(by_hand: Recorded) -> None:
    class Store:
        @ragtrace.retriever
        def search(self, query: str, limit: int = 2) -> list[str]:
            look_up(place="shelf", floor=2)
            return ["24 months.", "No returns."][:limit]

    @ragtrace.tool
    def look_up(place: str, floor: int) -> dict[str, int]:
        return {"found": 3}

    @ragtrace.generation(model="gpt-4o")
    def ask(messages: list[Any], system: object = ()) -> Any:
        return answer

    answer = json.loads(json.dumps(table(__file__, "reply")), object_hook=lambda fields: SimpleNamespace(**fields))
    with ragtrace.request("How long?") as request:
        assert Store().search("warranty", limit=1) == ["24 months."]
        assert ask([{"role": "system", "content": "Be brief."}, "How long?"], [{"text": "It is covered."}]) is answer
        request.answered("For 24 months.")
    below = [("retrieval search", [("execute_tool look_up", [])]), ("chat gpt-4o", [])]
    assert by_hand.tree() == [("invoke_workflow request", below)]
    (trace,) = by_hand.traces
    found = 'place: shelf; floor: 2.\n{"found": 3}'
    assert [(each.content, each.source) for each in trace.documents] == [("24 months.", ""), (found, "tool")]
    assert (trace.facts.input_tokens, trace.facts.finish_reason) == (40, "stop")
    step = {"tool": "look_up", "args": '{"place": "shelf", "floor": 2}', "result": '{"found": 3}'}
    assert trace.facts.steps == (step,)
    attributes: Any = by_hand.named("chat")[0].attributes
    assert attributes[semconv.RESPONSE_MODEL] == "gpt-4o-2024"
    assert "Be brief." in attributes[semconv.INPUT_MESSAGES]
    assert "covered" in attributes[semconv.SYSTEM_INSTRUCTIONS]
    assert "For 24 months." in attributes[semconv.OUTPUT_MESSAGES]


def plain_stream(pieces: list[Any]) -> Any:
    def ask(prompt: str) -> Iterator[Any]:
        yield from pieces

    return ragtrace.generation(ask)("How long?")


def returned_stream(pieces: list[Any]) -> Any:
    return ragtrace.generation(lambda prompt: iter(pieces))("How long?")


def asynchronous_stream(pieces: list[Any]) -> Any:
    async def ask(prompt: str) -> AsyncIterator[Any]:
        for piece in pieces:
            yield piece

    return ragtrace.generation(ask)("How long?")


async def returned_asynchronous_stream(pieces: list[Any]) -> Any:
    async def stream() -> AsyncIterator[Any]:
        for piece in pieces:
            yield piece

    async def ask(prompt: str) -> Any:
        return stream()

    return await ragtrace.generation(ask)("How long?")


async def read(stream: Any) -> list[Any]:
    """Read an asynchronous stream, or one that is awaited first."""
    return [piece async for piece in (await stream if inspect.isawaitable(stream) else stream)]


STREAMS = (plain_stream, returned_stream, asynchronous_stream, returned_asynchronous_stream)


@pytest.mark.parametrize("way", STREAMS)
@pytest.mark.parametrize("pieces", [["For ", "24 ", "months."], chunks("For 24 months.")], ids=["texts", "client"])
def test_streamed_answers(by_hand: Recorded, way: Callable[[list[Any]], Any], pieces: list[Any]) -> None:
    stream = way(pieces)
    assert (list(stream) if hasattr(stream, "__iter__") else asyncio.run(read(stream))) == pieces
    (trace,) = by_hand.traces
    assert (trace.query, trace.answer.replace(" ", "")) == ("How long?", "For24months.")
    assert trace.facts.time_to_first_chunk is not None
    if not isinstance(pieces[0], str):
        assert (trace.facts.input_tokens, trace.facts.output_tokens) == (40, 8)
        assert (trace.facts.finish_reason, trace.facts.model) == ("stop", "gpt-4o-2024")


def leave(stream: Any) -> None:
    next(stream)
    assert not otel.get_current_span().get_span_context().is_valid
    del stream
    gc.collect()


def leave_asynchronous(stream: Any) -> None:
    async def read_one() -> None:
        await anext(stream)
        await stream.aclose()

    asyncio.run(read_one())


@pytest.mark.parametrize(
    ("way", "end"), [(plain_stream, leave), (returned_stream, leave), (asynchronous_stream, leave_asynchronous)]
)
def test_streams_that_are_left(by_hand: Recorded, way: Callable[[list[Any]], Any], end: Callable[[Any], None]) -> None:
    end(way(["For ", "24 ", "months."]))
    arrived(by_hand, 1)
    (trace,) = by_hand.traces
    assert (trace.answer, trace.facts.cancelled, trace.error) == ("For ", True, None)


def test_generators_receive_what_is_sent_and_thrown(by_hand: Recorded) -> None:
    @ragtrace.tool
    def echo() -> Any:
        try:
            value = yield "ready"
            yield value
        except KeyError:
            yield "caught"
        return "done"

    generator = echo()
    assert inspect.isgeneratorfunction(echo)
    assert (next(generator), generator.send("hello"), generator.throw(KeyError())) == ("ready", "hello", "caught")
    with pytest.raises(StopIteration) as end:
        next(generator)
    assert end.value.value == "done"


def test_errors_pass_through_and_mark_the_span(by_hand: Recorded) -> None:
    error = LookupError("no index")

    def search(query: str) -> list[str]:
        raise error

    async def asearch(query: str) -> list[str]:
        raise error

    def ask(prompt: str) -> Iterator[str]:
        yield "For "
        raise error

    found, afound, stream = ragtrace.retriever(search), ragtrace.retriever(asearch), ragtrace.generation(ask)
    for fails in (lambda: found("q"), lambda: asyncio.run(afound("q")), lambda: list(stream("q"))):
        by_hand.clear()
        with pytest.raises(LookupError) as raised, ragtrace.request("How long?"):
            fails()
        assert raised.value is error
        assert {(span.attributes or {})["error.type"] for span in by_hand.spans} == {"LookupError"}
        assert by_hand.traces[0].error == "LookupError"


def make_engine(llm: Any = None, **options: Any) -> Any:
    nodes = [NodeWithScore(node=TextNode(text="24 months.", id_="a"), score=0.9)]
    return engine_of(Fixed(lambda: nodes), llm or MockLLM(max_tokens=3), **options)


def test_a_framework_inside_a_request_counts_once(with_frameworks: Recorded) -> None:
    engine = make_engine()
    chain = RunnableLambda(str) | FakeListChatModel(responses=["For 24 months."])
    with ragtrace.request(session_id="s1"):
        engine.query("How long?")
        chain.with_config(run_name="rag").invoke("Say it better.")
    (trace,) = with_frameworks.traces
    assert (trace.query, trace.answer, trace.facts.session_id) == ("How long?", "For 24 months.", "s1")
    assert [document.id for document in trace.documents] == ["a"]
    ((name, below),) = with_frameworks.tree()
    assert name == "invoke_workflow request"
    assert [each for each, _ in below] == ["invoke_workflow RetrieverQueryEngine", "invoke_workflow rag"]


def test_a_streamed_query_inside_a_request_has_its_answer(with_frameworks: Recorded) -> None:
    """The answer is what was read of the stream before the request's end, also where the model reports nothing."""

    class Unreported(MockLLM):
        """Without LlamaIndex's callbacks."""

        def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Iterator[CompletionResponse]:
            for text, word in (("For ", "For "), ("For 24 ", "24 "), ("For 24 months.", "months.")):
                yield CompletionResponse(text=text, delta=word)

    engine = make_engine(Unreported(), streaming=True)
    with ragtrace.request("How long?"):
        assert "".join(engine.query("How long?").response_gen) == "For 24 months."
    with ragtrace.request("How long?"):
        response = engine.query("How long?")
    assert "".join(response.response_gen) == "For 24 months."
    own = [each.answer for each in with_frameworks.traces if each.query == "How long?"]  # not another test's
    assert own == ["For 24 months.", ""]
    (name, below) = with_frameworks.tree()[0]
    ((inner, parts),) = below
    assert (name, inner) == ("invoke_workflow request", "invoke_workflow RetrieverQueryEngine")
    assert [part.partition(" ")[0] for part, _ in parts] == ["retrieval", "text_completion"]


def test_requests_leave_nothing_to_the_garbage_collector(with_frameworks: Recorded) -> None:
    """What a request holds is freed at its end, its texts, too: the application's thread would pay for it."""
    engine = make_engine()
    chain = RunnableLambda(str) | FakeListChatModel(responses=["24 months."])

    def ask() -> None:
        with ragtrace.request("How long?") as request:
            request.retrieved(["24 months."])
            request.answered("24 months.", usage=USAGE, model="gpt-4o")
        engine.query("How long?")
        chain.invoke("How long?")

    ask()
    gc.collect()
    gc.disable()
    try:
        ask()
        assert gc.collect() == 0
    finally:
        gc.enable()
    assert len(with_frameworks.traces) == 6


def test_components_by_hand_inside_a_framework(with_frameworks: Recorded) -> None:
    search = ragtrace.retriever(name="search")(lambda query: ["24 months."])
    chain = RunnableLambda(lambda question: f"{question} {search(question)[0]}")
    rag = (chain | FakeListChatModel(responses=["For 24 months."])).with_config(run_name="rag")
    rag.invoke("How long?")
    asyncio.run(rag.ainvoke("How long?"))
    assert [[d.content for d in trace.documents] for trace in with_frameworks.traces] == [["24 months."]] * 2
    tree = [("invoke_workflow rag", [("retrieval search", []), ("chat FakeListChatModel", [])])]
    assert with_frameworks.tree() == tree * 2


class Hostile:
    """An object all of whose properties and conversions raise."""

    def __getattribute__(self, name: str) -> Any:
        if name == "__class__":
            return Hostile
        raise ValueError(name)

    def __str__(self) -> str:
        raise ValueError

    __repr__ = __iter__ = __str__


class Unbound:
    """A proxy outside of its context, e.g. of a web framework's: even its class cannot be asked for."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("outside of a request")


def test_odd_values_never_raise(by_hand: Recorded) -> None:
    search, ask = ragtrace.retriever(lambda *values: values[0]), ragtrace.generation(lambda messages: messages)
    for value in (None, 3, b"\xff", "\ud800", [[]], {"a": object()}, {1: 2}, (1, 2, 3), float("nan"), object):
        with ragtrace.request(value, session_id=value, user_id=value, tags=value, metadata=value) as request:  # type: ignore[arg-type]
            request.asked(value)
            request.retrieved(value)
            request.answered(value, usage=value, model=value)
            search(value)
            ask(value)
    assert len(by_hand.traces) == 10


@pytest.mark.parametrize("kind", [Hostile, Unbound, WithoutAttributes])
def test_hostile_objects_never_raise(by_hand: Recorded, kind: type, caplog: pytest.LogCaptureFixture) -> None:
    """An object whose every property raises costs only itself, and reaches the application as a result."""
    hostile = kind()
    question = hostile if kind is Hostile else "q"
    with ragtrace.request(question, tags=hostile, metadata=hostile, session_id=hostile) as request:
        request.retrieved([hostile, "24 months."])
        request.answered("For 24 months.", usage=hostile, model=hostile)
    for decorate in (ragtrace.retriever, ragtrace.generation, ragtrace.tool):
        caplog.clear()
        assert decorate(lambda _: hostile)("q") is hostile
    assert kind is Unbound or not caplog.records
    caplog.clear()
    trace = by_hand.traces[0]
    assert (trace.answer, [d.content for d in trace.documents]) == ("For 24 months.", ["24 months."])
    assert kind is Hostile or trace.query == "q"


def test_without_init_everything_works_and_records_nothing() -> None:
    assert manual.active_recorder() is None

    @ragtrace.tool
    async def count() -> AsyncIterator[int]:
        for i in range(3):
            yield i

    async def count_in_request() -> list[int]:
        async with ragtrace.request("q") as request:
            request.retrieved(["a"])
            request.answered("b")
            assert request.trace_id == ""
        return await read(count())

    assert asyncio.run(count_in_request()) == [0, 1, 2]
    assert list(plain_stream(["a", "b"])) == ["a", "b"]
    assert isinstance(ragtrace.retriever(lambda query: [query])("a"), list)


class PlainStream:
    def __init__(self) -> None:
        self.pieces = iter(["two ", "years"])

    def __iter__(self) -> PlainStream:
        return self

    def __next__(self) -> str:
        return next(self.pieces)


class Cursor(PlainStream):
    """A database's cursor: an iterator with rows, a length and settings."""

    rows = ("24 months.", "36 months.")
    row_factory: Any = None

    def __init__(self) -> None:
        self.pieces = iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: int) -> str:
        return self.rows[place]


class PlainAsyncStream:
    def __init__(self) -> None:
        self.pieces = ["two ", "years"]

    def __aiter__(self) -> PlainAsyncStream:
        return self

    async def __anext__(self) -> str:
        if not self.pieces:
            raise StopAsyncIteration
        return self.pieces.pop(0)


_KINDS = (
    abc.Iterable, abc.Iterator, abc.AsyncIterable, abc.AsyncIterator, abc.Generator, abc.Sized, abc.Container,
    abc.Collection, AbstractContextManager, AbstractAsyncContextManager,
)  # fmt: skip
_STREAMS = (PlainStream, PlainAsyncStream, Cursor, lambda: (text for text in ("two ", "years")))


@pytest.mark.parametrize("make", _STREAMS)
def test_a_stream_is_of_the_kinds_that_it_was(by_hand: Recorded, make: Callable[[], Any]) -> None:
    """Frameworks ask whether a stream is asynchronous, has a length or is a manager."""
    plain, traced = make(), ragtrace.generation(make)()
    for kind in _KINDS:
        assert isinstance(traced, kind) is isinstance(plain, kind), kind
    for name in ("__len__", "__aiter__", "__iter__", "__anext__", "__enter__", "__aexit__", "close", "aclose"):
        assert hasattr(traced, name) is hasattr(plain, name), name


@pytest.mark.parametrize("make", [PlainStream, PlainAsyncStream])
def test_a_web_framework_sends_a_stream(by_hand: Recorded, make: Callable[[], Any]) -> None:
    """Starlette and FastAPI iterate over a stream in threads, unless it is asynchronous."""
    answer = ragtrace.generation(make)

    async def page(request: Any) -> StreamingResponse:
        return StreamingResponse(answer())

    with TestClient(Starlette(routes=[Route("/", page)])) as client:
        assert client.get("/").text == "two years"
    (trace,) = by_hand.traces
    assert trace.answer == "two years"


def test_a_proxy_of_a_stream_can_be_read(by_hand: Recorded) -> None:
    """What a library puts in the place of a stream is no iterator, though it has the iterator's attributes."""

    class Proxy:
        def __init__(self) -> None:
            self.inner = PlainStream()

        def __iter__(self) -> Iterator[str]:
            return iter(self.inner)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

    assert list(ragtrace.generation(Proxy)()) == ["two ", "years"]


def test_what_is_sent_to_a_stream_reaches_it(by_hand: Recorded) -> None:
    def pieces() -> Generator[str, str, None]:
        heard = yield "two "
        try:
            yield heard
        except ValueError:
            yield " or three"

    async def later() -> AsyncGenerator[str, str]:
        heard = yield "two "
        try:
            yield heard
        except ValueError:
            yield " or three"

    async def read_later() -> list[str]:
        stream = ragtrace.generation(lambda question: later())("q")
        pieces = [await anext(stream), await stream.asend("years"), await stream.athrow(ValueError())]
        return pieces + await read(stream)

    stream = ragtrace.generation(lambda question: pieces())("q")
    assert [next(stream), stream.send("years"), stream.throw(ValueError()), *stream] == ["two ", "years", " or three"]
    assert asyncio.run(read_later()) == ["two ", "years", " or three"]
    assert [trace.answer for trace in by_hand.traces] == ["two years or three"] * 2


def test_a_cursor_stays_a_cursor(by_hand: Recorded) -> None:
    """What a retriever returns keeps its operators, what the application sets is set on it, and caches copy it."""
    cursor = Cursor()
    with ragtrace.request("How long?"):
        rows = ragtrace.retriever(lambda query: cursor)("warranty")
        for copied in (copy.copy(rows), pickle.loads(pickle.dumps(rows))):
            assert (type(copied), copied.rows) == (Cursor, cursor.rows)
        assert (len(rows), rows[1], bool(rows)) == (2, "36 months.", True)
        rows.row_factory = dict
        assert cursor.row_factory is dict
        assert tuple(rows) == cursor.rows
    assert tuple(d.content for d in by_hand.traces[0].documents) == cursor.rows


def test_a_result_is_returned_where_no_thread_can_be_started(by_hand: Recorded) -> None:
    reaper.reset()
    with mock.patch.object(threading.Thread, "start", side_effect=RuntimeError("can't start new thread")):
        assert "".join(plain_stream(["24 ", "months."])) == "24 months."
    assert by_hand.traces[0].answer == "24 months."


def test_what_is_suppressed_leaves_nothing_behind(by_hand: Recorded) -> None:
    """Nobody ends a run that was never opened, so it must not be kept."""
    ask, recorder = ragtrace.generation(lambda prompt: "24 months."), manual.active_recorder()
    assert recorder is not None
    with suppress_instrumentation():
        for _ in range(20):
            with ragtrace.request("q") as request:
                request.retrieved(["text"])
                request.answered(ask("q"), model="m")
    assert not recorder._runs
    assert not by_hand.traces


def test_a_value_that_cannot_be_written_costs_itself_alone(by_hand: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    """An open run whose attributes cannot be written ends with its request, which is evaluated; the failure counts."""
    before, write = failures.count, capture_attributes.span_attributes

    def broken(capture: Any, run: Any, cancelled: bool) -> Any:
        if run.operation == semconv.OP_CHAT:
            raise RecursionError
        return write(capture, run, cancelled)

    monkeypatch.setattr(capture_attributes, "span_attributes", broken)
    recorder = manual.active_recorder()
    assert recorder is not None
    recorder.failures = 1  # the first one is logged, and what is logged fails a test
    with ragtrace.request("How long?") as request:
        recorder.start("never ends", None, semconv.OP_CHAT, "model")
        request.answered("24 months.")
    assert [trace.answer for trace in by_hand.traces] == ["24 months."]
    assert [len(span.attributes or {}) > 1 for span in by_hand.spans] == [False, True]
    assert failures.count == before + 1


def test_ids_are_redacted_before_they_are_cut(recorded: Recorded) -> None:
    capture = ContentPolicy(spans=True, sanitizer=Sanitizer(mask_pii))
    manual.set_recorder(Recorder(recorded.provider, capture=capture, consumer=recorded.consumer))
    mail = " ada.lovelace@mathematics.example.org"
    names: Any = {"session_id": "s" * 245 + mail, "user_id": "u" * 245 + mail, "tags": ["t" * 245 + mail]}
    with ragtrace.request("q", name="n" * 189 + mail, **names):
        pass
    manual.set_recorder(None)
    (span,) = recorded.spans
    assert "lovel" not in f"{span.name} {dict(span.attributes or {})}"
