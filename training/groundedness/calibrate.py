"""Combine what the head and the words say, and make probabilities of it.

    python training/groundedness/calibrate.py --data FOLDER --cases FILE.jsonl ... --cache FILE

Uses only what no part was trained on: the tenth of RAGTruth's training sources that is kept back, one group of the
cases in seven, and dev. Adds `claim` to ragtrace/models/data/groundedness.npz; run training/checksums.py
afterwards. Prints figures on dev beside counting words.
"""

from __future__ import annotations

import argparse
import functools
import gzip
import json
import pickle
import random
import zlib
from multiprocessing import Pool
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from ragtrace.evaluators.refusals import declines, read_answer
from ragtrace.models.claim_features import ClaimColumn, ContextFacts
from ragtrace.models.support import Question, SupportModel, compare

NPZ = Path(__file__).parents[2] / "ragtrace" / "models" / "data" / "groundedness.npz"
DEV = {"ragtruth_dev": 420, "qags_cnndm": 235, "begin_cmu": 200, "begin_wow": 55, "wice": 120}

Row = dict[str, Any]


def rows(path: Path) -> list[Row]:
    """The objects of a file of JSON lines, gzipped or not."""
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    return [json.loads(line) for line in text.split("\n") if line]


_model = functools.cache(SupportModel)


def by_head(row: Row) -> Row | None:
    """What a row's answer looks like to the head; None where nothing is judged."""
    reading = read_answer(row["answer"])
    if declines(reading) or not reading.claims:
        return None
    spans = [(s.start, s.end) for s in reading.statements]
    question = Question(row.get("query") or "", reading.text, spans, row["contexts"])
    head = _model().measure(question)
    if head is None:
        return None
    touched = [any(x["start"] < b and x["end"] > a for x in row.get("spans") or []) for a, b in spans]
    is_claim = np.array([s.kind == "claim" for s in reading.statements])
    return {
        "set": row["set"],
        "group": str(row["group"]),
        "category": row.get("category", ""),
        "label": int(row["label"]),
        "question": question,
        "head": head,
        "is_claim": is_claim,
        "bad": np.array(touched)[is_claim] if row["set"].startswith("ragtruth") else None,
    }


def compared(row: Row) -> Row:
    """The same with what the trees and the words say."""
    question = row["question"]
    claims = compare(question, ContextFacts(question.chunks, question.query), row["head"].statements[:, 0])
    return {**row, "claims": claims[row["is_claim"]], "answer": row["head"].answer}


