"""Read and encode the labelled answers once: python training/groundedness/prepare.py --data FOLDER --out FOLDER

FOLDER holds train/ragtruth_train.jsonl.gz and dev/. Writes one .npz-like pickle per set with what train.py needs.
Besides RAGTruth's answers it makes answers of its own out of their contexts: copied sentences (supported), sentences
with another number, name or a negation (contradicted), and sentences of other sources (unsupported).
"""

from __future__ import annotations

import argparse
import gzip
import json
import pickle
import random
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from ragtrace.models.alignment import Pieces, Reader
from ragtrace.models.answer_features import Context, context_surface, nearness, surface
from ragtrace.text.sentences import split

DEV = ("ragtruth_dev", "qags_cnndm", "begin_cmu", "begin_wow", "wice", "wice_tokens")
SUPPORTED, UNSUPPORTED, CONTRADICTED = 0, 1, 2


def rows(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def label_pieces(pieces: Pieces, spans: list[dict[str, Any]]) -> np.ndarray:
    labels = np.zeros(len(pieces.ids), np.int8)
    for span in spans:
        kind = CONTRADICTED if "onflict" in span["type"] else UNSUPPORTED
        for i, (a, b) in enumerate(zip(pieces.starts, pieces.ends, strict=True)):
            if a < span["end"] and b > span["start"]:
                labels[i] = kind
    return labels


_NUMBER = re.compile(r"\b\d[\d,.]*\d\b|\b\d\b")
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]{2,}(?: [A-Z][a-z]+)?")
_AUX = re.compile(r"\b(is|are|was|were|can|will|should|has|have|had|could|would|does|did|may)\b(?! not|n't)")
_OPPOSITES = {
    "before": "after", "after": "before", "increase": "decrease", "more": "less", "less": "more", "first": "last",
    "always": "never", "never": "always", "all": "none", "high": "low", "low": "high", "best": "worst", "up": "down",
    "most": "least", "old": "new", "new": "old", "men": "women", "man": "woman", "woman": "man", "north": "south",
    "south": "north", "hot": "cold", "cold": "hot", "left": "right", "early": "late", "large": "small",
    "small": "large", "long": "short", "short": "long", "minutes": "hours", "hours": "days", "days": "weeks",
    "weeks": "months", "months": "years", "years": "months", "million": "billion", "east": "west", "west": "east",
}  # fmt: skip
_WORD = re.compile(r"[A-Za-z]+")


def corrupt(sentence: str, pool: dict[str, list[str]], chance: random.Random) -> tuple[str, int, int] | None:
    """The sentence with one thing changed, and where; None where there is nothing to change."""
    choices = []
    if found := list(_NUMBER.finditer(sentence)):
        choices.append(("number", chance.choice(found)))
    if found := list(_NAME.finditer(sentence)):
        choices.append(("name", chance.choice(found)))
    if found := list(_AUX.finditer(sentence)):
        choices.append(("negation", chance.choice(found)))
    if found := [m for m in _WORD.finditer(sentence) if m.group().lower() in _OPPOSITES]:
        choices.append(("opposite", chance.choice(found)))
    if not choices:
        return None
    kind, match = chance.choice(choices)
    old = match.group()
    if kind == "number":
        others = [x for x in pool["number"] if x != old]
        new = chance.choice(others) if others and chance.random() < 0.6 else str(chance.randint(2, 99))
    elif kind == "name":
        others = [x for x in pool["name"] if x != old and x not in old]
        if not others:
            return None
        new = chance.choice(others)
    elif kind == "negation":
        new = old + " not"
    else:
        new = _OPPOSITES[old.lower()]
    if new == old:
        return None
    return sentence[: match.start()] + new + sentence[match.end() :], match.start(), match.start() + len(new)


