"""A span of ours is the current one while the application's code below it works, and only then."""

import asyncio
import functools
import logging
import types
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel, FakeListLLM
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableLambda, RunnablePassthrough
from langchain_core.tools import tool
from langgraph.graph import START, StateGraph
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step
from opentelemetry import context as otel_context
from opentelemetry import trace as otel

from ragtrace import semconv
from ragtrace_langchain import RagtraceLangChainInstrumentor
from ragtrace_langchain.current_span import _try, _wrap_methods
from ragtrace_langchain.switch import switch
from tests.conftest import Recorded
from tests.langchain.cases import read
from tests.llama_index.cases import Fixed
from tests.llama_index.cases import engine as engine_of
from tests.llama_index.conftest import traced


class Web:
    """Stands for an instrumented client: each call is a span below the current one."""

    def __init__(self, tracer: otel.Tracer) -> None:
        self.tracer = tracer

    def get(self, path: str) -> str:
        self.tracer.start_span(f"GET {path}").end()
        return path

    async def aget(self, path: str) -> str:
        await asyncio.sleep(0)
        return self.get(path)


@pytest.fixture
def web(recorded: Recorded, caplog: pytest.LogCaptureFixture) -> Iterator[Web]:
    """A client, with both frameworks traced. Afterwards no span is current, and no token was refused."""
    with traced(recorded, RagtraceLangChainInstrumentor), traced(recorded), caplog.at_level(logging.WARNING):
        yield Web(recorded.provider.get_tracer("web"))
    assert not otel.get_current_span().get_span_context().is_valid
    assert "different Context" not in caplog.text


def parents(recorded: Recorded) -> dict[str, str | None]:
    """The name of the parent of each call, by the call's path."""
    names = {span.context.span_id: span.name for span in recorded.spans}
    calls = recorded.named("GET")
    return {s.name.removeprefix("GET "): names.get(s.parent.span_id) if s.parent else None for s in calls}


