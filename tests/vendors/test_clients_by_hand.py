"""OpenAI's and Anthropic's own clients without a framework, and their helpers, recorded by hand."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

import ragtrace
from ragtrace import semconv
from ragtrace.capture.reply_streams import reaper
from tests.conftest import Recorded
from tests.examples.example_folder import EXAMPLES
from tests.vendors.replies import Call, Reply, Usage
from tests.vendors.server import Vendors

MESSAGES: Any = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How long?"}]
ANSWER = Reply("For 24 months.", usage=Usage(40, 8, cache_read=16))


def test_example_runs(vendors: Vendors, tmp_path: Path) -> None:
    vendors.answers(Reply("The warranty covers the pump for 24 months from delivery.", usage=Usage(40, 8)))
    patience = {"RAGTRACE_EXIT_SECONDS": "120"}  # a busy machine takes long to load the models
    environment = {**os.environ, **patience, "OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"{vendors.url}/v1"}
    options: Any = {"cwd": tmp_path, "env": environment, "capture_output": True, "text": True}
    done = subprocess.run([sys.executable, EXAMPLES / "openai_app.py"], check=False, **options)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "The warranty covers the pump for 24 months from delivery."
    spans = [json.loads(line) for line in (tmp_path / "ragtrace-spans.jsonl").read_text().splitlines()]
    by_name = {span["name"]: span["attributes"] for span in spans}
    assert set(by_name) == {"invoke_workflow manual", "retrieval search", "chat gpt-4o-mini"}
    assert by_name["retrieval search"][semconv.DOCUMENTS_COUNT] == 2
    assert by_name["chat gpt-4o-mini"][semconv.INPUT_TOKENS] == 40
    assert "gen_ai.evaluation.groundedness.score" in by_name["invoke_workflow manual"]


class Clients:
    def __init__(self, url: str) -> None:
        self.openai = openai.OpenAI(api_key="key", base_url=f"{url}/v1", max_retries=0)
        self.async_openai = openai.AsyncOpenAI(api_key="key", base_url=f"{url}/v1", max_retries=0)
        self.anthropic = anthropic.Anthropic(api_key="key", base_url=url, max_retries=0)
        self.async_anthropic = anthropic.AsyncAnthropic(api_key="key", base_url=url, max_retries=0)


STREAMED: Any = {"stream": True, "stream_options": {"include_usage": True}}


def recorded_call(call: Callable[..., Any], name: str = "messages", **options: Any) -> Any:
    """What a client's function returns for the question, recorded by hand."""
    ask = ragtrace.generation(lambda messages, model: call(model=model, **{name: messages}, **options))
    return ask(MESSAGES, model="gpt-4o")


def ask_plainly(clients: Clients) -> Any:
    return recorded_call(clients.openai.chat.completions.create).choices[0].message.content


def ask_streaming(clients: Clients) -> Any:
    stream = recorded_call(clients.openai.chat.completions.create, **STREAMED)
    assert isinstance(stream, openai.Stream)
    with stream as chunks:
        return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def ask_responses(clients: Clients) -> Any:
    return recorded_call(clients.openai.responses.create, "input").output_text


def stream_responses(clients: Clients) -> Any:
    @ragtrace.generation
    def ask(messages: Any, model: str) -> Any:
        yield from clients.openai.responses.create(model=model, input=messages, stream=True)

    events = ask(MESSAGES, model="gpt-4o")
    return "".join(event.delta for event in events if event.type == "response.output_text.delta")


def ask_asynchronously(clients: Clients) -> Any:
    @ragtrace.generation
    async def ask(messages: Any, model: str) -> Any:
        async with clients.async_openai as client:
            async for chunk in await client.chat.completions.create(model=model, messages=messages, **STREAMED):
                yield chunk

    async def read() -> str:
        chunks = ask(MESSAGES, model="gpt-4o")
        return "".join([chunk.choices[0].delta.content or "" async for chunk in chunks if chunk.choices])

    return asyncio.run(read())


def stream_chat(clients: Clients) -> Any:
    with recorded_call(clients.openai.chat.completions.stream) as stream:
        return stream.get_final_completion().choices[0].message.content


def stream_events(clients: Clients) -> Any:
    with recorded_call(clients.openai.responses.stream, "input") as stream:
        return "".join(event.delta for event in stream if event.type == "response.output_text.delta")


