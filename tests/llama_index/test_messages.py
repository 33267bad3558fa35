"""What becomes of LlamaIndex's messages on a model's span, in both dialects."""

import json
from typing import Any

import pytest
from llama_index.core.base.llms import types
from llama_index.core.base.llms.types import ChatMessage, TextBlock, ThinkingBlock, ToolCallBlock

from ragtrace_llama_index.blocks import message_of
from tests.conftest import Recorded
from tests.genai_schemas import violations
from tests.row_files import table
from tests.scenarios.function_model import ScriptedModel

TOOL = {"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": {"type": "object"}}}


class Scripted(ScriptedModel):
    temperature: float = 0.5
    api_base: str = "https://models.example/v1"


def attributes_of(recorded: Recorded, reply: Any, messages: list[Any], raw: Any = None, **kwargs: Any) -> Any:
    Scripted(replies=[reply], raw=raw).chat(messages, **kwargs)
    (span,) = recorded.spans
    attributes = dict(span.attributes or {})
    assert violations(attributes) == []
    return attributes


def test_calls_results_reasoning_and_settings(instrumented: Recorded) -> None:
    call = ToolCallBlock(tool_call_id="c1", tool_name="look", tool_kwargs={"at": "pump"})
    thought = ThinkingBlock(content="Hm.", additional_information={"signature": "s"})
    reply = ChatMessage(role="assistant", blocks=[thought, call])
    asked = [
        ChatMessage(role="system", content="Be brief."),
        ChatMessage(role="assistant", blocks=[TextBlock(text="One moment."), call]),
        ChatMessage(role="tool", content="wet", additional_kwargs={"tool_call_id": "c1", "name": "look"}),
    ]
    raw = {"choices": [{"finish_reason": "tool_calls"}]}
    told = attributes_of(instrumented, reply, asked, raw, tools=[TOOL], stop=["END"], temperature=0.1)
    expected = table(__file__, "messages")
    assert json.loads(told["gen_ai.input.messages"])[1:] == expected["input"]
    assert json.loads(told["gen_ai.output.messages"]) == expected["output"]
    answer = "llm.output_messages.0.message"
    assert told[f"{answer}.contents.0.message_content.text"] == "Hm."
    assert told[f"{answer}.tool_calls.0.tool_call.function.arguments"] == '{"at": "pump"}'
    assert told["llm.input_messages.2.message.tool_call_id"] == "c1"
    assert json.loads(told["gen_ai.tool.definitions"])[0]["name"] == "look"
    assert json.loads(told["llm.invocation_parameters"]) == {"model": "scripted-1", "stop": ["END"], "temperature": 0.1}
    assert (told["server.address"], told["server.port"]) == ("models.example", 443)


BLOCKS: dict[str, Any] = table(__file__, "blocks")


@pytest.mark.parametrize("case", BLOCKS)
def test_blocks(instrumented: Recorded, case: str) -> None:
    kind, fields, part = BLOCKS[case]
    fields = {name: text.encode("latin-1") if name in ("image", "audio") else text for name, text in fields.items()}
    block = getattr(types, kind)(**fields)
    message = ChatMessage(role="user", blocks=[TextBlock(text="What is it?"), block])
    told = attributes_of(instrumented, ChatMessage(role="assistant", content="A pump."), [message])
    parts = json.loads(told["gen_ai.input.messages"])[0]["parts"]
    assert parts == [{"type": "text", "content": "What is it?"}, part]
    assert told["llm.input_messages.0.message.contents.1.message_content.type"] == part["modality"]


def test_all_choices(instrumented: Recorded) -> None:
    """All choices of a reply are output messages, although LlamaIndex's response has only the first one."""
    raw, reply = {"choices": table(__file__, "choices")}, ChatMessage(role="assistant", content="One.")
    told = attributes_of(instrumented, reply, [ChatMessage(content="Hi")], raw)
    messages = [(m["parts"][0]["content"], m["finish_reason"]) for m in json.loads(told["gen_ai.output.messages"])]
    assert messages == [("One.", "stop"), ("Tw", "length")]
    assert told["gen_ai.response.finish_reasons"] == ("stop", "length")


def test_older_forms() -> None:
    """Calls in `additional_kwargs`, as integrations had them, and OpenAI's older function call are parts, too."""
    raw = {"tool_calls": [{"id": "c", "function": {"name": "look", "arguments": '{"at": 1}'}}]}
    (call,) = message_of(ChatMessage(role="assistant", content="", additional_kwargs=raw)).calls
    assert (call.id, call.name, call.arguments) == ("c", "look", '{"at": 1}')
    older = {"function_call": {"name": "look", "arguments": "{}"}}
    (call,) = message_of(ChatMessage(role="assistant", content="", additional_kwargs=older)).calls
    assert (call.kind, call.name) == ("tool", "look")
