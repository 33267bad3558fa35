"""A function-calling model of LlamaIndex that follows a script, and what the scenarios ask with it."""

from collections.abc import Sequence
from typing import Any

from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    LLMMetadata,
    TextBlock,
    ToolCallBlock,
)
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.schema import TextNode
from llama_index.core.tools import ToolSelection


class ScriptedModel(FunctionCallingLLM):
    """Gives one reply of the script after another, or raises it."""

    replies: Sequence[Any] = ()
    calls: int = 0
    raw: Any = None

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="scripted-1", is_function_calling_model=True, is_chat_model=True)

    def next_reply(self) -> ChatMessage:
        reply = self.replies[self.calls % len(self.replies)]
        self.calls += 1
        if isinstance(reply, Exception):
            raise reply
        return reply if isinstance(reply, ChatMessage) else ChatMessage(role="assistant", content=reply)

    def pieces(self) -> Any:
        reply, text = self.next_reply(), ""
        if any(isinstance(block, ToolCallBlock) for block in reply.blocks):
            yield ChatResponse(message=reply, delta="", raw=self.raw)
            return
        for i, word in enumerate(str(reply.content).split(" ")):
            delta = word if i == 0 else f" {word}"
            text += delta
            yield ChatResponse(message=ChatMessage(role="assistant", content=text), delta=delta, raw=self.raw)

    @llm_chat_callback()
    def chat(self, messages: Any, **options: Any) -> Any:
        return ChatResponse(message=self.next_reply(), raw=self.raw)

    @llm_chat_callback()
    async def achat(self, messages: Any, **options: Any) -> Any:
        return ChatResponse(message=self.next_reply(), raw=self.raw)

    @llm_chat_callback()
    def stream_chat(self, messages: Any, **options: Any) -> Any:
        return self.pieces()

    @llm_chat_callback()
    async def astream_chat(self, messages: Any, **options: Any) -> Any:
        async def give() -> Any:
            for piece in self.pieces():
                yield piece

        return give()

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **options: Any) -> Any:
        return CompletionResponse(text=str(self.next_reply().content), raw=self.raw)

    stream_complete = acomplete = astream_complete = complete  # a chat model is asked by chat

    def _prepare_chat_with_tools(self, tools: Any, user_msg: Any = None, chat_history: Any = None, **_: Any) -> Any:
        asked = ChatMessage(role="user", content=user_msg) if isinstance(user_msg, str) else user_msg
        definitions = [tool.metadata.to_openai_tool() for tool in tools]
        return {"messages": [*(chat_history or []), *([asked] if asked else [])], "tools": definitions}

    def get_tool_calls_from_response(self, response: Any, error_on_no_tool_call: bool = True, **_: Any) -> Any:
        return [
            ToolSelection(tool_id=block.tool_call_id, tool_name=block.tool_name, tool_kwargs=block.tool_kwargs)
            for block in response.message.blocks
            if isinstance(block, ToolCallBlock)
        ]


def model(*replies: Any, **options: Any) -> ScriptedModel:
    return ScriptedModel(replies=replies, **options)


def calls(*names: str, **arguments: Any) -> ChatMessage:
    """A reply that asks for tools."""
    blocks = [ToolCallBlock(tool_name=n, tool_kwargs=arguments, tool_call_id=f"c{i}") for i, n in enumerate(names)]
    return ChatMessage(role="assistant", blocks=blocks)


NODES = [TextNode(text="Paris is big.", id_="d1"), TextNode(text="Rome is old.", id_="d2")]


def index() -> VectorStoreIndex:
    return VectorStoreIndex(NODES, embed_model=MockEmbedding(embed_dim=4))


def engine(*replies: Any, **options: Any) -> Any:
    return index().as_query_engine(llm=model(*replies), **options)


def user(text: str) -> list[ChatMessage]:
    return [ChatMessage(role="user", blocks=[TextBlock(text=text)])]
