"""What providers' replies say of themselves, in the shapes in which LlamaIndex's models pass them on."""

from __future__ import annotations

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
from tests.llama_index.cases import ANSWER, QUESTION, Caller, Speaker

SHORT = {
    "gen_ai.usage.input_tokens": "input", "gen_ai.usage.output_tokens": "output", "llm.token_count.total": "total",
    "gen_ai.usage.cache_read.input_tokens": "cache_read", "gen_ai.usage.cache_write.input_tokens": "cache_write",
    "gen_ai.usage.reasoning.output_tokens": "reasoning", "gen_ai.usage.audio.input_tokens": "audio_input",
    "gen_ai.usage.audio.output_tokens": "audio_output",
}  # fmt: skip


Reason = Enum("Reason", {"STOP": "STOP"})  # as google-genai has it after `model_dump`
NumberedReason = IntEnum("NumberedReason", {"MAX_TOKENS": 2})  # as Vertex AI's protocol buffers have it


class Proto:
    """A message with attributes and no dictionary."""

    __slots__ = ("candidates", "candidates_token_count", "prompt_token_count", "total_token_count", "usage_metadata")

    def __init__(self, **fields: Any) -> None:
        for name, value in fields.items():
            setattr(self, name, value)


OPENAI = {
    "choices": [{"finish_reason": "stop"}],
    "usage": {
        "prompt_tokens": 40, "completion_tokens": 7, "total_tokens": 47,
        "prompt_tokens_details": {"cached_tokens": 16, "audio_tokens": 3},
        "completion_tokens_details": {"reasoning_tokens": 4, "audio_tokens": 2},
    },
}  # fmt: skip
_INPUT, _OUTPUT = SimpleNamespace(cached_tokens=16), SimpleNamespace(reasoning_tokens=4)
_USAGE = {"input_tokens": 40, "output_tokens": 7, "total_tokens": 47}
RESPONSES = SimpleNamespace(
    status="completed", incomplete_details=None,
    usage=SimpleNamespace(**_USAGE, input_tokens_details=_INPUT, output_tokens_details=_OUTPUT),
)  # fmt: skip
ANTHROPIC = {"input_tokens": 10, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 3, "output_tokens": 7}
CONVERSE = {
    "inputTokens": 10, "cacheReadInputTokens": 5, "cacheWriteInputTokens": 3, "outputTokens": 7, "totalTokens": 25,
}  # fmt: skip
COHERE = SimpleNamespace(
    tokens=SimpleNamespace(input_tokens=40.0, output_tokens=7.0),
    billed_units=SimpleNamespace(input_tokens=30.0, output_tokens=6.0),
)
GEMINI = {
    "prompt_token_count": 40, "candidates_token_count": 7, "thoughts_token_count": 4, "cached_content_token_count": 16,
    "total_token_count": 51,
    "prompt_tokens_details": [{"modality": "TEXT", "token_count": 37}, {"modality": "AUDIO", "token_count": 3}],
}  # fmt: skip
VERTEX = Proto(
    usage_metadata=Proto(prompt_token_count=40, candidates_token_count=7, total_token_count=47),
    candidates=[SimpleNamespace(finish_reason=NumberedReason.MAX_TOKENS)],
)
BOTH = {"input": 40, "output": 7, "total": 47}
DETAILS = {"cache_read": 16, "audio_input": 3, "reasoning": 4, "audio_output": 2}
REASONED = {**BOTH, "cache_read": 16, "reasoning": 4}
CACHED = {"input": 18, "output": 7, "total": 25, "cache_read": 5, "cache_write": 3}
SHAPES: dict[str, tuple[Any, dict[str, int], str | None]] = {
    "OpenAI": (OPENAI, {**BOTH, **DETAILS}, "stop"),
    "OpenAI's Responses API": (RESPONSES, REASONED, "stop"),
    "the last event of a Responses stream": (
        SimpleNamespace(type="response.completed", response=RESPONSES), REASONED, "stop",
    ),
    "a Responses answer that was cut": (
        {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "usage": None}, {},
        "max_output_tokens",
    ),
    "Anthropic": ({"usage": SimpleNamespace(**ANTHROPIC), "stop_reason": "end_turn"}, CACHED, "end_turn"),
    "the last event of an Anthropic stream": (
        {"delta": SimpleNamespace(stop_reason="max_tokens"), "usage": ANTHROPIC}, CACHED, "max_tokens",
    ),
    "Bedrock Converse": ({"usage": CONVERSE, "stopReason": "end_turn"}, CACHED, "end_turn"),
    "the last event of a Bedrock stream": ({"metadata": {"usage": CONVERSE}}, CACHED, None),
    "Titan on Bedrock": (
        {"inputTextTokenCount": 40, "results": [{"tokenCount": 7, "completionReason": "FINISH"}]}, BOTH, "FINISH",
    ),
    "Llama on Bedrock": ({"prompt_token_count": 40, "generation_token_count": 7, "stop_reason": "stop"}, BOTH, "stop"),
    "Mistral on Bedrock": ({"outputs": [{"text": "", "stop_reason": "length"}]}, {}, "length"),
    "Jurassic on Bedrock": ({"completions": [{"finishReason": {"reason": "endoftext"}}]}, {}, "endoftext"),
    "headers of a Bedrock reply": ({"prompt_tokens": "40", "completion_tokens": "7"}, BOTH, None),
    "metrics of a Bedrock stream": (
        {"amazon-bedrock-invocationMetrics": {"inputTokenCount": 40, "outputTokenCount": 7}}, BOTH, None,
    ),
    "Cohere": ({"meta": COHERE, "finish_reason": "COMPLETE"}, BOTH, "COMPLETE"),
    "Cohere without tokens": (
        {"meta": {"billed_units": {"input_tokens": 30, "output_tokens": 6}}},
        {"input": 30, "output": 6, "total": 36}, None,
    ),
    "the last event of a Cohere stream": (
        {"response": SimpleNamespace(meta=COHERE, finish_reason="MAX_TOKENS")}, BOTH, "MAX_TOKENS",
    ),
    "Gemini": (
        {"finish_reason": Reason.STOP, "usage_metadata": GEMINI},
        {"input": 40, "output": 11, "total": 51, "cache_read": 16, "reasoning": 4, "audio_input": 3}, "STOP",
    ),
    "Gemini's older client": (
        {"finish_reason": 2, "usage_metadata": {"prompt_token_count": 40}}, {"input": 40}, "MAX_TOKENS",
    ),
    "Vertex AI, nested": ({"_raw_response": VERTEX}, BOTH, "MAX_TOKENS"),
    "Groq's stream": (SimpleNamespace(x_groq={"usage": {"prompt_tokens": 40, "completion_tokens": 7}}), BOTH, None),
    "Ollama": ({"prompt_eval_count": 40, "eval_count": 7, "done_reason": "stop"}, BOTH, "stop"),
    "DeepSeek": (
        {"usage": {"prompt_tokens": 40, "completion_tokens": 7, "prompt_cache_hit_tokens": 16}},
        {**BOTH, "cache_read": 16}, None,
    ),
    "an object of the application": (SimpleNamespace(reason="because", usage="daily", tokens=float("nan")), {}, None),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name: str) -> None:
    """Reason and tokens are read from every reply: cached ones in the input, reasoning in the output, all in total."""
    reply, counts, reason = SHAPES[name]
    assert {SHORT[key]: value for key, value in token_counts(reply).items()} == counts
    assert finish_reason(reply) == reason


