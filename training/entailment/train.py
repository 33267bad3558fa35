"""Train the trees that compare a claim with its passage, and make the word vectors that they need.

    python training/entailment/train.py --vectors; python training/checksums.py
    python training/entailment/pairs.py --data FOLDER --out PAIRS.jsonl
    python training/entailment/train.py --pairs PAIRS.jsonl --cases training/entailment/*cases/*.jsonl --features FILE

Writes word_vectors.npz, then claim_comparison.onnx, into ragtrace/models/data; run training/checksums.py afterwards.
Needs onnx and scikit-learn. Nearly all of the time goes into the features, which are kept in FILE. One group of the
cases in seven is left out: the calibration uses it. Prints what the trees say of it.
"""

from __future__ import annotations

import argparse
import json
import pickle
import random
import zlib
from collections import defaultdict
from multiprocessing import Pool
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnxruntime import InferenceSession
from pairs import SUPPORTED, of_cases, of_foreign_answers
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from ragtrace.models import model_file
from ragtrace.models.claim_comparison import compare_claim
from ragtrace.models.claim_words import DIMENSIONS

DATA = Path(__file__).parents[2] / "ragtrace" / "models" / "data"
CAPTIONS = ("scone", "hans", "med_gqnli", "breaking_nli", "cad_nli", "conjnli", "negnli", "condaqa", "quintd")
"""Sets of captions, yes and no, or tables: a third of them, or they swamp what assistants answer."""
WEIGHTS = {"cases": 8.0, "harder_cases": 4.0, "ragtruth": 2.0}
"""Of a set's pairs; 1 of those that are not named."""

Row = dict[str, Any]


def word_vectors() -> None:
    """The encoder's word embeddings, centred, of unit length, in their first principal components, as int8."""
    graph = onnx.load(str(model_file("embedding"))).graph
    arrays = {t.name: numpy_helper.to_array(t) for t in graph.initializer if "word_embeddings.weight" in t.name}
    (quantised,) = (a for name, a in arrays.items() if name.endswith("_q"))
    (scale,) = (a for name, a in arrays.items() if name.endswith("_scale"))
    vectors = quantised.astype(np.float32) * scale
    vectors -= vectors.mean(0)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-6)
    components = np.linalg.svd(vectors, full_matrices=False)[2][:DIMENSIONS]
    reduced = vectors @ components.T
    reduced *= 127 / np.maximum(np.abs(reduced).max(1, keepdims=True), 1e-6)
    np.savez_compressed(DATA / "word_vectors.npz", vectors=np.round(reduced).astype(np.int8))


def features(row: Row) -> np.ndarray:
    return compare_claim(row["claim"], row["query"], row["passage"])


def training_rows(options: argparse.Namespace) -> list[Row]:
    """The pairs, fewer of those whose style is far from an assistant's; the cases' claims, and those of other cases."""
    chance = random.Random(5)
    with options.pairs.open(encoding="utf-8") as file:
        pairs = [json.loads(line) for line in file]
    pairs = [p for p in pairs if p["set"] not in CAPTIONS or chance.random() < 1 / 3]
    return pairs + [
        {**p, "from": path.parent.name}
        for of_path in (of_cases, of_foreign_answers)
        for path in options.cases
        for p in of_path(path)
    ]


def is_kept_back(row: Row) -> bool:
    """The same seventh of the cases as in groundedness/calibrate.py."""
    return row["set"] == "cases" and zlib.crc32(row["group"].encode()) % 7 == 0


def report(source: str, rows: list[Row], bad: np.ndarray, scores: np.ndarray) -> None:
    limit = np.quantile(scores[~bad], 0.9)
    print(f"{len(rows)} claims of {source} kept back: AUROC {roc_auc_score(bad, scores):.3f}")
    print(f"at 10 % false alarms {np.mean(scores[bad] > limit):.2f} caught")
    kinds: dict[str, list[bool]] = defaultdict(list)
    for row, score in zip(rows, scores, strict=True):
        if row["label"] != SUPPORTED:
            kinds[row["kind"]].append(bool(score > limit))
    print("  ".join(f"{kind} {sum(caught)}/{len(caught)}" for kind, caught in sorted(kinds.items())))


