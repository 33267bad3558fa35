"""What becomes of LangChain's messages on a model's span, in both dialects."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.outputs import ChatGeneration, ChatResult, LLMResult
from langchain_core.prompts import ChatPromptTemplate
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor

from ragtrace.capture.content import ContentPolicy
from ragtrace.text.sanitizer import Sanitizer
from ragtrace_langchain import RagtraceCallbackHandler
from ragtrace_langchain.chat_messages import message_of, replies_of
from tests.conftest import Recorded
from tests.genai_schemas import violations
from tests.hostile import Unreadable
from tests.langchain.test_handler import make_chain
from tests.row_files import table

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"


class Scripted(BaseChatModel):
    """Answers with the messages that it was given, one generation for each."""

    replies: Sequence[Any] = ()
    output: dict[str, Any] | None = None

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        generations = [ChatGeneration(message=m) for m in self.replies]
        return ChatResult(generations=generations, llm_output=self.output)


def attributes_of(
    recorded: Recorded, replies: Sequence[Any], messages: Sequence[Any] = ("Hi",), **options: Any
) -> dict[str, Any]:
    handler = RagtraceCallbackHandler(recorded.provider, **({"capture_content": True} | options))
    Scripted(replies=replies).invoke(list(messages), {"callbacks": [handler]})
    (span,) = recorded.spans
    attributes = dict(span.attributes or {})
    assert violations(attributes) == []
    return attributes


def test_tool_calls_and_results(recorded: Recorded) -> None:
    call = {"id": "call_1", "name": "weather", "args": {"city": "Paris", "days": 2}}
    asked = [
        SystemMessage("Be brief."), HumanMessage("Weather?", name="ada"), AIMessage("", tool_calls=[call]),
        ToolMessage("rain", tool_call_id="call_1", name="weather"),
    ]  # fmt: skip
    told = attributes_of(recorded, [AIMessage("Wait.", tool_calls=[call, {**call, "id": "call_2"}])], asked)
    sent, received = (json.loads(told[f"gen_ai.{way}.messages"]) for way in ("input", "output"))
    part = {"type": "tool_call", "id": "call_1", "name": "weather", "arguments": {"city": "Paris", "days": 2}}
    assert sent == table(__file__, "sent_messages")
    assert received[0]["parts"] == [{"type": "text", "content": "Wait."}, part, {**part, "id": "call_2"}]
    assert received[0]["finish_reason"] == "tool_call"
    flat = {k: v for k, v in told.items() if k.startswith("llm.")}
    assert flat == table(__file__, "flat_messages")
    assert (told["output.value"], told["output.mime_type"]) == (told["gen_ai.output.messages"], "application/json")


def test_older_and_broken_calls(recorded: Recorded) -> None:
    old = AIMessage("", additional_kwargs={"function_call": {"name": "add", "arguments": '{"a": 1}'}})
    call = {"id": "c", "name": "add", "args": '{"a": ', "error": "no JSON", "type": "invalid_tool_call"}
    broken = AIMessage("", invalid_tool_calls=[call])
    told = attributes_of(recorded, [broken], ["Add.", old, FunctionMessage(content="1", name="add")])
    sent, received = (json.loads(told[f"gen_ai.{way}.messages"]) for way in ("input", "output"))
    assert sent[1]["parts"] == [{"type": "tool_call", "name": "add", "arguments": {"a": 1}}]
    assert sent[2] == {"role": "function", "parts": [{"type": "tool_call_response", "response": "1"}], "name": "add"}
    assert received[0]["parts"] == [
        {"type": "tool_call", "id": "c", "name": "add", "arguments": '{"a": ', "error": "no JSON"}
    ]
    assert told["llm.input_messages.1.message.tool_calls.0.tool_call.function.name"] == "add"
    place = "llm.output_messages.0.message.tool_calls.0.tool_call"
    assert told[f"{place}.function.arguments"] == '{"a": '


MEDIA: dict[str, Any] = table(__file__, "media")
MEDIA["bytes, as Bedrock has it"] = (
    {"image": {"format": "png", "source": {"bytes": b"\x00\x01"}}},
    {"type": "blob", "modality": "image", "content": "AAE=", "mime_type": "image/png"},
    {"type": "image", "image.image.url": "data:image/png;base64,AAE="},
)


@pytest.mark.parametrize("case", MEDIA)
def test_images_audio_video_and_files(recorded: Recorded, case: str) -> None:
    """They are parts with their modality, by URI, data or id, and contents beside the text, in every vendor's form."""
    block, part, flat = MEDIA[case]
    told = attributes_of(recorded, [AIMessage("Yes.")], [HumanMessage([{"type": "text", "text": "Read."}, block])])
    assert json.loads(told["gen_ai.input.messages"])[0]["parts"] == [{"type": "text", "content": "Read."}, part]
    contents = "llm.input_messages.0.message.contents."
    expected = {"0.message_content.type": "text", "0.message_content.text": "Read."}
    expected |= {f"1.message_content.{key}": value for key, value in flat.items()}
    assert {k.removeprefix(contents): v for k, v in told.items() if k.startswith(contents)} == expected
    assert "llm.input_messages.0.message.content" not in told


