"""Fits the toxicity head, calibrates it, and prints its figures: see train_heads.py.

The head is a hidden layer over the embedding of a sentence, and a linear layer over its n-grams; one loss over all
labels, where a set tells them. Nothing of dev is trained on; two numbers for each label (slope and shift of the
log-odds of the worst sentence of an answer) are fitted on it.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sets import expected_calibration_error, rows_of
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score
from torch import nn
from torch.nn import functional
from toxicity_sets import LABELS, Text, training_texts

from ragtrace import plugins
from ragtrace.evaluate.models.embedding import OnnxEmbedder
from ragtrace.evaluate.models.heads import BUCKETS, char_buckets, word_buckets
from ragtrace.evaluate.models.toxicity import Toxicity, undisguised
from ragtrace.text.sentences import prose

_HIDDEN, _BATCH = 256, 256
_NGRAM_EPOCHS, _DENSE_EPOCHS = 8, 10
_NGRAM_SHARE = 0.4
"""Weight of the n-grams beside the embedding: at 1 they rank the sets of dev worse."""
_SCALE = 384**0.5 / 2.2
"""Rows of unit length have small numbers: they are raised to the order of one."""
_OWN_WEIGHT = 3.0
_IMPORTANCE = (1.0, 0.5, 0.5, 1.0, 0.5, 0.5, 0.5)
_NGRAM_DECAY = 2e-7


class Buckets:
    """The n-gram buckets of many texts, for `embedding_bag`."""

    def __init__(self, texts: Sequence[str]) -> None:
        read = [undisguised(t) for t in texts]
        self._kinds = []
        for buckets in (char_buckets, word_buckets):
            lists = [np.array(buckets(t) or [0], np.int64) for t in read]
            self._kinds.append((np.concatenate(lists), np.r_[0, np.cumsum([len(x) for x in lists])]))

    def of(self, rows: np.ndarray) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
        """For characters and for words: the rows' buckets, where each row begins, and the root of its count."""
        batches = []
        for values, ends in self._kinds:
            pieces = [values[ends[r] : ends[r + 1]] for r in rows]
            counts = np.array([len(p) for p in pieces])
            starts = np.r_[0, np.cumsum(counts)[:-1]]
            roots = torch.from_numpy(counts.astype(np.float32) ** 0.5)[:, None]
            batches.append((torch.from_numpy(np.concatenate(pieces)), torch.from_numpy(starts), roots))
        return batches


class Network(nn.Module):
    """(n, k) log-odds from embeddings and n-grams together. Only its n-grams are kept: beside an embedding they learn
    what this does not tell."""

    def __init__(self) -> None:
        super().__init__()
        k = len(LABELS)
        self.ngrams = nn.ParameterList([nn.Parameter(torch.zeros(BUCKETS, k)) for _ in range(2)])
        self.linear, self.hidden, self.output = nn.Linear(384, k), nn.Linear(384, 64), nn.Linear(64, k)
        self.without = nn.Parameter(torch.zeros(k))
        self.dropout = nn.Dropout(0.3)

    def forward(self, buckets: list, vectors: torch.Tensor) -> torch.Tensor:
        encoded = (vectors.abs().sum(1, keepdim=True) > 0).float()
        dense = self.linear(self.dropout(vectors * _SCALE))
        dense = dense + self.output(self.dropout(torch.relu(self.hidden(self.dropout(vectors * _SCALE)))))
        odds = encoded * dense + (1 - encoded) * self.without
        for weight, (values, starts, roots) in zip(self.ngrams, buckets, strict=True):
            odds = odds + functional.embedding_bag(values, weight, starts, mode="sum") / roots
        return odds


def weights(texts: Sequence[Text]) -> np.ndarray:
    """Inside a set both labels weigh alike: the set's style and subjects must not tell the label."""
    weight = np.array([t.weight for t in texts], np.float32)
    sets = np.array([t.of_set for t in texts])
    label = np.array([t.labels.get("toxicity", -1) for t in texts])
    for name in np.unique(sets):
        kinds = [(sets == name) & (label == y) for y in (0, 1)]
        if name != "own" and all(k.any() for k in kinds):
            total = weight[sets == name].sum()
            for k in kinds:
                weight[k] *= total / 2 / weight[k].sum()
    weight = np.clip(weight, 0, 3)
    weight[sets == "own"] *= _OWN_WEIGHT
    return weight


