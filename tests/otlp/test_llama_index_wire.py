"""What of a LlamaIndex request leaves over OTLP and as metrics, where the application redacts."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import MockEmbedding, PromptTemplate, VectorStoreIndex
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import LLMMetadata
from llama_index.core.instrumentation.dispatcher import instrument_tags
from llama_index.core.schema import TextNode
from llama_index.core.tools import FunctionTool

from tests.otlp.test_otlp_wire import SECRET, exported
from tests.scenarios.function_model import ScriptedModel, calls


class NamedModel(ScriptedModel):
    number: int

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name=f"model {SECRET} {self.number}", is_function_calling_model=True)


def named(number: int, *replies: Any) -> NamedModel:
    """A model with the secret in the names of its reply."""
    raw = {"model": f"model {SECRET}", "id": f"r {SECRET}", "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
    return NamedModel(number=number, replies=replies, raw=raw)


async def leak() -> None:
    """Requests with the secret in question, passage and answer, and in all names, keys and definitions."""
    node = TextNode(text=f"Text {SECRET}.", id_=f"d {SECRET}", metadata={SECRET: SECRET})
    engine = VectorStoreIndex([node], embed_model=MockEmbedding(embed_dim=4)).as_query_engine(
        llm=named(1, f"An answer with {SECRET}."),
        text_qa_template=PromptTemplate(f"{SECRET} {{context_str}} {{query_str}}"),
    )

    def look_up(text: str) -> str:
        named(2, "So.").predict(PromptTemplate(f"{SECRET} {{{SECRET}}}"), **{SECRET: SECRET})
        return f"{text} back"

    tool = FunctionTool.from_defaults(look_up, name=f"tool_{SECRET}", description=f"A tool {SECRET}.")
    model = named(3, calls(f"tool_{SECRET}", text=SECRET), f"Agent's answer {SECRET}.")
    agent = FunctionAgent(name=f"agent {SECRET}", tools=[tool], llm=model, system_prompt=f"rules {SECRET}")
    names = {"session_id": SECRET, "user_id": SECRET, "tags": [SECRET], "tenant": SECRET, "env": SECRET, SECRET: SECRET}
    with instrument_tags(names):
        engine.query(f"question {SECRET}")
        await agent.run(f"question {SECRET}")


@pytest.mark.server
def test_no_exported_byte_of_llama_index_holds_a_redacted_secret(tmp_path: Path) -> None:
    received, places = exported(lambda: asyncio.run(leak()), tmp_path, "llama_index")
    names = {"invoke_agent agent [hidden]", "execute_tool tool_[hidden]", "chat model [hidden] 3"}
    assert names <= set(received.spans())
    assert b'model="model [hidden] 3"' in places["metrics"]