REASONING: dict[str, Any] = table(__file__, "reasoning")


@pytest.mark.parametrize("vendor", REASONING)
def test_reasoning(recorded: Recorded, vendor: str) -> None:
    told = attributes_of(recorded, [AIMessage(**REASONING[vendor])])
    parts = json.loads(told["gen_ai.output.messages"])[0]["parts"]
    assert parts == [{"type": "reasoning", "content": "Two and two."}, {"type": "text", "content": "Four."}]
    contents = "llm.output_messages.0.message.contents"
    assert told[f"{contents}.0.message_content.type"] == "reasoning"
    assert told[f"{contents}.0.message_content.text"] == "Two and two."
    assert told[f"{contents}.1.message_content.text"] == "Four."
    assert (told["output.value"], told["output.mime_type"]) == ("Four.", "text/plain")


def test_spoken_answer(recorded: Recorded) -> None:
    audio = {"id": "audio_1", "data": PIXEL, "transcript": "Four.", "expires_at": 1}
    told = attributes_of(recorded, [AIMessage("", additional_kwargs={"audio": audio})])
    (part,) = json.loads(told["gen_ai.output.messages"])[0]["parts"]
    assert part == {"type": "blob", "modality": "audio", "content": PIXEL, "transcript": "Four."}
    assert told["llm.output_messages.0.message.contents.0.message_content.audio.audio.transcript"] == "Four."


def test_calls_of_the_provider_and_doubled_calls(recorded: Recorded) -> None:
    """Anthropic's content lists its calls again, which are written once; its own searches are the provider's calls."""
    calls = [{"id": "t_1", "name": "look", "args": {"at": "pump"}}]
    told = attributes_of(recorded, [AIMessage(table(__file__, "calls_of_the_provider"), tool_calls=calls)])
    parts = json.loads(told["gen_ai.output.messages"])[0]["parts"]
    types = [part["type"] for part in parts]
    assert types == ["server_tool_call", "server_tool_call_response", "text", "tool_call"]
    assert parts[0]["server_tool_call"]["arguments"] == {"query": "pumps"}
    assert parts[3] == {"type": "tool_call", "id": "t_1", "name": "look", "arguments": {"at": "pump"}}


def test_all_choices(recorded: Recorded) -> None:
    replies = [
        AIMessage("One.", response_metadata={"finish_reason": "stop"}),
        AIMessage("Tw", response_metadata={"finish_reason": "length"}),
    ]
    told = attributes_of(recorded, replies)
    messages = json.loads(told["gen_ai.output.messages"])
    assert [(m["parts"][0]["content"], m["finish_reason"]) for m in messages] == [("One.", "stop"), ("Tw", "length")]
    assert (told["gen_ai.response.finish_reasons"], told["llm.finish_reason"]) == (("stop", "length"), "stop")
    assert told["llm.output_messages.1.message.content"] == "Tw"


def test_a_long_conversation_keeps_its_end(recorded: Recorded) -> None:
    """Of a conversation with more values than a span holds, the last messages are flat, and the JSON has all."""
    call = {"id": "c", "name": "look", "args": {"at": "pump"}}
    turn = [HumanMessage("Look."), AIMessage("", tool_calls=[call] * 3), ToolMessage("seen", tool_call_id="c")]
    told = attributes_of(recorded, [AIMessage("Done.")], [*(turn * 30), HumanMessage("And now?")])
    assert len(json.loads(told["gen_ai.input.messages"])) == 91
    flat = [k for k in told if k.startswith("llm.input_messages.")]
    assert len(flat) <= 56
    last = max(int(k.split(".")[2]) for k in flat)
    assert (told[f"llm.input_messages.{last}.message.content"], told["openinference.span.kind"]) == ("And now?", "LLM")


def test_what_cannot_leave_whole(recorded: Recorded) -> None:
    """Data that is too long is left out, and so is all data where texts are redacted: nothing can redact an image."""
    image = {"type": "image", "base64": PIXEL, "mime_type": "image/png"}
    policy = ContentPolicy(spans=True, sanitizer=Sanitizer(redact=lambda text: text.replace("Ada", "[name]")))
    call = {"id": "c", "name": "look", "args": {"for": "Ada", "deep": [{"by": "Ada"}]}}
    told = attributes_of(recorded, [AIMessage("", tool_calls=[call])], [HumanMessage(["Ada", image])], capture=policy)
    assert PIXEL not in str(told)
    assert "Ada" not in str(told)
    arguments = json.loads(told["gen_ai.output.messages"])[0]["parts"][0]["arguments"]
    assert arguments == {"for": "[name]", "deep": [{"by": "[name]"}]}


