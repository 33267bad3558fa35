"""Documents of a response that were read before, when they were retrieved."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from llama_index.core.base.response.schema import Response
from llama_index.core.schema import NodeWithScore, TextNode

from ragtrace_llama_index.conversion import documents_of, sources_of
from tests.hostile import Unbound

CHANGES: dict[str, Callable[[NodeWithScore], None]] = {
    "nothing": lambda item: None,
    "another score": lambda item: setattr(item, "score", 0.9),
    "another text": lambda item: item.node.set_content("Oil it."),
    "more metadata": lambda item: item.node.metadata.update(page=2),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_node_is_read_again(change: str) -> None:
    """Otherwise the response's document is the retrieval's. A source that raises hides no other."""
    item = NodeWithScore(node=TextNode(text="Oil the pump.", id_="1", metadata={"page": 1}), score=0.5)
    (document,) = documents_of([item])
    CHANGES[change](item)
    sources = sources_of(Response("answer", source_nodes=[Unbound(), item]), {id(item): document})  # type: ignore[list-item]
    assert sources == documents_of([item])
    assert (sources[0] is document) == (sources == [document]) == (change == "nothing")
