"""The traps that other tracers of LlamaIndex fell into, each a test."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import subprocess
import sys
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from llama_index.core.base.response.schema import StreamingResponse
from llama_index.core.llms import CompletionResponse
from llama_index.core.query_engine import CustomQueryEngine
from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.dispatcher import instrument_tags
from llama_index_instrumentation.span_handlers import SimpleSpanHandler
from opentelemetry import trace as otel
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.instrumentation.utils import suppress_instrumentation
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from ragtrace_llama_index import RagtraceLlamaIndexInstrumentor, conversion
from tests.conftest import Recorded
from tests.llama_index import cases
from tests.llama_index.cases import ANSWER, QUESTION, Fixed, Speaker, engine, scored
from tests.llama_index.conftest import arrived

# LlamaIndex leaves its chat memory's database open.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

RAG = ("invoke_workflow RetrieverQueryEngine", [("retrieval Fixed", []), ("text_completion speaker-1", [])])


def everywhere(recorded: Recorded, key: str) -> set[Any]:
    return {(span.attributes or {}).get(key) for span in recorded.spans}


# --- one tree ------------------------------------------------------------------------------------


def test_below_an_ambient_span(instrumented: Recorded) -> None:
    """Under the span of a web framework there is one tree, below it; a stream read later is in it, too."""
    tracer = instrumented.provider.get_tracer("web")
    with tracer.start_as_current_span("GET /ask"):
        response = engine(streaming=True).query(QUESTION)
    list(response.response_gen)
    assert instrumented.tree() == [("GET /ask", [RAG])]


def test_agent_below_an_ambient_span(instrumented: Recorded) -> None:
    """A workflow runs in tasks of its own, and stays below the span in which it was started."""
    tracer = instrumented.provider.get_tracer("web")
    with tracer.start_as_current_span("GET /ask"):
        cases.workflow()
    ((name, below),) = instrumented.tree()
    assert name == "GET /ask"
    assert below == [("invoke_workflow Flow", [("retrieval Fixed", []), ("text_completion speaker-1", [])])]


def test_no_context_is_left_behind(instrumented: Recorded) -> None:
    """After a request, and between the pieces of its stream, no span is current and none is LlamaIndex's active."""
    from llama_index_instrumentation.span import active_span_id

    stream = engine(streaming=True).query(QUESTION).response_gen
    next(stream)
    assert otel.get_current_span() is otel.INVALID_SPAN
    assert active_span_id.get() is None
    list(stream)


def test_functions_of_the_application(instrumented: Recorded) -> None:
    """A pipeline written by hand under `dispatcher.span` is one tree, whether a function, a coroutine or a method."""
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
    names = []
    for name, below in instrumented.tree():
        names.append(name.split(".")[-1])
        assert below == RAG[1]
    assert names == ["ask", "aask", "ask"]
    assert instrumented.tree()[2][0] == "invoke_workflow Assistant.ask"
    assert {(t.query, t.answer, len(t.documents)) for t in instrumented.traces} == {(QUESTION, ANSWER, 5)}


def test_response_that_takes_no_proxy(instrumented: Recorded) -> None:
    """A response that cannot be watched ends its request at once and still streams."""

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
    """What `instrument_tags` says stands on every span of the tree, in other threads and tasks, too."""
    tags = {"thread_id": "c1", "user_id": "u1", "tags": ["beta"], "tenant": "acme"}
    with instrument_tags(tags):
        cases.CASES[name].run()
    assert everywhere(instrumented, "gen_ai.conversation.id") == {"c1"}
    assert everywhere(instrumented, "session.id") == {"c1"}
    assert everywhere(instrumented, "user.id") == {"u1"}
    assert everywhere(instrumented, "tag.tags") == {("beta",)}
    assert not [span for span in instrumented.spans if "llamaindex." in span.to_json()]
    for trace in instrumented.traces:
        assert (trace.facts.session_id, trace.attributes["tenant"], trace.facts.tenant) == ("c1", "acme", "acme")


