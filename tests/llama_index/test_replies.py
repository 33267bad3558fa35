"""What providers' replies say of themselves, in the shapes in which LlamaIndex's models pass them on."""

import json
from collections.abc import Iterator
from enum import Enum, IntEnum
from types import SimpleNamespace
from typing import Any

import pytest
from llama_index.core.llms import ChatMessage, ChatResponse, CompletionResponse
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.llms.mock import MockLLM
from pydantic import BaseModel

from ragtrace.capture.content_blocks import parts_of
from ragtrace.capture.model_messages import TextPart
from ragtrace.capture.provider_replies import finish_reason, token_counts
from ragtrace_llama_index.blocks import messages_of
from ragtrace_llama_index.conversion import embedding_size
from tests.conftest import Recorded
from tests.hostile import ClosedMapping, Unbound
from tests.llama_index.cases import ANSWER, QUESTION, Caller, Speaker
from tests.row_files import table

SHAPES: dict[str, Any] = table(__file__, "shapes")


@pytest.mark.parametrize("as_object", [None, lambda fields: SimpleNamespace(**fields)], ids=["mappings", "objects"])
@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name: str, as_object: Any) -> None:
    """Reason and tokens are read from every reply: cached ones in the input, reasoning in the output, all in total."""
    reply, counts, reason = SHAPES[name]
    reply = json.loads(json.dumps(reply), object_hook=as_object)
    assert (token_counts(reply), finish_reason(reply)) == (counts, reason)


def test_enumerations_and_messages_without_a_dictionary() -> None:
    """As google-genai has them after `model_dump`, and Vertex AI in its protocol buffers."""

    class Proto:
        __slots__ = ("finish_reason", "total_token_count")

    proto = Proto()
    proto.finish_reason, proto.total_token_count = IntEnum("Reason", {"MAX_TOKENS": 2}).MAX_TOKENS, 47
    assert token_counts({"usage_metadata": proto}) == {"llm.token_count.total": 47}
    assert finish_reason({"candidates": [proto]}) == "MAX_TOKENS"
    assert finish_reason({"finish_reason": Enum("Reason", {"STOP": "STOP"}).STOP}) == "STOP"


def test_object_that_has_every_field() -> None:
    class Endless:
        looks = 0

        def __getattr__(self, name: str) -> Any:
            Endless.looks += 1
            return Endless()

    assert (token_counts(Endless()), finish_reason(Endless())) == ({}, None)
    assert Endless.looks < 10_000


@pytest.mark.parametrize("content", [memoryview(b"abc").cast("B"), memoryview(b"a").cast("B", []), bytearray(b"x")])
def test_bytes_in_the_place_of_parts(content: Any) -> None:
    reply = {"message": content, "choices": content, "usage": {"prompt_tokens": 3, "total_tokens": 5}}
    assert token_counts(reply)["gen_ai.usage.input_tokens"] == 3


def test_parts_that_cannot_be_read() -> None:
    class Closed(ClosedMapping):
        __getattr__ = Unbound.__getattr__

    for odd in (Closed(a=1), Unbound()):
        reply = {"message": odd, "choices": [odd], "usage": {"prompt_tokens": 3, "total_tokens": 5}}
        assert token_counts(reply)["gen_ai.usage.input_tokens"] == 3
        assert parts_of([odd, {"type": "text", "text": "hello"}]) == [TextPart("hello")]
        unreadable, readable = messages_of([odd, ChatMessage(role="assistant", content="hello")])
        assert unreadable.role == "user"
        assert (readable.role, readable.content) == ("assistant", "hello")
        assert embedding_size([odd]) is None


