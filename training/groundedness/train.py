"""Train the groundedness head: python training/groundedness/train.py --prepared FOLDER --out FILE.pt

FOLDER is what prepare.py wrote. One tenth of the training sources is kept back for the calibration. Every epoch is
saved, and its figures on dev printed.
"""

from __future__ import annotations

import argparse
import pickle
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from model import Groundedness
from sklearn.metrics import roc_auc_score

from ragtrace.models.answer_features import lexical

MAX_CONTEXT, MAX_ANSWER = 1600, 420


def load(path: Path) -> list[dict[str, Any]]:
    with path.open("rb") as file:
        loaded: list[dict[str, Any]] = pickle.load(file)
    return loaded


def batch(record: dict[str, Any], answers: list[dict[str, Any]]) -> dict[str, Any]:
    """The tensors of some answers to one context."""
    m, q = min(len(record["context"]), MAX_CONTEXT), len(record["query"])
    n = max(1, min(MAX_ANSWER, max(len(a["ids"]) for a in answers)))
    b = len(answers)
    hidden = np.zeros((b, n, 384), np.float32)
    features = np.zeros((b, n, answers[0]["features"].shape[1]), np.float32)
    ids, sentence = np.full((b, n), -1), np.full((b, n), -1)
    labels = np.full((b, n), -100)
    context_features = np.zeros((b, m + q, 5), np.float32)
    context_features[:, m:, 4] = 1
    for i, a in enumerate(answers):
        k = min(n, len(a["ids"]))
        hidden[i, :k], features[i, :k] = a["hidden"][:k], a["features"][:k]
        ids[i, :k], sentence[i, :k], labels[i, :k] = a["ids"][:k], a["sentence"][:k], a["labels"][:k]
        context_features[i, :m, :4] = a["context_features"][:m]
    s = max(1, int(sentence.max()) + 1)
    per_sentence = np.full((b, s), -100)
    for i in range(b):
        for at in range(s):
            inside = labels[i][sentence[i] == at]
            if len(inside):
                per_sentence[i, at] = 2 if (inside == 2).any() else int((inside == 1).any())
    context = np.concatenate([record["context"][:m], record["query"]]).astype(np.float32)
    context_ids = np.concatenate([record["ids"][:m], record["query_ids"]])
    tensors = (hidden, features, ids, sentence, context[None], context_features, context_ids[None].astype(np.int64))
    return {
        "inputs": [torch.from_numpy(t) for t in tensors],
        "sentences": s,
        "labels": torch.from_numpy(labels),
        "sentence_labels": torch.from_numpy(per_sentence),
        "label": torch.tensor([float(a["label"]) for a in answers]),
    }


