"""The reader in torch: DeBERTa-v3 with heads for the answer, its claims, its words, and for relevance."""

import math
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional

WIDTH, LAYERS, HEADS, INNER = 384, 12, 6, 1536
BUCKETS, FARTHEST = 256, 512
NOT_SUPPORTED, CONTRADICTED, OFF_TOPIC, PASSAGE_BESIDE = range(4)
"""The outputs of the answer's head, each a logit: not supported; contradicted, if it is not supported; the answer does
not answer the question; the passage (read as evidence without an answer) does not answer the question."""


def bucket(distance: Tensor) -> Tensor:
    """The rows of the table of relative positions, as in the hub's DeBERTa-v2: exact up to 128, then logarithmic."""
    middle = BUCKETS // 2
    near = torch.where((distance < middle) & (distance > -middle), torch.tensor(middle - 1), distance.abs()).float()
    far = torch.ceil(torch.log(near / middle) / math.log((FARTHEST - 1) / middle) * (middle - 1)) + middle
    return torch.where(near <= middle, distance.float(), far * torch.sign(distance).float()).long() + BUCKETS


class _Diagonals(torch.autograd.Function):
    """(b, h, l, 2l), column l-1 holding distance 0, as (b, h, l, l): a strided view in place of a gather."""

    @staticmethod
    def forward(context, columns):
        columns = columns.contiguous()
        b, h, n, w = context.shape = columns.shape
        return columns.as_strided((b, h, n, n), (h * n * w, n * w, w - 1, 1), columns.storage_offset() + n - 1)

    @staticmethod
    def backward(context, gradient):
        b, h, n, w = context.shape
        out = gradient.new_zeros(b, h, n, w)
        out.as_strided((b, h, n, n), (h * n * w, n * w, w - 1, 1), n - 1).copy_(gradient)
        return out


