"""The vendors' real clients, under one interface: what a test asks of LangChain's, it asks of LlamaIndex's too."""

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tests.row_files import rows

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
"""A PNG of one pixel, in base 64."""
PICTURE = "https://pictures.invalid/pump.png"


class Client(Protocol):
    def ask(self, question: str) -> str: ...
    def stream(self, question: str) -> str: ...
    async def ask_async(self, question: str) -> str: ...
    async def stream_async(self, question: str) -> str: ...
    def call_tool(self, question: str, is_streamed: bool) -> None: ...
    def after_tool(self, question: str) -> None: ...
    def show(self, question: str, is_inline: bool) -> None: ...


@dataclass(frozen=True)
class Case:
    """How a client is made, and what its framework passes on of a vendor's answer."""

    name: str
    framework: str
    kind: str
    """Module and class."""
    options: Mapping[str, Any]
    provider: str | None
    model: str
    reason: str = "stop"
    """Finish reason of an answer that is whole."""
    reason_of_cut: str | None = "length"
    reason_of_call: str = "tool_calls"
    reads_cache: bool = True
    writes_cache: bool = False
    reasons: bool = False
    """Whether the vendor sends its reasoning as text, and the framework passes it on."""
    hears: bool = False
    """Whether the vendor counts the tokens of sound, and the framework passes them on."""
    images: Sequence[str] = ("address", "inline")
    """How the client sends images: some fetch an image from its address, some send none."""
    billed_in_streams: int = 18
    """Input tokens of a stream, where the framework passes on what was billed."""
    fails: Sequence[str] = ()
    """Ways that fail in the client itself, whether it is traced or not."""
    lacks: Sequence[str] = ()
    """Attributes that the framework does not pass on."""
    lacks_in_streams: Sequence[str] = ()
    error: str = "RateLimitError"
    error_of_500: str = "InternalServerError"

    def __str__(self) -> str:
        return f"{self.framework}-{self.name}"

    def make(self, url: str) -> Client:
        """The client of a server, imported when it is first needed."""
        module, _, name = self.kind.partition(":")
        options = {k: v.format(url=url) if isinstance(v, str) else v for k, v in self.options.items()}
        model = getattr(importlib.import_module(module), name)(model=self.model, **options)
        return LangChainClient(model) if self.framework == "langchain" else LlamaIndexClient(model)


def search(query: str) -> str:
    """Search the manuals."""
    return "The warranty lasts two years."


class LangChainClient:
    def __init__(self, model: Any) -> None:
        self.model = model

    def ask(self, question: str) -> str:
        return str(self.model.invoke(question).text)

    def stream(self, question: str) -> str:
        return "".join(chunk.text for chunk in self.model.stream(question))

    async def ask_async(self, question: str) -> str:
        return str((await self.model.ainvoke(question)).text)

    async def stream_async(self, question: str) -> str:
        return "".join([chunk.text async for chunk in self.model.astream(question)])

    def call_tool(self, question: str, is_streamed: bool) -> None:
        from langchain_core.tools import tool

        model = self.model.bind_tools([tool(search)])
        list(model.stream(question)) if is_streamed else model.invoke(question)

    def after_tool(self, question: str) -> None:
        from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

        call = {"name": "search", "args": {"query": "warranty"}, "id": "call_1"}
        called = AIMessage("", tool_calls=[call])
        self.model.invoke([HumanMessage(question), called, ToolMessage(search("warranty"), tool_call_id="call_1")])

    def show(self, question: str, is_inline: bool) -> None:
        from langchain_core.messages import HumanMessage

        image: dict[str, Any] = {"type": "image"}
        image |= {"base64": PIXEL, "mime_type": "image/png"} if is_inline else {"url": PICTURE}
        self.model.invoke([HumanMessage(content_blocks=[{"type": "text", "text": question}, image])])


class LlamaIndexClient:
    def __init__(self, model: Any) -> None:
        self.model = model

    def ask(self, question: str) -> str:
        return str(self.model.chat([_message(question)]).message.content)

    def stream(self, question: str) -> str:
        return "".join(part.delta or "" for part in self.model.stream_chat([_message(question)]))

    async def ask_async(self, question: str) -> str:
        return str((await self.model.achat([_message(question)])).message.content)

    async def stream_async(self, question: str) -> str:
        return "".join([part.delta or "" async for part in await self.model.astream_chat([_message(question)])])

    def call_tool(self, question: str, is_streamed: bool) -> None:
        from llama_index.core.tools import FunctionTool

        model, tools = self.model, [FunctionTool.from_defaults(search)]
        list(model.stream_chat_with_tools(tools, question)) if is_streamed else model.chat_with_tools(tools, question)

    def after_tool(self, question: str) -> None:
        from llama_index.core.base.llms.types import ToolCallBlock
        from llama_index.core.llms import ChatMessage

        block = ToolCallBlock(tool_call_id="call_1", tool_name="search", tool_kwargs={"query": "warranty"})
        called = ChatMessage(role="assistant", blocks=[block])
        result = ChatMessage(role="tool", content=search("warranty"), additional_kwargs={"tool_call_id": "call_1"})
        self.model.chat([_message(question), called, result])

    def show(self, question: str, is_inline: bool) -> None:
        from llama_index.core.base.llms.types import ImageBlock, TextBlock
        from llama_index.core.llms import ChatMessage

        picture: Any = {"image": PIXEL.encode()} if is_inline else {"url": PICTURE}
        image = ImageBlock(**picture, image_mimetype="image/png")
        self.model.chat([ChatMessage(role="user", blocks=[TextBlock(text=question), image])])


def _message(question: str) -> Any:
    from llama_index.core.llms import ChatMessage

    return ChatMessage(role="user", content=question)


CASES = tuple(Case(**row) for row in rows(__file__, "clients"))
"""Cohere's streamed call fails in LangChain's client: its pieces become calls of their own."""
