"""The capture matrix on LangChain: one tree per request, whatever way it is called."""

import asyncio
import contextlib
import copy
import gc
import json
import sys
import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest import mock
from uuid import uuid4

import pytest
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.tools import tool
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import INVALID_SPAN

from ragtrace import semconv
from ragtrace.capture.request import Request, Run
from ragtrace.capture.seen_context import earlier_chunks
from ragtrace.capture.timing import usage_by_model
from ragtrace.evaluate.causes import cause
from ragtrace.records import Document as RecordedDocument
from ragtrace.records import Score, Trace
from ragtrace.text.sanitizer import Sanitizer
from ragtrace_langchain import RagtraceCallbackHandler, RagtraceLangChainInstrumentor
from tests.conftest import Recorded
from tests.hostile import ClosedMapping, Unbound, Unreadable
from tests.langchain import cases
from tests.langchain.cases import DOCUMENTS, Fixed, graph
from tests.row_files import table

RAG = [("invoke_workflow rag", [("retrieval Fixed", []), ("chat FakeListChatModel", [])])]


def make_chain(retriever: Any = None, model: Any = None) -> Runnable[Any, Any]:
    return cases.chain(retriever or Fixed(), model or FakeListChatModel(responses=["24 months."]))


async def test_abatch_gather_and_concurrent_ainvoke(recorded: Recorded, config: Any) -> None:
    chain, agent = make_chain(), graph()
    calls = [chain.ainvoke(f"q{i}", config) for i in range(10)]
    runs = [agent.ainvoke({"question": f"g{i}"}, config) for i in range(5)]
    await asyncio.gather(*calls, chain.abatch(["x", "y", "z"], config), *runs)
    assert sorted(recorded.tree()) == [("invoke_workflow LangGraph", RAG[0][1])] * 5 + RAG * 13
    expected = [f"g{i}" for i in range(5)] + [f"q{i}" for i in range(10)] + ["x", "y", "z"]
    assert sorted(t.query for t in recorded.traces) == expected


def test_under_an_ambient_span(recorded: Recorded, config: Any) -> None:
    with recorded.provider.get_tracer("web").start_as_current_span("GET /ask"):
        make_chain().batch(["a", "b"], config)
    assert (recorded.tree(), len(recorded.traces)) == ([("GET /ask", RAG * 2)], 2)


