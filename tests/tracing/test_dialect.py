"""Without a wish for OpenInference a span has OpenTelemetry's names alone, and no text stands twice."""

from collections import Counter
from typing import Any

import pytest

from ragtrace import semconv
from ragtrace.settings import load
from ragtrace_langchain import RagtraceCallbackHandler
from tests.conftest import Recorded
from tests.langchain.test_handler import make_chain
from tests.llama_index.cases import engine
from tests.llama_index.conftest import traced

OTHERS = tuple(value for name, value in vars(semconv).items() if name.startswith("OI_") and isinstance(value, str))


def ask_langchain(recorded: Recorded) -> None:
    make_chain().invoke("How long?", {"callbacks": [RagtraceCallbackHandler(recorded.provider, True)]})


def ask_llama_index(recorded: Recorded) -> None:
    with traced(recorded, capture_content=True):
        engine().query("How long?")


@pytest.mark.parametrize("ask", [ask_langchain, ask_llama_index])
def test_one_dialect_and_each_text_once(ask: Any, recorded: Recorded) -> None:
    """A chunk stands on its retrieval and in the prompt; no name is OpenInference's."""
    ask(recorded)
    places: Counter[str] = Counter()
    for span in recorded.spans:
        for key, value in (span.attributes or {}).items():
            assert not key.startswith(OTHERS), key
            places[key] += str(value).count("assage 1")
    assert +places == Counter({semconv.RETRIEVAL_DOCUMENTS: 1, semconv.INPUT_MESSAGES: 1})


def test_phoenix_asks_for_openinference() -> None:
    """Phoenix reads OpenInference's names alone, so its address asks for them."""
    assert not load({}, {}).openinference
    assert load({"phoenix_url": "http://localhost:6006"}, {}).openinference


@pytest.mark.parametrize(
    ("wish", "names"), [("", {"workflow"}), ("gen_ai", {"agent"}), ("gen_ai/dup", {"workflow", "agent"})]
)
def test_names_by_release(wish: str, names: set[str], recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    """v0.1.0 of the conventions calls a workflow's name an agent's."""
    monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", f"http,{wish}")
    ask_langchain(recorded)
    root = next(dict(span.attributes or {}) for span in recorded.spans if span.parent is None)
    assert {key.split(".")[1] for key, value in root.items() if value == "rag"} == names
