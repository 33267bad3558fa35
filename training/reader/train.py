"""Train the reader: python training/reader/train.py --rows build/reader --start FOLDER --tokens 12

Starts two processes of one thread each, in bf16 where the processor multiplies it (without, it is emulated, and ten
times slower). Saves every ten minutes to ROWS/reader.pt with the optimiser's
state, and goes on from there when it is started again. `--init FILE` starts from the weights of another checkpoint.
Each evaluation prints AUROC and pairs (the share of right-wrong pairs of one question in which the wrong answer scores
worse) of the validation cases.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import random
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from model import Reader, start
from rows import Row
from sklearn.metrics import roc_auc_score
from torch import Tensor
from torch.nn import functional

MIX = {"cases": 0.38, "ragtruth": 0.37, "ground": 0.16, "relevance": 0.05, "nli": 0.04}
"""Shares of the word pieces, after the inference pairs that come first."""
_PROCESSOR = Path("/proc/cpuinfo")
BF16 = _PROCESSOR.exists() and any(f in _PROCESSOR.read_text() for f in ("avx512_bf16", "amx_bf16"))
_FRESH = 2
"""How often the cases of the files targeted_* come for each time that another one comes."""
_STEP = 2_600
"""Word pieces of a step in each process, padding among them."""


class Stream:
    """Endless batches of rows of like length. Rows of one question stay together."""

    def __init__(self, rows: Sequence[Row], part: slice, seed: int) -> None:
        units: dict[Any, list[Row]] = defaultdict(list)
        for i, row in enumerate(rows):
            units[row.group or i].append(row)
        mine = list(units.values())[part]
        self.units = [u for u in mine for _ in range(_FRESH if u[0].group.startswith("targeted") else 1)]
        self.random = random.Random(seed)
        self.waiting: list[list[Row]] = []
        self.order: list[int] = []

    def next(self) -> list[Row]:
        if not self.waiting:
            if not self.order:
                self.order = list(range(len(self.units)))
                self.random.shuffle(self.order)
            taken, self.order = [self.units[i] for i in self.order[:500]], self.order[500:]
            taken.sort(key=_longest)
            batch: list[Row] = []
            for unit in taken:
                if batch and max(_longest(batch), _longest(unit)) * (len(batch) + len(unit)) > _STEP:
                    self.waiting.append(batch)
                    batch = []
                batch = batch + unit
            self.waiting.append(batch)
            self.random.shuffle(self.waiting)
        return self.waiting.pop()


def _longest(rows: Sequence[Row]) -> int:
    return max(len(r.ids) for r in rows)


def tensors(rows: Sequence[Row]) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """ids (b, n), mask (b, n), owner (c,), claims (c, n), and labels of the claims (c,)."""
    width = _longest(rows)
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    mask = torch.zeros(len(rows), width, dtype=torch.long)
    claims = [(i, r.at + a, r.at + b, bad) for i, r in enumerate(rows) for a, b, bad in r.claims]
    claims = claims or [(0, 0, 1, -1)]
    places = torch.zeros(len(claims), width)
    for i, row in enumerate(rows):
        ids[i, : len(row.ids)] = torch.tensor(row.ids)
        mask[i, : len(row.ids)] = 1
    for k, (_, a, b, _) in enumerate(claims):
        places[k, a:b] = 1
    owner = torch.tensor([c[0] for c in claims])
    return ids, mask, owner, places, torch.tensor([float(c[3]) for c in claims])


def loss_of(reader: Reader, rows: Sequence[Row], frozen: int) -> tuple[Tensor, int]:
    """The sum of the losses, and the word pieces."""
    ids, mask, owner, places, labels = tensors(rows)
    with torch.autocast("cpu", torch.bfloat16, enabled=BF16):
        answers, claims, words = (t.float() for t in reader(ids, mask, owner, places, frozen))
    absent = torch.tensor([float(r.absent) for r in rows])
    total = _known(answers[:, 0], [r.bad for r in rows])
    total = total + 0.3 * _known(answers[:, 1], absent.tolist(), turned=True)
    total = total + 0.5 * _known(answers[:, 2], [r.off_topic for r in rows])
    total = total + 0.7 * _known(answers[:, 3], [r.beside for r in rows])
    total = total + 0.7 * _known(claims[:, 0], labels.tolist())
    of_claims = torch.where(labels == 1, absent[owner], torch.tensor(-1.0))
    total = total + 0.3 * _known(claims[:, 1], of_claims.tolist(), turned=True)
    marks = torch.full(words.shape, -1.0)
    for i, row in enumerate(rows):
        if row.words:
            marks[i, row.at : row.at + len(row.words)] = torch.tensor(row.words, dtype=torch.float)
    if (known := marks >= 0).any():
        weight = torch.tensor(3.0)
        total = total + 0.3 * functional.binary_cross_entropy_with_logits(words[known], marks[known], pos_weight=weight)
    pairs = ranked(rows)
    if pairs:
        good, bad = torch.tensor(pairs).T
        total = total + 0.5 * functional.softplus(answers[good, 0] - answers[bad, 0]).mean()
    return total, int(mask.sum())


def _known(logits: Tensor, labels: Sequence[float], turned: bool = False) -> Tensor:
    """Cross-entropy where the label is known; `turned`: of its opposite."""
    wanted = torch.tensor([float(v) for v in labels])
    known = wanted >= 0
    if not known.any():
        return logits.sum() * 0
    wanted = 1 - wanted if turned else wanted
    return functional.binary_cross_entropy_with_logits(logits[known], wanted[known])


def ranked(rows: Sequence[Row]) -> list[tuple[int, int]]:
    """(good, bad) indexes of one question."""
    groups: dict[str, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for i, row in enumerate(rows):
        if row.group and row.bad >= 0:
            groups[row.group][row.bad].append(i)
    return [(i, j) for good, bad in groups.values() for i in good for j in bad]


@torch.no_grad()
def scores(reader: Reader, rows: Sequence[Row], size: int = 16) -> tuple[Tensor, list[Tensor]]:
    """(n, 4) of the answers, and per row (c, 2) of its claims."""
    reader.eval()
    order = sorted(range(len(rows)), key=lambda i: len(rows[i].ids))
    out = torch.zeros(len(rows), 4)
    claims: list[Tensor] = [torch.zeros(0, 2)] * len(rows)
    for at in range(0, len(order), size):
        part = order[at : at + size]
        ids, mask, owner, places, _ = tensors([rows[i] for i in part])
        out[part], found, _ = reader(ids, mask, owner, places)
        for k, i in enumerate(part):
            claims[i] = found[owner == k]
    reader.train()
    return out, claims


def report(reader: Reader, rows: dict[str, list[Row]]) -> str:
    """Figures of the validation rows."""
    cases = rows["validation"]
    answers, claims = scores(reader, cases)
    bad = torch.tensor([r.bad for r in cases]) == 1
    texts = []
    worst = torch.stack([c[:, 0].max() if len(c) else a[0] for a, c in zip(answers, claims, strict=True)])
    for name, z in (("answer", answers[:, 0]), ("claim", worst), ("both", answers[:, 0] + worst)):
        pairs = [float(z[j] > z[i]) for i, j in ranked(cases)]
        texts.append(f"{name} {roc_auc_score(bad, z):.3f} {sum(pairs) / len(pairs):.3f}")
    kinds = sorted({r.kind for r in cases if r.bad == 1}, key=lambda k: -sum(r.kind == k for r in cases))[:16]
    limit = answers[~bad, 0].quantile(0.92)
    caught = {k: float((answers[[r.kind == k for r in cases], 0] > limit).float().mean()) for k in kinds}
    return " | ".join(texts) + " | " + " ".join(f"{k} {v:.2f}" for k, v in caught.items())


def worker(given: argparse.Namespace, rank: int) -> None:
    """One process of the training."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{given.port}", rank=rank, world_size=given.processes)
    streams = pickle.loads((given.rows / "rows.pickle").read_bytes())
    reader = start(given.start, json.loads((given.rows / "kept.json").read_text()))
    reader.words.weight.requires_grad = False
    state: dict[str, Any] = {"tokens": 0, "step": 0}
    path = given.rows / f"{given.name}.pt"
    if given.init and not path.exists():
        reader.load_state_dict(torch.load(given.init, map_location="cpu")["model"], strict=False)
    parameters = [p for p in reader.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(
        [
            {"params": [p for p in parameters if p.ndim > 1], "weight_decay": 0.01},
            {"params": [p for p in parameters if p.ndim == 1], "weight_decay": 0.0},
        ],
        lr=given.rate, betas=(0.9, 0.98), eps=1e-6,
    )  # fmt: skip
    if path.exists():
        saved = torch.load(path, map_location="cpu")
        reader.load_state_dict(saved["model"], strict=False)
        optimiser.load_state_dict(saved["optimiser"])
        state = saved["state"]
    feeds = {
        k: Stream(streams[k], slice(rank, None, given.processes), 100 * rank + state["step"] + given.seed) for k in MIX
    }
    used: Counter[str] = Counter()
    target, first = given.tokens * 1e6, state["tokens"]
    average, began, last = None, time.time(), time.time()
    reader.train()
    while state["tokens"] < target:
        at = state["tokens"]
        warm = min(1.0, (state["step"] + 1) / 60)
        rate = given.rate * warm * min(1.0, max(0.03, (target - at) / (target * given.decay)))
        for group in optimiser.param_groups:
            group["lr"] = rate
        total = sum(used.values()) + 1
        kind = "nli" if at < given.pairs_first * 1e6 else max(MIX, key=lambda k: MIX[k] - used[k] / total)
        loss, pieces = loss_of(reader, feeds[kind].next(), given.frozen)
        loss.backward()
        used[kind] += pieces
        count = torch.tensor([float(pieces), time.time() - last])
        flat = torch.cat([(p.grad if p.grad is not None else torch.zeros_like(p)).reshape(-1) for p in parameters])
        dist.all_reduce(flat)
        dist.all_reduce(count)
        flat /= given.processes
        place = 0
        for p in parameters:
            p.grad = flat[place : place + p.numel()].view_as(p)
            place += p.numel()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        optimiser.zero_grad()
        state["tokens"] += int(count[0])
        state["step"] += 1
        average = loss.item() if average is None else 0.98 * average + 0.02 * loss.item()
        if rank == 0 and state["step"] % 20 == 0:
            speed = (state["tokens"] - first) / (time.time() - began)
            print(f"{state['step']} {at / 1e6:.2f}M loss {average:.3f} rate {rate:.1e} {speed:.0f}/s", flush=True)
        if float(count[1]) / given.processes > given.save_seconds:
            if rank == 0:
                _save(path, reader, optimiser, state)
            if given.evaluate and rank == 0:
                print(f"[{at / 1e6:.2f}M] {report(reader, streams)}", flush=True)
            last = time.time()
    if rank == 0:
        _save(path, reader, optimiser, state)
        print(f"[end] {report(reader, streams)}", flush=True)


def _save(path: Path, reader: Reader, optimiser: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Written beside and renamed, so that an end in the middle leaves the checkpoint before."""
    beside = path.with_suffix(".part")
    torch.save({"model": reader.state_dict(), "optimiser": optimiser.state_dict(), "state": state}, beside)
    beside.replace(path)


def main() -> None:
    """Start the processes, or be one of them (RANK)."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--start", type=Path, required=True)
    parser.add_argument("--init", type=Path)
    parser.add_argument("--name", default="reader")
    parser.add_argument("--tokens", type=float, default=12.0, help="word pieces in millions")
    parser.add_argument(
        "--pairs-first", type=float, default=1.6, help="millions of word pieces of inference pairs alone"
    )
    parser.add_argument("--rate", type=float, default=9e-5)
    parser.add_argument("--decay", type=float, default=0.25, help="share at the end in which the rate falls")
    parser.add_argument("--frozen", type=int, default=0, help="layers that are not trained, from the first")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--port", type=int, default=29_511)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--save-seconds", type=float, default=600)
    parser.add_argument("--evaluate", action=argparse.BooleanOptionalAction, default=True)
    given = parser.parse_args()
    if "RANK" in os.environ:
        worker(given, int(os.environ["RANK"]))
        return
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    started = [
        subprocess.Popen([sys.executable, *sys.argv], env=environment | {"RANK": str(rank)})
        for rank in range(given.processes)
    ]
    sys.exit(max(p.wait() for p in started))


if __name__ == "__main__":
    main()
