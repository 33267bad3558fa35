"""Models whose class overrides a method that LlamaIndex already reports, and calls the method of its base class."""

import asyncio
import gc
import importlib.metadata
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from llama_index.core.base.llms.generic_utils import stream_completion_response_to_chat_response
from llama_index.core.chat_engine import ContextChatEngine, SimpleChatEngine
from llama_index.core.llms import ChatMessage
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

from tests.conftest import Recorded
from tests.llama_index.cases import ANSWER, CASES, QUESTION, Case, Fixed, Speaker, engine, read
from tests.llama_index.conftest import arrived


class Returning(Speaker):
    """Returns the stream of its base class, as LlamaIndex's OpenAILike does."""

    def stream_chat(self, messages: Any, **kwargs: Any) -> Any:
        return super().stream_chat(messages, **kwargs)

    async def astream_chat(self, messages: Any, **kwargs: Any) -> Any:
        return await super().astream_chat(messages, **kwargs)

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        return super().stream_complete(prompt, formatted=formatted, **kwargs)

    async def astream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        return await super().astream_complete(prompt, formatted=formatted, **kwargs)


class ByCompletion(Returning):
    """Chats by way of completion without LlamaIndex's callbacks, as OpenAILike does for a completion model."""

    def stream_chat(self, messages: Any, **kwargs: Any) -> Any:
        return stream_completion_response_to_chat_response(self.stream_complete(str(messages[-1].content), **kwargs))


async def passed_on(stream: Callable[..., Any], *arguments: Any, **kwargs: Any) -> AsyncIterator[Any]:
    async for chunk in await stream(*arguments, **kwargs):
        yield chunk


class Yielding(Speaker):
    """Passes the chunks of its base class on: the inner call begins when the first chunk is requested."""

    def stream_chat(self, messages: Any, **kwargs: Any) -> Iterator[Any]:
        yield from super().stream_chat(messages, **kwargs)

    async def astream_chat(self, messages: Any, **kwargs: Any) -> Any:
        return passed_on(super().astream_chat, messages, **kwargs)

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Iterator[Any]:
        yield from super().stream_complete(prompt, formatted=formatted, **kwargs)

    async def astream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        return passed_on(super().astream_complete, prompt, formatted=formatted, **kwargs)


def gathered(start: Callable[[], Any]) -> list[Any]:
    async def all_chunks() -> list[Any]:
        return [chunk async for chunk in await start()]

    return asyncio.run(all_chunks())


ASKED = [ChatMessage(role="system", content="Be brief."), ChatMessage(content=QUESTION)]
WAYS: dict[str, Callable[[Speaker], object]] = {
    "chat": lambda llm: llm.chat(ASKED),
    "complete": lambda llm: llm.complete(QUESTION),
    "stream_chat": lambda llm: list(llm.stream_chat(ASKED)),
    "astream_chat": lambda llm: gathered(lambda: llm.astream_chat(ASKED)),
    "stream_complete": lambda llm: list(llm.stream_complete(QUESTION)),
    "astream_complete": lambda llm: gathered(lambda: llm.astream_complete(QUESTION)),
    "query": lambda llm: list(engine(llm=llm, streaming=True).query(QUESTION).response_gen),
    "aquery": lambda llm: asyncio.run(read(engine(llm=llm, streaming=True).aquery(QUESTION))),
    "chat engine": lambda llm: list(SimpleChatEngine.from_defaults(llm=llm).stream_chat(QUESTION).response_gen),
    "achat engine": lambda llm: asyncio.run(
        read(ContextChatEngine.from_defaults(Fixed(), llm=llm).astream_chat(QUESTION))
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("model", [Speaker, Returning, ByCompletion, Yielding])
def test_override(instrumented: Recorded, model: type[Speaker], way: str) -> None:
    """A call is one span with all that is known, in every way of asking an overriding model, and a request."""
    WAYS[way](model())
    arrived(instrumented, 1)
    spans = [span for span in instrumented.spans if span.name.endswith(" speaker-1")]
    assert len(spans) == 1
    told = dict(spans[0].attributes or {})
    assert ANSWER in told["gen_ai.output.messages"]
    assert (told["gen_ai.usage.input_tokens"], told["gen_ai.usage.output_tokens"]) == (40, 7)
    assert told["gen_ai.response.finish_reasons"] == ("stop",)
    assert ("gen_ai.response.time_to_first_chunk" in told) == (way not in ("chat", "complete"))
    assert "ragtrace.cancelled" not in told
    (trace,) = instrumented.traces
    assert (trace.query, trace.answer, trace.facts.finish_reason) == (QUESTION, ANSWER, "stop")
    assert (trace.facts.input_tokens, trace.facts.output_tokens) == (40, 7)


@pytest.mark.parametrize("model", [Returning, Yielding])
def test_streams_side_by_side(instrumented: Recorded, model: type[Speaker]) -> None:
    llm = model()
    first, second = (llm.stream_chat([ChatMessage(content=f"Question {i}")]) for i in (1, 2))
    for _ in zip(first, second, strict=True):
        pass
    list(first)
    list(second)
    arrived(instrumented, 2)
    assert [(t.query, t.answer) for t in instrumented.traces] == [("Question 1", ANSWER), ("Question 2", ANSWER)]


@pytest.mark.parametrize("model", [Returning, Yielding])
def test_partial_answers(instrumented: Recorded, model: type[Speaker]) -> None:
    with pytest.raises(RuntimeError):
        list(model(fails_after=2).stream_complete(QUESTION))
    arrived(instrumented, 1)
    stream = model().stream_complete(QUESTION)
    next(stream)
    next(stream)
    del stream
    gc.collect()
    arrived(instrumented, 2)
    ends = [(t.answer, t.facts.cancelled, t.error) for t in instrumented.traces]
    assert ends == [("The pump", False, "RuntimeError"), ("The pump", True, None)]
    assert (instrumented.spans[1].attributes or {})["output.value"] == "The pump"


WORKFLOWS = int(importlib.metadata.version("llama-index-workflows").split(".")[0])
UNSAID = ("workflow_cancelled", "workflow_timed_out")


# LlamaIndex's writer thread dies of the model's error.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_case(instrumented: Recorded, case: Case) -> None:
    """One trace per request. Whatever it holds, its spans can be encoded, hold no NUL and stay small."""
    if case.name in UNSAID and WORKFLOWS < 2:
        pytest.skip("llama-index-workflows 1 does not say how a workflow failed")
    case.run()
    if case.name.endswith("_closed"):  # such a stream ends its request there and then
        assert instrumented.traces
    arrived(instrumented, case.traces)
    for trace in instrumented.traces:
        assert (trace.query, trace.answer) == (case.question, case.answer)
        assert [document.id for document in trace.chunks] == list(case.documents)
        assert trace.error == case.error
        assert bool(trace.facts.cancelled) == case.cancelled
        if case.name == "score_that_is_no_number":
            assert trace.documents[0].score is None
    assert b"\0" not in "".join(str(span.attributes) for span in instrumented.spans).encode()
    assert len(encode_spans(instrumented.spans).SerializeToString()) < 100_000 * case.traces
    # Indexing embeds outside of every request.
    roots = [name for name, _ in instrumented.tree()]
    assert len(roots) == case.traces + sum(name.startswith("embeddings") for name in roots)