def test_user_alone(instrumented: Recorded) -> None:
    """A workflow's user is known without a session, although LlamaIndex hands its span no tags."""
    with instrument_tags({"user_id": "u1"}):
        cases.workflow()
    assert everywhere(instrumented, "user.id") == {"u1"}


# --- streams -------------------------------------------------------------------------------------


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
    """A model that streams without LlamaIndex's callbacks has a span, not marked as cancelled; the text is the
    root's."""

    class Bare(Speaker):
        def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
            def words() -> Iterator[CompletionResponse]:
                yield CompletionResponse(text=ANSWER, delta=ANSWER)

            return words()

    list(engine(llm=Bare(), streaming=True).query(QUESTION).response_gen)
    (model,) = instrumented.named("text_completion")
    assert "ragtrace.cancelled" not in (model.attributes or {})
    assert instrumented.traces[0].answer == ANSWER


def test_model_stream_dropped_unread(instrumented: Recorded) -> None:
    """A model's own stream that nobody ever reads ends its span when it is dropped."""
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
    assert instrumented.traces[0].answer == "The"
    assert instrumented.tree() == [RAG]


def test_reading_on_after_the_end(instrumented: Recorded) -> None:
    """An exhausted or closed stream stays so, and its request ends once."""
    stream = engine(streaming=True).query(QUESTION).response_gen
    list(stream)
    assert list(stream) == []
    stream.close()
    assert len(instrumented.traces) == 1


def test_closing_ends_at_once(instrumented: Recorded) -> None:
    """A stream that its consumer closes ends its request there and then, sync and async."""
    stream = engine(streaming=True).query(QUESTION).response_gen
    next(stream)
    stream.close()
    assert len(instrumented.traces) == 1

    async def read() -> None:
        response = await engine(streaming=True).aquery(QUESTION)
        await response.response_gen.__anext__()
        await response.response_gen.aclose()
        assert len(instrumented.traces) == 2

    asyncio.run(read())
    assert [trace.facts.cancelled for trace in instrumented.traces] == [True, True]


def test_throwing_into_a_stream(instrumented: Recorded) -> None:
    """An error thrown into a stream is the request's."""
    stream = engine(streaming=True).query(QUESTION).response_gen
    next(stream)
    with pytest.raises(LookupError):
        stream.throw(LookupError("gone"))
    assert instrumented.traces[0].error == "LookupError"


def test_consumer_cancelled_between_pieces(instrumented: Recorded) -> None:
    """A task that is cancelled while it waits for the next piece ends its request, as cancelled."""

    class Slow(Speaker):
        async def astream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
            async def words() -> Any:
                yield CompletionResponse(text="The", delta="The")
                await asyncio.sleep(30)

            return words()

    async def read() -> None:
        response = await engine(llm=Slow(), streaming=True).aquery(QUESTION)
        async for _ in response.async_response_gen():
            pass

    async def ask() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(read(), 0.2)

    asyncio.run(ask())
    arrived(instrumented, 1)
    assert (instrumented.traces[0].answer, instrumented.traces[0].error) == ("The", None)
    assert instrumented.traces[0].facts.cancelled is True


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_dropped_in_a_forked_child() -> None:
    """The thread that ends dropped streams runs anew in a forked child."""
    run_python(
        """
import os
from tests.llama_index.cases import QUESTION, engine
def drop():
    del_me = engine(streaming=True).query(QUESTION)
    next(del_me.response_gen)
drop()
arrive(1)
pid = os.fork()
if pid == 0:
    drop()
    try:
        arrive(2)
    except BaseException:
        os._exit(1)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
"""
    )