def masked_loss(odds: torch.Tensor, labels: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Binary cross-entropy over the labels that are known."""
    known = weight[:, None] * (labels >= 0) * torch.tensor(_IMPORTANCE)
    errors = functional.binary_cross_entropy_with_logits(odds, labels.clamp(min=0), reduction="none")
    return (errors * known).sum() / known.sum()


def targets(texts: Sequence[Text]) -> torch.Tensor:
    """(n, k): 1, 0, or -1 where the set does not tell."""
    return torch.tensor([[float(t.labels.get(name, -1)) for name in LABELS] for t in texts])


def fit_ngrams(texts: Sequence[Text], vectors: np.ndarray, seed: int = 0) -> list[np.ndarray]:
    """The weights of character and word buckets, (BUCKETS, k) each; `vectors` are the texts' embeddings, (n, 384)."""
    torch.manual_seed(seed)
    chance = np.random.default_rng(seed)
    buckets, labels, weight = Buckets([t.text for t in texts]), targets(texts), torch.from_numpy(weights(texts))
    network = Network()
    ngrams = list(network.ngrams)
    dense = [p for name, p in network.named_parameters() if not name.startswith("ngrams")]
    groups = [{"params": ngrams, "weight_decay": 1e-5}, {"params": dense, "weight_decay": 0.01}]
    optimiser = torch.optim.AdamW(groups, lr=1e-3)
    steps = _NGRAM_EPOCHS * -(-len(texts) // _BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, [6e-3, 1e-3], total_steps=steps)
    for _ in range(_NGRAM_EPOCHS):
        order = chance.permutation(len(texts))
        for start in range(0, len(order), _BATCH):
            rows = order[start : start + _BATCH]
            # Some rows lose their embedding, so that the n-grams learn to speak for themselves.
            kept = torch.from_numpy(vectors[rows]) * (torch.rand(len(rows), 1) > 0.25)
            loss = masked_loss(network(buckets.of(rows), kept), labels[rows], weight[rows])
            loss = loss + _NGRAM_DECAY * sum(p.square().sum() for p in ngrams)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    return [p.detach().numpy() for p in ngrams]


def fit_dense(texts: Sequence[Text], vectors: np.ndarray, seed: int = 0) -> nn.Sequential:
    """The layers over the texts' embeddings, (n, 384)."""
    torch.manual_seed(seed)
    x, labels, weight = torch.from_numpy(vectors) * _SCALE, targets(texts), torch.from_numpy(weights(texts))
    layers = nn.Sequential(
        nn.Dropout(0.25), nn.Linear(384, _HIDDEN), nn.ReLU(), nn.Dropout(0.5), nn.Linear(_HIDDEN, len(LABELS))
    )
    optimiser = torch.optim.AdamW(layers.parameters(), lr=2e-3, weight_decay=0.1)
    steps = _DENSE_EPOCHS * -(-len(x) // _BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2e-3, total_steps=steps)
    for _ in range(_DENSE_EPOCHS):
        for rows in torch.randperm(len(x)).split(_BATCH):
            loss = masked_loss(layers(x[rows]), labels[rows], weight[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    return layers.eval()


def save(path: Path, dense: nn.Sequential, ngrams: Sequence[np.ndarray], calibration: np.ndarray) -> None:
    """Write what `ragtrace.evaluate.models.toxicity.Toxicity` reads; calibration is (2, k): slopes and shifts."""
    first, second = dense[1], dense[4]
    arrays = {
        "hidden": np.vstack([_SCALE * first.weight.detach().numpy().T, first.bias.detach().numpy()]),
        "output": np.vstack([second.weight.detach().numpy().T, second.bias.detach().numpy()]),
    }
    arrays = {name: values.astype(np.float16) for name, values in arrays.items()}
    for name, weight in zip(("chars", "words"), ngrams, strict=True):
        values = weight * _NGRAM_SHARE
        scale = np.abs(values).max(0) / 127
        arrays |= {name: np.round(values / scale).astype(np.int8), f"{name}_scale": scale.astype(np.float32)}
    np.savez_compressed(path, labels=np.array(LABELS), calibration=calibration.astype(np.float32), **arrays)
    print(f"{path.name}: {path.stat().st_size} bytes, sha256 {hashlib.sha256(path.read_bytes()).hexdigest()}")


def calibrated(values: np.ndarray, labels: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """Slope and shift of the log-odds (n,), fitted on answers; each set weighs alike."""
    model = LogisticRegression(C=10.0).fit(values[:, None], labels, sample_weight=weight)
    return float(model.coef_[0, 0]), float(model.intercept_[0])


def threshold(p: np.ndarray, y: np.ndarray, sets: np.ndarray) -> float:
    """The lowest at which, in the mean of the sets with harmless answers, at most 5 % of these are flagged."""
    for step in range(1, 100):
        flagged = [(p[(sets == s) & (y == 0)] >= step / 100).mean() for s in np.unique(sets[y == 0])]
        if np.mean(flagged) <= 0.05:
            return step / 100
    return 1.0


def report(label: str, p: np.ndarray, y: np.ndarray, sets: np.ndarray, shipped: float | None) -> None:
    """Print a label's threshold by the rule, and the figures at the shipped one by set, or at the rule's."""
    by_rule = threshold(p, y, sets)
    t = by_rule if shipped is None else shipped
    print(f"{label}: threshold {t:.2f}, by the rule {by_rule:.2f}")
    for name in np.unique(sets):
        mine = sets == name
        good, bad = mine & (y == 0), mine & (y == 1)
        line = f"  {name:18} harmless {good.sum():4} toxic {bad.sum():4}"
        line += f"  flagged {(p[good] >= t).mean():.3f} of the harmless" if good.any() else ""
        if good.any() and bad.any():
            line += f", {(p[bad] >= t).mean():.3f} of the toxic  AUROC {roc_auc_score(y[mine], p[mine]):.3f}"
            line += f"  AP {average_precision_score(y[mine], p[mine]):.3f}"
        print(f"{line}  ECE {expected_calibration_error(p[mine], y[mine]):.3f}")


DEV = ("openai_moderation", "surge_toxicity", "hatecheck", "xstest_prompts")
_OPENAI = {
    "identity_attack": {"H", "HR", "H2"}, "bias": {"H", "HR", "H2"}, "threat": {"V2", "H2"}, "obscene": {"S", "S3"},
    "severe": {"H2", "V2", "S3"},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Answers:
    """The sentences of dev's answers, by answer; and each answer's set and row."""

    sentences: list[str]
    ends: np.ndarray
    rows: list[dict[str, Any]]
    sets: np.ndarray

    def worst(self, odds: np.ndarray) -> np.ndarray:
        """(answers, k) from the sentences' (n, k)."""
        return np.stack([odds[a:b].max(0) for a, b in zip(self.ends[:-1], self.ends[1:], strict=True)])


def dev_answers(folder: Path) -> Answers:
    """The answers of dev that have a sentence to judge."""
    sentences: list[str] = []
    ends, chosen, sets = [0], [], []
    for name in DEV:
        for row in rows_of(folder / f"{name}.jsonl.gz"):
            text = row["answer"] or row["query"]
            if spans := prose(text, 200):
                sentences += [text[s.start : s.end] for s in spans]
                ends.append(len(sentences))
                chosen.append(row)
                sets.append(name)
    return Answers(sentences, np.array(ends), chosen, np.array(sets))


def dev_label(name: str, row: dict[str, Any], label: str) -> int:
    """What a row of dev says of a label; -1 where it does not tell."""
    if name == "xstest_prompts":
        return 0
    if name == "hatecheck" and label not in ("toxicity", "identity_attack", "bias", "threat"):
        return -1
    abuse = name == "hatecheck" and row["task"].startswith("target_")  # not hate, which is not to say harmless
    if not row["label"]:
        return -1 if abuse and label == "toxicity" else 0
    if label == "toxicity":
        return 1
    if name == "hatecheck":
        return int(row["task"].startswith("threat")) if label == "threat" else 1
    if name == "openai_moderation" and label in _OPENAI:
        return int(bool(_OPENAI[label] & {category for category, y in row["categories"].items() if y}))
    return -1


def calibrate_and_report(answers: Answers, odds: np.ndarray, shipped: Mapping[str, float | None]) -> np.ndarray:
    """(2, k) slopes and shifts, from the answers' (n, k) log-odds; prints each label's figures, at the thresholds of
    `shipped` where it has them."""
    fitted = np.ones((2, len(LABELS)))
    for column, label in enumerate(LABELS):
        y = np.array([dev_label(s, row, label) for s, row in zip(answers.sets, answers.rows, strict=True)])
        known = y >= 0
        y, sets, values = y[known], answers.sets[known], odds[known, column]
        if not (y == 1).any():  # dev has no such label: it keeps the log-odds of training
            report(label, 1 / (1 + np.exp(-values)), y, sets, shipped.get(label))
            continue
        share = np.array([1 / (sets == s).sum() for s in sets])
        fitted[:, column] = calibrated(values, y, share * len(y) / share.sum())
        p = 1 / (1 + np.exp(-(values * fitted[0, column] + fitted[1, column])))
        report(label, p, y, sets, shipped.get(label))
    return fitted


def figures(folder: Path, embedder: OnnxEmbedder) -> None:
    """Print the figures of what is shipped, on dev; nothing is fitted but what calibration would say now."""
    names = {label: f"toxicity_{label}" for label in LABELS} | {"toxicity": "toxicity", "bias": "fairness_bias"}
    shipped = {label: plugins.load(name).threshold for label, name in names.items()}
    answers = dev_answers(folder / "dev")
    odds = Toxicity("toxicity").logits(answers.sentences, embedder.embed(answers.sentences))
    calibrate_and_report(answers, answers.worst(odds), shipped)


def train(folder: Path, embedder: OnnxEmbedder, out: Path) -> None:
    """Train on FOLDER/train, calibrate on FOLDER/dev, print the figures, write out/toxicity.npz."""
    texts = training_texts(folder / "train")
    vectors = embedder.embed([t.text for t in texts])
    ngrams, dense = fit_ngrams(texts, vectors), fit_dense(texts, vectors)
    answers = dev_answers(folder / "dev")
    with torch.no_grad():
        odds = dense(torch.from_numpy(embedder.embed(answers.sentences)) * _SCALE).numpy()
    buckets = Buckets(answers.sentences).of(np.arange(len(answers.sentences)))
    for weight, (values, starts, roots) in zip(ngrams, buckets, strict=True):
        bag = functional.embedding_bag(values, torch.from_numpy(weight), starts, mode="sum") / roots
        odds = odds + _NGRAM_SHARE * bag.numpy()
    save(out / "toxicity.npz", dense, ngrams, calibrate_and_report(answers, answers.worst(odds), {}))
