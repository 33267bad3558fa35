"""What is read of a model call's settings, and of its server."""

from decimal import Decimal
from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel

from ragtrace.capture.content_blocks import tool_definitions
from ragtrace.capture.parameters import request_attributes, server_attributes
from ragtrace_langchain import RagtraceCallbackHandler
from tests.conftest import Recorded
from tests.hostile import ClosedMapping
from tests.row_files import table

SETTINGS: dict[str, Any] = table(__file__, "settings")


@pytest.mark.parametrize("provider", SETTINGS)
def test_settings_of_all_providers(provider: str) -> None:
    """Each provider's names become OpenTelemetry's, and OpenInference's JSON keeps them; nothing else is read."""
    settings, expected = SETTINGS[provider]
    attributes, extra = request_attributes((settings,), None)
    parameters = extra.get("llm.invocation_parameters", {})
    told = {name: list(value) if isinstance(value, tuple) else value for name, value in attributes.items()}
    assert told == expected
    assert "sk-1" not in str(parameters)
    assert len(parameters) == len(expected)


def test_the_calls_settings_come_first() -> None:
    attributes, extra = request_attributes(({"temperature": 0.9}, {"temperature": 0.1, "seed": 1}), "m")
    assert (attributes["gen_ai.request.temperature"], attributes["gen_ai.request.seed"]) == (0.9, 1)
    assert extra["llm.invocation_parameters"] == {"model": "m", "temperature": 0.9, "seed": 1}


@pytest.mark.parametrize(("address", "expected"), table(__file__, "server"))
def test_server(address: str, expected: tuple[str, int] | None) -> None:
    """Of a URL only the host and the port are read: the rest may hold a password or a key."""
    attributes = server_attributes(({"unknown": "http://x"}, {"base_url": None, "api_base": address}))
    assert attributes == ({} if expected is None else {"server.address": expected[0], "server.port": expected[1]})


TOOLS: dict[str, Any] = table(__file__, "tools")


@pytest.mark.parametrize("vendor", TOOLS)
def test_tool_definitions(vendor: str) -> None:
    (tool,) = tool_definitions([TOOLS[vendor], 3, {}])
    assert (tool.name, tool.description, tool.type) == ("look", "Looks.", "function")
    assert tool.parameters == {"type": "object", "properties": {"at": {"type": "string"}}}


def test_a_tool_that_cannot_be_read_hides_no_other() -> None:
    (tool,) = tool_definitions([ClosedMapping(name="odd"), {"name": "look", "input_schema": {}}])
    assert tool.name == "look"


def test_tools_of_the_provider() -> None:
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
