"""Write the shipped reader from a checkpoint: python training/reader/export.py --rows build/reader [--name reader]

Writes reader.onnx, reader_words.npz and reader_tokenizer.json to ragtrace/evaluate/models/data; run
training/checksums.py after it. Weights are int8 by column, with seven bits: processors without VNNI add two products in
sixteen bits, and eight bits would overflow there. Attention to relative positions needs no gather: a matrix whose
columns are distances becomes one whose columns are places by another reading of the same memory. `--check` compares
with torch.
"""

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from model import BUCKETS, HEADS, WIDTH, Reader, bucket
from onnx import TensorProto, helper, numpy_helper

DATA = Path(__file__).parents[2] / "ragtrace" / "evaluate" / "models" / "data"
LONGEST = 512
_HEAD = WIDTH // HEADS
_SCALE = (3 * _HEAD) ** 0.5
_STEPS = 63
_MICROSOFT = "com.microsoft"


class Graph:
    """Nodes and constants; every method returns the name of what it adds."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: dict[str, np.ndarray] = {}

    def add(self, op: str, *inputs: str, domain: str = "", outputs: int = 1, **attributes: Any) -> Any:
        names = [f"n{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, domain=domain, **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, value: Any, kind: Any = np.float32) -> str:
        array = np.ascontiguousarray(np.asarray(value, kind))
        name = f"c{len(self.constants)}"
        self.constants[name] = array
        return name

    def integers(self, *values: int) -> str:
        return self.constant(values, np.int64)

    def quantised(self, weight: np.ndarray) -> tuple[str, str]:
        """(k, m) as int8 with a scale for each column."""
        scale = np.maximum(np.abs(weight).max(0), 1e-8) / _STEPS
        return self.constant(np.rint(weight / scale), np.int8), self.constant(scale)

    def linear(self, x: str, weight: tuple[str, str], bias: np.ndarray) -> str:
        return self.add("DynamicQuantizeMatMul", x, *weight, "", self.constant(bias), domain=_MICROSOFT)

    def norm(self, x: str, module: Any) -> str:
        weights = (self.constant(_array(module.weight)), self.constant(_array(module.bias)))
        return self.add("LayerNormalization", x, *weights, axis=-1, epsilon=1e-7)

    def gelu(self, x: str) -> str:
        return self.add("Gelu", x, domain=_MICROSOFT)

    def plain(self, x: str, linear: Any) -> str:
        """A small layer in float."""
        return self.add(
            "Add", self.add("MatMul", x, self.constant(_array(linear.weight).T)), self.constant(_array(linear.bias))
        )


def _array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().float().numpy()


def graph_of(reader: Reader) -> onnx.ModelProto:
    """Inputs: `embedded` (n, 384), rows of the word table; `claims` (c, n), 1 at the pieces of a claim, else 0.
    Outputs: `answer` (1, 4), `claim` (c, 2), `word` (n,), see training/reader/model.py."""
    g = Graph()
    table = torch.arange(-(LONGEST - 1), LONGEST)
    rising = g.constant(bucket(table).numpy(), np.int64)
    falling = g.constant(bucket(-table).numpy(), np.int64)
    n = g.add("Slice", g.add("Shape", "embedded"), g.integers(0), g.integers(1))
    one, two = g.integers(1), g.integers(2)
    before = g.add("Sub", n, one)
    width = g.add("Mul", before, two)
    first = g.add("Sub", g.integers(LONGEST), n)
    last = g.add("Add", g.integers(LONGEST - 1), n)
    distances = {k: g.add("Slice", t, first, last) for k, t in (("key", falling), ("query", rising))}
    end = g.add("Add", before, g.add("Mul", n, width))
    shape = g.add("Concat", g.integers(HEADS), n, width, axis=0)
    flat = g.integers(HEADS, -1)
    axis1, axis2, zero = g.integers(1), g.integers(2), g.integers(0)

    def places(columns: str) -> str:
        """(h, n, 2n-1), a column for each distance → (h, n, n), a column for each place."""
        cut = g.add("Slice", g.add("Reshape", columns, flat), before, end, axis1)
        return g.add("Slice", g.add("Reshape", cut, shape), zero, n, axis2)

    norms = reader.positions_norm
    positions = g.constant(_array(norms(reader.positions.weight)))
    x = g.norm("embedded", reader.norm)
    for layer in reader.layers:
        query, key, value = layer.query, layer.key, layer.value
        weight = np.concatenate([_array(query.weight).T / _SCALE, _array(key.weight).T, _array(value.weight).T], 1)
        bias = np.concatenate([_array(query.bias) / _SCALE, _array(key.bias), _array(value.bias)])
        packed = g.quantised(weight)
        projected = g.add("Reshape", g.linear(x, packed, bias), g.integers(-1, 3, HEADS, _HEAD))
        q, k, v = (
            g.add("Squeeze", part, zero)
            for part in g.add("Split", g.add("Transpose", projected, perm=[1, 2, 0, 3]), axis=0, outputs=3)
        )
        # The session multiplies the tables of positions once, when it is opened. (h, 512, 64)
        unpacked = g.add("Mul", g.add("Cast", packed[0], to=TensorProto.FLOAT), packed[1])
        all_rows = g.add("Add", g.add("MatMul", positions, unpacked), g.constant(bias))
        rows = g.add("Reshape", all_rows, g.integers(2 * BUCKETS, 3, HEADS, _HEAD))
        tables = g.add("Split", g.add("Transpose", rows, perm=[1, 2, 0, 3]), axis=0, outputs=3)
        query_rows, key_rows = (g.add("Squeeze", t, zero) for t in tables[:2])
        scores = g.add("MatMul", q, g.add("Transpose", k, perm=[0, 2, 1]))
        for side, rows_of, kind in ((q, key_rows, "key"), (k, query_rows, "query")):
            near = g.add("Transpose", g.add("Gather", rows_of, distances[kind], axis=1), perm=[0, 2, 1])
            moved = places(g.add("MatMul", side, near))
            scores = g.add("Add", scores, moved if kind == "key" else g.add("Transpose", moved, perm=[0, 2, 1]))
        attended = g.add("MatMul", g.add("Softmax", scores, axis=-1), v)
        mixed = g.add("Reshape", g.add("Transpose", attended, perm=[1, 0, 2]), g.integers(-1, WIDTH))
        out = g.linear(mixed, g.quantised(_array(layer.out.weight).T), _array(layer.out.bias))
        x = g.norm(g.add("Add", x, out), layer.norm1)
        wide = g.gelu(g.linear(x, g.quantised(_array(layer.up.weight).T), _array(layer.up.bias)))
        narrow = g.linear(wide, g.quantised(_array(layer.down.weight).T), _array(layer.down.bias))
        x = g.norm(g.add("Add", x, narrow), layer.norm2)
    first_row = g.add("Slice", x, zero, one, zero)
    answer = g.plain(g.gelu(g.plain(first_row, reader.answer_pool)), reader.answer)
    word = g.add("Squeeze", g.plain(x, reader.word), one)
    outside = g.add("Mul", g.add("Sub", g.constant([1.0]), "claims"), g.constant([-1e4]))
    weights = g.add("Softmax", g.add("Add", outside, word), axis=-1)
    vectors = g.add("Add", g.add("MatMul", weights, x), first_row)
    claim = g.plain(g.gelu(g.plain(vectors, reader.claim_pool)), reader.claim)
    for name, made in (("answer", answer), ("claim", claim), ("word", word)):
        g.nodes.append(helper.make_node("Identity", [made], [name]))
    floats = TensorProto.FLOAT
    inputs = [
        helper.make_tensor_value_info("embedded", floats, ["n", WIDTH]),
        helper.make_tensor_value_info("claims", floats, ["c", "n"]),
    ]
    outputs = [
        helper.make_tensor_value_info("answer", floats, [1, 4]),
        helper.make_tensor_value_info("claim", floats, ["c", 2]),
        helper.make_tensor_value_info("word", floats, ["n"]),
    ]
    constants = [numpy_helper.from_array(array, name) for name, array in g.constants.items()]
    graph = helper.make_graph(g.nodes, "reader", inputs, outputs, constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(_MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def table_of(reader: Reader) -> dict[str, np.ndarray]:
    """The word table as int8 rows (v, 384) with a scale for each (v,)."""
    words = _array(reader.words.weight)
    scale = np.maximum(np.abs(words).max(1), 1e-8) / 127
    return {"rows": np.rint(words / scale[:, None]).astype(np.int8), "scales": scale.astype(np.float32)}


def load(rows: Path, name: str, before: Path | None = None) -> Reader:
    """The reader of a checkpoint; with `before` four tenths of it, and six of the one that it was tuned from, which
    keeps what the tuning forgot."""
    reader = Reader(len(json.loads((rows / "kept.json").read_text())))
    weights = _average(rows / f"{name}.pt")
    if before:
        old = _average(before)
        weights = {k: 0.4 * v + 0.6 * old[k] for k, v in weights.items()}
    reader.load_state_dict(weights)
    return reader.eval()


def _average(path: Path) -> dict[str, torch.Tensor]:
    saved = torch.load(path, map_location="cpu")["average"]
    return {k.removeprefix("module."): v for k, v in saved.items() if k.startswith("module.")}


def check(reader: Reader, path: Path) -> None:
    """Print the largest and the mean difference of the logits from torch's, over random pieces."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path)
    chance = np.random.default_rng(1)
    worst: list[float] = []
    for n in (7, 60, 200, 400):
        ids = torch.tensor(chance.integers(10, 8_000, n))[None]
        claims = torch.zeros(2, n)
        claims[0, n // 2 : n - 2] = claims[1, n // 2 - 1 : n // 2] = 1
        with torch.no_grad():
            expected = reader(ids, torch.ones_like(ids), torch.tensor([0, 0]), claims)
            embedded = reader.words(ids)[0].numpy()
        got = session.run(None, {"embedded": embedded, "claims": claims.numpy()})
        worst += [float(np.abs(a - b.numpy().reshape(a.shape)).max()) for a, b in zip(got, expected, strict=True)]
    print("largest differences:", " ".join(f"{w:.3f}" for w in worst))


def main() -> None:
    """Export, or check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--name", default="reader")
    parser.add_argument("--before", type=Path)
    parser.add_argument("--out", type=Path, default=DATA)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    reader = load(given.rows, given.name, given.before)
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "reader.onnx").write_bytes(graph_of(reader).SerializeToString())
    np.savez(given.out / "reader_words.npz", **table_of(reader))
    shutil.copy(given.rows / "tokenizer.json", given.out / "reader_tokenizer.json")
    if given.check:
        check(reader, given.out / "reader.onnx")


if __name__ == "__main__":
    main()
