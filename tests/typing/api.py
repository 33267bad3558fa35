"""The public interface as an application uses it. Never run: mypy checks this file together with the product."""

from collections.abc import Sequence
from typing import assert_type

import ragtrace
from ragtrace import Document, Evaluation, Evaluator, Evidence, Runtime, Score, Trace, evaluator
from ragtrace.sampling import Decision, Sampler
from ragtrace.testing import ScriptedJudge, make_trace
from ragtrace_langchain import RagtraceCallbackHandler, RagtraceLangChainInstrumentor
from ragtrace_llama_index import RagtraceLlamaIndexInstrumentor
from ragtrace_otlp import EventSink, HoldLimits, JsonLinesSpanExporter
from ragtrace_prometheus import PrometheusSink


@ragtrace.retriever
def search(query: str) -> list[dict[str, object]]:
    return [{"id": "a", "content": query}]


@ragtrace.generation(model="gpt-4o")
async def ask(messages: list[dict[str, str]]) -> str:
    with ragtrace.request("question", session_id="s", tags=["beta"], metadata={"app": "a"}) as request:
        request.retrieved(search("question"))
        request.answered("answer", usage={"input_tokens": 3, "output_tokens": 4}, model="gpt-4o")
        assert_type(request.trace_id, str)
    return messages[0]["content"]


@evaluator
def length(trace: Trace) -> float:
    return float(len(trace.answer))


@evaluator(needs={"documents", "answer"}, version="2", threshold=0.5, direction="higher", range=(0.0, 1.0))
def cites_a_document(trace: Trace) -> bool:
    return any(document.id in trace.answer for document in trace.documents)


@evaluator(name="explained", method="code", timeout=1.0, retries=2, source="our own")
def with_explanation(trace: Trace) -> Score | None:
    """A check that returns a finished score, or None where its question does not apply."""
    if not trace.documents:
        return None
    evidence = (Evidence(0, 3, "supported", probability=0.9, document_id=trace.documents[0].id, document_rank=0),)
    return Score("explained", value=1.0, label="pass", explanation="cites a document", evidence=evidence)


@evaluator
async def asynchronous(trace: Trace) -> list[Score]:
    return [Score("first", value=0.0), Score("second", error="timeout")]


@evaluator(batch=True)
def in_batches(traces: Sequence[Trace]) -> list[float]:
    """A check of several traces at once: one value for each."""
    return [trace.duration for trace in traces]


assert_type(length, Evaluator)
assert_type(cites_a_document, Evaluator)
assert_type(with_explanation, Evaluator)
assert_type(asynchronous, Evaluator)
assert_type(in_batches, Evaluator)


class Collector:
    """A sink of the application's own."""

    def __init__(self) -> None:
        self.worst: float | None = None

    def __call__(self, evaluation: Evaluation) -> None:
        values = [score.value for score in evaluation.scores if score.value is not None]
        self.worst = min(values, default=self.worst)
        assert_type(evaluation.trace, Trace)
        assert_type(evaluation.trace.documents, tuple[Document, ...])
        assert_type(evaluation.trace.facts.model, str | None)


class Everything:
    """A sampler of the application's own."""

    def __call__(self, trace: Trace) -> Decision:
        return Decision(True, 1.0, "everything")


def start(sampler: Sampler) -> Runtime:
    assert_type(ragtrace.init(), Runtime)
    ragtrace.init(app="pump-help", evaluators=("faithfulness", length), sample=0.1, redact="standard")
    ragtrace.init(settings_file="ragtrace.toml", redact=lambda text: text.replace("secret", "[secret]"))
    return ragtrace.init(sampler=sampler, sinks=[Collector(), print], prometheus_port=9464)


def handlers() -> list[RagtraceCallbackHandler]:
    RagtraceLangChainInstrumentor().instrument(capture_content=True)
    RagtraceLlamaIndexInstrumentor().instrument()
    return [RagtraceCallbackHandler(), RagtraceCallbackHandler(capture_content="SPAN_AND_EVENT")]


def report(trace_id: int) -> None:
    assert_type(ragtrace.feedback(f"{trace_id:032x}", thumbs="up", comment="right", source="widget"), bool)
    assert_type(ragtrace.feedback(trace_id, thumbs=-1), bool)


def errors() -> str:
    try:
        ragtrace.init(sample=2.0)
    except (ragtrace.SettingError, ragtrace.MissingExtraError) as error:
        base: ragtrace.RagtraceError = error
        return str(base)
    return ragtrace.__version__


def exported() -> tuple[type, ...]:
    """Classes that a program may build its own exporters from."""
    return (EventSink, HoldLimits, JsonLinesSpanExporter, PrometheusSink, ScriptedJudge)


assert_type(make_trace(answer="24 months"), Trace)