def export(bag: list[HistGradientBoostingClassifier], width: int) -> onnx.ModelProto:
    """The mean of the models as one ONNX operator from features (n, width) to the logit of an unsupported claim (n, 1).

    skl2onnx writes these trees with attributes of a type that onnx refuses (skl2onnx 1.19 with scikit-learn 1.7).
    """
    trees = [tree for model in bag for (tree,) in model._predictors]
    nodes = [(t, i, node) for t, tree in enumerate(trees) for i, node in enumerate(tree.nodes)]
    leaves = [(t, i, float(node["value"]) / len(bag)) for t, i, node in nodes if node["is_leaf"]]
    operator = helper.make_node(
        "TreeEnsembleRegressor",
        ["features"],
        ["logits"],
        domain="ai.onnx.ml",
        n_targets=1,
        base_values=[float(np.mean([model._baseline_prediction.item() for model in bag]))],
        nodes_treeids=[t for t, _, _ in nodes],
        nodes_nodeids=[i for _, i, _ in nodes],
        nodes_featureids=[int(node["feature_idx"]) for _, _, node in nodes],
        nodes_values=[0.0 if node["is_leaf"] else float(node["num_threshold"]) for _, _, node in nodes],
        nodes_modes=["LEAF" if node["is_leaf"] else "BRANCH_LEQ" for _, _, node in nodes],
        nodes_truenodeids=[int(node["left"]) for _, _, node in nodes],
        nodes_falsenodeids=[int(node["right"]) for _, _, node in nodes],
        target_treeids=[t for t, _, _ in leaves],
        target_nodeids=[i for _, i, _ in leaves],
        target_ids=[0] * len(leaves),
        target_weights=[value for _, _, value in leaves],
    )
    graph = helper.make_graph(
        [operator],
        "claim_comparison",
        [helper.make_tensor_value_info("features", onnx.TensorProto.FLOAT, [None, width])],
        [helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, [None, 1])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=Path)
    parser.add_argument("--cases", type=Path, nargs="+")
    parser.add_argument("--features", type=Path, help="file for the features, made once")
    parser.add_argument("--vectors", action="store_true", help="make the word vectors and end")
    options = parser.parse_args()
    if options.vectors:
        word_vectors()
        return
    if not (options.pairs and options.cases and options.features):
        parser.error("--pairs, --cases and --features are needed, or --vectors alone")
    rows = training_rows(options)
    if options.features.exists():
        x = pickle.loads(options.features.read_bytes())
    else:
        with Pool() as pool:
            x = np.stack(pool.map(features, rows, chunksize=200))
        options.features.write_bytes(pickle.dumps(x))
    bad = np.array([row["label"] != SUPPORTED for row in rows])
    weight = np.array([WEIGHTS.get(row.get("from", row["set"]), 1.0) for row in rows])
    kept = np.array([is_kept_back(row) for row in rows])
    # Three models that see other features: their mean is steadier on answers of other kinds than any of them.
    bag = [
        HistGradientBoostingClassifier(
            max_iter=500,
            learning_rate=0.06,
            max_leaf_nodes=31,
            min_samples_leaf=60,
            l2_regularization=20,
            max_features=0.15,
            random_state=seed,
        ).fit(x[~kept], bad[~kept], sample_weight=weight[~kept])
        for seed in (1, 2, 3)
    ]
    scores = np.mean([model.decision_function(x) for model in bag], axis=0)
    for source in dict.fromkeys(path.parent.name for path in options.cases):
        of_source = kept & np.array([row.get("from") == source for row in rows])
        chosen = [row for row, is_chosen in zip(rows, of_source, strict=True) if is_chosen]
        report(source, chosen, bad[of_source], scores[of_source])
    path = DATA / "claim_comparison.onnx"
    path.write_bytes(export(bag, x.shape[1]).SerializeToString())
    (logits,) = InferenceSession(str(path)).run(None, {"features": x[kept]})
    print("largest difference after export", np.abs(logits[:, 0] - scores[kept]).max())


if __name__ == "__main__":
    main()
