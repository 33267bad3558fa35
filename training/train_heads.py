"""Train the embedded text classifiers (toxicity with its labels, and bias) and print their figures.

    python training/train_heads.py --data FOLDER

FOLDER holds train/davidson.csv.gz, train/toxigen_statements.jsonl.gz, train/ragtruth_train.jsonl.gz (answers as
harmless examples) and dev/ with openai_moderation, surge_toxicity, hatecheck and xstest_prompts. The figures are of a
five-fold cross-validation over dev's sources, with train/ in every fold; what is shipped is trained on all of it. Needs
scikit-learn. Takes about ten minutes of one core.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, hstack, vstack
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import GroupKFold

from ragtrace.models.embedding import OnnxEmbedder
from ragtrace.models.heads import BUCKETS, char_buckets, mixture, word_buckets

OUT = Path(__file__).parents[1] / "ragtrace" / "models" / "data"
DIMENSIONS = OnnxEmbedder.dimensions
WIDTH = DIMENSIONS + 2 * BUCKETS + 1
LABELS = ("toxicity", "severe", "obscene", "threat", "insult", "identity_attack", "bias")
INNER = ("any", "sexual", "self_harm", "violence", "hate")
"""What `toxicity` is made of (`ragtrace.models.heads.mixture`): these are not shown."""
UNKNOWN = -1

Rows = list[dict[str, Any]]


def rows(path: Path) -> Rows:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def features(texts: list[str], vectors: np.ndarray, scale: tuple[float, float, float]) -> csr_matrix:
    """(n, WIDTH): the embedding, the character and the word buckets, each times its scale, and the length."""
    parts = [csr_matrix(vectors * scale[0])]
    for buckets, by in ((char_buckets, scale[1]), (word_buckets, scale[1])):
        parts.append(hashed(texts, buckets, by))
    lengths = np.array([[scale[2] * np.log1p(min(len(t), 4000))] for t in texts])
    return hstack([*parts, csr_matrix(lengths)]).tocsr()


def hashed(texts: list[str], buckets: Callable[[str], list[int]], by: float) -> csr_matrix:
    indices: list[int] = []
    values: list[float] = []
    ends = [0]
    for text in texts:
        found = buckets(text)
        indices.extend(found)
        values.extend([by / max(1, len(found)) ** 0.5] * len(found))
        ends.append(len(indices))
    return csr_matrix((values, indices, ends), shape=(len(texts), BUCKETS))


def fit(x: csr_matrix, y: np.ndarray, weights: np.ndarray, c: float) -> np.ndarray:
    """The weights and the bias, (WIDTH + 1,). Rows whose label is not known are left out."""
    known = y != UNKNOWN
    model = LogisticRegression(C=c, max_iter=400).fit(x[known], y[known], sample_weight=weights[known])
    return np.r_[model.coef_[0], model.intercept_]


def apply(x: csr_matrix, w: np.ndarray) -> np.ndarray:
    return x @ w[:-1] + w[-1]


def sigmoid(z: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-z))


def save(
    path: Path,
    labels: tuple[str, ...],
    weights: np.ndarray,
    scale: tuple[float, float, float],
    platt: tuple[float, float] = (1.0, 0.0),
) -> None:
    """Write (k, WIDTH + 1) weights with the features' scales folded in."""
    a, b = DIMENSIONS, DIMENSIONS + BUCKETS
    np.savez_compressed(
        path,
        labels=np.array(labels),
        dense=(weights[:, :a] * scale[0]).astype(np.float32),
        chars=(weights[:, a:b] * scale[1]).astype(np.float16),
        words=(weights[:, b : b + BUCKETS] * scale[1]).astype(np.float16),
        platt=np.array(platt, np.float32),
        rest=np.stack([weights[:, -2] * scale[2], weights[:, -1]], 1).astype(np.float32),
    )
    print(f"{path.name}: {path.stat().st_size} bytes, sha256 {hashlib.sha256(path.read_bytes()).hexdigest()}")