def stream_messages(clients: Clients) -> Any:
    with recorded_call(clients.anthropic.messages.stream, max_tokens=9) as stream:
        return "".join(stream.text_stream)


def stream_chat_async(clients: Clients) -> Any:
    async def read() -> str:
        async with clients.async_openai, recorded_call(clients.async_openai.chat.completions.stream) as stream:
            return "".join([event.delta async for event in stream if event.type == "content.delta"])

    return asyncio.run(read())


def stream_messages_async(clients: Clients) -> Any:
    async def read() -> str:
        streaming = clients.async_anthropic.messages.stream
        async with clients.async_anthropic, recorded_call(streaming, max_tokens=9) as stream:
            return await stream.get_final_text()

    return asyncio.run(read())


def raw_reply(clients: Clients) -> Any:
    reply = recorded_call(clients.openai.chat.completions.with_raw_response.create)
    return reply.parse().choices[0].message.content


CALLS = (ask_plainly, ask_streaming, ask_responses, stream_responses, ask_asynchronously)
HELPERS = (stream_chat, stream_events, stream_messages, stream_chat_async, stream_messages_async, raw_reply)


@pytest.mark.parametrize("ask", [*CALLS, *HELPERS])
def test_replies_of_the_clients(by_hand: Recorded, vendors: Vendors, ask: Callable[[Clients], Any]) -> None:
    vendors.answers(ANSWER)
    assert ask(Clients(vendors.url)) == "For 24 months."
    (trace,), (span,) = by_hand.traces, by_hand.spans
    facts, attributes = trace.facts, dict(span.attributes or {})
    assert (trace.query, trace.answer, facts.model) == ("How long?", "For 24 months.", "gpt-4o")
    assert (facts.cancelled, attributes[semconv.RESPONSE_MODEL]) == (False, "model-2026-01-01")
    if ask in CALLS:
        assert (facts.input_tokens, facts.output_tokens, facts.finish_reason) == (40, 8, "stop")
        assert attributes[semconv.CACHE_READ_TOKENS] == 16


def test_tool_calls_and_errors_of_the_client(by_hand: Recorded, vendors: Vendors) -> None:
    """A reply that asks for a tool has its calls on the span; a client's error is raised, and marks the request."""
    create = Clients(vendors.url).openai.chat.completions.create
    vendors.answers(Reply(calls=(Call("search", {"query": "warranty"}),)))
    with ragtrace.request("How long?"):
        recorded_call(create)
    vendors.answers(Reply(status=500))
    with pytest.raises(openai.InternalServerError), ragtrace.request("How long?"):
        recorded_call(create)
    first, second = by_hand.named("chat")
    assert '"tool_call"' in str((first.attributes or {})[semconv.OUTPUT_MESSAGES])
    assert (second.attributes or {})["error.type"] == "InternalServerError"
    assert by_hand.traces[-1].error == "InternalServerError"


def test_a_helpers_stream_that_is_left(by_hand: Recorded, vendors: Vendors) -> None:
    vendors.answers(ANSWER)
    streaming = Clients(vendors.url).anthropic.messages.stream
    with pytest.raises(KeyError), recorded_call(streaming, max_tokens=9) as stream:  # noqa: PT012 the application's
        next(stream.text_stream)
        raise KeyError
    assert reaper.settle(10)
    (trace,) = by_hand.traces
    assert (trace.answer, trace.facts.cancelled) == ("For", True)


def test_a_helper_whose_request_fails(by_hand: Recorded, vendors: Vendors) -> None:
    vendors.answers(Reply(status=500))
    with pytest.raises(openai.InternalServerError):
        stream_chat(Clients(vendors.url))
    assert [trace.error for trace in by_hand.traces] == ["InternalServerError"]


def test_a_raw_reply_that_the_application_streams(by_hand: Recorded, vendors: Vendors) -> None:
    """A reply that has not been read yet is left to the application: the request has no answer."""
    vendors.answers(ANSWER)
    create = Clients(vendors.url).openai.chat.completions.with_raw_response.create
    assert len([*recorded_call(create, stream=True).parse()]) > 1
    assert [trace.answer for trace in by_hand.traces] == [""]