def labelled(options: argparse.Namespace) -> list[Row]:
    """All rows, those to fit on and those of dev."""
    out: list[Row] = []
    foreign: list[Row] = []
    chance = random.Random(3)
    train = rows(options.data / "train" / "ragtruth_train.jsonl.gz")
    sources = sorted({r["source_id"] for r in train})
    random.Random(7).shuffle(sources)
    kept = set(sources[: len(sources) // 10][: options.sources])
    out += [{**r, "set": "ragtruth_kept", "group": r["source_id"]} for r in train if r["source_id"] in kept]
    for path in options.cases:
        cases = rows(path)
        for number, row in enumerate(cases):
            group = f"{path.stem}-{number}"
            if zlib.crc32(group.encode()) % 7 == 0:
                for item in row["items"]:
                    base = {
                        "set": path.parent.name,
                        "group": group,
                        "category": item["kind"],
                        "contexts": row["contexts"],
                    }
                    out.append({**base, "query": item["q"], "answer": item["a"], "label": 1 - item["ok"]})
                # A right answer of another case, as in `foreign_answers` of training/entailment/pairs.py.
                other = cases[(number + len(cases) // 2) % len(cases)]["items"]
                answers = [i["a"] for i in other if i["ok"] and 4 <= len(i["a"].split()) <= 25]
                foreign += [
                    {**base, "category": "foreign", "query": item["q"], "answer": answer, "label": 1}
                    for item, answer in zip(row["items"][:2], answers[1:3], strict=False)
                ]
    for name, limit in DEV.items():
        loaded = rows(options.data / "dev" / f"{name}.jsonl.gz")
        chance.shuffle(loaded)
        out += [{**r, "set": name, "group": r["source_id"], "category": r["task"]} for r in loaded[:limit]]
    for name in ("rag", "rag_long_pairs"):
        for r in rows(options.data / "dev" / "handmade" / f"{name}.jsonl"):
            if r["expect"] in ("pass", "fail"):
                out.append({**r, "set": name, "group": r["id"], "label": int(r["expect"] == "fail")})
    return out + foreign


def fit(x: np.ndarray, bad: np.ndarray, weight: np.ndarray, strength: float) -> np.ndarray:
    """(k + 1,) weights and bias of the probability of not bad."""
    scale = StandardScaler().fit(x)
    model = LogisticRegression(C=strength, max_iter=2000).fit(scale.transform(x), ~bad, sample_weight=weight)
    weights = model.coef_[0] / scale.scale_
    return np.append(weights, model.intercept_[0] - (model.coef_[0] * scale.mean_ / scale.scale_).sum())


def ece(p: np.ndarray, y: np.ndarray) -> float:
    """Expected calibration error in ten bins."""
    bins = np.minimum((p * 10).astype(int), 9)
    return float(sum(abs(p[bins == b].mean() - y[bins == b].mean()) * (bins == b).mean() for b in set(bins)))


def claim_weights(found: list[Row], strength: float) -> np.ndarray:
    """Weights of a claim's features; each set counts as much as the others."""
    x, bad, sets = [], [], []
    for row in found:
        if row["set"] == "ragtruth_kept":
            x += list(row["claims"])
            bad += list(row["bad"])
            sets += ["ragtruth_kept"] * len(row["bad"])
        elif row["set"] != "ragtruth_dev" and (len(row["claims"]) == 1 or not row["label"]):
            x += list(row["claims"])
            bad += [bool(row["label"])] * len(row["claims"])
            sets += [row["set"]] * len(row["claims"])
    names = np.array(sets)
    size = {"ragtruth_kept": 4.0, "cases": 0.7, "harder_cases": 3.0, "rag": 1.0, "rag_long_pairs": 0.5}
    weight = np.array([size.get(s, 0.6) / (names == s).sum() for s in sets]) * len(sets) / 10
    return fit(np.array(x), np.array(bad), weight, strength)


def supports(row: Row, weights: np.ndarray) -> np.ndarray:
    """(s,) the probability of each claim of a row."""
    p: np.ndarray = 1 / (1 + np.exp(-(row["claims"] @ weights[:-1] + weights[-1])))
    return p


def report(found: list[Row], weights: np.ndarray) -> None:
    for name in dict.fromkeys(r["set"] for r in found):
        of_set = [r for r in found if r["set"] == name]
        y = np.array([r["label"] for r in of_set])
        if len(set(y)) < 2:
            continue
        p = np.array([supports(r, weights).min() for r in of_set])
        mean = np.array([supports(r, weights).mean() for r in of_set])
        head = np.array([r["claims"][:, ClaimColumn.HEAD].min() for r in of_set])
        words = np.array([r["claims"][:, ClaimColumn.WORDS].min() for r in of_set])
        scores = {"min": p, "mean": mean, "head": head, "words": words}
        line = " ".join(f"{k} {roc_auc_score(1 - y, s):.3f}" for k, s in scores.items())
        bar = np.quantile(p[y == 0], 0.1)
        caught = np.mean(p[y == 1] < bar)
        print(f"{name:15} n {len(y):4} AUROC {line}")
        print(f"    at 10 % false alarms (< {bar:.2f}) {caught:.2f} caught")
        print(f"    ECE of min {ece(p, 1 - y):.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cases", type=Path, nargs="+", required=True)
    parser.add_argument("--cache", type=Path, required=True, help="file for what the head says, made once")

    parser.add_argument("--sources", type=int, default=120, help="kept sources of RAGTruth")
    options = parser.parse_args()
    if options.cache.exists():
        of_head = pickle.loads(options.cache.read_bytes())
    else:
        with Pool() as pool:
            of_head = [row for row in pool.imap(by_head, labelled(options), chunksize=20) if row is not None]
        options.cache.write_bytes(pickle.dumps(of_head))
    with Pool() as pool:
        found = pool.map(compared, of_head, chunksize=20)
    weights = claim_weights(found, 0.3)
    for column, weight in zip([*(c.name for c in ClaimColumn), "BIAS"], weights, strict=True):
        print(f"  {column} {weight:.3f}")
    report(found, weights)
    marked = [
        (p, bad) for r in found if r["bad"] is not None for p, bad in zip(supports(r, weights), r["bad"], strict=True)
    ]
    low = {kind: np.mean([p < 0.6 for p, bad in marked if bad == kind]) for kind in (False, True)}
    print(f"claims below 0.6: {low[False]:.3f} of the good, {low[True]:.3f} of the bad")
    with np.load(NPZ) as saved:
        kept = dict(saved)
    np.savez(NPZ, **{**kept, "claim": weights.astype(np.float64)})


if __name__ == "__main__":
    main()
