"""Texts in other letters than ASCII's, and chains that end with a call of tools."""

import json
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

from ragtrace import semconv
from tests.conftest import Recorded
from tests.scenarios.function_model import calls, model, user
from tests.scenarios.scripted_chat import call, chat, search, stream

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
    told = [dict(span.attributes or {}) for span in langchain.spans]
    values = [str(value) for each in told for value in each.values()]
    assert not any("\\u" in value for value in values)
    for name in (semconv.INPUT_MESSAGES, semconv.OUTPUT_MESSAGES, semconv.RETRIEVAL_DOCUMENTS, semconv.TOOL_ARGUMENTS):
        found = [str(each[name]) for each in told if name in each]
        assert found
        assert all(text in value and json.loads(value) for value in found)


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
    """A loop by hand around a chain is one request: a turn that only asks for tools is none, and shows its calls."""
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
