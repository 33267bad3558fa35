"""A chat model of LangChain that follows a script, and what the scenarios ask with it."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.graph import START, MessagesState, StateGraph


class ScriptedChat(BaseChatModel):
    """Gives one reply of the script after another, or raises it."""

    replies: Sequence[Any]
    calls: int = 0

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **options)

    def next_reply(self) -> AIMessage:
        reply = self.replies[self.calls % len(self.replies)]
        self.calls += 1
        if isinstance(reply, Exception):
            raise reply
        return reply if isinstance(reply, AIMessage) else AIMessage(reply)

    def _generate(self, *args: Any, **options: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.next_reply())])


class StreamingChat(ScriptedChat):
    """The same in pieces: a text by words, the arguments of a call in two halves."""

    def _stream(self, *args: Any, **options: Any) -> Iterator[ChatGenerationChunk]:
        reply = self.next_reply()
        for call in reply.tool_calls:
            text = json.dumps(call["args"])
            for name, part in ((call["name"], text[:3]), (None, text[3:])):
                chunk = {"name": name, "args": part, "id": call["id"] if name else None, "index": 0}
                yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=[chunk]))
        words = str(reply.content).split(" ") if reply.content else []
        for i, word in enumerate(words):
            yield ChatGenerationChunk(message=AIMessageChunk(content=word if i == 0 else f" {word}"))
        usage: Any = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
        yield ChatGenerationChunk(message=AIMessageChunk(content="", usage_metadata=usage))


def chat(*replies: Any) -> ScriptedChat:
    return ScriptedChat(replies=replies)


def stream(*replies: Any) -> StreamingChat:
    return StreamingChat(replies=replies)


def call(name: str, text: str = "", identity: str = "c1", **arguments: Any) -> AIMessage:
    """A reply that asks for a tool."""
    return AIMessage(text, tool_calls=[{"name": name, "args": arguments, "id": identity}])


def graph(node: Callable[[Any], Any], **options: Any) -> Any:
    """A graph of messages with one node."""
    return StateGraph(MessagesState).add_node("node", node).add_edge(START, "node").compile(**options)


class Shelf(BaseRetriever):
    """Finds the same two passages."""

    def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
        return [Document("Paris is big.", id="d1"), Document("Rome is old.", id="d2")]


@tool
def search(q: str) -> str:
    """Search the shelf."""
    return f"result for {q}"


@tool
def fail(q: str) -> str:
    """Fail always."""
    raise ValueError(q)
