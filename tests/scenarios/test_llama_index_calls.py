"""Ways of calling LlamaIndex: each is one request, with the user's question and the answer."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from llama_index.core import PromptTemplate, SummaryIndex
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.embeddings.base_sparse import BaseSparseEmbedding
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.postprocessor import LLMRerank
from llama_index.core.program import FunctionCallingProgram
from llama_index.core.query_engine import CustomQueryEngine
from llama_index.core.tools import FunctionTool
from workflows import Context, Workflow, step
from workflows.events import Event, StartEvent, StopEvent

from ragtrace import semconv
from tests.conftest import Recorded
from tests.llama_index.cases import run
from tests.llama_index.conftest import traced
from tests.scenarios.expectations import Joke, Scenario, check
from tests.scenarios.function_model import NODES, ScriptedModel, calls, engine, index, model, user

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
PROMPT = PromptTemplate("Say {x}")
OBJECT: tuple[tuple[str, str], ...] = (("Say it", '{"setup": "s"}'),)
ONCE: tuple[tuple[str, str], ...] = (("q?", "yes"),)
BOTH = ("d1", "d2")
DOWN = ConnectionError("down")


def joking() -> ScriptedModel:
    return model(calls("Joke", setup="s"))


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def broken(a: int) -> int:
    """Fail."""
    raise ValueError(a)


def asking(*replies: Any, tools: Any = (add,), **options: Any) -> Callable[[], Any]:
    return lambda: run(lambda: FunctionAgent(tools=list(tools), llm=model(*replies)), "q?", **options)


def querying(*replies: Any, **options: Any) -> Callable[[], Any]:
    return lambda: engine(*replies, **options).query("q?")


async def read_objects() -> Any:
    return [each async for each in await joking().astream_structured_predict(Joke, PROMPT, x="it")]


class Custom(CustomQueryEngine):
    """An engine of the application."""

    def custom_query(self, query_str: str) -> str:
        return str(model("yes").complete(query_str).text)


class Piece(Event):
    text: str


class Parallel(Workflow):
    """Asks a model about each input in a step of its own."""

    @step
    async def spread(self, ctx: Context, ev: StartEvent) -> Piece | None:
        await ctx.store.set("count", len(ev.inputs))
        for text in ev.inputs:
            ctx.send_event(Piece(text=text))
        return None

    @step(num_workers=3)
    async def ask(self, ev: Piece) -> Event:
        await model("m").achat(user(ev.text))
        return Event(text=ev.text)

    @step
    async def join(self, ctx: Context, ev: Event) -> StopEvent | None:
        events = ctx.collect_events(ev, [Event] * await ctx.store.get("count"))
        return None if events is None else StopEvent(result=", ".join(sorted(e.text for e in events)))


class Inner(Workflow):
    @step
    async def only(self, ev: StartEvent) -> StopEvent:
        return StopEvent(result=str((await model("yes").achat(user(ev.q))).message.content))


class Outer(Workflow):
    @step
    async def only(self, ev: StartEvent) -> StopEvent:
        return StopEvent(result=await Inner().run(q=ev.q))


MODELS = {
    "predict, streamed": Scenario(lambda: list(model("A B").stream(PROMPT, x="it")), (("Say it", "A B"),), "chat"),
    "object": Scenario(lambda: joking().structured_predict(Joke, PROMPT, x="it"), OBJECT, "workflow chat"),
    "object in parts, asynchronous": Scenario(lambda: asyncio.run(read_objects()), OBJECT, "chat"),
    "program of functions": Scenario(
        lambda: FunctionCallingProgram.from_defaults(output_cls=Joke, prompt=PROMPT, llm=joking())(x="it"), OBJECT,
        "workflow chat",
    ),
    "chat with tools": Scenario(
        lambda: model(calls("add", a=1, b=2)).chat_with_tools([FunctionTool.from_defaults(add)], user_msg="q?"), (),
        "chat",
    ),
    "refusal": Scenario(
        lambda: model(ChatMessage(role="assistant", content="", additional_kwargs={"refusal": "No."})).chat(user("q?")),
        (("q?", "No."),), "chat",
    ),
    "tool alone": Scenario(lambda: FunctionTool.from_defaults(add).call(a=1, b=2), (), "tool"),
}  # fmt: skip
ENGINES = {
    "summary index": Scenario(
        lambda: SummaryIndex(NODES).as_query_engine(llm=model("yes")).query("q?"), ONCE, "workflow retrieval chat", BOTH
    ),
    "structured model": Scenario(
        lambda: index().as_query_engine(llm=joking().as_structured_llm(Joke)).query("q?"),
        (("q?", '{"setup": "s"}'),), "workflow retrieval chat", BOTH,
    ),
    "reranked by a model": Scenario(
        querying("yes", node_postprocessors=[LLMRerank(llm=model("Doc: 2, Relevance: 9"), top_n=1)]),
        ONCE, "workflow retrieval rerank chat chat", ("d2",),
    ),
    "engine of the application": Scenario(lambda: Custom().query("q?"), ONCE, "workflow completion"),
    "question condensed": Scenario(
        lambda: index().as_chat_engine(chat_mode="condense_question", llm=model("alone?", "yes")).chat(
            "q?", chat_history=[*user("before"), ChatMessage(role="assistant", content="Paris")]),
        ONCE, "workflow chat retrieval chat", BOTH,
    ),
}  # fmt: skip
AGENTS = {
    "function agent": Scenario(asking(calls("add", a=1, b=2), "yes"), ONCE, "agent chat tool chat"),
    "tool that fails": Scenario(asking(calls("broken", a=1), "yes", tools=[broken]), ONCE, "agent chat tool! chat"),
    "tool that does not exist": Scenario(asking(calls("nothing", a=1), "yes"), ONCE, "agent chat chat"),
    "too many turns": Scenario(
        asking(calls("add", a=1, b=2), max_iterations=2), (("q?", ""),), "agent! chat tool chat",
        error="WorkflowRuntimeError",
    ),
    "model that fails": Scenario(asking(DOWN), (("q?", ""),), "agent! chat!", error="ConnectionError"),
}  # fmt: skip
WORKFLOWS = {
    "steps at once": Scenario(
        lambda: run(Parallel, inputs=["a", "b", "c"]), (('["a", "b", "c"]', "a, b, c"),), "workflow chat chat chat"
    ),
    "workflow inside a workflow": Scenario(lambda: run(Outer, q="q?"), ONCE, "workflow chat"),
}
SCENARIOS = {**MODELS, **{f"engine: {k}": v for k, v in ENGINES.items()}, **AGENTS, **WORKFLOWS}


@pytest.mark.parametrize("name", SCENARIOS)
def test_each_way_of_calling_is_what_the_user_asked(llama_index: Recorded, name: str) -> None:
    """Each request has its question, answer, documents and error; each model, tool and retriever has its span alone."""
    check(SCENARIOS[name], llama_index)


def test_arguments_of_tools_are_objects(llama_index: Recorded) -> None:
    """The arguments are JSON with their names, also of a tool with one text; its result is the object as JSON."""
    FunctionTool.from_defaults(lambda setup: Joke(setup=setup), name="joke").call(setup="s")
    told: dict[str, Any] = dict(llama_index.spans[0].attributes or {})
    assert json.loads(told[semconv.TOOL_ARGUMENTS]) == json.loads(told[semconv.TOOL_RESULT]) == {"setup": "s"}


class Sparse(BaseSparseEmbedding):
    """Knows one word of each text."""

    def _get_query_embedding(self, query: str) -> dict[int, float]:
        return {1: 0.5}

    async def _aget_query_embedding(self, query: str) -> dict[int, float]:
        return {1: 0.5}

    _get_text_embedding, _aget_text_embedding = _get_query_embedding, _aget_query_embedding


def test_sparse_embeddings(llama_index: Recorded) -> None:
    """A sparse embedding has a span with its texts, and no size: it names its entries alone."""
    Sparse(model_name="sparse-1").get_text_embedding_batch(["a", "b"])
    asyncio.run(Sparse(model_name="sparse-1").aget_query_embedding("q"))
    told = [dict(span.attributes or {}) for span in llama_index.spans]
    assert [span.name for span in llama_index.spans] == ["embeddings sparse-1"] * 2
    assert [each["embedding.embeddings.0.embedding.text"] for each in told] == ["a", "q"]
    assert not any(semconv.EMBEDDING_DIMENSIONS in each for each in told)


@pytest.mark.parametrize("end", ["close", "drop"])
def test_a_stream_that_was_left_just_before_the_end(recorded: Recorded, end: str) -> None:
    """A model's stream that is closed or dropped right before tracing ends was left, and is no error."""
    with traced(recorded, capture_content=True):
        stream = model("one two three").stream_chat(user("q?"))
        next(stream)
        if end == "close":
            stream.close()
        del stream
    (trace,) = recorded.traces
    assert (trace.answer, trace.error, trace.facts.cancelled) == ("one", None, True)
