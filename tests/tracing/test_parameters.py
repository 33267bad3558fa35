"""What is read of a model call's settings, and of its server."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel

from ragtrace.capture.content_blocks import tool_definitions
from ragtrace.capture.parameters import request_attributes, server_attributes
from ragtrace_langchain import RagtraceCallbackHandler
from tests.conftest import Recorded

SETTINGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "OpenAI": (
        {"temperature": 0, "top_p": 0.9, "n": 2, "seed": 7, "stop": "END", "max_completion_tokens": 50,
         "frequency_penalty": 0.1, "presence_penalty": 0.2, "api_key": "sk-1"},
        {"temperature": 0.0, "top_p": 0.9, "choice.count": 2, "seed": 7, "stop_sequences": ("END",), "max_tokens": 50,
         "frequency_penalty": 0.1, "presence_penalty": 0.2},
    ),
    "Anthropic": (
        {"max_tokens": 100, "top_k": 5, "stop_sequences": ["a", "b"], "temperature": None},
        {"max_tokens": 100, "top_k": 5.0, "stop_sequences": ("a", "b")},
    ),
    "Cohere": ({"k": 3, "p": 0.5, "num_generations": 2}, {"top_k": 3.0, "top_p": 0.5, "choice.count": 2}),
    "Gemini": (
        {"generation_config": {"max_output_tokens": 9, "candidate_count": 1}}, {"max_tokens": 9, "choice.count": 1},
    ),
    "Bedrock": (
        {"inferenceConfig": {"maxTokens": 9, "topP": 0.1, "stopSequences": ["x"]}},
        {"max_tokens": 9, "top_p": 0.1, "stop_sequences": ("x",)},
    ),
    "Ollama": ({"options": {"num_predict": 9}}, {"max_tokens": 9}),
    "odd values": ({"temperature": "warm", "stop": [1], "n": float("nan"), "seed": object(), "model_kwargs": 3}, {}),
}  # fmt: skip


@pytest.mark.parametrize("provider", SETTINGS)
def test_settings_of_all_providers(provider: str) -> None:
    """Each provider's names become OpenTelemetry's, and OpenInference's JSON keeps them; nothing else is read."""
    settings, expected = SETTINGS[provider]
    attributes, extra = request_attributes((settings,), None)
    parameters = extra.get("llm.invocation_parameters", {})
    assert attributes == {f"gen_ai.request.{name}": value for name, value in expected.items()}
    assert "sk-1" not in str(parameters)
    assert len(parameters) == len(expected)


def test_the_calls_settings_come_first() -> None:
    """A setting of this call counts before the model's own."""
    attributes, extra = request_attributes(({"temperature": 0.9}, {"temperature": 0.1, "seed": 1}), "m")
    assert (attributes["gen_ai.request.temperature"], attributes["gen_ai.request.seed"]) == (0.9, 1)
    assert extra["llm.invocation_parameters"] == {"model": "m", "temperature": 0.9, "seed": 1}


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("https://api.openai.com/v1", ("api.openai.com", 443)),
        ("http://ada:secret@localhost:8080/v1?key=secret", ("localhost", 8080)),
        ("localhost:11434", ("localhost", 11434)),
        ("http://[::1]:99999", None),
        ("", None),
    ],
)
def test_server(address: str, expected: tuple[str, int] | None) -> None:
    """Of a URL only the host and the port are read: the rest may hold a password or a key."""
    attributes = server_attributes(({"unknown": "http://x"}, {"base_url": None, "api_base": address}))
    assert attributes == ({} if expected is None else {"server.address": expected[0], "server.port": expected[1]})


SCHEMA = {"type": "object", "properties": {"at": {"type": "string"}}}
LOOK = {"name": "look", "description": "Looks."}
TOOLS: dict[str, Any] = {
    "OpenAI": {"type": "function", "function": {**LOOK, "parameters": SCHEMA}},
    "Responses": {"type": "function", **LOOK, "parameters": SCHEMA},
    "Anthropic": {**LOOK, "input_schema": SCHEMA},
    "Bedrock": {"toolSpec": {**LOOK, "inputSchema": {"json": SCHEMA}}},
    "Gemini": {"function_declarations": [{**LOOK, "parameters": SCHEMA}]},
}


@pytest.mark.parametrize("vendor", TOOLS)
def test_tool_definitions(vendor: str) -> None:
    """A tool has its name, its description and the schema of its arguments, in every vendor's form."""
    (tool,) = tool_definitions([TOOLS[vendor], 3, {}])
    assert (tool.name, tool.description, tool.parameters, tool.type) == ("look", "Looks.", SCHEMA, "function")


def test_a_tool_that_cannot_be_read_hides_no_other() -> None:
    """A mapping of the application's own that raises costs only its own definition."""

    class Unreadable(dict[str, Any]):
        def get(self, *_arguments: Any) -> Any:
            raise RuntimeError("not read yet")

    (tool,) = tool_definitions([Unreadable(name="odd"), {"name": "look", "input_schema": {}}])
    assert tool.name == "look"


def test_tools_of_the_provider() -> None:
    """A tool that the provider runs itself has its own type."""
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 2}
    tools = [(tool.name, tool.type) for tool in tool_definitions([search, {"type": "code_interpreter"}])]
    assert tools == [("web_search", "web_search_20250305"), ("code_interpreter", "code_interpreter")]


def test_settings_that_are_no_json(recorded: Recorded) -> None:
    """A Decimal, as it comes from a configuration, costs neither the span nor the request."""
    handler = RagtraceCallbackHandler(recorded.provider, True, consumer=recorded.consumer)
    model = FakeListChatModel(responses=["24 months."]).bind(temperature=Decimal("0.2"))
    model.invoke("How long?", config={"callbacks": [handler]})
    assert handler.recorder.failures == 0
    (span,) = recorded.spans
    assert dict(span.attributes or {})["gen_ai.request.temperature"] == 0.2
    assert len(recorded.traces) == 1
