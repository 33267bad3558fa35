"""The span tree of a fixed LangChain chain, compared whole: every span, every attribute."""

from __future__ import annotations

import json

import pytest

from ragtrace_langchain import RagtraceCallbackHandler
from tests.conftest import Recorded
from tests.langchain.cases import DOCUMENTS, Fixed
from tests.langchain.test_handler import make_chain
from tests.row_files import rows


@pytest.mark.parametrize("name", ["with_content", "without_content"])
def test_every_attribute(recorded: Recorded, name: str) -> None:
    """With content spans say all that is known, in both dialects; without it ids, scores, counts and lengths alone."""
    handler = RagtraceCallbackHandler(recorded.provider, name == "with_content", consumer=recorded.consumer)
    metadata = {"session_id": "conv-1", "user_id": "ada", "plan": "paid"}
    chain = make_chain(Fixed(documents=DOCUMENTS[:2]))
    chain.invoke("How long?", {"callbacks": [handler], "metadata": metadata, "tags": ["beta"]})
    spans = sorted(recorded.spans, key=lambda s: s.start_time or 0)
    told = json.loads(json.dumps([(s.name, s.kind.name, dict(s.attributes or {})) for s in spans]))
    assert told == rows(__file__, name)
