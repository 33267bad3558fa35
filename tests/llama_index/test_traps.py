"""The traps that other tracers of LlamaIndex fell into, each a test."""

import asyncio
import gc
import logging
import os
import subprocess
import sys
from collections.abc import Generator
from typing import Any

import pytest
from llama_index.core.base.response.schema import StreamingResponse
from llama_index.core.llms import CompletionResponse
from llama_index.core.query_engine import CustomQueryEngine
from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.dispatcher import instrument_tags
from llama_index_instrumentation.span import active_span_id
from llama_index_instrumentation.span_handlers import SimpleSpanHandler
from opentelemetry import trace as otel

from tests.conftest import Gathering, Recorded
from tests.llama_index.cases import ANSWER, CASES, QUESTION, Fixed, Speaker, engine, read, scored, streamed
from tests.llama_index.conftest import arrived, traced
from tests.row_files import rows

RAG = ("invoke_workflow RetrieverQueryEngine", [("retrieval Fixed", []), ("text_completion speaker-1", [])])


def everywhere(recorded: Recorded, key: str) -> set[Any]:
    return {(span.attributes or {}).get(key) for span in recorded.spans}


def test_below_an_ambient_span(instrumented: Recorded) -> None:
    tracer = instrumented.provider.get_tracer("web")
    with tracer.start_as_current_span("GET /ask"):
        response = engine(streaming=True).query(QUESTION)
    list(response.response_gen)
    with tracer.start_as_current_span("GET /flow"):
        CASES["workflow"].run()
    assert instrumented.tree() == [("GET /ask", [RAG]), ("GET /flow", [("invoke_workflow Flow", RAG[1])])]


def test_functions_of_the_application(instrumented: Recorded) -> None:
    dispatcher = get_dispatcher("app")
    retriever, model = Fixed(), Speaker()

    @dispatcher.span
    def ask(question: str) -> str:
        retriever.retrieve(question)
        return str(model.complete(question))

    @dispatcher.span
    async def aask(question: str) -> str:
        await retriever.aretrieve(question)
        return str(await model.acomplete(question))

    class Assistant:
        @dispatcher.span
        def ask(self, question: str) -> str:
            return ask(question)

    ask(QUESTION)
    asyncio.run(aask(QUESTION))
    Assistant().ask(QUESTION)
    tree = instrumented.tree()
    assert [name.split(".")[-1] for name, _ in tree] == ["ask", "aask", "ask"]
    assert ([below for _, below in tree], tree[2][0]) == ([RAG[1]] * 3, "invoke_workflow Assistant.ask")
    assert {(t.query, t.answer, len(t.documents)) for t in instrumented.traces} == {(QUESTION, ANSWER, 5)}


def test_response_that_takes_no_proxy(instrumented: Recorded) -> None:
    class Frozen(StreamingResponse):
        def __setattr__(self, name: str, value: Any) -> None:
            if name in self.__dict__:
                raise AttributeError(name)
            super().__setattr__(name, value)

    class Engine(CustomQueryEngine):
        def custom_query(self, query_str: str) -> Any:
            return Frozen(response_gen=iter([ANSWER]), source_nodes=scored())

    response = Engine().query(QUESTION)
    gc.collect()
    assert list(response.response_gen) == [ANSWER]
    (trace,) = instrumented.traces
    assert (len(trace.documents), trace.facts.cancelled) == (5, False)


@pytest.mark.parametrize("name", ["query", "query_stream", "gather", "stream_chat", "workflow", "react_agent"])
def test_user_and_session(instrumented: Recorded, name: str) -> None:
    tags = {"thread_id": "c1", "user_id": "u1", "tags": ["beta"], "tenant": "acme"}
    with instrument_tags(tags):
        CASES[name].run()
    expected = {"gen_ai.conversation.id": "c1", "session.id": "c1", "user.id": "u1", "tag.tags": ("beta",)}
    for key, value in expected.items():
        assert everywhere(instrumented, key) == {value}
    assert not [span for span in instrumented.spans if "llamaindex." in span.to_json()]
    for trace in instrumented.traces:
        assert (trace.facts.session_id, trace.attributes["tenant"], trace.facts.tenant) == ("c1", "acme", "acme")


def test_user_alone(instrumented: Recorded) -> None:
    """A workflow's user is known without a session, although LlamaIndex hands its span no tags."""
    with instrument_tags({"user_id": "u1"}):
        CASES["workflow"].run()
    assert everywhere(instrumented, "user.id") == {"u1"}


def test_tracing_reads_no_stream(instrumented: Recorded) -> None:
    """A stream is read by its consumer alone: nothing of it is made before the first piece is asked for."""
    made: list[str] = []

    class Noting(Speaker):
        def _response(self, text: str, delta: str | None = None) -> CompletionResponse:
            made.append(text)
            return super()._response(text, delta)

    response = engine(llm=Noting(), streaming=True).query(QUESTION)
    assert isinstance(response.response_gen, Generator)
    assert made == []
    assert not instrumented.traces
    assert str(response) == ANSWER
    assert (len(made), len(instrumented.traces)) == (7, 1)


def test_model_without_callbacks(instrumented: Recorded) -> None:
    class Bare(Speaker):
        def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
            yield CompletionResponse(text=ANSWER, delta=ANSWER)

    list(engine(llm=Bare(), streaming=True).query(QUESTION).response_gen)
    (model,) = instrumented.named("text_completion")
    assert "ragtrace.cancelled" not in (model.attributes or {})
    assert instrumented.traces[0].answer == ANSWER


def test_model_stream_dropped_unread(instrumented: Recorded) -> None:
    Speaker().stream_complete(QUESTION)
    gc.collect()
    arrived(instrumented, 1)
    assert instrumented.traces[0].facts.cancelled is True


