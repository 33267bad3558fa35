"""The demo's corpus: the language reference that is part of Python (`pydoc_data.topics`), divided into chunks."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import sys
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragtrace.evaluate.models.embedding import Embedder, Vectors

_RECORDED = Path(__file__).with_name("vectors.npz")
_WORDS = 110
_PASSAGE = 900
"""Most characters of a chunk that a model gets."""
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
class CorpusChunk:
    """A passage of about a hundred words."""

    id: str
    """`topic#number`."""
    topic: str
    text: str


def chunks() -> list[CorpusChunk]:
    """The chunks of the selected topics. They differ slightly between Python releases, because the texts do."""
    from pydoc_data.topics import topics

    passages: list[CorpusChunk] = []
    texts: set[str] = set()
    for topic in TOPICS:
        for i, text in enumerate(_cut(topics.get(topic, ""))):
            if text not in texts:  # topics share sections
                texts.add(text)
                passages.append(CorpusChunk(f"{topic}#{i}", topic, text))
    return passages


def _cut(text: str) -> list[str]:
    """Joins paragraphs into chunks of about a hundred words and removes the markup."""
    text = re.sub(r"\n[*=~^\"-]{3,}\n", "\n", text)
    text = re.sub(r"\*{1,2}([^*\n]+)\*{1,2}", r"\1", text).replace('"', "")
    passages: list[str] = []
    current: list[str] = []
    words = 0
    for paragraph in re.split(r"\n\s*\n", text):
        clean = " ".join(paragraph.split())
        if not clean or "::=" in clean:
            continue  # grammar rules do not answer questions
        current.append(clean)
        words += len(clean.split())
        if words >= _WORDS:
            passages.append("\n".join(current))
            current, words = [], 0
    if words >= 20 or (current and not passages):
        passages.append("\n".join(current))
    return passages


class Index:
    """Retrieval over all chunks by cosine similarity."""

    def __init__(self, passages: Sequence[CorpusChunk], vectors: Vectors, embedder: Embedder) -> None:
        self.chunks = tuple(passages)
        self._vectors = vectors
        self._embedder = embedder

    def search(self, query: str, k: int = 4) -> list[tuple[CorpusChunk, float]]:
        """The k chunks closest to the query with their cosines, closest first. Long chunks are cut to what the model
        gets."""
        cosines = self._vectors @ self._embedder.embed([query])[0]
        closest = [(self.chunks[i], float(cosines[i])) for i in cosines.argsort()[::-1][:k]]
        return [(replace(chunk, text=chunk.text[:_PASSAGE]), cosine) for chunk, cosine in closest]


def build(embedder: Embedder | None = None) -> Index:
    """The index over the corpus.

    The demo contains the vectors of the texts of one Python release. Other texts are embedded now, and their vectors
    are saved in the user's cache directory."""
    from ragtrace.evaluate.models.embedding import get_embedder

    model = embedder or get_embedder()
    passages = chunks()
    texts = [f"{c.topic}. {c.text}" for c in passages]
    keys = [_key(model.name, text) for text in texts]
    vectors = _load(_RECORDED) if _RECORDED.is_file() else {}
    if any(key not in vectors for key in keys):
        folder = _cache_folder()
        path = folder / f"demo-{_key(*keys)}.npz"
        vectors |= _load(path)
        missing = [i for i, key in enumerate(keys) if key not in vectors]
        if missing:
            fresh = dict(zip([keys[i] for i in missing], _embed(model, [texts[i] for i in missing]), strict=True))
            vectors |= fresh
            with contextlib.suppress(OSError):  # without a writable home the next run is a few seconds slower
                folder.mkdir(parents=True, exist_ok=True)
                save(path, fresh)
    return Index(passages, _stacked([vectors[key] for key in keys]), model)


def save(path: Path, vectors: Mapping[str, Any]) -> None:
    """Write vectors and their keys in half precision. Raises OSError."""
    import numpy as np

    part = path.with_suffix(f".{os.getpid()}.part")
    with part.open("wb") as out:
        np.savez_compressed(out, keys=list(vectors), vectors=_stacked(vectors.values()).astype(np.float16))
    part.replace(path)


def _load(path: Path) -> dict[str, Any]:
    import numpy as np

    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            return dict(zip(stored["keys"].tolist(), stored["vectors"].astype(np.float32), strict=True))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return {}  # missing or incomplete: the vectors are computed again


def _stacked(rows: Iterable[Any]) -> Vectors:
    import numpy as np

    return np.stack(list(rows))


def _key(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:16]


def _embed(model: Embedder, texts: list[str]) -> Vectors:
    """The vectors of all texts, on all cores: the model itself uses one core and releases the GIL."""
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
