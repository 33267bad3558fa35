"""Train the reader: python training/reader/train.py --rows build/reader --start FOLDER --tokens 12

On a CPU it starts two processes of one thread each, in bf16 where the processor multiplies it (without, it is emulated,
and ten times slower). On a GPU (CUDA) it is one process, with `--step 16000 --loaders 12`. Saves every ten minutes to
ROWS/reader.pt with the optimiser's state, and goes on from there when it is started again. `--init FILE` starts from
the weights of another checkpoint. Each evaluation prints AUROC and pairs (the share of right-wrong pairs of one
question in which the wrong answer scores worse) of the validation cases, by the moving average of the weights.
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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from model import CONTRADICTED, Reader, start
from rows import Row
from sklearn.metrics import roc_auc_score
from torch import Tensor
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

MIX = {
    "cases": 0.32, "tools": 0.10, "tables": 0.10, "ragtruth": 0.23, "ground": 0.13, "relevance": 0.07, "nli": 0.05,
}  # fmt: skip
"""Shares of the word pieces, after the inference pairs that come first. `tools` are also among the cases."""
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
_PROCESSOR = Path("/proc/cpuinfo")
BF16 = DEVICE == "cuda" or any(f in _PROCESSOR.read_text() for f in ("avx512_bf16", "amx_bf16"))
_FRESH = 2
"""How often the cases of the files targeted_* come for each time that another one comes."""
_ANSWER_WEIGHTS = (1.0, 0.3, 0.5, 0.7)
"""What the losses of the answer's four outputs weigh."""


class Batch(NamedTuple):
    """Rows as tensors. Labels: 1, 0, or -1 where it is not known."""

    ids: Tensor
    """(b, n)"""
    mask: Tensor
    """(b, n)"""
    owner: Tensor
    """(c,) the row of each claim"""
    places: Tensor
    """(c, n) 1 at the pieces of each claim"""
    claims: Tensor
    """(c, 2) labels: not supported; contradicted"""
    answers: Tensor
    """(b, 4) labels of the answer's outputs"""
    words: Tensor
    """(b, n) labels of the word pieces"""
    pairs: Tensor
    """(p, 2) rows of one question, a right and a wrong one"""

    def moved(self) -> Batch:
        return Batch(*(t.to(DEVICE, non_blocking=True) for t in self))


