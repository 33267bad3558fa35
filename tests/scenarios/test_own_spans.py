"""Spans that the application opens itself, among those of the frameworks; and tokens on the spans of agents."""

import asyncio
import contextvars
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from llama_index.core.agent.workflow import FunctionAgent
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from workflows import Workflow, step
from workflows.events import StartEvent, StopEvent

from ragtrace import semconv
from tests.conftest import Recorded
from tests.llama_index.cases import TODAY
from tests.scenarios.function_model import calls, model, user
from tests.scenarios.scripted_chat import call, chat, graph, search, stream

CHAT = [("chat ScriptedChat", [])]
OWN = [("own", CHAT), *CHAT]


def asks_twice(recorded: Recorded) -> Callable[[Any], str]:
    """Asks a model inside of a span of the application, and once more after it."""

    def ask(question: Any) -> str:
        with recorded.provider.get_tracer("application").start_as_current_span("own"):
            chat("yes").invoke("a")
        return str(chat("yes").invoke("b").content)

    return ask


def of_a_function(recorded: Recorded) -> Any:
    RunnableLambda(asks_twice(recorded)).invoke("q?")
    return [("invoke_workflow ask", OWN)]


def of_a_graph(recorded: Recorded) -> Any:
    ask = asks_twice(recorded)
    graph(lambda state: {"messages": [ask(state)]}).invoke({"messages": "q?"})
    return [("invoke_workflow LangGraph", OWN)]


def of_a_tool(recorded: Recorded) -> Any:
    ask = asks_twice(recorded)

    @tool
    def consult(q: str) -> str:
        """Ask somebody else."""
        return ask(q)

    create_agent(chat(call("consult", q="x"), "yes"), tools=[consult]).invoke({"messages": "q?"})
    return [("invoke_agent LangGraph", [*CHAT, ("execute_tool consult", OWN), *CHAT])]


def of_an_asynchronous_function(recorded: Recorded) -> Any:
    async def ask(question: str) -> str:
        with recorded.provider.get_tracer("application").start_as_current_span("own"):
            await asyncio.gather(chat("yes").ainvoke("a"), chat("yes").ainvoke("b"))
        return "yes"

    asyncio.run(RunnableLambda(ask).ainvoke("q?"))
    return [("invoke_workflow ask", [("own", [*CHAT, *CHAT])])]


@pytest.mark.parametrize("place", [of_a_function, of_a_graph, of_a_tool, of_an_asynchronous_function])
def test_what_an_own_span_surrounds_is_below_it(langchain: Recorded, place: Callable[[Recorded], Any]) -> None:
    """A model that is called inside of a span of the application is below that span, and one after it is not."""
    expected = place(langchain)
    assert langchain.tree() == expected
    assert len(langchain.traces) == 1


async def test_an_own_span_in_a_workflow(llama_index: Recorded) -> None:
    class Own(Workflow):
        @step
        async def only(self, ev: StartEvent) -> StopEvent:
            with llama_index.provider.get_tracer("application").start_as_current_span("own"):
                await model("yes").achat(user("a"))
            await model("yes").achat(user("b"))
            return StopEvent(result="yes")

    await Own().run(q="q?")
    below = [("chat scripted-1", [])]
    assert llama_index.tree() == [("invoke_workflow Own", [("own", below), *below])]


def test_an_own_span_that_has_ended(langchain: Recorded) -> None:
    """A model in a thread that was started inside of an own span, and asks after its end, is below its chain."""

    def ask(question: str) -> str:
        with ThreadPoolExecutor(1) as pool:
            with langchain.provider.get_tracer("application").start_as_current_span("own"):
                context = contextvars.copy_context()
            return str(pool.submit(context.run, chat("yes").invoke, "a").result().content)

    RunnableLambda(ask).invoke("q?")
    assert langchain.tree() == [("invoke_workflow ask", [("own", []), *CHAT])]


async def test_the_span_inside_of_a_function(langchain: Recorded) -> None:
    """In ten concurrent calls, each function finds its own request's span as the current one."""

    async def identity(_: Any) -> int:
        await asyncio.sleep(0)
        return trace.get_current_span().get_span_context().span_id

    seen = await asyncio.gather(*(RunnableLambda(identity).ainvoke(i) for i in range(10)))
    assert set(seen) == {span.context.span_id for span in langchain.spans}