# --- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["content_that_is_no_text", "ten_megabytes", "score_that_is_no_number", "lone_surrogates", "nul_bytes"]
)
def test_odd_input_is_sent(instrumented: Recorded, name: str) -> None:
    """Whatever a request holds, its spans can be encoded, hold no NUL and stay small."""
    cases.CASES[name].run()
    sent = encode_spans(instrumented.spans).SerializeToString()
    assert b"\0" not in "".join(str(s.attributes) for s in instrumented.spans).encode()
    assert len(sent) < 100_000


def test_score_that_is_no_number(instrumented: Recorded) -> None:
    """A score of NaN is no score."""
    cases.score_that_is_no_number()
    assert [d.score for d in instrumented.traces[0].documents] == [None]


def test_node_that_cannot_be_read(instrumented: Recorded) -> None:
    """A node that raises when it is read is left out; its neighbours are there."""

    class Mean:
        score = 0.5

        @property
        def node(self) -> Any:
            return self

        def get_content(self) -> str:
            raise RuntimeError("not for you")

    assert [d.id for d in conversion.documents_of([scored()[0], Mean(), scored()[1]])] == ["n0", "n1"]


# --- others --------------------------------------------------------------------------------------


def test_failures_of_ours_stay_ours(recorded: Recorded, caplog: pytest.LogCaptureFixture) -> None:
    """What goes wrong inside ragtrace is counted; the application gets its answer."""

    class Broken:
        def sample(self, trace: Any) -> Any:
            raise RuntimeError("ours")

        def submit(self, trace: Any, decision: Any = None) -> bool:
            return False

    instrumentor = RagtraceLlamaIndexInstrumentor()
    instrumentor.instrument(tracer_provider=recorded.provider, consumer=Broken())
    handlers = instrumentor._handlers
    assert handlers is not None
    try:
        assert str(engine().query(QUESTION)) == ANSWER
        assert "".join(engine(streaming=True).query(QUESTION).response_gen) == ANSWER
        assert handlers.recorder.failures == 2
    finally:
        instrumentor.uninstrument()
        caplog.clear()


def test_suppressed(instrumented: Recorded) -> None:
    """Where instrumentation is suppressed (a judge's own calls) nothing is recorded."""
    with suppress_instrumentation():
        engine().query(QUESTION)
    assert not instrumented.spans
    assert not instrumented.traces


def test_dropped_by_the_sampler(recorded: Recorded) -> None:
    """A trace that the application's sampler drops makes no spans, and is evaluated all the same."""
    instrumentor = RagtraceLlamaIndexInstrumentor()
    provider = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
    instrumentor.instrument(tracer_provider=provider, consumer=recorded.consumer)
    try:
        engine().query(QUESTION)
    finally:
        instrumentor.uninstrument()
    assert [(t.query, t.answer) for t in recorded.traces] == [(QUESTION, ANSWER)]


def test_uninstrument(recorded: Recorded) -> None:
    """Instrumented twice it records once; after uninstrument LlamaIndex's dispatcher is as it was."""
    dispatcher = get_dispatcher()
    before = (list(dispatcher.span_handlers), list(dispatcher.event_handlers))
    instrumentor = RagtraceLlamaIndexInstrumentor()
    for _ in range(2):
        instrumentor.instrument(tracer_provider=recorded.provider, consumer=recorded.consumer)
    engine().query(QUESTION)
    instrumentor.uninstrument()
    engine().query(QUESTION)
    assert len(recorded.traces) == 1
    assert (dispatcher.span_handlers, dispatcher.event_handlers) == before


def test_uninstrument_ends_what_is_open(recorded: Recorded) -> None:
    """A request in progress ends when tracing is taken away; its stream reads on."""
    instrumentor = RagtraceLlamaIndexInstrumentor()
    instrumentor.instrument(tracer_provider=recorded.provider, consumer=recorded.consumer)
    stream = engine(streaming=True).query(QUESTION).response_gen
    next(stream)
    instrumentor.uninstrument()
    assert len(recorded.named("invoke_workflow")) == 1
    assert "".join(stream) == " pump is covered for 24 months."


