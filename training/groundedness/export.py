"""Calibrate the trained head and write it as ONNX.

    python training/groundedness/export.py --prepared FOLDER --head FILE.pt

The probabilities are calibrated on the tenth of the training sources that training did not see. Writes
ragtrace/models/data/groundedness.onnx (weights in int8) and groundedness.npz (the calibration).
"""

from __future__ import annotations

import argparse
import hashlib
import pickle
import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from model import Groundedness
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from train import load, predict

from ragtrace.models.answer_features import answer_features

DATA = Path(__file__).parents[2] / "ragtrace" / "models" / "data"


class Single(torch.nn.Module):
    """The head for one answer, without the batch."""

    def __init__(self, head: Groundedness) -> None:
        super().__init__()
        self.head = head

    def forward(
        self,
        hidden: torch.Tensor,
        features: torch.Tensor,
        ids: torch.Tensor,
        sentence: torch.Tensor,
        context: torch.Tensor,
        context_features: torch.Tensor,
        context_ids: torch.Tensor,
        index: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        inputs = (hidden, features, ids, sentence, context, context_features, context_ids)
        pieces, sentences, answer = self.head(*(t[None] for t in inputs), index)
        return pieces[0], sentences[0], answer[0]


def kept_sources(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tenth that train.py did not train on."""
    sources = sorted({r["source"] for r in records})
    random.Random(7).shuffle(sources)
    kept = set(sources[: len(sources) // 10])
    return [r for r in records if r["source"] in kept]


def vector_scaling(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """One temperature and a shift per class (2 free) that minimise the log loss: (4,) temperature, shifts."""

    def loss(x: np.ndarray) -> float:
        z = logits * np.exp(x[0]) + x[1:4]
        z = z - z.max(1, keepdims=True)
        return float(-(z[np.arange(len(z)), labels] - np.log(np.exp(z).sum(1))).mean() + 1e-4 * (x**2).sum())

    found = minimize(loss, np.zeros(4), method="BFGS").x
    return np.array([np.exp(found[0]), *found[1:]])


def weights_in_int8(model: onnx.ModelProto) -> onnx.ModelProto:
    """Matrices as int8 with a scale for each column, made floats again when the model runs. Activations stay floats:
    quantising them, too, costs .025 of AUROC on sets that were not trained on."""
    graph = model.graph
    for tensor in list(graph.initializer):
        values = onnx.numpy_helper.to_array(tensor)
        if values.dtype != np.float32 or values.ndim != 2:
            continue
        scale = np.maximum(np.abs(values).max(0), 1e-8) / 127
        small = np.round(values / scale).astype(np.int8)
        graph.initializer.remove(tensor)
        names = [f"{tensor.name}_int8", f"{tensor.name}_scale"]
        graph.initializer.extend(
            [onnx.numpy_helper.from_array(small, names[0]), onnx.numpy_helper.from_array(scale, names[1])]
        )
        graph.node.insert(0, onnx.helper.make_node("DequantizeLinear", names, [tensor.name], axis=1))
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prepared", type=Path, required=True)
    parser.add_argument("--head", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="write the head in 32-bit floats there, too")
    options = parser.parse_args()
    saved = torch.load(options.head, weights_only=True)
    head = Groundedness(saved["width"], layers=saved["layers"])
    head.load_state_dict(saved["state"])
    head.eval()

    torch.set_num_threads(options.threads)
    kept = options.prepared / "kept.pickle"  # a second export need not read the whole set again
    if not kept.exists():
        with kept.open("wb") as file:
            pickle.dump(kept_sources(load(options.prepared / "train.pickle")), file, protocol=5)
    found = [f for f in predict(head, load(kept)) if f["task"] != "synthetic"]
    logits = np.concatenate([np.log(f["sentences"] + 1e-9) for f in found])
    labels = np.concatenate([f["sentence_labels"] for f in found])
    known = labels >= 0
    sentence = vector_scaling(logits[known], labels[known])
    found = [f for f in found if len(f["sentences"])]
    x = np.array([answer_features(f["answer"], f["sentences"], f["pieces"], f["lexical"]) for f in found])
    y = np.array([f["label"] for f in found])
    # Strong regularisation spreads the weight over the features, which carries over to other sets; two more numbers
    # then make probabilities of it.
    scale = StandardScaler().fit(x)
    shrunk = LogisticRegression(C=0.01, max_iter=1000).fit(scale.transform(x), y)
    platt = LogisticRegression(C=100.0).fit(shrunk.decision_function(scale.transform(x))[:, None], y)
    slope, shift = platt.coef_[0, 0], platt.intercept_[0]
    weights = shrunk.coef_[0] / scale.scale_ * slope
    bias = (shrunk.intercept_[0] - (shrunk.coef_[0] * scale.mean_ / scale.scale_).sum()) * slope + shift
    print("sentences", sentence, "answer", weights, bias)

    n, m, s = 50, 90, 4
    example = (
        torch.randn(n, 384),
        torch.rand(n, 20),
        torch.randint(0, 30000, (n,)),
        torch.randint(0, s, (n,)),
        torch.randn(m, 384),
        torch.rand(m, 5),
        torch.randint(0, 30000, (m,)),
        torch.arange(s),
    )
    names = ["hidden", "features", "ids", "sentence", "context", "context_features", "context_ids", "index"]
    axes = {name: {0: size} for name, size in zip(names, "nnnnmmms", strict=True)}
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "head.onnx"
        torch.onnx.export(
            Single(head),
            example,
            plain,
            input_names=names,
            output_names=["pieces", "sentences", "answer"],
            dynamic_axes={**axes, "pieces": {0: "n"}, "sentences": {0: "s"}},
            opset_version=17,
            dynamo=False,
        )
        print("fp32", plain.stat().st_size)
        if options.keep:
            shutil.copy(plain, options.keep)
        onnx.save(weights_in_int8(onnx.load(plain)), DATA / "groundedness.onnx")
    np.savez(
        DATA / "groundedness.npz",
        sentence=sentence.astype(np.float32),
        answer=np.r_[weights, bias].astype(np.float64),
    )
    for name in ("groundedness.onnx", "groundedness.npz"):
        path = DATA / name
        print(name, path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest())


if __name__ == "__main__":
    main()
