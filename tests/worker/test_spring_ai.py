"""Spans of Spring AI over the wire.

Nothing here is recorded: names and values are those of its reference, page "Observability" of 1.1
(https://docs.spring.io/spring-ai/reference/observability/index.html); texts are written as before 1.0.0-RC1."""

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ragtrace.records import Trace
from ragtrace_otlp.wire import write_attributes
from tests.row_files import table
from tests.worker.running import ANSWER, QUESTION, Running, running, scope, span

CHUNK = 'The pump is covered for 24 months, the "delivery" counts.'
CLIENT, ADVISOR, STORE, MODEL, TOOL = table(__file__, "spans")


@pytest.fixture(scope="module")
def run() -> Iterator[Running]:
    with running() as run:
        yield run


def request(run: Running, number: int, *parts: dict[str, Any], **root: Any) -> Trace:
    """The request of a chat client with an advisor below it, and these spans below that."""
    message = ExportTraceServiceRequest()
    target = scope(message, "shop", "org.springframework.boot")
    for place, attributes in enumerate(({**CLIENT, **root}, ADVISOR, *parts), 1):
        parent = 100 * number + min(place - 1, 2) if place > 1 else 0
        write_attributes(span(target, 100 * number + place, number, parent), attributes)
    return run.evaluate(message)


def test_a_chat_client_is_a_request(run: Running) -> None:
    """Question, chunks, answer, model, tokens, session and tool calls, where the application exports contents."""
    store = {**STORE, "db.vector.query.response.documents": f'["{CHUNK}", "Filters are not covered."]'}
    model = {**MODEL, "gen_ai.prompt": f'["Answer from: {CHUNK}", "{QUESTION}"]', "gen_ai.completion": f'["{ANSWER}"]'}
    trace = request(run, 1, store, TOOL, model, **{"spring.ai.chat.client.user.text": QUESTION})
    facts = trace.facts
    assert (trace.query, trace.answer, trace.error) == (QUESTION, ANSWER, None)
    assert [document.content for document in trace.documents] == [CHUNK, "Filters are not covered."]
    assert (facts.model, facts.provider, facts.response_id) == ("gpt-4o-mini", "openai", "chatcmpl-7")
    assert (facts.input_tokens, facts.output_tokens, facts.session_id) == (40, 9, "conversation-1")
    assert [(step["tool"], step["args"], step["result"]) for step in trace.steps] == [
        ("search_manual", '{"query": "pump"}', CHUNK)
    ]


def test_a_request_without_contents_has_its_facts(run: Running) -> None:
    """The search is the question; the id of all conversations without one of their own is no session."""
    adding = {**STORE, "db.operation.name": "add"}
    trace = request(run, 2, adding, STORE, MODEL, **{"spring.ai.chat.client.conversation.id": "default"})
    facts = trace.facts
    assert (trace.query, trace.answer, trace.documents) == (QUESTION, "", ())
    assert (facts.model, facts.input_tokens, facts.output_tokens) == ("gpt-4o-mini", 40, 9)
    assert (facts.retrievals, facts.session_id) == (1, None)


def test_messages_in_events_are_read(run: Running) -> None:
    """OpenTelemetry's conventions of 2024 have prompt and completion as JSON in events of the model's span."""
    message = ExportTraceServiceRequest()
    one = span(scope(message, "shop", "opentelemetry.instrumentation.anthropic"), 31, 3)
    write_attributes(one, MODEL)
    for name, key, role, content in (
        ("gen_ai.content.prompt", "gen_ai.prompt", "user", QUESTION),
        ("gen_ai.content.completion", "gen_ai.completion", "assistant", ANSWER),
    ):
        event = one.events.add(name=name, time_unix_nano=one.start_time_unix_nano)
        write_attributes(event, {key: f'[{{"role": "{role}", "content": "{content}"}}]'})
    trace = run.evaluate(message)
    assert (trace.query, trace.answer) == (QUESTION, ANSWER)
