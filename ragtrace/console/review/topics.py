"""Picks stored questions that are unlike all reviewed questions."""

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Connection, Select, exists, select

from ragtrace.console.chatlogs.schema import contents, items, traces
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.review.policy import DAYS, TOPIC
from ragtrace.console.review.rules import least_id

_REVIEWED = 400
_CANDIDATES = 400
_CHARS = 1_000
_WORD = re.compile(r"\w{3,}")

Nearness = Callable[[Sequence[str], Sequence[str]], list[list[float]]]
"""Compares n texts with m texts. Returns n rows of m similarities in [0, 1]."""


def pick_new_topics(store: Store, now: float, count: int) -> list[int]:
    """Returns the ids of up to `count` recent traces whose questions differ from every reviewed one, and from each
    other."""
    if count <= 0:
        return []
    with store.reading() as connection:
        low = least_id(connection, now - DAYS * 86_400)
        queued = exists(select(items.c.id).where(items.c.trace == traces.c.id, items.c.slot == 0))
        fresh = _texts(store, connection, _questions().where(traces.c.id >= low, ~queued).limit(_CANDIDATES))
        waiting = exists(select(items.c.id).where(items.c.trace == traces.c.id, items.c.reason == TOPIC))
        reviewed = _texts(store, connection, _questions().where(traces.c.reviewed).limit(_REVIEWED))
        reviewed += _texts(store, connection, _questions().where(waiting).limit(_REVIEWED))
    near, most = nearness()
    choices = farthest([text for _, text in fresh], [text for _, text in reviewed], count, near, most)
    return [fresh[i][0] for i in choices]


def _questions() -> Select[Any]:
    columns = (traces.c.id, traces.c.trace_id, contents.c.query, contents.c.sealed, contents.c.key)
    return select(*columns).join(contents, contents.c.trace == traces.c.id).order_by(traces.c.id.desc())


def _texts(store: Store, connection: Connection, query: Select[Any]) -> list[tuple[int, str]]:
    texts = []
    for row in connection.execute(query).mappings():
        text = store.unseal(row["trace_id"], row, ("query",))["query"]
        if text and text.strip():
            texts.append((int(row["id"]), text[:_CHARS]))
    return texts


def farthest(fresh: Sequence[str], reviewed: Sequence[str], count: int, near: Nearness, most: float) -> list[int]:
    """Returns up to `count` indexes of fresh texts. Each is the text farthest from all reviewed and all chosen ones (T.
    Gonzalez, Clustering to minimize the maximum intercluster distance, 1985); its similarity to the nearest of them is
    below `most`."""
    if not fresh:
        return []
    nearest = [max(row, default=0.0) for row in near(fresh, reviewed)] if reviewed else [0.0] * len(fresh)
    choices: list[int] = []
    while len(choices) < count:
        best = min(range(len(fresh)), key=lambda i: (nearest[i], i))
        if nearest[best] >= most:
            break
        choices.append(best)
        for i, (similarity,) in enumerate(near(fresh, [fresh[best]])):
            nearest[i] = max(nearest[i], similarity)
        nearest[best] = 1.0
    return choices


def nearness() -> tuple[Nearness, float]:
    """Returns the similarity function, and the similarity from which texts have one topic: cosines of embeddings if the
    extra `models` is installed (paraphrases are above 0.49, unrelated questions below 0.15), else of shared words."""
    from ragtrace.evaluate.models.embedding import is_installed

    if is_installed():
        return _by_meaning, 0.45
    return _by_words, 0.3


def _by_meaning(texts: Sequence[str], others: Sequence[str]) -> list[list[float]]:
    from ragtrace.evaluate.models.embedding import get_embedder

    embedder = get_embedder()  # it remembers vectors: the candidates of this minute are mostly those of the next
    similarities: list[list[float]] = (embedder.embed(texts) @ embedder.embed(others).T).tolist()
    return similarities


def _by_words(texts: Sequence[str], others: Sequence[str]) -> list[list[float]]:
    one, two = [_words(text) for text in texts], [_words(text) for text in others]
    return [[_cosine(a, b) for b in two] for a in one]


def _words(text: str) -> frozenset[str]:
    # Endings differ, so only the beginning counts.
    return frozenset(word[:6] for word in _WORD.findall(text.casefold()))


def _cosine(one: frozenset[str], two: frozenset[str]) -> float:
    return len(one & two) / math.sqrt(len(one) * len(two)) if one and two else 0.0