def test_nested_retrievers_are_not_doubled(recorded: Recorded, config: Any) -> None:
    """Inner retrievals have their spans; the outermost one has the documents that the model saw, and the seconds."""

    class Outer(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
            inner: Any = {"callbacks": run_manager.get_child()}
            return [*Fixed().invoke(query, inner), *Fixed(documents=DOCUMENTS[:3]).invoke(query, inner)][-3:]

    make_chain(Outer()).invoke("q", config)
    inside = [("retrieval Fixed", []), ("retrieval Fixed", [])]
    assert recorded.tree() == [("invoke_workflow rag", [("retrieval Outer", inside), ("chat FakeListChatModel", [])])]
    (trace,), (outer,) = recorded.traces, recorded.named("retrieval Outer")
    assert [d.id for d in trace.documents] == ["d0", "d1", "d2"]
    assert trace.facts.stages["retrieval"] == pytest.approx(((outer.end_time or 0) - (outer.start_time or 0)) / 1e9)


def test_the_root_of_a_stream(recorded: Recorded) -> None:
    """Without evaluation, too, a stream's root has the time to its first chunk, and the text of an abandoned one."""
    spans_alone: Any = {"callbacks": [RagtraceCallbackHandler(recorded.provider, True)]}
    list(make_chain().stream("q", spans_alone))
    abandoned: Any = make_chain().stream("q", spans_alone)
    next(abandoned)
    abandoned.close()
    first, second = (dict(span.attributes or {}) for span in recorded.named("invoke_workflow"))
    assert min(first[semconv.TIME_TO_FIRST_CHUNK], second[semconv.TIME_TO_FIRST_CHUNK]) > 0
    assert second[semconv.OI_OUTPUT]
    assert "24 months.".startswith(second[semconv.OI_OUTPUT])


@pytest.mark.parametrize("read", [1, 2, 5])
def test_stream_abandoned(recorded: Recorded, config: Any, read: int) -> None:
    stream = make_chain().stream("q", config)
    pieces = [next(stream) for _ in range(read)]
    del stream
    gc.collect()
    assert recorded.tree() == RAG
    (trace,) = recorded.traces
    assert (trace.answer, trace.error) == ("".join(pieces), None)
    assert (trace.facts.cancelled, trace.facts.finish_reason) == (True, None)
    assert not any(semconv.ERROR_TYPE in (span.attributes or {}) for span in recorded.spans)


class Named(FakeListChatModel):
    model_name: str = "gpt-test"

    def _generate(self, *args: Any, **kwargs: Any) -> Any:
        result = super()._generate(*args, **kwargs)
        message: Any = result.generations[0].message
        tokens = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
        message.usage_metadata = {**tokens, "input_token_details": {"cache_read": 2}}
        message.response_metadata = {"model_name": "gpt-test-1", "finish_reason": "stop"}
        message.id = "resp-1"
        return result


def test_what_a_request_took(recorded: Recorded, config: Any) -> None:
    """What the model says of itself is on its span in both dialects, all else in the request's trace."""
    given = {**config, "metadata": {"prompt_version": "v3", "reference": "two years"}}
    make_chain(model=Named(responses=["yes"])).invoke("q", given)
    (trace,), (span,) = recorded.traces, recorded.named("chat gpt-test")
    expected = table(__file__, "model_name_tokens_and_finish_reason")
    assert {key: (span.attributes or {}).get(key) for key in expected} == expected
    assert (span.attributes or {})[semconv.FINISH_REASONS] == ("stop",)
    facts = trace.facts
    assert facts.stages.keys() == {"retrieval", "generation"}
    assert all(0 < seconds <= trace.duration for seconds in facts.stages.values())
    assert (facts.model, facts.finish_reason, facts.input_tokens, facts.output_tokens) == ("gpt-test", "stop", 7, 3)
    assert (facts.prompt_version, trace.reference, facts.time_to_first_chunk) == ("v3", "two years", None)
    assert facts.usage["gpt-test"][:4] == (7, 3, 2, 0)
    listed: Any = facts.spans
    exported = sorted(recorded.spans, key=lambda span: (span.start_time or 0, span.parent is not None))
    began = exported[0].start_time or 0
    assert [each["operation"] for each in listed] == ["invoke_workflow", "retrieval", "chat"]
    assert [each["parent"] for each in listed] == [None, 0, 0]
    for each, own in zip(listed, exported, strict=True):
        assert each["operation"] == (own.attributes or {})[semconv.OPERATION]
        assert each["start"] == pytest.approx(((own.start_time or 0) - began) / 1e9)
        assert each["duration"] == pytest.approx(((own.end_time or 0) - (own.start_time or 0)) / 1e9)
    assert (listed[2]["input_tokens"], listed[2]["output_tokens"], "error" in listed[2]) == (7, 3, False)


def test_an_odd_tag_costs_nothing_else(recorded: Recorded, config: Any, handler: RagtraceCallbackHandler) -> None:
    more = {"tags": [Unreadable()], "metadata": {"session_id": "s-1"}}
    make_chain(model=Named(responses=["yes"])).invoke("q", {**config, **more})
    (trace,) = recorded.traces
    assert (trace.answer, trace.facts.model, trace.facts.session_id) == ("yes", "gpt-test", "s-1")
    assert trace.facts.tags == ("<Unreadable>",)
    assert handler.recorder.failures == 0


def test_tool_calls_are_told_to_evaluators(recorded: Recorded, config: Any) -> None:
    @tool
    def look_up(what: str) -> str:
        """Look something up."""
        if what == "nothing":
            raise TimeoutError
        return f"found {what}"

    def run(question: str, config: Any) -> str:
        for what in ("pump", "cover"):
            look_up.invoke({"what": what}, config)
        with pytest.raises(TimeoutError):
            look_up.invoke({"what": "nothing"}, config)
        return "done"

    RunnableLambda(run).with_config(run_name="agent").invoke("which pump?", config)
    assert list(recorded.traces[0].facts.steps) == [
        {"tool": "look_up", "args": json.dumps({"what": what}), "result": result}
        for what, result in (("pump", "found pump"), ("cover", "found cover"), ("nothing", "error: TimeoutError"))
    ]


@pytest.mark.parametrize("place", ["metadata", "configurable"])
@pytest.mark.parametrize("key", ["session_id", "thread_id", "conversation_id"])
async def test_session_user_and_tags_on_every_span(recorded: Recorded, config: Any, key: str, place: str) -> None:
    given = {**config, place: {key: "conv-1", "user_id": "ada", "plan": "paid"}, "tags": ["beta"]}
    await make_chain().abatch(["q"], given)
    make_chain().batch(["r"], given)
    graph().invoke({"question": "q"}, given)
    assert len(recorded.spans) == 9
    for span in recorded.spans:
        attributes = dict(span.attributes or {})
        assert attributes[semconv.CONVERSATION_ID] == attributes[semconv.OI_SESSION] == "conv-1"
        assert (attributes[semconv.USER_ID], attributes[semconv.OI_TAGS]) == ("ada", ("beta",))
    assert all((t.facts.session_id, t.facts.user_id) == ("conv-1", "ada") for t in recorded.traces)


@pytest.mark.parametrize("other", ["the same handler", "the same settings", "other settings"])
def test_two_handlers_record_once(recorded: Recorded, other: str) -> None:
    first, captures = RagtraceCallbackHandler(recorded.provider, True), other == "the same settings"
    second = first if other == "the same handler" else RagtraceCallbackHandler(recorded.provider, captures)
    assert "".join(make_chain().with_config(callbacks=[first]).stream("q", {"callbacks": [second]})) == "24 months."
    assert recorded.tree() == RAG
    (chat,) = recorded.named("chat")
    assert chat.attributes["llm.output_messages.0.message.content"] == "24 months."


def test_instrumented(traced_langchain: Recorded) -> None:
    """The instrumentor needs no change in the application, in threads and tasks; a handler beside it adds nothing."""
    chain = make_chain()
    chain.invoke("a", {"callbacks": [RagtraceCallbackHandler(traced_langchain.provider, True)]})
    chain.batch(["b", "c"])
    asyncio.run(chain.ainvoke("d"))
    assert traced_langchain.tree() == RAG * 4


def test_uninstrumented(recorded: Recorded) -> None:
    instrumentor = RagtraceLangChainInstrumentor()
    for _ in range(2):
        instrumentor.instrument(tracer_provider=recorded.provider)
        make_chain().invoke("q")
        instrumentor.uninstrument()
        make_chain().invoke("q")
    assert len(recorded.named("invoke_workflow")) == 2


def test_another_tracer(recorded: Recorded, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """When OpenInference traces LangChain already, ragtrace records nothing and logs which library traces."""
    other = SimpleNamespace(_instance=SimpleNamespace(_is_instrumented_by_opentelemetry=True))
    module: Any = SimpleNamespace(LangChainInstrumentor=other)
    monkeypatch.setitem(sys.modules, "openinference.instrumentation.langchain", module)
    instrumentor = RagtraceLangChainInstrumentor()
    instrumentor.instrument(tracer_provider=recorded.provider)
    make_chain().invoke("q")
    instrumentor.uninstrument()
    assert recorded.spans == []
    assert "openinference.instrumentation.langchain" in caplog.text


CYCLE: dict[str, Any] = {"name": "loop"}
CYCLE["self"] = CYCLE


@pytest.mark.parametrize(
    "document",
    [
        Document(page_content="x" * 10_000_000),
        Document(page_content="lone \ud800 surrogate", id="\ud800"),
        Document(page_content="NUL \0 byte"),
        Document(page_content="cycle", metadata=CYCLE),
        Document(page_content="odd", metadata={"odd": Unreadable(), "score": "high"}),
        Document(page_content="nan", metadata={"score": float("nan")}),
        Document.model_construct(page_content=12.5, metadata={}),
        Document.model_construct(page_content={"a": [1]}, metadata=None),
    ],
    ids=["10MB", "surrogate", "nul", "cycle", "no-repr", "nan", "number", "dict"],
)
def test_odd_documents(recorded: Recorded, config: Any, document: Document) -> None:
    """A document of any content costs a truncated attribute at most: the tree stands, and every encoder takes it."""
    make_chain(Fixed(documents=[DOCUMENTS[0], document])).invoke("q", config)
    assert recorded.tree() == RAG
    assert recorded.named("retrieval")[0].attributes["ragtrace.retrieval.documents.count"] == 2
    encoded = encode_spans(recorded.spans).SerializeToString()
    assert len(encoded) < 400_000
    assert len(recorded.traces[0].documents) == 2


@pytest.mark.parametrize(
    "answer",
    [{"answer": {"text": "yes"}}, {"odd": CYCLE}, Unreadable(), ClosedMapping(answer="yes"), [1], None, 3.5, b"\xff"],
)
def test_odd_answers(recorded: Recorded, config: Any, answer: Any) -> None:
    assert RunnableLambda(lambda _: answer).with_config(run_name="odd").invoke("q", config) is answer
    assert recorded.tree() == [("invoke_workflow odd", [])]
    (trace,) = recorded.traces
    assert (trace.query, type(trace.answer)) == ("q", str)


def test_a_model_whose_metadata_cannot_be_read_has_its_answer(recorded: Recorded, config: Any) -> None:
    message = AIMessage("yes", usage_metadata={"input_tokens": 3, "output_tokens": 1, "total_tokens": 4})
    generation = ChatGeneration(message=message)
    object.__setattr__(generation, "generation_info", ClosedMapping(finish_reason="stop"))
    [handler], run_id = config["callbacks"], uuid4()
    handler.on_chat_model_start({}, [[HumanMessage("q")]], run_id=run_id)
    handler.on_llm_end(LLMResult(generations=[[generation]]), run_id=run_id)
    [span] = recorded.named("chat")
    assert span.attributes[semconv.OUTPUT_TOKENS] == 1
    assert recorded.traces[0].answer == "yes"


def test_a_tool_whose_result_cannot_be_read_ends(recorded: Recorded, config: Any) -> None:
    [handler], run_id = config["callbacks"], uuid4()
    handler.on_tool_start({"name": "search"}, "q", run_id=run_id)
    handler.on_tool_end(Unbound(), run_id=run_id)
    [span] = recorded.named("execute_tool")
    assert span.status.is_ok or span.status.is_unset
    assert handler._recorder.failures == 0


def test_an_error_of_ours_at_the_end_ends_the_run(
    recorded: Recorded, config: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever goes wrong while an end is read is counted, and the run ends: the request is not lost."""
    broken = mock.Mock(side_effect=RuntimeError("a bug"))
    monkeypatch.setattr("ragtrace_langchain.handler.read_answer", broken)
    monkeypatch.setattr("ragtrace_langchain.conversion.read_reply", broken)
    make_chain(Fixed()).invoke("q", config)
    assert (recorded.tree(), len(recorded.traces)) == (RAG, 1)
    assert "on_llm_end failed" in caplog.text
    caplog.clear()


def test_a_failing_retriever(recorded: Recorded, config: Any) -> None:
    with pytest.raises(ConnectionError, match="down"):
        make_chain(cases.Broken()).invoke("q", config)
    assert recorded.named("retrieval")[0].attributes[semconv.ERROR_TYPE] == "ConnectionError"
    listed: Any = recorded.traces[0].facts.spans
    assert {span["operation"]: span.get("error") for span in listed}["retrieval"] == "ConnectionError"
    with pytest.raises(KeyError, match="what is asked"):  # raised after the retrieval, whose documents are kept
        (Fixed() | RunnableLambda(lambda _: {}["what is asked"])).invoke("q", config)
    assert (recorded.traces[1].error, len(recorded.traces[1].documents)) == ("KeyError", 5)


def test_a_span_that_is_not_recorded_is_still_evaluated(recorded: Recorded) -> None:
    """Head sampling thins out spans; evaluation has its own sampler and sees the request all the same."""
    provider = TracerProvider(sampler=ALWAYS_OFF)
    handler = RagtraceCallbackHandler(provider, True, consumer=recorded.consumer)
    make_chain().invoke("q", {"callbacks": [handler]})
    (trace,) = recorded.traces
    assert (trace.query, trace.answer, len(trace.documents)) == ("q", "24 months.", 5)
    assert trace.trace_id != 0


def test_lost_ends_expire(recorded: Recorded, handler: RagtraceCallbackHandler) -> None:
    root, child = uuid4(), uuid4()
    handler.on_chain_start(None, "q", run_id=root, name="lost")
    handler.on_retriever_start(None, "q", run_id=child, parent_run_id=root, name="R")
    assert recorded.spans == []
    assert handler._recorder.expire() == 1
    assert (recorded.tree(), recorded.traces[0].error) == ([("invoke_workflow lost", [("retrieval R", [])])], "expired")
    handler.on_retriever_end([], run_id=child)
    handler.on_chain_end("late", run_id=root)
    assert len(recorded.spans) == 2
    assert not handler._recorder._runs


def test_a_handler_can_be_copied(handler: RagtraceCallbackHandler) -> None:
    """Frameworks copy configurations deeply; the handler stays itself."""
    assert copy.deepcopy({"callbacks": [handler]})["callbacks"][0] is handler
    assert copy.copy(handler) is handler


def test_the_prompts_version_of_one_step(recorded: Recorded, config: Any) -> None:
    model = FakeListChatModel(responses=["yes"]).with_config(metadata={"prompt_version": "v4"})
    make_chain(model=model).invoke("q", config)
    assert recorded.traces[0].facts.prompt_version == "v4"


def test_tokens_of_several_models(recorded: Recorded, config: Any) -> None:
    chain = Named(responses=["a"], model_name="small") | StrOutputParser() | Named(responses=["b"], model_name="large")
    chain.with_config(run_name="two").invoke("q", config)
    (trace,) = recorded.traces
    assert {m: used[:2] for m, used in trace.facts.usage.items()} == {"small": (7, 3), "large": (7, 3)}
    assert (trace.facts.input_tokens, trace.facts.output_tokens) == (14, 6)


def test_a_call_that_passes_on_counts_its_tokens_once() -> None:
    """A model that asks another one, or a function around a model, reports the same tokens again."""
    counts = {semconv.REQUEST_MODEL: "m", semconv.INPUT_TOKENS: 100, semconv.OUTPUT_TOKENS: 10}
    outer = Run(0, Request(), None, INVALID_SPAN, semconv.OP_CHAT, "", 0, False, "", attributes=counts)
    inner = replace(outer, parent=outer)
    usage = usage_by_model([outer, inner, replace(outer, parent=None)], Sanitizer())
    assert usage["m"][:2] == (200, 20)


def test_a_model_alone_is_its_own_stage(recorded: Recorded, config: Any) -> None:
    """A model call without a chain is a request with that stage, and the time to the first chunk where it streams."""
    list(FakeListChatModel(responses=["24 months."]).stream("q", config))
    assert recorded.tree() == [("chat FakeListChatModel", [])]
    (trace,), (chat,) = recorded.traces, recorded.spans
    assert (trace.query, trace.answer) == ("q", "24 months.")
    assert chat.attributes[semconv.REQUEST_STREAM] is True
    assert chat.attributes[semconv.TIME_TO_FIRST_CHUNK] > 0
    assert 0 < (trace.facts.time_to_first_chunk or 0) <= trace.duration
    assert trace.facts.stages == {"generation": pytest.approx(trace.duration)}


def test_a_clock_that_is_set_back(recorded: Recorded, config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    hours = iter(range(1_000_000, 0, -1))
    monkeypatch.setattr("ragtrace.capture.recorder.time.time_ns", lambda: next(hours) * 3_600_000_000_000)
    list(make_chain().stream("q", config))
    (trace,) = recorded.traces
    assert set(trace.facts.stages.values()) == {0.0}
    assert (trace.duration, trace.facts.time_to_first_chunk) == (0, 0)
    assert all((span.end_time or 0) >= (span.start_time or 0) for span in recorded.spans)


def test_metadata_is_no_fact(handler: RagtraceCallbackHandler, recorded: Recorded) -> None:
    chain = make_chain()
    metadata = table(__file__, "metadata_is_no_fact")
    chain.invoke("How long?", config={"callbacks": [handler], "metadata": metadata})
    (trace,) = recorded.traces
    assert trace.facts.stages.get("retrieval", 0.0) < 99.0
    assert (trace.facts.unrecorded, trace.facts.cancelled, trace.facts.steps) == (False, False, ())
    assert trace.facts.finish_reason != "length"
    assert trace.facts.model != "mine"
    assert trace.attributes["plan"] == "paid"
    assert cause(trace, [Score("groundedness", 0.1, "fail", cause="unsupported")]) != "truncated"


def test_a_turn_without_a_retrieval_has_the_chunks_of_its_session(recorded: Recorded, config: Any) -> None:
    """A turn has the chunks of an earlier one that its prompt holds; another session, user or search has its own."""
    model = FakeListChatModel(responses=["24 months."])

    def turn(chain: Any, session: str, user: str = "ada", prompt: str = "q") -> Trace:
        chain.invoke(prompt, {**config, "metadata": {"session_id": session, "user_id": user}})
        return recorded.traces[-1]

    first = turn(make_chain(), "turns-1")
    assert turn(model, "turns-1").documents == ()
    second = turn(model, "turns-1", prompt=" ".join(each.content for each in first.documents))
    assert second.documents == first.documents
    assert (first.facts.chunks_of_earlier_turns, second.facts.chunks_of_earlier_turns) == (False, True)
    assert turn(model, "turns-2").documents == turn(model, "turns-1", "bob").documents == ()
    empty = turn(make_chain(retriever=Fixed(documents=[])), "turns-1")
    assert (empty.documents, empty.facts.chunks_of_earlier_turns) == ((), False)


def test_sessions_are_forgotten_before_they_fill_the_memory(recorded: Recorded, config: Any) -> None:
    """The chunks of a thousand sessions are kept, of each session its latest 32,000 characters and 64 chunks."""
    long = [Document(page_content=str(i) * 10_000, id=f"long-{i}") for i in range(1, 5)]

    def turn(runnable: Any, session: str, prompt: str = "q") -> Trace:
        runnable.invoke(prompt, {**config, "metadata": {"session_id": session}})
        return recorded.traces[-1]

    def root(session: str) -> Run:
        return Run(0, Request(session=session), None, INVALID_SPAN, "", "", 0, False, "")

    turn(make_chain(retriever=Fixed(documents=long)), "memory-0")
    model = FakeListChatModel(responses=["yes"])
    seen = turn(model, "memory-0", " ".join(each.page_content for each in long))
    assert [d.id for d in seen.chunks] == ["long-1", "long-2", "long-3"]
    for i in range(1_000):
        earlier_chunks(root(f"memory-{i + 1}"), [RecordedDocument("d", "chunk")])
    assert turn(model, "memory-0").documents == ()
    for i in range(100):
        earlier_chunks(root("without text"), [RecordedDocument(f"d{i}", "")])
    ids = [each.id for each in earlier_chunks(root("without text"), [])]
    assert ids == [f"d{i}" for i in range(99, 35, -1)]


def test_work_that_outlives_its_request_is_no_request(recorded: Recorded, config: Any) -> None:
    """A thread goes on after its request has run out of time; what it asks a model then answers nobody."""
    asks, done = threading.Event(), threading.Event()

    def work(question: str) -> str:
        asks.wait(5)
        text = (RunnableLambda(str) | FakeListChatModel(responses=["Too late."])).invoke(question).text
        done.set()
        return str(text)

    async def ask() -> None:
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(RunnableLambda(work).ainvoke("How long?", config), 0.05)
        asks.set()
        await asyncio.to_thread(done.wait, 5)

    asyncio.run(ask())
    assert [(t.query, t.facts.cancelled) for t in recorded.traces] == [("How long?", True)]
    assert len(recorded.spans) == 1


def test_a_second_try_under_the_id_of_a_failed_run_is_a_request(recorded: Recorded, config: Any) -> None:
    divisors, run_id = iter([0, 1]), uuid4()
    for _ in range(2):
        with contextlib.suppress(ZeroDivisionError):
            RunnableLambda(lambda _: str(1 / next(divisors))).invoke("How long?", {**config, "run_id": run_id})
    assert [(t.error, t.answer) for t in recorded.traces] == [("ZeroDivisionError", ""), (None, "1.0")]


@pytest.mark.parametrize("name", ["with_content", "without_content"])
def test_every_attribute(recorded: Recorded, name: str) -> None:
    """With content spans say all that is known, in both dialects; without it ids, scores, counts and lengths alone."""
    handler = RagtraceCallbackHandler(recorded.provider, name == "with_content", consumer=recorded.consumer)
    metadata = {"session_id": "conv-1", "user_id": "ada", "plan": "paid"}
    chain = make_chain(Fixed(documents=DOCUMENTS[:2]))
    chain.invoke("How long?", {"callbacks": [handler], "metadata": metadata, "tags": ["beta"]})
    spans = sorted(recorded.spans, key=lambda s: s.start_time or 0)
    told = json.loads(json.dumps([(s.name, s.kind.name, dict(s.attributes or {})) for s in spans]))
    assert told == table(__file__, name)