def synthetic(contexts: list[str], foreign: list[str], chance: random.Random) -> tuple[str, list[dict[str, Any]]]:
    """An answer out of a context's own sentences, some of them spoiled, with the spans that are."""
    sentences = [c[s.start : s.end] for c in contexts for s in split(c, 200) if 30 <= s.end - s.start <= 300]
    if len(sentences) < 3:
        return "", []
    pool = {
        "number": [m.group() for s in sentences for m in _NUMBER.finditer(s)],
        "name": [m.group() for s in sentences for m in _NAME.finditer(s)],
    }
    picked = chance.sample(sentences, min(len(sentences), chance.randint(2, 4)))
    answer, spans = "", []
    spoil = 0.5 if chance.random() < 0.6 else 0.0
    for sentence in picked:
        if chance.random() < 0.3 and ", " in sentence:  # a clause instead of the whole
            parts = sentence.split(", ")
            cut = chance.randint(1, len(parts) - 1)
            sentence = ", ".join(parts[:cut]).rstrip(".") + "."
        offset = len(answer)
        if chance.random() < spoil:
            if chance.random() < 0.3:
                sentence = chance.choice(foreign)
                spans.append({"start": offset, "end": offset + len(sentence), "type": "baseless"})
            elif made := corrupt(sentence, pool, chance):
                sentence, a, b = made
                spans.append({"start": offset + a, "end": offset + b, "type": "conflict"})
        answer += sentence + " "
    return answer, spans


def build(name: str, of_set: list[dict[str, Any]], reader: Reader, out: Path, chance: random.Random | None) -> None:
    """Group by context, encode, and write."""
    groups: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for row in of_set:
        groups[(row["source_id"], tuple(row["contexts"]), row["query"])].append(row)
    keys = list(groups)
    foreign: list[str] = []
    if chance is not None:
        prose = [k for k in keys if not k[1][0].startswith("{")]
        for key in prose:
            found = [s for s in split(key[1][0], 30) if 40 <= s.end - s.start <= 250]
            if found:
                s = chance.choice(found)
                foreign.append(key[1][0][s.start : s.end])
        for key in prose:
            for turn in range(2):
                answer, spans = synthetic(list(key[1]), foreign, chance)
                if answer:
                    like = groups[key][0]
                    made = {"id": f"synthetic-{turn}", "task": "synthetic", "model": "none", "answer": answer}
                    groups[key].append({**like, **made, "spans": spans, "label": int(bool(spans))})
    records = []
    for n, key in enumerate(keys):
        chunks = [reader.read(c[:60_000]) for c in key[1]]
        query = reader.read(key[2][:2_000]) if key[2] else None
        answers = [reader.read(r["answer"][:8_000]) for r in groups[key]]
        encoded = reader.encode([*chunks, *([query] if query else []), *answers])
        context = np.concatenate(encoded[: len(chunks)])
        asked = encoded[len(chunks)] if query else np.zeros((0, 384), np.float32)
        ids = np.array([i for c in chunks for i in c.ids], np.int64)
        known = Context(chunks)
        made_rows = []
        for row, pieces, hidden in zip(groups[key], answers, encoded[-len(answers) :], strict=True):
            features = surface(pieces, known, query)
            features[:, -3:] = nearness(pieces, hidden, ids, context)
            spans = row["spans"]
            made_rows.append(
                {
                    "id": row["id"],
                    "task": row["task"],
                    "model": row["model"],
                    "label": row["label"],
                    "quality": row.get("quality", "good"),
                    "hidden": hidden.astype(np.float16),
                    "features": features.astype(np.float16),
                    "labels": label_pieces(pieces, spans),
                    "spans": [(s["start"], s["end"]) for s in spans],
                    "ids": np.array(pieces.ids, np.int32),
                    "starts": pieces.starts,
                    "ends": pieces.ends,
                    "sentence": np.array(pieces.sentence, np.int32),
                    "sentences": pieces.sentences,
                    "context_features": context_surface(chunks, pieces, query).astype(bool),
                    "length": len(row["answer"]),
                }
            )
        records.append(
            {
                "source": key[0],
                "context": context.astype(np.float16),
                "ids": ids.astype(np.int32),
                "query": asked.astype(np.float16),
                "query_ids": np.array(query.ids if query else [], np.int32),
                "answers": made_rows,
            }
        )
        if n % 200 == 0:
            print(name, n, "of", len(keys), flush=True)
    with (out / f"{name}.pickle").open("wb") as file:
        pickle.dump(records, file, protocol=5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    reader = Reader(options.threads)
    train = rows(options.data / "train" / "ragtruth_train.jsonl.gz")
    build("train", train, reader, options.out, random.Random(20261121))
    for name in DEV:
        build(name, rows(options.data / "dev" / f"{name}.jsonl.gz"), reader, options.out, None)


if __name__ == "__main__":
    main()