def test_tokens_of_an_agent(langchain: Recorded) -> None:
    """An agent's span has all tokens below it, of cache and reasoning, too, under OpenTelemetry's names alone."""
    details = {"input_token_details": {"cache_read": 4}, "output_token_details": {"reasoning": 2}}
    usage: Any = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15, **details}
    replies = (call("search", q="x"), AIMessage("yes"))
    for reply in replies:
        reply.usage_metadata = usage
    create_agent(chat(*replies), tools=[search], name="helper").invoke({"messages": "q?"})
    told: dict[str, Any] = dict(langchain.named("invoke_agent")[0].attributes or {})
    assert (told[semconv.INPUT_TOKENS], told[semconv.OUTPUT_TOKENS]) == (20, 10)
    assert (told[semconv.CACHE_READ_TOKENS], told[semconv.REASONING_TOKENS]) == (8, 4)
    assert not any(name.startswith("llm.token_count") for name in told)


async def test_tokens_of_an_agent_of_llama_index(llama_index: Recorded) -> None:
    raw = {"usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}}
    await FunctionAgent(tools=[TODAY], llm=model(calls("today"), "yes", raw=raw)).run("q?")
    told: dict[str, Any] = dict(llama_index.named("invoke_agent")[0].attributes or {})
    assert (told[semconv.INPUT_TOKENS], told[semconv.OUTPUT_TOKENS]) == (20, 10)


LETTERS = ("こんにちは世界", "Résultat: naïve", "Ключ и значение", "🎉", "مرحبا")


@pytest.mark.parametrize("text", LETTERS)
def test_every_letter_can_be_read(langchain: Recorded, text: str) -> None:
    """Messages, arguments of tools, documents with their metadata and several inputs hold a text as it is written."""

    def find(_: Any) -> list[Document]:
        return [Document(text, id="1", metadata={text: text})]

    asks = chat(call("search", text=text, q=text))
    chain = RunnableLambda(find) | ChatPromptTemplate.from_template(text + " {q}") | asks
    RunnableLambda(lambda x: chain.invoke({"a": x})).invoke({"first": text, "second": text})
    search.invoke({"q": text})
    attributes = [dict(span.attributes or {}) for span in langchain.spans]
    values = [str(value) for each in attributes for value in each.values()]
    assert not any("\\u" in value for value in values)
    for name in (semconv.INPUT_MESSAGES, semconv.OUTPUT_MESSAGES, semconv.RETRIEVAL_DOCUMENTS, semconv.TOOL_ARGUMENTS):
        messages = [str(each[name]) for each in attributes if name in each]
        assert messages
        assert all(text in value and json.loads(value) for value in messages)


@pytest.mark.parametrize("text", ["\ud800 half a pair", "a\0b"])
def test_letters_that_no_protocol_carries(langchain: Recorded, text: str) -> None:
    """Half of a surrogate pair, or a NUL, spoils neither the JSON nor the span."""
    document = Document("x", id="1", metadata={text: text})
    RunnableLambda(lambda _: [document]).invoke("q?")
    chat(call("search", q=text)).invoke(text)
    assert encode_spans(langchain.spans).SerializeToString()
    for span in langchain.spans:
        for name in (semconv.INPUT_MESSAGES, semconv.OUTPUT_MESSAGES, semconv.RETRIEVAL_DOCUMENTS):
            if name in (span.attributes or {}):
                json.loads(str((span.attributes or {})[name]))


PROMPT = ChatPromptTemplate.from_template("{q}")


@pytest.mark.parametrize("way", ["invoke", "stream"])
def test_a_chain_that_asks_for_tools(langchain: Recorded, way: str) -> None:
    """A loop by hand around a chain is one request. A turn that only asks for tools is no request."""
    make = stream if way == "stream" else chat
    chain = PROMPT | make(call("search", q="x"), "It is big.").bind_tools([search])
    for question in ("How big?", "How big? result for x"):
        answer = getattr(chain, way)({"q": question})
        list(answer)
    assert [trace.answer for trace in langchain.traces] == ["It is big."]
    first = dict(langchain.named("invoke_workflow")[0].attributes or {})
    (message,) = json.loads(str(first[semconv.OUTPUT_MESSAGES]))
    assert message["parts"] == [{"type": "tool_call", "id": "c1", "name": "search", "arguments": {"q": "x"}}]
    assert first["output.value"] == first[semconv.OUTPUT_MESSAGES]


def test_a_chain_that_speaks_and_asks_for_tools(langchain: Recorded) -> None:
    """A turn that says something beside its calls is a request with that answer."""
    (PROMPT | chat(call("search", "I look.", q="x"))).invoke({"q": "How big?"})
    assert [trace.answer for trace in langchain.traces] == ["I look."]


def test_an_empty_answer_is_a_request(langchain: Recorded, llama_index: Recorded) -> None:
    """A model that says nothing at all has answered; one that only asks for tools has not."""
    (PROMPT | chat(AIMessage(""))).invoke({"q": "How big?"})
    model(calls("search", q="x")).chat(user("How big?"))
    assert [(trace.query, trace.answer) for trace in langchain.traces] == [("How big?", "")]