class Layer(nn.Module):
    """A layer with disentangled attention: content to content, content to position, position to content."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.norm1, self.norm2 = (nn.LayerNorm(WIDTH, eps=1e-7) for _ in range(2))
        self.up, self.down = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)

    def forward(self, x: Tensor, mask: Tensor, rising: Tensor, falling: Tensor) -> Tensor:
        b, n, _ = x.shape
        size = WIDTH // HEADS

        def heads(t: Tensor) -> Tensor:
            return t.view(*t.shape[:-1], HEADS, size).transpose(-3, -2)

        scale = math.sqrt(3 * size)
        q, k, v = heads(self.query(x)) / scale, heads(self.key(x)), heads(self.value(x))
        key_of, query_of = heads(self.key(falling)), heads(self.query(rising)) / scale
        scores = q @ k.transpose(-1, -2)
        scores = scores + _Diagonals.apply(q @ key_of.transpose(-1, -2))
        scores = scores + _Diagonals.apply(k @ query_of.transpose(-1, -2)).transpose(-1, -2)
        weights = self.dropout(torch.softmax((scores + mask).float(), -1).to(v.dtype))
        x = self.norm1(x + self.dropout(self.out((weights @ v).transpose(1, 2).reshape(b, n, WIDTH))))
        return self.norm2(x + self.dropout(self.down(functional.gelu(self.up(x)))))


class Reader(nn.Module):
    """The body and its heads."""

    def __init__(self, pieces: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.words, self.norm = nn.Embedding(pieces, WIDTH), nn.LayerNorm(WIDTH, eps=1e-7)
        self.positions, self.positions_norm = nn.Embedding(2 * BUCKETS, WIDTH), nn.LayerNorm(WIDTH, eps=1e-7)
        self.layers = nn.ModuleList(Layer(dropout) for _ in range(LAYERS))
        self.answer_pool, self.answer = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 4)
        self.claim_pool, self.claim = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2)
        self.word = nn.Linear(WIDTH, 1)

    def encode(self, ids: Tensor, mask: Tensor, frozen: int = 0) -> Tensor:
        """(b, n) pieces and their mask → (b, n, 384). The first `frozen` layers get no gradient."""
        n = ids.shape[1]
        with torch.set_grad_enabled(frozen == 0 and torch.is_grad_enabled()):
            x = self.norm(self.words(ids)) * mask[..., None].float()
        table = self.positions_norm(self.positions.weight)
        # One distance more than there are: rows of an even length are multiplied faster.
        distances = torch.arange(-(n - 1), n + 1, device=ids.device)
        rising, falling = table[bucket(distances)], table[bucket(-distances)]
        blocked = (1 - mask)[:, None, None, :].float() * -1e4
        for number, layer in enumerate(self.layers):
            with torch.set_grad_enabled(number >= frozen and torch.is_grad_enabled()):
                x = layer(x, blocked, rising, falling)
        return x

    def forward(self, ids: Tensor, mask: Tensor, owner: Tensor, claims: Tensor, frozen: int = 0):
        """`owner` (c,) is the row of each claim, `claims` (c, n) is 1 at its pieces.

        Returns (b, 4) logits of the answers, (c, 2) of the claims, (b, n) of the words.
        """
        x = self.encode(ids, mask, frozen)
        first = x[:, 0]
        answers = self.answer(functional.gelu(self.answer_pool(first)))
        words = self.word(x)[..., 0]
        # A claim is read where its most doubtful words are.
        weights = torch.softmax(words[owner].masked_fill(claims == 0, -1e4).float(), -1)
        vectors = (weights[:, None, :] @ x[owner])[:, 0] + first[owner]
        return answers, self.claim(functional.gelu(self.claim_pool(vectors))), words


_PARTS = {
    "attention.self.query_proj": "query", "attention.self.key_proj": "key", "attention.self.value_proj": "value",
    "attention.output.dense": "out", "attention.output.LayerNorm": "norm1", "intermediate.dense": "up",
    "output.dense": "down", "output.LayerNorm": "norm2",
}  # fmt: skip


def start(folder: Path, kept: list[int], dropout: float = 0.0) -> Reader:
    """A reader with the weights of a hub's folder (model.safetensors of a DeBERTa-v3-xsmall, with or without a
    classifier of two classes), and of the word table only the rows of `kept`."""
    saved = load_file(folder / "model.safetensors")
    reader = Reader(len(kept), dropout)
    renamed = {
        "words.weight": saved["deberta.embeddings.word_embeddings.weight"][kept],
        "positions.weight": saved["deberta.encoder.rel_embeddings.weight"],
    }
    for kind in ("weight", "bias"):
        renamed[f"norm.{kind}"] = saved[f"deberta.embeddings.LayerNorm.{kind}"]
        renamed[f"positions_norm.{kind}"] = saved[f"deberta.encoder.LayerNorm.{kind}"]
        for number in range(LAYERS):
            for theirs, ours in _PARTS.items():
                renamed[f"layers.{number}.{ours}.{kind}"] = saved[f"deberta.encoder.layer.{number}.{theirs}.{kind}"]
    reader.load_state_dict(renamed, strict=False)
    if "pooler.dense.weight" in saved:
        _copy_classifier(
            reader, *(saved[f"{part}.{k}"] for part in ("pooler.dense", "classifier") for k in ("weight", "bias"))
        )
    return reader


@torch.no_grad()
def _copy_classifier(reader: Reader, pool: Tensor, pool_bias: Tensor, classes: Tensor, bias: Tensor) -> None:
    """The classifier of pairs (row 1: not entailed) is the start of the first output of both heads."""
    for head, out in ((reader.answer_pool, reader.answer), (reader.claim_pool, reader.claim)):
        head.weight.copy_(pool)
        head.bias.copy_(pool_bias)
        nn.init.normal_(out.weight, std=0.02)
        nn.init.zeros_(out.bias)
        out.weight[0] = classes[1] - classes[0]
        out.bias[0] = bias[1] - bias[0]
