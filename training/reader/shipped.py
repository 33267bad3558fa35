"""A checkpoint of the shipped reader, to go on from it: python training/reader/shipped.py --start START --rows ROWS

Writes tokenizer.json, kept.json and reader.pt to ROWS, before rows.py fills it: `train.py --init ROWS/reader.pt`. The
weights are those of the int8 file, multiplied out. The file has the table of positions after its normalisation; the
table before it, and the normalisation's weights, are fitted so that they give it again.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import onnx
import torch
from export import DATA, check
from model import HEADS, LAYERS, WIDTH, Reader
from onnx import numpy_helper
from safetensors.torch import load_file
from torch.nn import functional


def main() -> None:
    """Read, fit, compare and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("start", "rows"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    options = parser.parse_args()
    options.rows.mkdir(parents=True, exist_ok=True)
    tokenizer = (DATA / "reader_tokenizer.json").read_text()
    (options.rows / "tokenizer.json").write_text(tokenizer)
    own, hub = (_pieces(json.loads(text)) for text in (tokenizer, (options.start / "tokenizer.json").read_text()))
    (options.rows / "kept.json").write_text(json.dumps([hub[piece] for piece in sorted(own, key=own.__getitem__)]))
    words = np.load(DATA / "reader_words.npz")
    reader = Reader(len(words["rows"]))
    reader.load_state_dict(_weights(onnx.load(DATA / "reader.onnx").graph, options.start), strict=False)
    reader.words.weight.data = torch.tensor(words["rows"].astype(np.float32) * words["scales"][:, None])
    check(reader.eval(), DATA / "reader.onnx")
    state = reader.state_dict()
    torch.save({"model": state, "average": {f"module.{k}": v for k, v in state.items()}}, options.rows / "reader.pt")


def _pieces(tokenizer: dict) -> dict[str, int]:
    """Each piece with its number."""
    vocabulary = {piece: number for number, (piece, _) in enumerate(tokenizer["model"]["vocab"])}
    return vocabulary | {each["content"]: each["id"] for each in tokenizer["added_tokens"]}


def _weights(graph: onnx.GraphProto, start: Path) -> dict[str, torch.Tensor]:
    """The state of a Reader, without its words. The nodes come in the order in which export.py adds them."""
    arrays = {t.name: torch.tensor(numpy_helper.to_array(t).copy()) for t in graph.initializer}
    state: dict[str, torch.Tensor] = {}
    layers = [f"layers.{n}.{part}" for n in range(LAYERS) for part in ("qkv", "out", "up", "down")]
    packed = (node for node in graph.node if node.op_type == "DynamicQuantizeMatMul")
    for name, node in zip(layers, packed, strict=True):
        weight, bias = (arrays[node.input[1]].float() * arrays[node.input[2]]).T, arrays[node.input[4]]
        if name.endswith("qkv"):
            for part, w, b in zip(("query", "key", "value"), weight.split(WIDTH), bias.split(WIDTH), strict=True):
                scale = (3 * WIDTH / HEADS) ** 0.5 if part == "query" else 1.0
                state[f"{name[:-3]}{part}.weight"], state[f"{name[:-3]}{part}.bias"] = w * scale, b * scale
        else:
            state[f"{name}.weight"], state[f"{name}.bias"] = weight, bias
    norms = ["norm", *(f"layers.{n}.norm{k}" for n in range(LAYERS) for k in (1, 2))]
    for name, node in zip(norms, (n for n in graph.node if n.op_type == "LayerNormalization"), strict=True):
        state[f"{name}.weight"], state[f"{name}.bias"] = arrays[node.input[1]], arrays[node.input[2]]
    made_by = {node.output[0]: node for node in graph.node}
    plain = [node for node in graph.node if node.op_type == "Add" and node.input[1] in arrays]
    plain = [n for n in plain if (of := made_by[n.input[0]]).op_type == "MatMul" and of.input[1] in arrays]
    for name, node in zip(("answer_pool", "answer", "word", "claim_pool", "claim"), plain, strict=True):
        state[f"{name}.weight"], state[f"{name}.bias"] = (
            arrays[made_by[node.input[0]].input[1]].T,
            arrays[node.input[1]],
        )
    table = next(array for array in arrays.values() if tuple(array.shape) == (512, WIDTH))
    names = ("positions.weight", "positions_norm.weight", "positions_norm.bias")
    return state | dict(zip(names, _fitted(table, start), strict=True))


def _fitted(table: torch.Tensor, start: Path) -> list[torch.Tensor]:
    """(512, 384), (384,), (384,): a table, weights and biases whose normalisation gives `table`. The start's are near,
    because they were trained from these."""
    saved = load_file(start / "model.safetensors")
    names = ("rel_embeddings.weight", "LayerNorm.weight", "LayerNorm.bias")
    parts = [saved[f"deberta.encoder.{name}"].clone().requires_grad_() for name in names]
    optimiser = torch.optim.Adam(parts, lr=2e-3)
    for step in range(3_000):
        optimiser.param_groups[0]["lr"] = 2e-3 * (1 - step / 3_000)
        error = (functional.layer_norm(parts[0], (WIDTH,), *parts[1:], 1e-7) - table).square().sum()
        optimiser.zero_grad()
        error.backward()
        optimiser.step()
    print(f"mean difference of the positions: {(error.item() / table.numel()) ** 0.5:.5f}")
    return [part.detach() for part in parts]


if __name__ == "__main__":
    main()
