"""Tokens, reasons and ids of a model's reply, in the shapes in which LangChain's integrations pass them on."""

from typing import Any

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.language_models import FakeListChatModel, FakeListLLM
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult, Generation, LLMResult

from ragtrace import semconv
from ragtrace_langchain import RagtraceCallbackHandler
from tests.conftest import Recorded
from tests.row_files import table

SHAPES: dict[str, Any] = table(__file__, "shapes")


class Model(FakeListChatModel):
    """Answers with what an integration would report."""

    responses: list[str] = ["yes"]  # noqa: RUF012 a pydantic field
    message: dict[str, Any] = {}  # noqa: RUF012
    info: dict[str, Any] = {}  # noqa: RUF012
    output: dict[str, Any] = {}  # noqa: RUF012
    provider: str = "openai"

    def _get_ls_params(self, *args: Any, **kwargs: Any) -> Any:
        return {"ls_provider": self.provider, "ls_model_type": "chat"}

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        message = AIMessage(content="yes", **self.message)
        generation = ChatGeneration(message=message, generation_info=self.info or None)
        return ChatResult(generations=[generation], llm_output=self.output or None)


def attributes_of(recorded: Recorded, model: Any) -> dict[str, Any]:
    config: Any = {"callbacks": [RagtraceCallbackHandler(recorded.provider, True, consumer=recorded.consumer)]}
    model.invoke("q", config)
    return dict(recorded.spans[-1].attributes or {})


@pytest.mark.parametrize("shape", SHAPES)
def test_tokens_of_every_shape(recorded: Recorded, shape: str) -> None:
    """Input tokens hold the cached ones and the total both sides, whatever names and places an integration has."""
    options, expected = SHAPES[shape]
    told = attributes_of(recorded, Model(**options))
    assert {name: told[name] for name in told if name.startswith(("gen_ai.usage.", "llm.token_count."))} == expected
    facts = recorded.traces[0].facts
    both = (expected[semconv.INPUT_TOKENS], expected.get(semconv.OUTPUT_TOKENS, 0))
    assert (facts.input_tokens or 0, facts.output_tokens or 0) == both


class Text(FakeListLLM):
    def _generate(self, *args: Any, **kwargs: Any) -> LLMResult:
        usage = {"prompt_token_count": 18, "candidates_token_count": 7, "total_token_count": 25}
        generation = Generation(text="yes", generation_info={"usage_metadata": usage, "finish_reason": "STOP"})
        return LLMResult(generations=[[generation]])


def test_a_text_model_of_vertex_ai(recorded: Recorded) -> None:
    attributes = attributes_of(recorded, Text(responses=[]))
    assert (attributes[semconv.INPUT_TOKENS], attributes[semconv.OUTPUT_TOKENS]) == (18, 7)
    assert attributes[semconv.FINISH_REASONS] == ("STOP",)


def test_an_answer_of_the_cache_is_free(recorded: Recorded) -> None:
    """LangChain repeats the tokens of the first answer, which nobody pays a second time."""
    usage = {"input_tokens": 18, "output_tokens": 7, "total_tokens": 25}
    model = Model(message={"usage_metadata": usage}, cache=InMemoryCache())
    paid, free = (attributes_of(recorded, model) for _ in range(2))
    assert (paid[semconv.INPUT_TOKENS], semconv.INPUT_TOKENS in free) == (18, False)


def test_the_id_of_a_reply(recorded: Recorded) -> None:
    """OpenAI's id is in the reply's metadata; LangChain's own ids are no ids of replies."""
    model = Model(message={"id": "run-1", "response_metadata": {"id": "chatcmpl-7", "finish_reason": "length"}})
    attributes = attributes_of(recorded, model)
    assert (attributes[semconv.RESPONSE_ID], attributes[semconv.FINISH_REASONS]) == ("chatcmpl-7", ("length",))


@pytest.mark.parametrize(("provider", "names"), table(__file__, "providers"))
def test_providers_have_the_names_of_each_dialect(recorded: Recorded, provider: str, names: Any) -> None:
    """Where OpenTelemetry or OpenInference has a name for a provider it is used; other names are LangChain's."""
    told = attributes_of(recorded, Model(provider=provider))
    assert (told[semconv.PROVIDER], told[semconv.OI_PROVIDER], told.get(semconv.OI_SYSTEM)) == tuple(names)
