"""The assistant: a LangGraph graph that searches a manual, and answers from what it finds.

It knows nothing of ragtrace. Put your own model in `load_model`, and your own retriever in `assistant_graph`.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.retrievers import BaseRetriever
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

MANUAL = Path(__file__).parent / "manual"
PROMPT = "Answer the question from these passages of the manual only.\n\n{passages}"
COMMON = "a an and are can do does for from how i in is it long my of on or the to what when which with"


def content_words(text: str) -> set[str]:
    """The words of a text that say what it is about, without the ending of a plural."""
    return {word.removesuffix("s") for word in re.findall(r"[a-z0-9]+", text.lower()) if word not in COMMON.split()}


class KeywordRetriever(BaseRetriever):
    """Returns the two paragraphs of the manual that share most words with the question."""

    passages: list[Document]

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        words = content_words(query)
        return sorted(self.passages, key=lambda passage: -len(words & content_words(passage.page_content)))[:2]


def load_manual() -> list[Document]:
    """One document for each paragraph of `manual/*.md`."""
    return [
        Document(paragraph, id=f"{file.stem}-{number}", metadata={"source": file.name})
        for file in sorted(MANUAL.glob("*.md"))
        for number, paragraph in enumerate(file.read_text(encoding="utf-8").strip().split("\n\n")[1:], start=1)
    ]


class OfflineModel(BaseChatModel):
    """Stands for a language model: no key, no network, and the same answer each time.

    It repeats the sentence of its prompt that is closest to the question. Where no sentence is close, it invents an
    answer, as language models do.
    """

    @property
    def _llm_type(self) -> str:
        return "offline"

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        text = "".join(self._words(messages))
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])

    def _stream(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        for word in self._words(messages):
            yield ChatGenerationChunk(message=AIMessageChunk(word))

    def _words(self, messages: list[BaseMessage]) -> Iterator[str]:
        passages, question = str(messages[0].text).partition("\n\n")[2], content_words(str(messages[-1].text))
        sentences = re.split(r"(?<=\.)\s+", passages)
        best = max(sentences, key=lambda sentence: len(question & content_words(sentence)))
        is_close = len(question & content_words(best)) >= len(question) / 2
        answer = best if is_close else "It costs 49 euros, and the shop in Lisbon delivers it within two days."
        return iter(re.findall(r"\S+\s*", answer))


def load_model() -> BaseChatModel:
    """The model that `ASSISTANT_MODEL` names, e.g. `openai:gpt-4o-mini`; without it the offline one."""
    if name := os.environ.get("ASSISTANT_MODEL"):
        from langchain.chat_models import init_chat_model

        return init_chat_model(name)
    return OfflineModel()


class State(MessagesState):
    """The messages of a session, and the passages for its latest question."""

    passages: list[Document]


def assistant_graph() -> Any:
    """The compiled graph. Its checkpointer keeps the messages of each session, by `thread_id`."""
    retriever, model = KeywordRetriever(passages=load_manual()), load_model()

    async def search(state: State) -> dict[str, Any]:
        return {"passages": await retriever.ainvoke(str(state["messages"][-1].text))}

    async def answer(state: State) -> dict[str, Any]:
        passages = "\n\n".join(passage.page_content for passage in state["passages"])
        system = SystemMessage(PROMPT.format(passages=passages))
        return {"messages": [await model.ainvoke([system, *state["messages"]])]}

    graph = StateGraph(State)
    graph.add_node(search)
    graph.add_node(answer)
    graph.add_edge(START, "search")
    graph.add_edge("search", "answer")
    return graph.compile(checkpointer=InMemorySaver())
