"""The same ways of calling without `capture_content`: what is measured leaves, no text does."""

import contextlib

import pytest

from ragtrace_langchain import RagtraceLangChainInstrumentor
from ragtrace_llama_index import RagtraceLlamaIndexInstrumentor
from tests.conftest import Recorded
from tests.llama_index.conftest import traced
from tests.scenarios import test_langchain_calls as langchain_calls
from tests.scenarios import test_llama_index_calls as llama_index_calls
from tests.scenarios.expectations import operations

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::RuntimeWarning")
TEXTS = ("q?", "yes", "Paris", "Rome", "result for", "setup", "no JSON", "joke", "Say it", "down")
GROUPS = {
    "chains": (RagtraceLangChainInstrumentor, langchain_calls.CHAINS),
    "agents": (RagtraceLangChainInstrumentor, langchain_calls.AGENTS),
    "graphs": (RagtraceLangChainInstrumentor, langchain_calls.GRAPHS),
    "models": (RagtraceLlamaIndexInstrumentor, llama_index_calls.MODELS),
    "engines": (RagtraceLlamaIndexInstrumentor, llama_index_calls.ENGINES),
    "agents of LlamaIndex": (RagtraceLlamaIndexInstrumentor, llama_index_calls.AGENTS),
    "workflows": (RagtraceLlamaIndexInstrumentor, llama_index_calls.WORKFLOWS),
}  # fmt: skip


def words_of(recorded: Recorded) -> str:
    spans = [(span.name, dict(span.attributes or {}), span.status.description) for span in recorded.spans]
    events = [(event.name, dict(event.attributes or {})) for span in recorded.spans for event in span.events]
    return str([*spans, *events])


@pytest.mark.parametrize("group", GROUPS)
def test_no_text_leaves(recorded: Recorded, group: str) -> None:
    """The spans are the same, evaluation has the texts, and no span has one: not in a name, a status or an event."""
    kind, scenarios = GROUPS[group]
    with traced(recorded, kind, capture_content=False):
        for name, scenario in scenarios.items():
            recorded.clear()
            with contextlib.suppress(Exception):  # the scenario's own
                scenario.run()
            assert operations(recorded) == scenario.operations, name
            assert sorted((t.query, t.answer) for t in recorded.traces) == sorted(scenario.requests), name
            words = words_of(recorded)
            assert [text for text in TEXTS if text in words] == [], name
