"""Helpers of OpenAI's and Anthropic's clients, recorded by hand: managers of streams, and raw replies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import anthropic
import openai
import pytest

import ragtrace
from ragtrace import semconv
from ragtrace.capture.reaper import reaper
from tests.conftest import Recorded
from tests.vendors.replies import Reply
from tests.vendors.server import Vendors

MESSAGES: Any = [{"role": "user", "content": "How long?"}]
ANSWER = "For 24 months, without the seals."


class Clients:
    """The vendors' clients of one server."""

    def __init__(self, url: str) -> None:
        self.openai = openai.OpenAI(api_key="key", base_url=f"{url}/v1", max_retries=0)
        self.async_openai = openai.AsyncOpenAI(api_key="key", base_url=f"{url}/v1", max_retries=0)
        self.anthropic = anthropic.Anthropic(api_key="key", base_url=url, max_retries=0)
        self.async_anthropic = anthropic.AsyncAnthropic(api_key="key", base_url=url, max_retries=0)


def recorded_call(call: Callable[..., Any], **options: Any) -> Any:
    """What a client's function returns for the question, recorded by hand."""
    return ragtrace.generation(lambda messages: call(model="m", messages=messages, **options))(MESSAGES)


def stream_chat(clients: Clients) -> Any:
    with recorded_call(clients.openai.chat.completions.stream) as stream:
        return stream.get_final_completion().choices[0].message.content


def stream_responses(clients: Clients) -> Any:
    ask = ragtrace.generation(lambda messages: clients.openai.responses.stream(model="m", input=messages))
    with ask(MESSAGES) as stream:
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


@pytest.mark.parametrize(
    "ask", [stream_chat, stream_responses, stream_messages, stream_chat_async, stream_messages_async, raw_reply]
)
def test_helpers_of_the_clients(ask: Callable[[Clients], Any], by_hand: Recorded, vendors: Vendors) -> None:
    """Each helper gives the application what it gives without ragtrace; the request has answer and model."""
    vendors.answers(Reply(ANSWER))
    assert ask(Clients(vendors.url)) == ANSWER
    (trace,) = by_hand.traces
    assert (trace.query, trace.answer, trace.facts.cancelled) == ("How long?", ANSWER, False)
    (span,) = by_hand.spans
    assert (span.attributes or {})[semconv.RESPONSE_MODEL] == "model-2026-01-01"


def test_a_helpers_stream_that_is_left(by_hand: Recorded, vendors: Vendors) -> None:
    """What was read before the application left is the answer, and the request is cancelled."""
    vendors.answers(Reply(ANSWER))
    streaming = Clients(vendors.url).anthropic.messages.stream
    with pytest.raises(KeyError), recorded_call(streaming, max_tokens=9) as stream:  # noqa: PT012 the application's
        next(stream.text_stream)
        raise KeyError
    assert reaper.settle(10)
    (trace,) = by_hand.traces
    assert (trace.answer, trace.facts.cancelled) == ("For", True)


def test_a_helper_whose_request_fails(by_hand: Recorded, vendors: Vendors) -> None:
    """The vendor's error reaches the application, and is the request's."""
    vendors.answers(Reply(status=500))
    streaming = Clients(vendors.url).openai.chat.completions.stream
    with pytest.raises(openai.InternalServerError), recorded_call(streaming):
        pass
    (trace,) = by_hand.traces
    assert trace.error == "InternalServerError"


def test_a_raw_reply_that_the_application_streams(by_hand: Recorded, vendors: Vendors) -> None:
    """A reply that has not been read yet is left to the application: the request has no answer."""
    vendors.answers(Reply(ANSWER))
    create = Clients(vendors.url).openai.chat.completions.with_raw_response.create
    assert len([*recorded_call(create, stream=True).parse()]) > 1
    (trace,) = by_hand.traces
    assert trace.answer == ""