def test_usage_apart_from_the_reply(instrumented: Recorded) -> None:
    """Tokens and finish reason beside the provider's reply are read, too: on the response or on its message."""

    class Beside(Caller):
        def _say(self, messages: Any) -> ChatResponse:
            kwargs = SHAPES["Anthropic"][0]
            return ChatResponse(message=ChatMessage(role="assistant", content=ANSWER, additional_kwargs=kwargs))

    Beside().chat([ChatMessage(content=QUESTION)])
    (trace,) = instrumented.traces
    assert (trace.facts.input_tokens, trace.facts.output_tokens, trace.facts.finish_reason) == (18, 7, "end_turn")


def test_reason_and_usage_in_different_chunks(instrumented: Recorded) -> None:
    """A stream whose reason comes before its usage, as OpenAI sends them, has both."""

    class Apart(Speaker):
        @llm_completion_callback()
        def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Iterator[CompletionResponse]:
            reason, usage = {"choices": [{"finish_reason": "stop"}]}, SHAPES["OpenAI"][0]["usage"]
            chunks = ({"id": "r1", "model": "m1", "choices": [{}]}, reason, {"choices": [], "usage": usage})
            return (CompletionResponse(text=ANSWER, delta="", raw=raw) for raw in chunks)

    list(Apart().stream_complete(QUESTION))
    told = dict(instrumented.spans[0].attributes or {})
    assert (told["gen_ai.response.finish_reasons"], told["gen_ai.response.id"]) == (("stop",), "r1")
    assert told["gen_ai.usage.input_tokens"] == 40
    assert told["llm.token_count.completion_details.audio"] == told["gen_ai.usage.audio.output_tokens"] == 2


class Cover(BaseModel):
    """How long something is covered."""

    id: str
    months: int
    reason: str = ""


def test_structured_model(instrumented: Recorded) -> None:
    class Filler(Speaker):
        temperature: float = 0.3
        max_tokens: int = 99
        answer: str = '{"id": "pump", "months": 24, "reason": "law"}'

    response = Filler().as_structured_llm(Cover).chat([ChatMessage(content=QUESTION)])
    assert response.raw == Cover(id="pump", months=24, reason="law")
    (span,) = instrumented.spans
    told = dict(span.attributes or {})
    assert span.name == "chat speaker-1"
    assert (told["gen_ai.request.temperature"], told["gen_ai.request.max_tokens"]) == (0.3, 99)
    assert (told["gen_ai.usage.input_tokens"], told["gen_ai.usage.output_tokens"]) == (40, 7)
    assert (told["gen_ai.response.id"], told["gen_ai.response.finish_reasons"]) == ("reply-1", ("stop",))
    assert instrumented.traces[0].answer == '{"id":"pump","months":24,"reason":"law"}'


def test_override_that_passes_on_the_text_alone(instrumented: Recorded) -> None:
    """The tokens of the calls inside a model's call count once each, though its own reply holds none."""

    class Twice(Speaker):
        def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
            texts = [super(Twice, self).complete(prompt).text for _ in range(2)]
            return CompletionResponse(text=texts[-1])

    Twice().chat([ChatMessage(content=QUESTION)])
    (trace,) = instrumented.traces
    assert (trace.facts.input_tokens, trace.facts.output_tokens) == (80, 14)


def test_providers() -> None:
    """A model's provider comes from the package that defines its class or a base of it; else from its class's name."""
    from ragtrace_llama_index.models import provider_of

    def kind(name: str, module: str, *bases: type) -> type:
        return type(name, bases, {"__module__": module})

    azure = kind("AzureOpenAI", "llama_index.llms.azure_openai.base")
    assert provider_of(azure) == "azure.ai.openai"
    assert provider_of(kind("Ours", "shop.models", azure)) == "azure.ai.openai"
    like = kind("OpenAILike", "llama_index.llms.openai_like.base", kind("OpenAI", "llama_index.llms.openai.base"))
    assert provider_of(like) is None
    assert provider_of(kind("Groq", "llama_index.llms.groq.base", like)) == "groq"
    assert provider_of(kind("AzureOpenAI", "shop.fakes", MockLLM)) == "azure.ai.openai"
    assert provider_of(MockLLM) is None
