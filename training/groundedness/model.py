"""The groundedness head: an answer's pieces attend to the context's pieces; encoder weights stay as they are."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention as attend

from ragtrace.models.answer_features import ANSWER_FEATURES, CONTEXT_FEATURES


class Attention(nn.Module):
    """Multi-head attention; with a bias, half of the heads are drawn to pieces that are the same and continue the same
    phrase."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.kv = nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, memory: Tensor, blocked: Tensor, bias: Tensor | None) -> Tensor:
        """x (b, n, d); memory (b, m, d); blocked (b, 1, 1, m) and bias (b, 1, n, m) are added to the logits."""
        b, n, d = x.shape
        h = self.heads
        q = self.q(x).reshape(b, n, h, d // h).transpose(1, 2)
        k, v = self.kv(memory).reshape(b, memory.shape[1], 2, h, d // h).permute(2, 0, 3, 1, 4)
        if bias is None:
            mixed = attend(q, k, v, attn_mask=blocked)
        else:
            c = h // 2
            drawn = attend(q[:, :c], k[:, :c], v[:, :c], attn_mask=bias)
            free = attend(q[:, c:], k[:, c:], v[:, c:], attn_mask=blocked)
            mixed = torch.cat([drawn, free], 1)
        return self.out(mixed.transpose(1, 2).reshape(b, n, d))


class Layer(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.cross, self.self_ = Attention(width, heads), Attention(width, heads)
        self.ffn = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor, memory: Tensor, memory_blocked: Tensor, blocked: Tensor, bias: Tensor) -> Tensor:
        x = x + self.drop(self.cross(self.norms[0](x), memory, memory_blocked, bias))
        y = self.norms[1](x)
        x = x + self.drop(self.self_(y, y, blocked, None))
        return x + self.drop(self.ffn(self.norms[2](x)))


class Groundedness(nn.Module):
    """Logits per piece (supported, unsupported, contradicted), per sentence (the same), per answer (not grounded)."""

    def __init__(self, width: int = 256, heads: int = 8, layers: int = 2, dropout: float = 0.1) -> None:
        super().__init__()
        self.hidden_in = nn.Sequential(nn.LayerNorm(384), nn.Linear(384, width))
        self.answer_in = nn.Sequential(nn.Linear(ANSWER_FEATURES, width), nn.GELU(), nn.Linear(width, width))
        self.context_in = nn.Linear(CONTEXT_FEATURES + 1, width)
        self.layers = nn.ModuleList(Layer(width, heads, dropout) for _ in range(layers))
        self.memory_norm = nn.LayerNorm(width)
        self.norm = nn.LayerNorm(width)
        self.drop = nn.Dropout(dropout)
        self.piece = nn.Linear(width + ANSWER_FEATURES, 3)
        self.weigh = nn.Linear(width, 1)
        self.sentence = nn.Sequential(nn.Linear(2 * width, width), nn.GELU(), nn.Linear(width, 3))
        self.weigh_all = nn.Linear(width, 1)
        self.answer = nn.Sequential(nn.Linear(2 * width, width), nn.GELU(), nn.Linear(width, 1))

    def forward(
        self,
        hidden: Tensor,  # (b, n, 384) the answers' embeddings
        features: Tensor,  # (b, n, ANSWER_FEATURES)
        ids: Tensor,  # (b, n) word-piece ids; -1 pads
        sentence: Tensor,  # (b, n) sentence of each piece
        context: Tensor,  # (1, m, 384) the context's embeddings, the query's behind them
        context_features: Tensor,  # (b, m, CONTEXT_FEATURES + 1); the last is 1 for the query's pieces
        context_ids: Tensor,  # (1, m); -2 pads
        sentences: int | Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        pad = (ids < 0).float()
        blocked = (pad * -1e4)[:, None, None, :]
        memory_blocked = ((context_ids < 0).float() * -1e4)[:, None, None, :]
        same = (ids[:, :, None] == context_ids[:, None, :]).float()
        # A pair: this piece and the next one are the same on both sides; or the one before.
        ahead = torch.cat([same[:, 1:, 1:], torch.zeros_like(same[:, :1, 1:])], 1)
        ahead = torch.cat([ahead, torch.zeros_like(ahead[:, :, :1])], 2)
        behind = torch.cat([torch.zeros_like(same[:, :1, 1:]), same[:, :-1, :-1]], 1)
        behind = torch.cat([torch.zeros_like(behind[:, :, :1]), behind], 2)
        bias = (2 * same + 3 * same * (ahead + behind))[:, None] + memory_blocked
        x = self.drop(self.hidden_in(hidden) + self.answer_in(features))
        memory = self.memory_norm(self.drop(self.hidden_in(context) + self.context_in(context_features)))
        for layer in self.layers:
            x = layer(x, memory, memory_blocked, blocked, bias)
        x = self.norm(x)
        pieces = self.piece(torch.cat([x, features], -1))
        index = torch.arange(sentences, device=ids.device) if isinstance(sentences, int) else sentences
        inside = (sentence[:, None, :] == index[None, :, None]).float() * (1 - pad)[:, None, :]  # (b, s, n)
        weights = (self.weigh(x).transpose(1, 2) + (inside - 1) * 1e4).softmax(-1) * inside
        mean = inside / inside.sum(-1, keepdim=True).clamp(min=1)
        per_sentence = self.sentence(torch.cat([weights @ x, mean @ x], -1))
        everywhere = (self.weigh_all(x).transpose(1, 2) + blocked[:, 0]).softmax(-1)
        average = (1 - pad)[:, None, :] / (1 - pad).sum(-1)[:, None, None].clamp(min=1)
        answer = self.answer(torch.cat([everywhere @ x, average @ x], -1))[:, 0, 0]
        return pieces, per_sentence, answer