def predict(model: Groundedness, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Per answer its probabilities, (n, 3) per piece and (s, 3) per sentence, and its own logit."""
    model.eval()
    found = []
    with torch.inference_mode():
        for record in records:
            for start in range(0, len(record["answers"]), 8):
                answers = record["answers"][start : start + 8]
                made = batch(record, answers)
                pieces, sentences, answer = model(*made["inputs"], made["sentences"])
                for i, a in enumerate(answers):
                    k = min(len(a["ids"]), MAX_ANSWER)
                    s = int(a["sentence"][:k].max()) + 1 if k else 0
                    found.append(
                        {
                            **{x: a[x] for x in ("id", "task", "model", "label", "spans", "starts", "ends", "length")},
                            "source": record["source"],
                            "pieces": pieces[i, :k].softmax(-1).numpy(),
                            "sentences": sentences[i, :s].softmax(-1).numpy(),
                            "sentence": a["sentence"][:k],
                            "sentence_labels": made["sentence_labels"][i, :s].numpy(),
                            "answer": float(answer[i]),
                            "lexical": lexical(a["features"][:k].astype(np.float32), list(a["sentence"][:k])),
                        }
                    )
    return found


def scores(found: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """Three ways to one number: the answer's own, its worst sentence, its worst piece."""
    return {
        "answer": np.array([f["answer"] for f in found]),
        "sentence": np.array([(1 - f["sentences"][:, 0]).max(initial=0) for f in found]),
        "piece": np.array([(1 - f["pieces"][:, 0]).max(initial=0) for f in found]),
    }


def character_f1(found: list[dict[str, Any]], threshold: float) -> float:
    hit = said = true = 0
    for f in found:
        gold = np.zeros(f["length"] + 1, bool)
        for a, b in f["spans"]:
            gold[a:b] = True
        mine = np.zeros_like(gold)
        bad = 1 - f["pieces"][:, 0] >= threshold
        for i in np.flatnonzero(bad):
            mine[f["starts"][i] : f["ends"][i]] = True
            if i + 1 < len(bad) and bad[i + 1]:
                mine[f["ends"][i] : f["starts"][i + 1]] = True
        hit, said, true = hit + int((gold & mine).sum()), said + int(mine.sum()), true + int(gold.sum())
    return 2 * hit / max(1, said + true)


def report(name: str, found: list[dict[str, Any]]) -> None:
    y = np.array([f["label"] for f in found])
    task = np.array([f["task"] for f in found])
    cell = np.array([f"{f['task']}/{f['model']}" for f in found])
    for kind, s in scores(found).items():
        line = f"  {name} {kind:8} AUROC {roc_auc_score(y, s):.3f}"
        if len(set(task)) > 1:
            per = [roc_auc_score(y[task == t], s[task == t]) for t in sorted(set(task))]
            inside = [
                roc_auc_score(y[cell == c], s[cell == c])
                for c in sorted(set(cell))
                if 5 <= y[cell == c].sum() <= (cell == c).sum() - 5
            ]
            line += f" tasks {' '.join(f'{p:.3f}' for p in per)} mean {np.mean(per):.3f} cells {np.mean(inside):.3f}"
        print(line, flush=True)
    if any(f["spans"] for f in found):
        best = max((character_f1(found, t), t) for t in (0.2, 0.3, 0.4, 0.5, 0.6, 0.7))
        print(f"  {name} character F1 {best[0]:.3f} at {best[1]}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prepared", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--rate", type=float, default=4e-4)
    parser.add_argument("--dropout", type=float, default=0.15)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=int, default=0, help="sources in an epoch, for a trial")
    parser.add_argument("--sets", default="ragtruth_dev,qags_cnndm,begin_cmu,wice")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    chance = random.Random(options.seed)
    train = load(options.prepared / "train.pickle")
    sources = sorted({r["source"] for r in train})
    random.Random(7).shuffle(sources)
    kept = set(sources[: len(sources) // 10])
    train = [r for r in train if r["source"] not in kept]
    dev = {name: load(options.prepared / f"{name}.pickle") for name in options.sets.split(",")}
    model = Groundedness(options.width, layers=options.layers, dropout=options.dropout)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters, {len(train)} contexts", flush=True)
    optimiser = torch.optim.AdamW(model.parameters(), lr=options.rate, weight_decay=0.02)
    per_epoch = options.limit or len(train)
    total = options.epochs * per_epoch
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, options.rate, total, pct_start=0.08)
    weights = torch.tensor([1.0, 2.0, 2.0])
    average = {k: v.clone() for k, v in model.state_dict().items()}
    done = 0
    for epoch in range(options.epochs):
        model.train()
        chance.shuffle(train)
        begun, sums = time.time(), np.zeros(3)
        for record in train[:per_epoch]:
            made = batch(record, record["answers"][:9])
            pieces, sentences, answer = model(*made["inputs"], made["sentences"])
            losses = (
                F.cross_entropy(pieces.flatten(0, 1), made["labels"].flatten(), weights, ignore_index=-100),
                F.cross_entropy(sentences.flatten(0, 1), made["sentence_labels"].flatten(), weights, ignore_index=-100),
                F.binary_cross_entropy_with_logits(answer, made["label"]),
            )
            loss = losses[0] + losses[1] + 0.5 * losses[2]
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            sums += [x.item() for x in losses]
            done += 1
            decay = min(0.998, (1 + done) / (10 + done))
            with torch.no_grad():
                for k, v in model.state_dict().items():
                    average[k].lerp_(v, 1 - decay)
            if done % 200 == 0:
                rate = (time.time() - begun) / (done - epoch * per_epoch)
                print(f"  {done}/{total} losses {sums / (done - epoch * per_epoch)} {rate:.2f} s each", flush=True)
        raw = {k: v.clone() for k, v in model.state_dict().items()}
        model.load_state_dict(average)
        torch.save({"state": model.state_dict(), "width": options.width, "layers": options.layers}, options.out)
        print(f"epoch {epoch + 1}: {time.time() - begun:.0f} s, mean losses {sums / per_epoch}", flush=True)
        for name, records in dev.items():
            records = records[:250] if name == "ragtruth_dev" and epoch + 1 < options.epochs else records
            report(name, predict(model, records))
        model.load_state_dict(raw)


if __name__ == "__main__":
    main()