def test_dispatcher_shutdown(instrumented: Recorded) -> None:
    """LlamaIndex's shutdown ends what is open."""
    stream = engine(streaming=True).query(QUESTION).response_gen
    next(stream)
    get_dispatcher().shutdown()
    assert [trace.error for trace in instrumented.traces] == ["expired"]
    stream.close()


class _Theirs(SimpleSpanHandler):
    """Stands where OpenInference's handler stands; what it does does not matter here."""

    __module__ = "openinference.instrumentation.llama_index._handler"


def test_another_tracer(instrumented: Recorded, caplog: pytest.LogCaptureFixture) -> None:
    """While another library's handler is on the dispatcher, ragtrace records nothing and logs one warning."""
    dispatcher, theirs = get_dispatcher(), _Theirs()
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


_PRELUDE = """
import sys, time
from opentelemetry.sdk.trace import TracerProvider
from ragtrace_llama_index import RagtraceLlamaIndexInstrumentor
from tests.conftest import Gathering
gathering = Gathering()
RagtraceLlamaIndexInstrumentor().instrument(tracer_provider=TracerProvider(), consumer=gathering)
assert not [m for m in sys.modules if m.startswith("llama_index")]
def arrive(count):
    limit = time.monotonic() + 10
    while len(gathering.traces) < count and time.monotonic() < limit:
        time.sleep(0.005)
    assert len(gathering.traces) == count, len(gathering.traces)
"""


def run_python(code: str) -> None:
    """Run a program in a process of its own, from the project's root."""
    done = subprocess.run(
        [sys.executable, "-c", _PRELUDE + code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(["", *sys.path])},
    )
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.process
def test_instrumented_before_the_import() -> None:
    """Instrumenting imports no LlamaIndex; an application that imports it later is traced."""
    run_python("from tests.llama_index import cases\ncases.query()\narrive(1)")


@pytest.mark.process
def test_process_with_an_open_stream_exits() -> None:
    """A program that leaves a stream open exits at once: nothing of ours holds it."""
    run_python(
        """
from tests.llama_index.cases import QUESTION, engine

response = engine(streaming=True).query(QUESTION)
next(response.response_gen)
"""
    )


# --- what a request took -------------------------------------------------------------------------


def test_stages_tokens_and_the_prompts_version(instrumented: Recorded) -> None:
    """The trace says what each stage took, the tokens of its model calls, and the prompt's version."""
    with instrument_tags({"prompt_version": "v3"}):
        engine(Fixed()).query(QUESTION)
    (trace,) = instrumented.traces
    stages = trace.facts.stages
    assert isinstance(stages, dict)
    assert set(stages) == {"retrieval", "generation"}
    assert all(0 < seconds <= trace.duration for seconds in stages.values())
    assert (trace.facts.input_tokens, trace.facts.output_tokens) == (40, 7)
    assert (trace.facts.model, trace.facts.prompt_version) == ("speaker-1", "v3")
    assert trace.facts.time_to_first_chunk is None


@pytest.mark.parametrize("name", ["query_stream", "stream_chat"])
def test_the_time_to_the_first_chunk(instrumented: Recorded, name: str) -> None:
    """A streamed answer has the time to its first piece, from the start of the request."""
    cases.CASES[name].run()
    arrived(instrumented, 1)
    (trace,) = instrumented.traces
    first = trace.facts.time_to_first_chunk
    assert isinstance(first, float)
    assert 0 < first <= trace.duration


def test_rerankers_and_tools_are_stages(instrumented: Recorded) -> None:
    """A reranker's and a tool's time are told beside the model's."""
    cases.CASES["reranker"].run()
    stages = instrumented.traces[-1].facts.stages
    assert isinstance(stages, dict)
    assert {"retrieval", "rerank", "generation"} <= set(stages)
    instrumented.clear()
    cases.CASES["react_agent"].run()
    arrived(instrumented, 1)
    stages = instrumented.traces[-1].facts.stages
    assert isinstance(stages, dict)
    assert "tool" in stages
