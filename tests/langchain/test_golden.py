"""The span tree of a fixed LangChain chain, compared whole: every span, every attribute."""

from __future__ import annotations

import json
from typing import Any

from ragtrace_langchain import RagtraceCallbackHandler
from tests.conftest import Recorded
from tests.langchain.test_handler import DOCUMENTS, Fixed, make_chain
from tests.row_files import rows


def spans_of(recorded: Recorded, capture: bool) -> Any:
    handler = RagtraceCallbackHandler(recorded.provider, capture, consumer=recorded.consumer)
    config: Any = {
        "callbacks": [handler],
        "metadata": {"session_id": "conv-1", "user_id": "ada", "plan": "paid"},
        "tags": ["beta"],
    }
    make_chain(Fixed(documents=DOCUMENTS[:2])).invoke("How long?", config)
    spans = sorted(recorded.spans, key=lambda s: s.start_time or 0)
    return json.loads(json.dumps([(s.name, s.kind.name, dict(s.attributes or {})) for s in spans]))


def test_with_content(recorded: Recorded) -> None:
    """With content captured each span says all that is known, in both dialects, and nothing else."""
    assert spans_of(recorded, True) == rows(__file__, "with_content")


def test_without_content(recorded: Recorded) -> None:
    """Without content the same tree has ids, scores, counts and lengths alone."""
    assert spans_of(recorded, False) == rows(__file__, "without_content")