def expected_calibration_error(p: np.ndarray, y: np.ndarray) -> float:
    """Mean over ten equal-width bins of |mean probability - share of positives|, weighted by the bin's size."""
    bins = np.minimum((p * 10).astype(int), 9)
    return float(sum(abs(p[bins == b].mean() - y[bins == b].mean()) * (bins == b).mean() for b in set(bins)))


# --- toxicity --------------------------------------------------------------------------------------------------------

DEV = ("openai_moderation", "surge_toxicity", "hatecheck", "xstest_prompts")


def base_set(folder: Path, chance: random.Random) -> tuple[list[str], dict[str, list[int]], list[float]]:
    """The training texts with what is known of their labels, and weights: hate weighs more than mere swearing."""
    texts: list[str] = []
    labels: dict[str, list[int]] = {name: [] for name in (*LABELS, *INNER)}
    weights: list[float] = []

    def add(text: str, weight: float, **known: int) -> None:
        texts.append(text)
        weights.append(weight)
        for name, values in labels.items():
            values.append(known.get(name, 0))

    with gzip.open(folder / "davidson.csv.gz", "rt", encoding="utf-8") as lines:
        tweets = list(csv.DictReader(lines))
    chance.shuffle(tweets)
    seen: Counter[int] = Counter()
    for tweet in tweets:
        kind = int(tweet["class"])  # 0 hate, 1 offensive, 2 neither
        seen[kind] += 1
        if seen[kind] > 1500:
            continue
        words = " ".join(w for w in tweet["tweet"].split() if not w.startswith(("@", "http", "&#", "RT")))
        hate, rude = int(kind == 0), int(kind < 2)
        unsure = 0 if kind == 2 else UNKNOWN
        known = {"any": rude, "hate": hate, "insult": rude, "identity_attack": hate, "obscene": rude}
        more = {"bias": unsure, "threat": unsure, "severe": unsure}
        add(words, {0: 1.0, 1: 0.4, 2: 1.0}[kind], **known, **more)
    for row in rows(folder / "toxigen_statements.jsonl.gz"):
        y = row["label"]
        unsure = UNKNOWN if y else 0
        more = {"insult": unsure, "severe": unsure, "threat": unsure}
        add(row["answer"], 1.0, any=y, hate=y, identity_attack=y, bias=y, **more)
    for row in chance.sample(rows(folder / "ragtruth_train.jsonl.gz"), 500):
        add(row["answer"][:400], 1.0)
    return texts, labels, weights


def dev_labels(name: str, row: dict[str, Any]) -> dict[str, int]:
    """What a row of dev says of each label."""
    y = int(row["label"]) if name != "xstest_prompts" else 0
    known = dict.fromkeys((*LABELS, *INNER), 0)
    known.update(toxicity=y, any=y)
    if name == "openai_moderation":
        has = {k for k, v in row["categories"].items() if v}
        hate = int(bool(has & {"H", "HR", "H2"}))
        known.update(sexual=int(bool(has & {"S", "S3"})), self_harm=int("SH" in has), hate=hate, identity_attack=hate)
        known.update(violence=int(bool(has & {"V", "V2", "H2"})), threat=int(bool(has & {"V", "V2", "H2"})))
        known.update(obscene=int(bool(has & {"S", "S3"})), insult=int(bool(has & {"H", "HR"})), bias=hate)
        known.update(severe=int(bool(has & {"H2", "V2", "S3"})))
    elif name == "surge_toxicity" and y:
        known.update(
            dict.fromkeys(("insult", "obscene", "identity_attack", "threat", "severe", "bias", "hate"), UNKNOWN)
        )
    elif name == "hatecheck":
        threat = int(row["task"].startswith("threat") and y)
        known.update(hate=y, identity_attack=y, bias=y, threat=threat, violence=threat)
        known.update(severe=int(y and row["task"].startswith(("threat", "derog_dehum"))), insult=UNKNOWN if y else 0)
    return known


