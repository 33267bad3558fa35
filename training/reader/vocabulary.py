"""The vocabulary of the reader: a multilingual tokenizer, cut to the pieces that its texts need."""

import json
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from tokenizers import Tokenizer

_SPECIAL = 4
"""PAD, CLS, SEP and UNK come first."""
_KEPT = 40_000
"""Pieces that are kept beside single letters: those that occur most often."""
_FREQUENT = 16_000
"""English pieces up to this place of the hub's order, which is that of frequency, are always among them."""


def cut(tokenizer: Path, texts: Iterable[str], out: Path) -> list[int]:
    """Write a tokenizer with the pieces that `texts` need most, all frequent English ones and single letters.

    Returns the rows of the word table that its pieces had, in its order. A piece that is gone is read as smaller ones.
    """
    full = Tokenizer.from_file(str(tokenizer))
    full.no_padding()
    full.no_truncation()
    seen: Counter[int] = Counter()
    waiting = iter(texts)
    while batch := list(islice(waiting, 2_000)):
        for encoded in full.encode_batch(batch, add_special_tokens=False):
            seen.update(encoded.ids)
    described = json.loads(tokenizer.read_text())
    pieces = described["model"]["vocab"]
    always = {i for i, (piece, _) in enumerate(pieces[:_FREQUENT]) if piece.lstrip("▁").isascii()}
    most = {i for i, _ in seen.most_common(_KEPT)}
    single = {i for i, (piece, _) in enumerate(pieces) if len(piece.lstrip("▁")) <= 1 and ord(piece[-1]) < 0x2600}
    kept = sorted({*range(_SPECIAL), *always, *most, *single})
    described["model"]["vocab"] = [pieces[i] for i in kept]
    described["added_tokens"] = [t for t in described["added_tokens"] if t["id"] < _SPECIAL]
    described["truncation"] = described["padding"] = described["post_processor"] = None
    out.write_text(json.dumps(described, ensure_ascii=False, separators=(",", ":")))
    return kept