def test_dropped_in_a_cycle(instrumented: Recorded) -> None:
    """A stream that the garbage collector finds, at whatever moment, ends its request on another thread."""
    holder: dict[str, Any] = {"response": engine(streaming=True).query(QUESTION)}
    holder["self"] = holder
    next(holder["response"].response_gen)
    del holder
    gc.collect()
    arrived(instrumented, 1)
    assert (instrumented.traces[0].answer, instrumented.tree()) == ("The", [RAG])


def test_reading_on_after_the_end(instrumented: Recorded) -> None:
    """A stream leaves no context behind, neither while it is read nor after it."""
    stream = streamed()
    next(stream)
    assert otel.get_current_span() is otel.INVALID_SPAN
    assert active_span_id.get() is None
    list(stream)
    assert list(stream) == []
    stream.close()
    assert len(instrumented.traces) == 1


def test_throwing_into_a_stream(instrumented: Recorded) -> None:
    stream = streamed()
    next(stream)
    with pytest.raises(LookupError):
        stream.throw(LookupError("gone"))
    assert instrumented.traces[0].error == "LookupError"


def test_consumer_cancelled_between_pieces(instrumented: Recorded) -> None:
    class Slow(Speaker):
        async def astream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
            async def words() -> Any:
                yield CompletionResponse(text="The", delta="The")
                await asyncio.sleep(30)

            return words()

    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(read(engine(llm=Slow(), streaming=True).aquery(QUESTION)), 0.2))
    arrived(instrumented, 1)
    (trace,) = instrumented.traces
    assert (trace.answer, trace.error, trace.facts.cancelled) == ("The", None, True)


def test_failures_of_ours_stay_ours(recorded: Recorded, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Gathering):
        def sample(self, trace: Any) -> Any:
            raise RuntimeError("ours")

    with traced(recorded, consumer=Broken()) as instrumentor:
        assert str(engine().query(QUESTION)) == ANSWER
        assert "".join(streamed()) == ANSWER
        assert instrumentor._handlers is not None
        assert instrumentor._handlers.recorder.failures == 2
    caplog.clear()


def test_uninstrument(recorded: Recorded) -> None:
    dispatcher = get_dispatcher()
    before = (list(dispatcher.span_handlers), list(dispatcher.event_handlers))
    with traced(recorded) as instrumentor:
        instrumentor.instrument(tracer_provider=recorded.provider, consumer=recorded.consumer)
        engine().query(QUESTION)
    engine().query(QUESTION)
    assert len(recorded.traces) == 1
    assert (dispatcher.span_handlers, dispatcher.event_handlers) == before


def test_uninstrument_ends_what_is_open(recorded: Recorded) -> None:
    with traced(recorded):
        stream = streamed()
        next(stream)
    assert len(recorded.named("invoke_workflow")) == 1
    assert "".join(stream) == " pump is covered for 24 months."


def test_dispatcher_shutdown(instrumented: Recorded) -> None:
    stream = streamed()
    next(stream)
    get_dispatcher().shutdown()
    assert [trace.error for trace in instrumented.traces] == ["expired"]
    stream.close()


def test_another_tracer(instrumented: Recorded, caplog: pytest.LogCaptureFixture) -> None:
    class Theirs(SimpleSpanHandler):
        __module__ = "openinference.instrumentation.llama_index._handler"

    dispatcher, theirs = get_dispatcher(), Theirs()
    dispatcher.add_span_handler(theirs)
    try:
        with caplog.at_level(logging.WARNING, logger="ragtrace_llama_index.tracer"):
            engine().query(QUESTION)
            engine().query(QUESTION)
    finally:
        dispatcher.span_handlers = [h for h in dispatcher.span_handlers if h is not theirs]
    assert not instrumented.spans
    assert len([r for r in caplog.records if "already traces it" in r.getMessage()]) == 1
    engine().query(QUESTION)
    assert len(instrumented.traces) == 1


PROGRAM = """
import sys
from opentelemetry.sdk.trace import TracerProvider
from ragtrace_llama_index import RagtraceLlamaIndexInstrumentor
from tests.conftest import Gathering
gathering = Gathering()
RagtraceLlamaIndexInstrumentor().instrument(tracer_provider=TracerProvider(), consumer=gathering)
assert not [m for m in sys.modules if m.startswith("llama_index")]
from tests.llama_index.cases import CASES, streamed
from tests.llama_index.conftest import arrived
from tests.waiting import in_fork
CASES["query"].run()
arrived(gathering, 1)
CASES["query_stream_abandoned"].run()
arrived(gathering, 2)
in_fork(lambda: (CASES["query_stream_abandoned"].run(), arrived(gathering, 3)))
left_open = streamed()
next(left_open)
"""


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_process_of_its_own() -> None:
    """Instrumenting imports no LlamaIndex; an application that imports it later is traced. The thread that ends dropped
    streams runs anew in a forked child. A program that leaves a stream open exits: nothing of ours holds it."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(["", *sys.path])},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize(("name", "stages", "tokens"), rows(__file__, "stages"))
def test_stages_tokens_and_version(instrumented: Recorded, name: str, stages: list[str], tokens: list[int]) -> None:
    with instrument_tags({"prompt_version": "v3"}):
        CASES[name].run()
    arrived(instrumented, 1)
    (trace,) = instrumented.traces
    taken: Any = trace.facts.stages
    assert set(taken) == set(stages)
    assert all(0 < seconds <= trace.duration for seconds in taken.values())
    assert [trace.facts.input_tokens, trace.facts.output_tokens] == tokens
    assert (trace.facts.model, trace.facts.prompt_version) == ("speaker-1", "v3")
    first = trace.facts.time_to_first_chunk
    assert first is None if name in ("query", "reranker") else 0 < (first or 0) <= trace.duration