def test_without_content(recorded: Recorded) -> None:
    call = {"id": "c", "name": "secret-tool", "args": {"word": "secret-word"}}
    reply = AIMessage("secret", tool_calls=[call], response_metadata={"finish_reason": "tool_calls"})
    told = attributes_of(recorded, [reply], [HumanMessage(["secret", "1234"])], capture_content=False)
    assert "secret" not in str(told)
    assert (told["ragtrace.input.length"], told["llm.finish_reason"]) == (10, "tool_calls")


@pytest.mark.parametrize("content", table(__file__, "odd_contents"))
def test_odd_contents(recorded: Recorded, content: Any) -> None:
    told = attributes_of(recorded, [AIMessage(content)], [HumanMessage(content)])
    assert told["openinference.span.kind"] == "LLM"


LOOK: dict[str, Any] = {
    "type": "function",
    "function": {"name": "look", "description": "Looks.", "parameters": {"type": "object"}},
}


def test_settings_tools_and_template(recorded: Recorded) -> None:
    handler = RagtraceCallbackHandler(recorded.provider, True)
    prompt = ChatPromptTemplate.from_messages([("system", "Be {tone}."), ("human", "{question}")]).partial(tone="brief")
    model = Scripted(replies=[AIMessage("24 months.")]).bind(
        temperature=0.2, stop=["END"], n=2, base_url="http://localhost:8080/v1", tools=[LOOK]
    )
    (prompt | model).invoke(
        {"question": "How long?", "other": 1}, {"callbacks": [handler], "metadata": {"prompt_version": 7}}
    )
    told: dict[str, Any] = dict(recorded.named("chat")[0].attributes or {})
    assert violations(told) == []
    assert told["gen_ai.request.stop_sequences"] == ("END",)
    assert json.loads(told["llm.invocation_parameters"]) == {"temperature": 0.2, "stop": ["END"], "n": 2}
    assert (told["server.address"], told["server.port"]) == ("localhost", 8080)
    assert json.loads(told["gen_ai.tool.definitions"]) == [{"type": "function", **LOOK["function"]}]
    assert json.loads(told["llm.tools.0.tool.json_schema"]) == LOOK
    assert told["llm.prompt_template.template"] == "Be {tone}.\n{question}"
    assert json.loads(told["llm.prompt_template.variables"]) == {"tone": "brief", "question": "How long?"}
    assert told["llm.prompt_template.version"] == told["gen_ai.prompt.version"] == "7"


def test_the_same_messages_as_an_event(recorded: Recorded) -> None:
    """With EVENT_ONLY messages and definitions leave as a valid event in the call's context, and no text on a span."""
    exporter = InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]
    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    handler = RagtraceCallbackHandler(recorded.provider, "EVENT_ONLY", logger_provider=provider)
    call = {"id": "c", "name": "look", "args": {"at": "pump"}}
    model = Scripted(replies=[AIMessage("ANSWER", tool_calls=[call])]).bind(tools=[LOOK], temperature=0.2)
    make_chain(model=model).invoke("QUESTION", {"callbacks": [handler]})
    (event,), (chat,) = exporter.get_finished_logs(), recorded.named("chat")
    assert event.log_record.event_name == "gen_ai.client.inference.operation.details"
    assert event.log_record.span_id == chat.context.span_id
    body: Any = json.loads(json.dumps(dict(event.log_record.attributes or {})))
    assert violations(body) == []
    text, asked = body["gen_ai.output.messages"][0]["parts"]
    assert (text["content"], asked["arguments"]) == ("ANSWER", {"at": "pump"})
    assert (body["gen_ai.tool.definitions"][0]["name"], body["gen_ai.request.temperature"]) == ("look", 0.2)
    said = repr([dict(span.attributes or {}) for span in recorded.spans])
    assert not any(word in said for word in ("QUESTION", "ANSWER", "pump", "Passage"))
    provider.shutdown()


def test_chunks_are_messages_of_the_assistant() -> None:
    assert message_of(AIMessageChunk(content="Four.")).role == "assistant"


class Incomparable(Unreadable):
    __eq__ = __hash__ = Unreadable.__str__  # type: ignore[assignment]


@pytest.mark.parametrize("field", ["content", "additional_kwargs", "tool_calls", "role"])
def test_a_message_that_cannot_be_read_costs_no_other(field: str) -> None:
    """It is named by its class where its content cannot be read; the other choices are kept."""
    bad = AIMessage.model_construct(**{"content": "bad", "additional_kwargs": {}, "type": "ai", field: Incomparable()})
    generations = [ChatGeneration.model_construct(message=message) for message in (bad, AIMessage(content="two years"))]
    first, second = replies_of(LLMResult.model_construct(generations=[generations]))
    assert first.text == ("<Incomparable>" if field == "content" else "bad")
    assert (second.role, second.text) == ("assistant", "two years")
