"""Values of every type that pass through LangChain, and what models, tools and prompts say of themselves."""

import contextvars
import datetime
import decimal
import enum
import json
import math
import pathlib
import uuid
from collections import deque
from dataclasses import dataclass
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import LLMResult
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import StructuredTool, tool
from opentelemetry import context as otel_context
from opentelemetry.sdk.trace import ReadableSpan

from ragtrace import semconv
from ragtrace_langchain import RagtraceCallbackHandler
from tests.conftest import Recorded
from tests.row_files import rows, table
from tests.scenarios.scripted_chat import chat


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Place:
    name: str
    floor: int


def attributes_of(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


VALUES: dict[str, tuple[Any, Any]] = {
    "a set": ({1}, [1]), "a deque": (deque([1, 2]), [1, 2]), "an enumeration": (Colour.RED, "red"),
    "a dataclass": (Place("shelf", 2), {"name": "shelf", "floor": 2}),
    "a time": (datetime.datetime(2026, 1, 2, 3, 4), "2026-01-02T03:04:00"),
    "a decimal number": (decimal.Decimal("1.50"), "1.50"), "a path": (pathlib.PurePosixPath("/a"), "/a"),
    "no number": (math.nan, "nan"), "an infinite number": (-math.inf, "-inf"),
    "a key that is no text": ({(1, 2): "pair", None: 0}, {"[1, 2]": "pair", "None": 0}),
    "an enumeration as key": ({Colour.RED: {3}}, {"red": [3]}), "a message": (HumanMessage("hi"), "hi"),
    "messages": ([HumanMessage("hi"), AIMessage("ho")], ["hi", "ho"]),
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_values_of_every_type_are_valid_json(langchain: Recorded, name: str) -> None:
    """Among several outputs, each value is JSON that every parser reads, and says what the value is."""
    value, expected = VALUES[name]
    RunnableLambda(lambda _: {"first": value, "second": 1}).invoke("q?")
    answer = langchain.traces[0].answer
    assert json.loads(answer, parse_constant=pytest.fail) == {"first": expected, "second": 1}


ANSWERS: dict[str, tuple[Any, str]] = {
    "texts": (["red", "green"], '["red", "green"]'), "objects": ([{"a": 1}], '[{"a": 1}]'),
    "blocks of a message": ([{"type": "text", "text": "A"}, {"type": "text", "text": "B"}], "AB"),
    "a set": ({"only"}, '["only"]'), "an enumeration": (Colour.RED, "red"), "a truth": (True, "True"),
    "nothing": (None, ""),
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_and_results_that_are_no_text(langchain: Recorded, name: str) -> None:
    """A list is an answer, or a tool's result, as JSON: its items are neither lost nor run together."""
    value, expected = ANSWERS[name]

    @tool
    def give(q: str) -> Any:
        """Give it."""
        return value

    RunnableLambda(lambda _: value).invoke("q?")
    give.invoke("x")
    assert langchain.traces[0].answer == expected
    if value is not None:
        assert attributes_of(langchain.named("execute_tool")[0])[semconv.TOOL_RESULT] == expected


REPLIES: dict[str, Any] = table(__file__, "replies")


@pytest.mark.parametrize("name", REPLIES)
def test_the_answer_is_what_the_model_said(langchain: Recorded, name: str) -> None:
    """Thoughts and what the provider's tools found are no part of the answer; a refusal is the answer."""
    reply, expected = REPLIES[name]
    chat(AIMessage(**reply)).invoke("q?")
    (span,) = langchain.spans
    parts = json.loads(attributes_of(span)[semconv.OUTPUT_MESSAGES])[0]["parts"]
    assert parts[-1] == {"type": "text", "content": expected}
    assert langchain.traces[0].answer == expected


@pytest.mark.parametrize(
    ("serialized", "parameters", "model", "provider"), rows(__file__, "the_model_and_its_provider")
)
def test_the_model_and_its_provider(  # noqa: PLR0917 fixtures
    recorded: Recorded, handler: RagtraceCallbackHandler, serialized: Any, parameters: Any, model: str, provider: Any
) -> None:
    """Where LangChain does not name them, its type of the model, the settings or the text of the object do."""
    key, reply = uuid.uuid4(), {"text": "yes"}
    more = {"run_id": key, "name": "model", "invocation_params": parameters}
    handler.on_chat_model_start(serialized, [[HumanMessage("q?")]], **more)
    handler.on_llm_end(LLMResult(generations=[[reply]]), run_id=key)  # type: ignore[list-item]
    told = attributes_of(recorded.spans[0])
    assert (told[semconv.REQUEST_MODEL], told.get(semconv.PROVIDER)) == (model, provider)


def look(at: str) -> str:
    """Look at it."""
    return at


SCHEMA = {"name": "look", "description": "Look at it.", "parameters": {"type": "object"}}
TOOLS: dict[str, Any] = {"a tool": StructuredTool.from_function(look), "a function": look, "a bare schema": SCHEMA}


@pytest.mark.parametrize("name", TOOLS)
def test_tools_in_every_form(langchain: Recorded, name: str) -> None:
    """A tool has the same definition in whatever form it was bound; what is no tool is left out."""
    chat("yes").bind(tools=[3, object(), TOOLS[name]]).invoke("q?")
    (definition,) = json.loads(attributes_of(langchain.spans[0])[semconv.TOOL_DEFINITIONS])
    assert (definition["type"], definition["name"], definition["description"]) == ("function", "look", "Look at it.")
    assert definition["parameters"]["type"] == "object"


def test_an_end_in_another_context(recorded: Recorded, handler: RagtraceCallbackHandler) -> None:
    """A chain whose end is reported in another context than its start ends, and leaves no context behind."""
    before, key = otel_context.get_current(), uuid.uuid4()
    handler.on_chain_start({"id": ["RunnableSequence"]}, {"topic": "otters"}, run_id=key)
    contextvars.copy_context().run(handler.on_chain_end, {"output": "yes"}, run_id=key)
    assert [(trace.query, trace.answer) for trace in recorded.traces] == [("otters", "yes")]
    assert otel_context.get_current() is before
    handler.on_chain_end({"output": "again"}, run_id=key)
    assert len(recorded.traces) == len(recorded.spans) == 1


def test_the_same_run_twice(recorded: Recorded, handler: RagtraceCallbackHandler) -> None:
    key = uuid.uuid4()
    for _ in range(2):
        handler.on_llm_start({}, ["q?"], run_id=key, name="model")
    handler.on_llm_error(ValueError("x"), run_id=key)
    assert [span.name for span in recorded.spans] == ["text_completion model"]


def test_names_in_the_metadata(langchain: Recorded) -> None:
    """The metadata of a call can name its workflow or its agent; a model's span has the name of its workflow."""
    runnable = RunnableLambda(lambda _: chat("yes").invoke("q?").content)
    runnable.invoke("q?", {"metadata": {"workflow_name": "answers"}})
    runnable.invoke("q?", {"metadata": {"agent_name": "helper"}})
    names = [span.name for span in langchain.spans if span.parent is None]
    assert names == ["invoke_workflow answers", "invoke_agent helper"]
    models = [attributes_of(span) for span in langchain.named("chat")]
    assert [told.get(semconv.WORKFLOW_NAME) for told in models] == ["answers", None]
    assert [told.get(semconv.AGENT_NAME) for told in models] == [None, "helper"]
