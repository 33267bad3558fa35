"""What a request costs, with cached tokens at their own price."""

from collections.abc import Iterator
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from ragtrace import semconv
from ragtrace.base.model_prices import ModelUsage, Price, set_prices, usage_of
from ragtrace.capture.timing import _listed_names
from ragtrace.records import facts_as_dict, facts_from_dict
from ragtrace_langchain import RagtraceCallbackHandler
from tests.conftest import Recorded


@pytest.fixture(autouse=True)
def _prices() -> Iterator[None]:
    set_prices({"m": Price(1.0, 10.0, 0.1, 1.25)})
    yield
    set_prices({})


def test_cached_tokens_have_their_own_prices() -> None:
    """Of 1,000 tokens read 700 were cached and 200 were put into the cache; 100 cost the full price."""
    usage = usage_of(["deployment-7", "m"], 1_000, 50, 700, 200)
    assert usage.cost == pytest.approx((100 * 1.0 + 50 * 10.0 + 700 * 0.1 + 200 * 1.25) / 1e6)
    assert usage_of(["another"], 1_000, 50, 700, 200).cost is None
    assert usage.plus(ModelUsage(1, 1, cost=1.0)).cost == pytest.approx(1.0 + (usage.cost or 0))
    assert usage.plus(ModelUsage(1, 1)).cost is None


def test_a_request_knows_its_cost(recorded: Recorded) -> None:
    """The tokens that LangChain reports become the request's cost, which survives a round trip through JSON's types."""
    used: Any = {"input_tokens": 1_000, "output_tokens": 50, "total_tokens": 1_050}
    used["input_token_details"] = {"cache_read": 700}
    reply = AIMessage("Yes.", usage_metadata=used, response_metadata={"model_name": "m"})
    handler = RagtraceCallbackHandler(recorded.provider, consumer=recorded.consumer)
    GenericFakeChatModel(messages=iter([reply])).invoke("Is it?", {"callbacks": [handler]})
    facts = recorded.traces[0].facts
    assert facts.cost == pytest.approx((300 * 1.0 + 50 * 10.0 + 700 * 0.1) / 1e6)
    assert facts_from_dict(facts_as_dict(facts)) == facts


@pytest.mark.skipif(find_spec("litellm") is None, reason="litellm is not installed")
def test_litellm_lists_prices() -> None:
    """A model without a price of one's own has litellm's, where cached tokens are cheaper."""
    models = {"mistral-large-latest": "mistral_ai", "gpt-4o-mini": "", "openai/GPT-4o-mini": "", "sonar": "perplexity"}
    for model, provider in models.items():
        run = SimpleNamespace(attributes={semconv.PROVIDER: provider})
        assert usage_of(_listed_names(run, [model]), 1_000, 0, 0, 0).cost, model  # type: ignore[arg-type]
    full, cached = (usage_of(["gpt-4o-mini"], 1_000, 0, read, 0).cost or 0 for read in (0, 1_000))
    assert 0 < cached < full
    short, long = (usage_of(["gemini-2.5-pro"], tokens, 0, 0, 0).cost or 0 for tokens in (200_000, 400_000))
    assert long == pytest.approx(4 * short)  # beyond 200,000 tokens of input each costs twice as much
