"""The demo's corpus: the language reference that every Python carries (`pydoc_data.topics`), cut into chunks."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragtrace.models.embedding import Embedder, Vectors

_WORDS = 110
_SHOWN = 900
"""Characters of a chunk that a model is given."""
_NAMES = """
assert assignment async atom-identifiers atom-literals attribute-access attribute-references augassign await binary
bitwise bltin-ellipsis-object bltin-null-object booleans break callable-types calls class comparisons compound
context-managers continue conversions customization debugger del dict dynamic-features else exceptions execmodel
exprlists floating for formatstrings function global identifiers if imaginary import in integers lambda lists naming
nonlocal numbers numeric-types objects operator-summary pass power raise return sequence-types shifting slicings
specialattrs specialnames string-methods strings subscriptions truth try types typesfunctions typesmapping
typesmethods typesmodules typesseq typesseq-mutable unary while with yield
"""
TOPICS = tuple(_NAMES.split())


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage of about a hundred words."""

    id: str
    """`topic#number`."""
    topic: str
    text: str


def chunks() -> list[Chunk]:
    """The chunks of the chosen topics. They differ a little from one Python release to the next, as the texts do."""
    from pydoc_data.topics import topics

    found: list[Chunk] = []
    seen: set[str] = set()
    for topic in TOPICS:
        for i, text in enumerate(_cut(topics.get(topic, ""))):
            if text not in seen:  # topics share sections
                seen.add(text)
                found.append(Chunk(f"{topic}#{i}", topic, text))
    return found


def _cut(text: str) -> list[str]:
    """Paragraphs gathered to chunks of about a hundred words, without the reference's ornaments."""
    text = re.sub(r"\n[*=~^\"-]{3,}\n", "\n", text)
    text = re.sub(r"\*{1,2}([^*\n]+)\*{1,2}", r"\1", text).replace('"', "")
    gathered: list[str] = []
    current: list[str] = []
    words = 0
    for paragraph in re.split(r"\n\s*\n", text):
        clean = " ".join(paragraph.split())
        if not clean or "::=" in clean:
            continue  # grammar says little to a reader of questions and answers
        current.append(clean)
        words += len(clean.split())
        if words >= _WORDS:
            gathered.append("\n".join(current))
            current, words = [], 0
    if words >= 20 or (current and not gathered):
        gathered.append("\n".join(current))
    return gathered


class Index:
    """Retrieval by cosine over all chunks."""

    def __init__(self, passages: Sequence[Chunk], vectors: Vectors, embedder: Embedder) -> None:
        self.chunks = tuple(passages)
        self._vectors = vectors
        self._embedder = embedder

    def search(self, query: str, k: int = 4) -> list[tuple[Chunk, float]]:
        """The k chunks closest to the query with their cosines, closest first. Long ones are cut: what is returned is
        what the model gets to see."""
        cosines = self._vectors @ self._embedder.embed([query])[0]
        closest = [(self.chunks[i], float(cosines[i])) for i in cosines.argsort()[::-1][:k]]
        return [(replace(chunk, text=chunk.text[:_SHOWN]), cosine) for chunk, cosine in closest]


def build(embedder: Embedder | None = None) -> Index:
    """The index over the corpus. Its vectors are kept in the user's cache directory: computing them takes a while."""
    import numpy as np

    from ragtrace.models.embedding import get_embedder

    model = embedder or get_embedder()
    passages = chunks()
    texts = [f"{c.topic}. {c.text}" for c in passages]
    digest = hashlib.sha256("\0".join([model.name, *texts]).encode("utf-8", "replace")).hexdigest()[:24]
    path = _cache_folder() / f"demo-{digest}.npy"
    try:
        vectors = np.load(path, allow_pickle=False)
        if vectors.shape[0] == len(texts):
            return Index(passages, vectors, model)
    except (OSError, ValueError):
        pass
    vectors = _embed(model, texts)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.part")
        with part.open("wb") as out:
            np.save(out, vectors)
        part.replace(path)
    except OSError:
        pass  # a home that cannot be written costs the next run a few seconds
    return Index(passages, vectors, model)


def _embed(model: Embedder, texts: list[str]) -> Vectors:
    """All texts' vectors, on all cores: the model itself uses one and lets other threads run."""
    import numpy as np

    size = 16
    pieces = [texts[i : i + size] for i in range(0, len(texts), size)]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return np.concatenate(list(pool.map(model.embed, pieces)))


def _cache_folder() -> Path:
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "ragtrace"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "ragtrace"
    if sys.platform == "win32" and (local := os.environ.get("LOCALAPPDATA")):
        return Path(local) / "ragtrace" / "Cache"
    return Path.home() / ".cache" / "ragtrace"
