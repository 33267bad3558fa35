"""Make (claim, question, passage) pairs out of labelled answers.

    python training/entailment/pairs.py --data FOLDER --out FILE.jsonl [--cases FILE.jsonl ...]

FOLDER holds train/ragtruth_train.jsonl.gz and train/ground/. `--cases` are files of cases written for this model.
A line of the output: set, group, claim, query, passage, label (0 supported, 1 unsupported, 2 contradicted,
3 one of the last two). Good and bad pairs are balanced inside each set, because the set's style would otherwise tell
the label.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

from edits import NAME, NUMBER, keep, turn

from ragtrace.models.closest_passage import Segments
from ragtrace.text.claims import statements

SUPPORTED, UNSUPPORTED, CONTRADICTED, BAD = 0, 1, 2, 3
_LIMITS = {  # pairs of each label
    "cad_nli": 1200, "scone": 600, "negnli": 900, "breaking_nli": 500, "conjnli": 800, "hans": 500, "med_gqnli": 500,
    "condaqa": 900, "sharc_policy": 600, "contractnli": 600, "fm2": 1200, "fever_symmetric": 684, "pubmedqa": 0,
    "accuracy_basketball": 0, "wice_tokens_train": 0, "summedits_clean": 1000, "summedits_other": 800, "quintd": 400,
    "fib_xsum_cnndm": 500, "halueval_qa": 500, "clapnq": 400, "faithdial_audit": 300, "q2_wow": 287, "scifact": 265,
}  # fmt: skip
_VERDICTS = {"supported": SUPPORTED, "unsupported": UNSUPPORTED, "contradicted": CONTRADICTED}
_OWN = {"entity": UNSUPPORTED, "product": UNSUPPORTED, "extra": UNSUPPORTED, "world": UNSUPPORTED}

Row = dict[str, Any]


def rows(path: Path) -> list[Row]:
    """The objects of a file of JSON lines, gzipped or not."""
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    return [json.loads(line) for line in text.split("\n") if line]


def pair(name: str, group: str, claim: str, query: str, passage: str, label: int) -> Row:
    return {"set": name, "group": group, "claim": claim, "query": query, "passage": passage, "label": label}


def of_spans(name: str, row: Row, segments: Segments) -> list[Row]:
    """One pair for each statement of an answer whose bad spans are known."""
    pairs = []
    for s in statements(row["answer"]):
        if s.kind != "claim":
            continue
        touching = [x for x in row["spans"] if x["start"] < s.end and x["end"] > s.start]
        label = SUPPORTED
        if touching:
            label = CONTRADICTED if any("onflict" in x["type"] for x in touching) else UNSUPPORTED
            label = label if name == "ragtruth" else BAD
        claim = row["answer"][s.start : s.end]
        pairs.append(pair(name, row["source_id"], claim, row["query"], segments.passage(claim, row["query"]), label))
    return pairs


def of_whole(name: str, row: Row) -> list[Row]:
    """The whole answer as one claim, where it is short."""
    claim = row["answer"].strip()
    if len(claim) > 350:
        return []
    label = _VERDICTS.get(row.get("verdict") or "", BAD) if row["label"] else SUPPORTED
    passage = Segments(row["contexts"]).passage(claim, row["query"])
    return [pair(name, row["source_id"], claim, row["query"], passage, label)]


def of_edits(row: Row, good: list[Row], segments: Segments, chance: random.Random) -> list[Row]:
    """Supported claims and sentences of the context: turned, kept, and with the passage turned instead."""
    text = " ".join(segments.texts)
    numbers = [m.group() for m in NUMBER.finditer(text)][:80]
    names = [m.group() for m in NAME.finditer(text)][:80]
    prose = [t for t in segments.texts if 40 <= len(t) <= 240 and t[0].isupper() and t.rstrip().endswith((".", "!"))]
    sentences = [("answer", p["claim"]) for p in good if 30 <= len(p["claim"]) <= 260]
    sentences += [("context", t) for t in prose]
    if not sentences:
        return []
    pairs = []
    negated = [x for x in sentences if re.search(r"\b(?:not|never|no|without|except|unless|cannot)\b|n't", x[1])]
    picked = chance.sample(sentences, min(4, len(sentences))) + chance.sample(negated, min(3, len(negated)))
    for origin, sentence in picked:
        name, group, query = f"edit_{origin}", row["source_id"], row["query"] if chance.random() < 0.5 else ""
        passage = segments.passage(sentence, query)
        base = keep(sentence, chance)
        pairs.append(pair(name, group, base, query, passage, SUPPORTED))
        if changed := turn(base if chance.random() < 0.6 else sentence, numbers, names, chance):
            pairs.append(pair(name, group, changed[0], query, passage, CONTRADICTED))
            if origin == "context" and sentence in passage:
                spoiled = passage.replace(sentence, changed[0])
                pairs.append(pair("edit_passage", group, base, query, spoiled, CONTRADICTED))
                pairs.append(pair("edit_passage", group, keep(changed[0], chance), query, spoiled, SUPPORTED))
        if origin == "context" and len(prose) > 4 and sentence in passage and chance.random() < 0.3:
            without = passage.replace(sentence, "").strip()
            if len(without) > 60:
                pairs.append(pair("edit_left_out", group, base, query, without, UNSUPPORTED))
    return pairs


def of_cases(path: Path) -> list[Row]:
    """The cases that were written for this model, whole answers and their single statements."""
    pairs = []
    for number, row in enumerate(rows(path)):
        segments, group = Segments(row["contexts"]), f"{path.stem}-{number}"
        for item in row["items"]:
            wrong = item.get("bad", "")
            at = item["a"].find(wrong)
            label = SUPPORTED if item["ok"] else _OWN.get(item["kind"].removeprefix("long_"), CONTRADICTED)
            claims = [s for s in statements(item["a"]) if s.kind == "claim"]
            if item["ok"] or wrong:
                inside = [not item["ok"] and s.start < at + len(wrong) and s.end > at for s in claims]
                spans = list(zip(claims, inside, strict=True))
                parts = [(item["a"][s.start : s.end], label if bad else SUPPORTED) for s, bad in spans]
            else:
                parts = [(item["a"], label)] if len(claims) < 2 or item["kind"] != "extra" else []
            for claim, of_claim in parts:
                passage = segments.passage(claim, item["q"])
                pairs.append({**pair("cases", group, claim, item["q"], passage, of_claim), "kind": item["kind"]})
    return list({(p["claim"], p["query"], p["passage"]): p for p in pairs}.values())


def foreign_answers(path: Path) -> list[tuple[int, str, str]]:
    """(number of the case, a question of it, a right answer to a question of another case); two for each case."""
    cases = rows(path)
    answers = [[i["a"] for i in case["items"] if i["ok"] and 4 <= len(i["a"].split()) <= 25] for case in cases]
    chosen = []
    for number, case in enumerate(cases):
        other = answers[(number + len(cases) // 2) % len(cases)]
        chosen += [(number, item["q"], answer) for item, answer in zip(case["items"][:2], other[1:3], strict=False)]
    return chosen


def of_foreign_answers(path: Path) -> list[Row]:
    """Claims that have nothing to do with their question and context."""
    cases = rows(path)
    segments = [Segments(case["contexts"]) for case in cases]
    return [
        {
            **pair("cases", f"{path.stem}-{n}", text, query, segments[n].passage(text, query), UNSUPPORTED),
            "kind": "foreign",
        }
        for n, query, answer in foreign_answers(path)
        for text in [answer[s.start : s.end] for s in statements(answer) if s.kind == "claim"][:1]
    ]


def balanced(pairs: list[Row], limit: int, chance: random.Random) -> list[Row]:
    """As many supported pairs as others, at most `limit` of each."""
    good = [p for p in pairs if p["label"] == SUPPORTED]
    bad = [p for p in pairs if p["label"] != SUPPORTED]
    size = min(limit, len(good), len(bad))
    return chance.sample(good, size) + chance.sample(bad, size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--ragtruth", type=int, default=5000, help="pairs of each label from RAGTruth's answers")
    parser.add_argument("--edits", type=int, default=6000, help="pairs of each label from changed sentences")
    options = parser.parse_args()
    chance = random.Random(20261122)
    pairs: list[Row] = []
    by_source: dict[str, list[Row]] = defaultdict(list)
    for row in rows(options.data / "train" / "ragtruth_train.jsonl.gz"):
        by_source[row["source_id"]].append(row)
    sources = sorted(by_source)
    random.Random(7).shuffle(sources)  # the same tenth that groundedness/train.py keeps for the calibration
    of_answers, of_changes = [], []
    for source in sources[len(sources) // 10 :]:
        answers = by_source[source]
        segments = Segments(answers[0]["contexts"])
        spoken = [p for row in answers for p in of_spans("ragtruth", row, segments)]
        of_answers += spoken
        good = [p for p in spoken if p["label"] == SUPPORTED]
        of_changes += of_edits(answers[0], good, segments, chance)
    pairs += balanced(of_answers, options.ragtruth, chance)
    pairs += balanced(of_changes, options.edits, chance)
    for name, limit in _LIMITS.items():
        loaded = rows(options.data / "train" / "ground" / f"{name}.jsonl.gz") if limit else []
        chance.shuffle(loaded)
        made: list[Row] = []
        for row in loaded:
            if name == "quintd" and not row["label"] and row.get("gpt4_found_errors"):
                continue
            if row["spans"] or (
                not row["label"] and name in ("summedits_clean", "summedits_other", "quintd", "clapnq")
            ):
                made += of_spans(name, row, Segments(row["contexts"]))
            else:
                made += of_whole(name, row)
            if len(made) > 12 * limit:
                break
        pairs += balanced(made, limit, chance)
    chance.shuffle(pairs)
    with options.out.open("w", encoding="utf-8") as file:
        for p in pairs:
            file.write(json.dumps(p, ensure_ascii=False) + "\n")
    count: dict[tuple[str, int], int] = defaultdict(int)
    for p in pairs:
        count[p["set"], p["label"]] += 1
    print(
        len(pairs), sum(len(p["claim"]) + len(p["passage"]) + len(p["query"]) for p in pairs) // len(pairs), dict(count)
    )


if __name__ == "__main__":
    main()
