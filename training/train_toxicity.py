"""Train the embedded toxicity classifier and print its figures.

    python training/train_toxicity.py --data FOLDER

FOLDER holds train/davidson.csv.gz, train/toxigen_statements.jsonl.gz, train/ragtruth_train.jsonl.gz (answers as
harmless examples) and dev/ with openai_moderation, surge_toxicity, hatecheck and xstest_prompts. Trained on train/
alone; the two numbers of the calibration are fitted on half of dev's moderation and surge rows and measured on the
other half. Needs scikit-learn. Takes about five minutes of one core.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, hstack
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score

from ragtrace.evaluators.sentences import split
from ragtrace.models.embedding import OnnxEmbedder
from ragtrace.models.toxicity import BUCKETS, ngram_buckets

OUT = Path(__file__).parents[1] / "ragtrace" / "models" / "data" / "toxicity.npz"


def rows(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def training_set(folder: Path, chance: random.Random) -> tuple[list[str], list[int], list[float]]:
    """Texts, labels and weights: tweets (hate weighs more than mere swearing), statements, harmless answers."""
    texts: list[str] = []
    labels: list[int] = []
    weights: list[float] = []

    def add(text: str, label: int, weight: float) -> None:
        texts.append(text)
        labels.append(label)
        weights.append(weight)

    with gzip.open(folder / "davidson.csv.gz", "rt", encoding="utf-8") as lines:
        tweets = list(csv.DictReader(lines))
    chance.shuffle(tweets)
    offensive = 0
    for tweet in tweets:
        kind = int(tweet["class"])
        if kind == 1:
            offensive += 1
            if offensive > 5000:
                continue
        words = " ".join(w for w in tweet["tweet"].split() if not w.startswith(("@", "http", "&#", "RT")))
        add(words, int(kind < 2), {0: 1.5, 1: 0.6, 2: 1.0}[kind])
    for row in rows(folder / "toxigen_statements.jsonl.gz"):
        add(row["answer"], row["label"], 4.0)
    answers = rows(folder / "ragtruth_train.jsonl.gz")
    chance.shuffle(answers)
    for row in answers[:1500]:
        spans = split(row["answer"])
        for span in chance.sample(spans, min(3, len(spans))):
            add(row["answer"][span.start : span.end], 0, 1.0)
    return texts, labels, weights


def features(texts: list[str], embedder: OnnxEmbedder) -> Any:
    indices: list[int] = []
    values: list[float] = []
    ends = [0]
    for text in texts:
        buckets = ngram_buckets(text)
        indices.extend(buckets)
        values.extend([1 / len(buckets) ** 0.5] * len(buckets))
        ends.append(len(indices))
    sparse = csr_matrix((values, indices, ends), shape=(len(texts), BUCKETS))
    return hstack([csr_matrix(embedder.embed(texts)), sparse]).tocsr()


def expected_calibration_error(p: np.ndarray, y: np.ndarray) -> float:
    """Mean over ten equal-width bins of |mean probability - share of positives|, weighted by the bin's size."""
    bins = np.minimum((p * 10).astype(int), 9)
    return float(sum(abs(p[bins == b].mean() - y[bins == b].mean()) * (bins == b).mean() for b in set(bins)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    folder = parser.parse_args().data
    chance = random.Random(20261121)
    embedder = OnnxEmbedder()
    texts, labels, weights = training_set(folder / "train", chance)
    print(f"trained on {len(texts)} texts, {sum(labels)} of them toxic")
    model = LogisticRegression(C=2.0, max_iter=400)
    model.fit(features(texts, embedder), labels, sample_weight=weights)
    dense, sparse = model.coef_[0][: OnnxEmbedder.dimensions], model.coef_[0][OnnxEmbedder.dimensions :]

    dev: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for name in ("openai_moderation", "surge_toxicity", "hatecheck", "xstest_prompts"):
        of_set = rows(folder / "dev" / f"{name}.jsonl.gz")
        made = features([row["answer"] or row["query"] for row in of_set], embedder)
        dev[name] = (model.decision_function(made), np.array([row["label"] for row in of_set]))
    fit_x = np.concatenate([dev[n][0][::2] for n in ("openai_moderation", "surge_toxicity")])
    fit_y = np.concatenate([dev[n][1][::2] for n in ("openai_moderation", "surge_toxicity")])
    platt = LogisticRegression(C=1e6).fit(fit_x[:, None], fit_y)
    slope, shift = float(platt.coef_[0, 0]), float(platt.intercept_[0])

    for name, (logits, y) in dev.items():
        p = 1 / (1 + np.exp(-(slope * logits + shift)))
        line = f"{name:20} n {len(y):5}  flagged at .75: {(p[y == 0] >= 0.75).mean():.3f} of the harmless"
        line += f", {(p[y == 1] >= 0.75).mean():.3f} of the toxic"
        if name != "xstest_prompts":
            line += f"  AUROC {roc_auc_score(y, logits):.3f}  AP {average_precision_score(y, logits):.3f}"
        if name in ("openai_moderation", "surge_toxicity"):
            line += f"  ECE (other half) {expected_calibration_error(p[1::2], y[1::2]):.3f}"
        print(line)

    np.savez_compressed(
        OUT,
        dense=dense.astype(np.float32),
        sparse=sparse.astype(np.float16),
        bias=np.float32(model.intercept_[0]),
        platt=np.array([slope, shift], np.float32),
    )
    print(f"{OUT.name}: {OUT.stat().st_size} bytes, sha256 {hashlib.sha256(OUT.read_bytes()).hexdigest()}")


if __name__ == "__main__":
    main()
