"""An application that knows nothing of ragtrace: it records spans with OpenTelemetry, and sends them over OTLP.

OTEL_EXPORTER_OTLP_ENDPOINT says where to: the worker, or a Collector in front of it. The attributes are those of
OpenInference, which its instrumentations of LangChain, LlamaIndex and others write by themselves.
"""

import sys

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

RULES = {
    "helmet": "The helmet is under the seat. Each bike comes with one.",
    "price": "The first 30 minutes cost one euro. Each further minute costs five cents.",
    "return": "Return the bike at one of our 40 stations. A bike that is left elsewhere costs 15 euros.",
}
QUESTIONS = ["Where is the helmet?", "How much do the first 30 minutes cost?", "Can children ride alone?"]

provider = TracerProvider(resource=Resource.create({"service.name": "bike-rental"}))
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
tracer = trace.get_tracer("bike-rental", tracer_provider=provider)


def words(text: str) -> set[str]:
    """The words of a text with more than three letters, and its numbers."""
    return {word for word in text.lower().replace("?", "").replace(".", "").split() if len(word) > 3 or word.isdigit()}


def search(question: str) -> dict[str, str]:
    """The rule that shares most words with the question."""
    with tracer.start_as_current_span("search", attributes={"openinference.span.kind": "RETRIEVER"}) as span:
        name = max(RULES, key=lambda name: len(words(question) & words(RULES[name])))
        span.set_attribute("input.value", question)
        span.set_attribute("retrieval.documents.0.document.id", name)
        span.set_attribute("retrieval.documents.0.document.content", RULES[name])
        return {"id": name, "content": RULES[name]}


def generate(question: str, rule: str) -> str:
    """Stands for a language model: the closest sentence, and an invented answer where no sentence is close."""
    best = max(rule.split(". "), key=lambda sentence: len(words(question) & words(sentence))).rstrip(".")
    return f"{best}." if words(question) & words(best) else "Yes, children below twelve ride for free in Vienna."


def answer(question: str, session: str) -> str:
    """The answer to a question, recorded as one request."""
    attributes = {"openinference.span.kind": "CHAIN", "input.value": question, "session.id": session}
    with tracer.start_as_current_span("answer", attributes=attributes) as span:
        text = generate(question, search(question)["content"])
        span.set_attribute("output.value", text)
        return text


if __name__ == "__main__":
    for asked in sys.argv[1:] or QUESTIONS:
        print(f"{asked}\n    {answer(asked, session='s-1')}")
    provider.shutdown()  # sends what waits