def test_object_that_has_every_field() -> None:
    """An object that answers to any name is left alone after a few looks."""

    class Endless:
        looks = 0

        def __getattr__(self, name: str) -> Any:
            Endless.looks += 1
            return Endless()

    assert (token_counts(Endless()), finish_reason(Endless())) == ({}, None)
    assert Endless.looks < 10_000


@pytest.mark.parametrize("content", [memoryview(b"abc").cast("B"), memoryview(b"a").cast("B", []), bytearray(b"x")])
def test_bytes_in_the_place_of_parts(content: Any) -> None:
    """Bytes of any kind where parts of a message are expected have no counts, and hide no others."""
    reply = {"message": content, "choices": content, "usage": {"prompt_tokens": 3, "total_tokens": 5}}
    assert token_counts(reply)["gen_ai.usage.input_tokens"] == 3


def test_parts_that_cannot_be_read() -> None:
    """A part whose attributes or keys raise has no counts and no text, and hides no others."""

    class Hostile(dict[str, Any]):
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError(name)

        get = keys = __iter__ = __getitem__ = __getattr__  # type: ignore[assignment]

    class Opaque:
        __getattr__ = Hostile.__getattr__

    for odd in (Hostile(a=1), Opaque()):
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
            kwargs = {"usage": ANTHROPIC, "stop_reason": "end_turn"}
            return ChatResponse(message=ChatMessage(role="assistant", content=ANSWER, additional_kwargs=kwargs))

    Beside().chat([ChatMessage(content=QUESTION)])
    (trace,) = instrumented.traces
    assert (trace.facts.input_tokens, trace.facts.output_tokens) == (18, 7)
    assert trace.facts.finish_reason == "end_turn"


def test_reason_and_usage_in_different_chunks(instrumented: Recorded) -> None:
    """A stream whose reason comes before its usage, as OpenAI sends them, has both."""

    class Apart(Speaker):
        @llm_completion_callback()
        def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Iterator[CompletionResponse]:
            reason, usage = {"choices": [{"finish_reason": "stop"}]}, {"choices": [], "usage": OPENAI["usage"]}
            chunks = ({"id": "r1", "model": "m1", "choices": [{}]}, reason, usage)
            return (CompletionResponse(text=ANSWER, delta="", raw=raw) for raw in chunks)

    list(Apart().stream_complete(QUESTION))
    told = dict(instrumented.spans[0].attributes or {})
    assert told["gen_ai.response.finish_reasons"] == ("stop",)
    assert told["gen_ai.response.id"] == "r1"
    assert told["gen_ai.usage.input_tokens"] == 40
    assert told["llm.token_count.completion_details.audio"] == told["gen_ai.usage.audio.output_tokens"] == 2


class Cover(BaseModel):
    """How long something is covered."""

    id: str
    months: int
    reason: str = ""


def test_structured_model(instrumented: Recorded) -> None:
    """A structured model is one call with the settings, tokens and reason of the model that it wraps, and JSON."""

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