def toxicity(folder: Path, embedder: OnnxEmbedder, out: Path | None = OUT) -> None:
    """Print the cross-validated figures; train on everything and write to `out`, if there is one."""
    scale = (2.0, 1.0, 0.1)
    texts, base, weights = base_set(folder / "train", random.Random(20261121))
    x_base = features(texts, embedder.embed(texts), scale)
    dev_rows = [(name, row) for name in DEV for row in rows(folder / "dev" / f"{name}.jsonl.gz")]
    dev_texts = [row["answer"] or row["query"] for _, row in dev_rows]
    x_dev = features(dev_texts, embedder.embed(dev_texts), scale)
    known = [dev_labels(name, row) for name, row in dev_rows]
    of = np.array([name for name, _ in dev_rows])
    groups = np.array([name + row["source_id"] for name, row in dev_rows])
    w_base, w_dev = np.array(weights) * 0.1, np.where(of == "openai_moderation", 2.0, 1.0)

    def train(rows_of_dev: np.ndarray, label: str) -> np.ndarray:
        y = np.r_[np.array(base[label]), [known[i][label] for i in rows_of_dev]]
        return fit(vstack([x_base, x_dev[rows_of_dev]]), y, np.r_[w_base, w_dev[rows_of_dev]], 10.0)

    def combined(x: csr_matrix, parts: dict[str, np.ndarray]) -> np.ndarray:
        return np.stack([apply(x, parts[name]) for name in INNER], 1)

    y = np.array([k["toxicity"] for k in known])
    inner = np.zeros((len(y), len(INNER)))
    shown = {name: np.zeros(len(y)) for name in LABELS[1:]}
    folds = list(GroupKFold(5).split(x_dev, y, groups))
    for fit_rows, test in folds:
        parts = {name: train(fit_rows, name) for name in (*INNER, *LABELS[1:])}
        inner[test] = combined(x_dev[test], parts)
        for name, values in shown.items():
            values[test] = apply(x_dev[test], parts[name])
    mixed = mixture(inner)
    platt = LogisticRegression(C=1.0).fit(mixed[:, None], y)  # two numbers, fitted on all folds
    p = sigmoid(platt.decision_function(mixed[:, None]))
    for name in DEV:
        k = of == name
        line = f"{name:18} n {k.sum():5}  flagged at .5: {(p[k & (y == 0)] >= 0.5).mean():.3f} of the harmless"
        if name != "xstest_prompts":
            line += f", {(p[k & (y == 1)] >= 0.5).mean():.3f} of the toxic  AUROC {roc_auc_score(y[k], p[k]):.3f}"
            line += f"  AP {average_precision_score(y[k], p[k]):.3f}  ECE {expected_calibration_error(p[k], y[k]):.3f}"
        print(line)
    tasks = np.array([row["task"] for _, row in dev_rows])
    for task in ("counter_quote_nh", "counter_ref_nh", "slur_reclaimed_nh", "ident_neutral_nh", "profanity_nh"):
        k = (of == "hatecheck") & (tasks == task)
        if k.any():
            print(f"  hatecheck {task:18} n {k.sum():4}  flagged at .5: {(p[k] >= 0.5).mean():.3f}")
    scaled = {"toxicity": (platt.coef_[0, 0], platt.intercept_[0])}
    for name in LABELS[1:]:  # the other labels' log-odds, calibrated on the folds
        t = np.array([k[name] for k in known])
        ok = t != UNKNOWN
        platt = LogisticRegression(C=1.0).fit(shown[name][ok][:, None], t[ok])
        q = sigmoid(platt.decision_function(shown[name][ok][:, None]))
        line = f"{name:18} n {ok.sum():5} positive {t[ok].sum():4}  AUROC {roc_auc_score(t[ok], q):.3f}"
        print(f"{line}  AP {average_precision_score(t[ok], q):.3f}  ECE {expected_calibration_error(q, t[ok]):.3f}")
        scaled[name] = (platt.coef_[0, 0], platt.intercept_[0])
    if out is None:
        return
    everything = np.arange(len(y))
    final = [train(everything, name) for name in INNER]
    for name in LABELS[1:]:
        slope, shift = scaled[name]
        final.append(train(everything, name) * slope)
        final[-1][-1] += shift
    save(out / "toxicity.npz", (*INNER, *LABELS[1:]), np.stack(final), scale, scaled["toxicity"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    folder = parser.parse_args().data
    embedder = OnnxEmbedder()
    toxicity(folder, embedder)


if __name__ == "__main__":
    main()