def make_chain(web: Web) -> Runnable[Any, Any]:
    class Searching(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            web.get("retriever")
            return [Document(page_content="Pumps are covered for 24 months.")]

    class Asking(FakeListChatModel):
        def _call(self, *args: Any, **kwargs: Any) -> str:
            web.get("model")
            return super()._call(*args, **kwargs)

        def _stream(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
            web.get("model")
            yield from super()._stream(*args, **kwargs)
            web.get("model-end")

        async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            await web.aget("model")
            async for chunk in super()._astream(*args, **kwargs):
                yield chunk

    @tool
    def look_up(text: str) -> str:
        """Look it up."""
        return web.get("tool")

    def read(question: str) -> str:
        web.get("step")
        return question

    gather = RunnablePassthrough.assign(context=_question | Searching(), rules=_question | look_up)
    model = Asking(responses=["For 24 months."])
    chain = RunnableLambda(read) | RunnableLambda(lambda text: {"text": text}) | gather | RunnableLambda(str) | model
    return chain.with_config(run_name="rag")


_question: Runnable[Any, Any] = RunnableLambda(lambda state: state["text"])
BELOW_CHAIN = {
    "step": "invoke_workflow rag", "retriever": "retrieval Searching", "tool": "execute_tool look_up",
    "model": "chat Asking",
}  # fmt: skip
WAYS: dict[str, Callable[[Runnable[Any, Any]], Any]] = {
    "invoke": lambda chain: chain.invoke("How long?"),
    "ainvoke": lambda chain: asyncio.run(chain.ainvoke("How long?")),
    "stream": lambda chain: list(chain.stream("How long?")),
    "astream": lambda chain: asyncio.run(read(chain.astream("How long?"))),
    "batch": lambda chain: chain.batch(["How long?"]),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_langchain_http_calls_hang_below_the_component_that_makes_them(recorded: Recorded, web: Web, way: str) -> None:
    WAYS[way](make_chain(web))
    web.get("after")
    found = parents(recorded)
    assert found.pop("model-end", "chat Asking") == "chat Asking"
    assert found == {**BELOW_CHAIN, "after": None}
    assert len({span.context.trace_id for span in recorded.spans}) == 2


def test_langchain_consumer_of_a_stream_is_outside(recorded: Recorded, web: Web) -> None:
    chain = make_chain(web)
    stream = chain.stream("How long?")
    next(stream)
    web.get("consumer")
    chain.invoke("And another?")
    stream.close()
    assert parents(recorded)["consumer"] is None
    roots = recorded.named("invoke_workflow")
    assert len({root.context.trace_id for root in roots}) == len(roots) == 2
    assert sorted(trace.query for trace in recorded.traces) == ["And another?", "How long?"]


def test_langchain_models_and_tools_alone(recorded: Recorded, web: Web) -> None:
    class Completing(FakeListLLM):
        def _call(self, *args: Any, **kwargs: Any) -> str:
            web.get("completion")
            return super()._call(*args, **kwargs)

    @tool
    async def look_up(text: str) -> str:
        """Look it up."""
        return await web.aget("tool")

    Completing(responses=["yes"]).invoke("How long?")
    asyncio.run(look_up.ainvoke("rules"))
    web.get("after")
    below = {"completion": "text_completion Completing", "tool": "execute_tool look_up"}
    assert parents(recorded) == {**below, "after": None}


def test_langchain_modules_that_are_still_being_imported() -> None:
    """A module that does not define its class yet is wrapped before the first run; its import is not disturbed."""

    class BaseRetriever:
        def invoke(self, query: str) -> str:
            return query

    original, module = BaseRetriever.invoke, types.ModuleType("half_imported")
    _try(functools.partial(_wrap_methods, class_name="BaseRetriever", methods=("invoke",)), module)
    module.BaseRetriever = BaseRetriever  # type: ignore[attr-defined]
    switch.get()
    assert BaseRetriever.invoke is not original
    assert BaseRetriever().invoke("How long?") == "How long?"
    assert switch.at_first_run == []


def test_langgraph_nodes(recorded: Recorded, web: Web) -> None:
    graph: Any = StateGraph(dict)
    graph.add_node("plan", lambda state: {**state, "answer": web.get("node")})
    app = graph.add_edge(START, "plan").compile()
    app.invoke({"question": "How long?"})
    list(app.stream({"question": "How long?"}))
    assert not otel.get_current_span().get_span_context().is_valid
    asyncio.run(app.ainvoke({"question": "How long?"}))
    assert parents(recorded) == {"node": "invoke_workflow LangGraph"}
    assert len({trace.trace_id for trace in recorded.traces}) == 3


def test_a_task_that_outlives_its_request_starts_requests_of_its_own(recorded: Recorded, web: Web) -> None:
    chain = make_chain(web)
    later: list[asyncio.Task[Any]] = []

    async def ask() -> None:
        release = asyncio.Event()

        async def wait() -> None:
            await release.wait()
            await chain.ainvoke("later")

        async def spawn(question: str) -> str:
            later.append(loop.create_task(wait()))
            return question

        loop = asyncio.get_running_loop()
        await RunnableLambda(spawn).ainvoke("first")
        release.set()
        await later[0]

    asyncio.run(ask())
    roots = recorded.named("invoke_workflow")
    assert len(recorded.traces) == 2
    assert len({root.context.trace_id for root in roots}) == 2
    assert all(root.parent is None for root in roots)


def make_engine(web: Web, streaming: bool = False) -> RetrieverQueryEngine:
    def search() -> list[NodeWithScore]:
        web.get("retriever")
        return [NodeWithScore(node=TextNode(text="Pumps are covered for 24 months."), score=0.9)]

    class Asking(MockLLM):
        def complete(self, *args: Any, **kwargs: Any) -> Any:
            web.get("model")
            return super().complete(*args, **kwargs)

        def stream_complete(self, *args: Any, **kwargs: Any) -> Any:
            inner = super().stream_complete(*args, **kwargs)

            def stream() -> Iterator[Any]:
                web.get("model")
                yield from inner

            return stream()

    return engine_of(Fixed(search), Asking(max_tokens=5), streaming=streaming)


BELOW_ENGINE = {"retriever": "retrieval Fixed", "model": "text_completion Asking"}


@pytest.mark.parametrize(
    "ask", [lambda engine: engine.query("How long?"), lambda engine: asyncio.run(engine.aquery("How long?"))]
)
def test_llama_index_http_calls_hang_below_the_component(recorded: Recorded, web: Web, ask: Any) -> None:
    ask(make_engine(web))
    web.get("after")
    assert parents(recorded) == {**BELOW_ENGINE, "after": None}


def test_llama_index_streams(recorded: Recorded, web: Web) -> None:
    response: Any = make_engine(web, streaming=True).query("How long?")
    web.get("before")
    for i, _ in enumerate(response.response_gen):
        web.get(f"consumer-{i}")
    found = parents(recorded)
    assert found.pop("retriever") == "retrieval Fixed"
    assert found.pop("model") == "invoke_workflow RetrieverQueryEngine"
    assert set(found.values()) == {None}


def test_llama_index_tools_and_workflows(recorded: Recorded, web: Web) -> None:
    class Plan(Workflow):
        @step
        async def answer(self, event: StartEvent) -> StopEvent:
            return StopEvent(result=await web.aget("step"))

    async def run() -> None:
        handler = Plan().run(question="How long?")
        await web.aget("meanwhile")
        await handler

    asyncio.run(run())
    FunctionTool.from_defaults(fn=web.get, name="look_up", description="Looks up.").call(path="tool")
    assert parents(recorded) == {"step": "invoke_workflow Plan", "meanwhile": None, "tool": "execute_tool look_up"}


def test_one_framework_inside_another_is_one_request(recorded: Recorded, web: Web) -> None:
    engine = make_engine(web)

    @tool
    def ask_index(text: str) -> str:
        """Ask the index."""
        return str(engine.query(text))

    chain = (ask_index | FakeListChatModel(responses=["For 24 months."])).with_config(run_name="rag")
    chain.invoke("How long?")
    assert parents(recorded) == BELOW_ENGINE
    assert [trace.query for trace in recorded.traces] == ["How long?"]
    assert [document.content for document in recorded.traces[0].documents] == ["Pumps are covered for 24 months."]
    assert recorded.traces[0].answer == "For 24 months."
    names = {span.context.span_id: span.name for span in recorded.spans}
    inner = recorded.named("invoke_workflow Retriever")[0]
    assert inner.parent is not None
    assert names[inner.parent.span_id] == "execute_tool ask_index"


def test_values_of_openinference_contexts_are_read(recorded: Recorded, web: Web) -> None:
    """`using_attributes` around a call names its session, user, tags and metadata; the call's own names go first."""
    context = otel_context.get_current()
    metadata = '{"prompt_version": "7", "reference": "24 months"}'
    names = {"session.id": "s1", "user.id": "u1", "tag.tags": ["beta"], "metadata": metadata}
    for key, value in names.items():
        context = otel_context.set_value(key, value, context)
    token = otel_context.attach(context)
    try:
        make_chain(web).invoke("How long?", config={"metadata": {"user_id": "u2"}})
        make_engine(web).query("How long?")
    finally:
        otel_context.detach(token)
    facts = [(t.facts.session_id, t.facts.user_id, t.facts.tags, t.facts.prompt_version) for t in recorded.traces]
    assert facts == [("s1", user, ("beta",), "7") for user in ("u2", "u1")]
    assert recorded.traces[0].reference == "24 months"
    ours = [span for span in recorded.spans if not span.name.startswith("GET")]
    assert {(span.attributes or {}).get(semconv.CONVERSATION_ID) for span in ours} == {"s1"}


def test_suppressed_tracing_is_obeyed(recorded: Recorded, web: Web) -> None:
    def quietly(question: str) -> str:
        token = otel_context.attach(otel_context.set_value(otel_context._SUPPRESS_INSTRUMENTATION_KEY, True))
        try:
            make_chain(web).invoke(question)
            return str(make_engine(web).query(question))
        finally:
            otel_context.detach(token)

    quietly("How long?")
    RunnableLambda(quietly).invoke("How long?")
    assert [span.name for span in recorded.spans if not span.name.startswith("GET")] == ["invoke_workflow quietly"]
    assert len(recorded.traces) == 1


def test_a_call_without_prompts_works(web: Web) -> None:
    """A text-completion model that is called with no prompt has no run to attach."""
    assert FakeListLLM(responses=["a"]).generate([]).generations == []
