"""Documents of a response that were read before, when they were retrieved."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from llama_index.core.base.response.schema import Response
from llama_index.core.schema import NodeWithScore, TextNode

from ragtrace_llama_index.conversion import documents_of, sources_of
from tests.hostile import Unbound


def node() -> NodeWithScore:
    """A node as a retriever returns it."""
    return NodeWithScore(node=TextNode(text="Oil the pump.", id_="1", metadata={"page": 1}), score=0.5)


def test_an_unchanged_node_is_read_once() -> None:
    """The response's document is the retrieval's where the response has the same node."""
    item = node()
    documents = documents_of([item])
    sources = sources_of(Response("answer", source_nodes=[item]), {id(item): documents[0]})
    assert sources is not None
    assert sources[0] is documents[0]


CHANGES: dict[str, Callable[[NodeWithScore], None]] = {
    "another score": lambda item: setattr(item, "score", 0.9),
    "another text": lambda item: item.node.set_content("Oil it."),
    "more metadata": lambda item: item.node.metadata.update(page=2),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_node_is_read_again(change: str) -> None:
    """The response's document is as the node is at the end, where the application has changed the node."""
    item = node()
    documents = documents_of([item])
    CHANGES[change](item)
    assert sources_of(Response("answer", source_nodes=[item]), {id(item): documents[0]}) == documents_of([item])
    assert documents_of([item]) != documents


def test_an_unreadable_source_is_left_out() -> None:
    """A source of the application's own that raises is left out of the response's documents; the others are kept."""

    item = node()
    (document,) = documents_of([item])
    assert sources_of(Response("answer", source_nodes=[Unbound(), item]), {id(item): document}) == [document]  # type: ignore[list-item]