def batch_of(rows: Sequence[Row]) -> Batch:
    """The rows as tensors; their length is filled up to a multiple of eight."""
    width = -(-_longest(rows) // 8) * 8
    ids, mask = torch.zeros(len(rows), width, dtype=torch.long), torch.zeros(len(rows), width, dtype=torch.long)
    words = torch.full((len(rows), width), -1.0)
    answers = torch.tensor([[float(r.bad), _turned(r.absent), float(r.off_topic), float(r.beside)] for r in rows])
    claims = [(i, r.at + a, r.at + b, bad) for i, r in enumerate(rows) for a, b, bad in r.claims] or [(0, 0, 1, -1)]
    places = torch.zeros(len(claims), width)
    labels = torch.tensor([[float(c[3]), _turned(rows[c[0]].absent) if c[3] == 1 else -1.0] for c in claims])
    for i, row in enumerate(rows):
        ids[i, : len(row.ids)] = torch.tensor(row.ids)
        mask[i, : len(row.ids)] = 1
        if row.words:
            words[i, row.at : row.at + len(row.words)] = torch.tensor(row.words, dtype=torch.float)
    for k, (_, a, b, _) in enumerate(claims):
        places[k, a:b] = 1
    owner = torch.tensor([c[0] for c in claims])
    return Batch(ids, mask, owner, places, labels, answers, words, torch.tensor(ranked(rows)).reshape(-1, 2))


def _turned(label: int) -> float:
    return 1.0 - label if label >= 0 else -1.0


class Stream:
    """Endless batches of rows of like length. Rows of one question stay together."""

    def __init__(self, rows: Sequence[Row], part: slice, seed: int, step: int) -> None:
        units: dict[Any, list[Row]] = defaultdict(list)
        for i, row in enumerate(rows):
            units[row.group or i].append(row)
        mine = list(units.values())[part]
        self.units = [u for u in mine for _ in range(_FRESH if u[0].group.startswith("targeted") else 1)]
        self.random, self.step = random.Random(seed), step
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
                if batch and max(_longest(batch), _longest(unit)) * (len(batch) + len(unit)) > self.step:
                    self.waiting.append(batch)
                    batch = []
                batch = batch + unit
            self.waiting.append(batch)
            self.random.shuffle(self.waiting)
        return self.waiting.pop()


def _longest(rows: Sequence[Row]) -> int:
    return max(len(r.ids) for r in rows)


class Mixed(IterableDataset):  # type: ignore[misc]
    """Batches of all streams by their shares; the inference pairs come first."""

    def __init__(self, streams: dict[str, list[Row]], given: argparse.Namespace, rank: int, tokens: int) -> None:
        self.streams, self.given, self.rank, self.tokens = streams, given, rank, tokens

    def __iter__(self) -> Iterator[Batch]:
        torch.set_num_threads(1)
        info = get_worker_info()
        loaders, number = (info.num_workers, info.id) if info else (1, 0)
        parts = loaders * self.given.processes
        place = self.rank * loaders + number
        seed = 100 * place + self.tokens + self.given.seed
        mix = self.given.mix
        feeds = {k: Stream(self.streams[k], slice(place, None, parts), seed, self.given.step) for k in mix}
        used: Counter[str] = Counter()
        while True:
            total = sum(used.values()) + 1
            pairs_first = self.tokens + total * parts < self.given.pairs_first * 1e6
            kind = "nli" if pairs_first else max(mix, key=lambda k: mix[k] - used[k] / total)
            rows = feeds[kind].next()
            used[kind] += sum(len(r.ids) for r in rows)
            yield batch_of(rows)


def loss_of(reader: Reader, batch: Batch, frozen: int) -> Tensor:
    """The sum of the losses."""
    with torch.autocast(DEVICE, torch.bfloat16, enabled=BF16):
        answers, claims, words = (t.float() for t in reader(batch.ids, batch.mask, batch.owner, batch.places, frozen))
    total = 0.7 * _known(claims[:, 0], batch.claims[:, 0]) + 0.3 * _known(claims[:, 1], batch.claims[:, 1])
    for i, weight in enumerate(_ANSWER_WEIGHTS):
        total = total + weight * _known(answers[:, i], batch.answers[:, i])
    total = total + 0.3 * _known(words, batch.words, of_faults=3.0)
    if len(batch.pairs):
        good, bad = batch.pairs.T
        total = total + 0.5 * functional.softplus(answers[good, 0] - answers[bad, 0]).mean()
    return total


def _known(logits: Tensor, labels: Tensor, of_faults: float = 1.0) -> Tensor:
    """Cross-entropy where the label is known."""
    known = (labels >= 0).float()
    each = functional.binary_cross_entropy_with_logits(
        logits, labels.clamp(min=0), reduction="none", pos_weight=torch.tensor(of_faults, device=logits.device)
    )
    return (each * known).sum() / known.sum().clamp(min=1)


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
        batch = batch_of([rows[i] for i in part]).moved()
        with torch.autocast(DEVICE, torch.bfloat16, enabled=BF16):
            answers, found, _ = (t.float().cpu() for t in reader(batch.ids, batch.mask, batch.owner, batch.places))
        out[part], owner = answers, batch.owner.cpu()
        for k, i in enumerate(part):
            claims[i] = found[owner == k]
    return out, claims


def report(reader: Reader, cases: list[Row]) -> str:
    """Figures of the validation rows."""
    answers, claims = scores(reader, cases, 16 if DEVICE == "cpu" else 128)
    bad = torch.tensor([r.bad for r in cases]) == 1
    texts = []
    worst = torch.stack([c[:, 0].max() if len(c) else a[0] for a, c in zip(answers, claims, strict=True)])
    for name, z in (("answer", answers[:, 0]), ("claim", worst), ("both", answers[:, 0] + worst)):
        pairs = [float(z[j] > z[i]) for i, j in ranked(cases)]
        texts.append(f"{name} {roc_auc_score(bad, z):.3f} {sum(pairs) / len(pairs):.3f}")
    known = torch.tensor([r.absent for r in cases]) >= 0
    absent = torch.tensor([r.absent for r in cases])[known]
    texts.append(f"contradicted {roc_auc_score(absent == 0, answers[known, CONTRADICTED]):.3f}")
    kinds = sorted({r.kind for r in cases if r.bad == 1}, key=lambda k: -sum(r.kind == k for r in cases))[:16]
    limit = answers[~bad, 0].quantile(0.92)
    caught = {k: float((answers[[r.kind == k for r in cases], 0] > limit).float().mean()) for k in kinds}
    return " | ".join(texts) + " | " + " ".join(f"{k} {v:.2f}" for k, v in caught.items())


def worker(given: argparse.Namespace, rank: int) -> None:
    """One process of the training."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    if given.processes > 1:
        address = f"tcp://127.0.0.1:{given.port}"
        dist.init_process_group("gloo", init_method=address, rank=rank, world_size=given.processes)
    streams = pickle.loads((given.rows / "rows.pickle").read_bytes())
    reader = start(given.start, json.loads((given.rows / "kept.json").read_text()), given.dropout).to(DEVICE)
    reader.words.weight.requires_grad = False
    state: dict[str, Any] = {"tokens": 0, "step": 0}
    path = given.rows / f"{given.name}.pt"
    if given.init and not path.exists():
        reader.load_state_dict(torch.load(given.init, map_location=DEVICE)["model"], strict=False)
    parameters = [p for p in reader.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(
        [
            {"params": [p for p in parameters if p.ndim > 1], "weight_decay": 0.01},
            {"params": [p for p in parameters if p.ndim == 1], "weight_decay": 0.0},
        ],
        lr=given.rate, betas=(0.9, 0.98), eps=1e-6, fused=DEVICE == "cuda",
    )  # fmt: skip
    average = AveragedModel(reader, multi_avg_fn=get_ema_multi_avg_fn(given.average))
    if path.exists():
        saved = torch.load(path, map_location=DEVICE)
        reader.load_state_dict(saved["model"], strict=False)
        average.load_state_dict(saved["average"])
        optimiser.load_state_dict(saved["optimiser"])
        state = saved["state"]
    feed = DataLoader(
        Mixed(streams, given, rank, state["tokens"]), batch_size=None, num_workers=given.loaders,
        pin_memory=DEVICE == "cuda", prefetch_factor=4 if given.loaders else None,
    )  # fmt: skip
    target, first = given.tokens * 1e6, state["tokens"]
    mean, began, last = None, time.time(), time.time()
    for batch in feed:
        # With --minutes the rate falls by the clock where that ends first.
        done = max(state["tokens"] / target, (time.time() - began) / 60 / given.minutes)
        if done >= 1:
            break
        rate = given.rate * min(1.0, (state["step"] + 1) / 100, max(0.02, (1 - done) / given.decay))
        for group in optimiser.param_groups:
            group["lr"] = rate
        loss = loss_of(reader, batch.moved(), given.frozen)
        loss.backward()
        count = torch.tensor([float(batch.mask.sum()), time.time() - last])
        if given.processes > 1:
            _shared(parameters, count, given.processes)
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        optimiser.zero_grad()
        average.update_parameters(reader)
        state["tokens"] += int(count[0])
        state["step"] += 1
        mean = loss.detach() if mean is None else torch.lerp(mean, loss.detach(), 0.02)
        if rank == 0 and state["step"] % given.print_every == 0:
            speed = (state["tokens"] - first) / (time.time() - began)
            print(f"{state['step']} {state['tokens'] / 1e6:.2f}M loss {mean:.3f} {rate:.1e} {speed:.0f}/s", flush=True)
        if float(count[1]) / given.processes > given.save_seconds:
            if rank == 0:
                _save(path, reader, average, optimiser, state)
                print(f"[{state['tokens'] / 1e6:.2f}M] {report(average.module, streams['validation'])}", flush=True)
            last = time.time()
    if rank == 0:
        _save(path, reader, average, optimiser, state)
        print(f"[end] {report(average.module, streams['validation'])}", flush=True)


def _shared(parameters: Sequence[torch.nn.Parameter], count: Tensor, processes: int) -> None:
    """Give each process the mean of all gradients, and the sum of `count`."""
    flat = torch.cat([(p.grad if p.grad is not None else torch.zeros_like(p)).reshape(-1) for p in parameters])
    dist.all_reduce(flat)
    dist.all_reduce(count)
    place = 0
    for p in parameters:
        p.grad = flat[place : place + p.numel()].view_as(p) / processes
        place += p.numel()


def _save(path: Path, reader: Reader, average: Any, optimiser: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Written beside and renamed, so that an end in the middle leaves the checkpoint before."""
    beside = path.with_suffix(".part")
    saved = {"model": reader, "average": average, "optimiser": optimiser}
    torch.save({k: v.state_dict() for k, v in saved.items()} | {"state": state}, beside)
    beside.replace(path)


def main() -> None:
    """Start the processes, or be one of them (RANK)."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--start", type=Path, required=True)
    parser.add_argument("--init", type=Path)
    parser.add_argument("--name", default="reader")
    parser.add_argument("--tokens", type=float, default=12.0, help="word pieces in millions")
    parser.add_argument("--minutes", type=float, default=1e9, help="end after so many minutes")
    parser.add_argument(
        "--pairs-first", type=float, default=1.6, help="millions of word pieces of inference pairs alone"
    )
    parser.add_argument("--mix", type=json.loads, default=MIX, help="JSON with the shares of the streams")
    parser.add_argument("--rate", type=float, default=9e-5)
    parser.add_argument("--decay", type=float, default=0.25, help="share at the end in which the rate falls")
    parser.add_argument("--average", type=float, default=0.999, help="of the weights, kept at each step")
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--frozen", type=int, default=0, help="layers that are not trained, from the first")
    parser.add_argument("--step", type=int, default=2_600, help="word pieces of a step and process, with padding")
    parser.add_argument("--processes", type=int, default=1 if DEVICE == "cuda" else 2)
    parser.add_argument("--loaders", type=int, default=0, help="processes that make batches")
    parser.add_argument("--port", type=int, default=29_511)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--save-seconds", type=float, default=600)
    parser.add_argument("--print-every", type=int, default=20)
    given = parser.parse_args()
    if "RANK" in os.environ or given.processes == 1:
        worker(given, int(os.environ.get("RANK", "0")))
        return
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    started = [
        subprocess.Popen([sys.executable, *sys.argv], env=environment | {"RANK": str(rank)})
        for rank in range(given.processes)
    ]
    sys.exit(max(p.wait() for p in started))


if __name__ == "__main__":
    main()
