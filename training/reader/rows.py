"""Training rows of the reader:

    python training/reader/rows.py --data FOLDER --start FOLDER --out build/reader [--variants 3]

`--data` holds train/ (labelled sets), `--start` is the folder of the start weights (tokenizer.json). Writes
tokenizer.json with the pieces that are kept, kept.json and rows.pickle. Cases of this project are read from
training/reader/cases; one context in fourteen is kept for validation. In each of the `--variants` the cases have their
chunks in another order, other budgets of evidence, and other sentences removed.
"""

import argparse
import gzip
import json
import pickle
import random
import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import record_cases
from tokenizers import Tokenizer
from vocabulary import cut

from ragtrace.evaluate.models.evidence import Chunks, joined, stems
from ragtrace.text.sentences import split

HERE = Path(__file__).parent
ANSWER = 128
"""Word pieces of an answer that are read at once; longer ones are read in windows of whole sentences."""
_BUDGETS = (160, 200, 200, 240)
_WINDOW = 96
_NUMBER = re.compile(r"(?<![\w.])\d[\d,.:]*\d(?!\w)|(?<![\w.])\d(?!\w)")
_NAME = re.compile(r"(?<=[a-z,;:] )[A-Z][a-z]{2,}(?: [A-Z][a-z]+)*")
_ABSENT = {"extra", "world", "cause", "absent", "long_extra", "long_cause", "product", "null_wrong", "attribution"}
_UNCLEAR = {"scope", "hedge_lost", "partial_wrong", "overgeneralised", "preface_wrong", "citation"}
_NLI = {"te_new_protocols": 30_000, "fever_evidence": 8_600, "bump": 1_000, "factcheckgpt_stance": 1_280}
_GROUND = {
    "cad_nli": 6000, "scone": 2000, "negnli": 1800, "breaking_nli": 1000, "conjnli": 3000, "hans": 800, "condaqa": 9000,
    "sharc_policy": 3000, "contractnli": 2900, "fm2": 2500, "fever_symmetric": 1372, "halueval_qa": 1000,
    "scifact": 530, "xsumfaith_spans": 56, "med_gqnli": 900, "clapnq": 780, "summedits_clean": 1300,
    "summedits_other": 1400, "fib_xsum_cnndm": 1800, "quintd": 900, "accuracy_basketball": 480, "pubmedqa": 600,
}  # fmt: skip
_RAGTRUTH = {"QA": 2_400, "Summary": 3_200, "Data2txt": 6_000}
"""Good and bad windows of each task at most."""
_WHOLE = {"faithdial_audit": 3, "q2_wow": 3, "wice_tokens_train": 1}
"""Sets of which all rows are taken, balanced or not, and how often: there is little of conversation and long claims."""
_RELEVANCE = {"rel_selqa_answer_sentences": 3500, "rel_fetaqa_answers": 5000, "rel_clapnq": 3800}
_PASSAGES = {"rel_clapnq": 567, "rel_covidqa": 3600, "rel_xquad_12lang": 1672, "rel_selqa_answer_sentences": 7000}


@dataclass(slots=True)
class Row:
    """One text for the reader. Labels: 1 is the fault, 0 its absence, -1 not known."""

    ids: list[int]
    at: int
    """Where the answer begins in `ids`; it ends before the last piece."""
    bad: int
    absent: int = -1
    """1: a bad answer of which the chunks say nothing, 0: one that they contradict."""
    off_topic: int = -1
    beside: int = -1
    """1: the passage (the evidence, where there is no answer) does not answer the question."""
    words: list[int] | None = None
    """Per piece of the answer: 1 wrong."""
    claims: list[tuple[int, int, int]] = field(default_factory=list)
    """(from, to, bad) in pieces of the answer."""
    group: str = ""
    """Rows of one group and question are ranked: right above wrong."""
    kind: str = ""
    source: str = ""


def lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a file of JSON lines, gzipped or not."""
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    return [json.loads(line) for line in text.split("\n") if line.strip()]


class Maker:
    """Makes rows with one tokenizer."""

    def __init__(self, tokenizer: Path, seed: int = 7) -> None:
        self.chunks = Chunks(Tokenizer.from_file(str(tokenizer)), remembered=4_096)
        self.random = random.Random(seed)

    def row(
        self,
        contexts: Sequence[str],
        query: str,
        answer: str,
        bad: int,
        spans: Sequence[tuple[int, int]] | None = None,
        budget: int | None = None,
        **labels: Any,
    ) -> Row:
        """`spans` are the wrong characters of the answer; None if they are not known."""
        evidence = self.chunks.evidence(contexts, query, answer, budget or self.random.choice(_BUDGETS)).ids
        asked = self.chunks.encode(query).ids if query else []
        own = self.chunks.encode(answer)
        ids, offsets = own.ids[:ANSWER], own.offsets[:ANSWER]
        words = [0] * len(ids) if not bad else None
        if bad and spans:
            words = [int(any(a < e and b > s for a, b in spans)) for s, e in offsets]
        claims = []
        for start, end in split(answer):
            inside = [i for i, (s, e) in enumerate(offsets) if s < end and e > start]
            if inside:
                label = 0 if not bad else -1 if words is None else max(words[inside[0] : inside[-1] + 1])
                claims.append((inside[0], inside[-1] + 1, label))
        if bad == 1 and len(claims) == 1:
            claims = [(claims[0][0], claims[0][1], 1)]
        read = joined(evidence, asked, ids)
        return Row(read, len(read) - 1 - len(ids), bad, words=words, claims=claims, **labels)

    def cases(self, files: Iterable[Path], variant: int = 0) -> tuple[list[Row], list[Row]]:
        """Rows of the cases for training and validation. But in variant 0 the chunks are in another order."""
        made: tuple[list[Row], list[Row]] = ([], [])
        for path in files:
            for number, case in enumerate(lines(path)):
                name = f"{path.stem}-{number}"
                kept = zlib.crc32(name.encode()) % 14 == 0
                if variant:
                    case = case | {"contexts": self.random.sample(case["contexts"], len(case["contexts"]))}
                made[kept].extend(self._of_case(case, f"{name}/{variant}"))
                if not kept:
                    made[0].extend(self._changed_contexts(case, name))
        return made

    def _of_case(self, case: dict[str, Any], name: str) -> Iterator[Row]:
        for item in case["items"]:
            bad, kind = int(not item["ok"]), item["kind"]
            place = item["a"].find(item["bad"]) if bad and item.get("bad") else -1
            spans = [(place, place + len(item["bad"]))] if place >= 0 else None
            absent = -1
            if bad:
                absent = {"absent": 1, "contradicted": 0}.get(
                    item.get("verdict"), 1 if kind in _ABSENT else -1 if kind in _UNCLEAR else 0
                )
            yield self.row(
                case["contexts"], item["q"], item["a"], bad, spans, absent=absent, off_topic=0,
                group=f"{name}|{item['q']}", kind=kind, source="cases",
            )  # fmt: skip

    def _changed_contexts(self, case: dict[str, Any], name: str) -> Iterator[Row]:
        """Right answers to a neighbouring question; right answers without their sentence, or without their chunk."""
        right = [i for i in case["items"] if i["ok"] and i["kind"] not in ("partial", "hedge")]
        questions = sorted({i["q"] for i in case["items"]})
        for item in right:
            draw = self.random.random()
            others = [q for q in questions if q != item["q"] and len(stems(q) & stems(item["q"])) < 5]
            if draw < 0.12 and others:
                asked = self.random.choice(others)
                contexts = case["contexts"] if draw < 0.06 else []
                yield self.row(contexts, asked, item["a"], -1, off_topic=1, kind="neighbour", source="relevance")
            elif draw < 0.16:
                yield self.row([], item["q"], item["a"], -1, off_topic=0, kind="own_question", source="relevance")
            elif draw < 0.36 and (without := self._without_support(case["contexts"], item["a"])):
                yield self.row(without, item["q"], item["a"], 1, absent=1, kind="removed", source="cases")

    def _without_support(self, contexts: Sequence[str], answer: str) -> list[str] | None:
        """The chunks without every sentence that holds the answer's rarest number or name; None if there is none."""
        marks = [m.group() for p in (_NUMBER, _NAME) for m in p.finditer(answer)]
        holding = [(m, sum(m in c for c in contexts)) for m in marks]
        holding = [x for x in holding if x[1]]
        if not holding:
            return None
        mark = min(holding, key=lambda x: x[1])[0]
        changed = []
        for chunk in contexts:
            if mark not in chunk:
                changed.append(chunk)
                continue
            if len(contexts) > 1 and self.random.random() < 0.4:
                continue  # the whole chunk goes
            rest = [chunk[a:b] for a, b in split(chunk) if mark not in chunk[a:b]]
            if rest:
                changed.append("\n".join(rest))
        return changed or None

    def labelled(self, path: Path, limit: int | None = None) -> list[Row]:
        """A balanced sample of a labelled set; without a limit all of it."""
        rows = lines(path)
        self.random.shuffle(rows)
        half = min(limit // 2, *(sum(r["label"] == k for r in rows) for k in (0, 1))) if limit else len(rows)
        made = []
        for label in (0, 1):
            for r in [r for r in rows if r["label"] == label][:half]:
                spans = [(s["start"], s["end"]) for s in r.get("spans") or ()] if label else None
                absent = {"contradicted": 0, "unsupported": 1, "neutral": 1}.get(r.get("verdict"), -1) if label else -1
                query = r.get("query") or ""
                text = r["answer"]
                if path.stem.startswith(("quintd", "accuracy", "summedits", "fib")):
                    query, (text, found) = "", self._window(text, spans or [], label)
                    spans = found or None
                made.append(self.row(r["contexts"], query, text, label, spans, absent=absent, source=path.stem))
        return made

    def _window(self, answer: str, spans: Sequence[tuple[int, int]], bad: int) -> tuple[str, list[tuple[int, int]]]:
        """A window of a long answer: for a bad answer one that holds a span."""
        windows = list(self.windows(answer))
        if bad and spans:
            windows = [w for w in windows if any(a < w[1] and b > w[0] for a, b in spans)] or windows
        start, end = self.random.choice(windows) if spans or not bad else (0, len(answer))
        return answer[start:end], [(a - start, b - start) for a, b in spans if a < end and b > start]

    def windows(self, answer: str) -> Iterator[tuple[int, int]]:
        """Whole sentences together, as many as a window holds."""
        start, end, used = None, 0, 0
        for a, b in split(answer):
            n = len(self.chunks.encode(answer[a:b]).ids)
            if start is not None and used + n > _WINDOW:
                yield start, end
                start, used = None, 0
            start, end, used = (a if start is None else start), b, used + n
        if start is not None:
            yield start, end

    def ragtruth(self, path: Path) -> list[Row]:
        """Windows of answers with marked spans, as many good as bad ones of each task, and good ones with a number or
        a name of their context exchanged."""
        found: dict[tuple[str, int], list[Row]] = defaultdict(list)
        rows = [r for r in lines(path) if r.get("quality", "good") == "good"]
        self.random.shuffle(rows)
        for r in rows:
            task = r["task"]
            if all(len(found[task, k]) >= _RAGTRUTH[task] for k in (0, 1)):
                continue
            query = r["query"] if task == "QA" else ""
            for start, end in self.windows(r["answer"]):
                touching = [s for s in r["spans"] if s["start"] < end and s["end"] > start]
                bad = int(bool(touching))
                if len(found[task, bad]) >= _RAGTRUTH[task]:
                    continue
                spans = [(s["start"] - start, s["end"] - start) for s in touching]
                absent = -1 if not bad else int(not any("Conflict" in s["type"] for s in touching))
                text, kind = r["answer"][start:end], task
                if not bad and self.random.random() < 0.15 and (edit := self._exchanged(text, r["contexts"])):
                    text, spans, bad, absent, kind = edit[0], [edit[1]], 1, 0, f"{task} exchanged"
                budget = self.random.choice((200, 240, 300))
                found[task, int(bool(touching))].append(
                    self.row(
                        r["contexts"], query, text, bad, spans or None, budget,
                        absent=absent, kind=kind, source="ragtruth",
                    )
                )  # fmt: skip
        return [row for made in found.values() for row in made]

    def _exchanged(self, text: str, contexts: Sequence[str]) -> tuple[str, tuple[int, int]] | None:
        """One number or name of the context put in the place of another of the same form."""
        context = " ".join(contexts)
        for pattern in self.random.sample((_NUMBER, _NAME), 2):
            there = sorted({m.group() for m in pattern.finditer(context)})
            places = [m for m in pattern.finditer(text) if m.group() in there]
            self.random.shuffle(places)
            for m in places:
                form = re.sub(r"\d", "0", m.group()) if pattern is _NUMBER else None
                like = [
                    o
                    for o in there
                    if o != m.group() and o not in text and (form is None or re.sub(r"\d", "0", o) == form)
                ]
                if like:
                    other = self.random.choice(like)
                    return text[: m.start()] + other + text[m.end() :], (m.start(), m.start() + len(other))
        return None

    def relevance(self, folder: Path) -> list[Row]:
        """Answers with and without their question; passages with and without the answer to it."""
        made = []
        for name, limit in _RELEVANCE.items():
            rows = [r for r in lines(folder / f"{name}.jsonl.gz") if r.get("answer")]
            self.random.shuffle(rows)
            for r in rows[:limit]:
                made.append(self.row([], r["query"], r["answer"], -1, off_topic=1 - r["label"], source="relevance"))
        for name, limit in _PASSAGES.items():
            rows = [r for r in lines(folder / f"{name}.jsonl.gz") if r.get("lang", "en") == "en"]
            sentences = name.startswith("rel_selqa")
            texts = [(r["answer"] if sentences else (r["contexts"] or [""])[0], r) for r in rows]
            texts = [t for t in texts if t[0]]
            self.random.shuffle(texts)
            made += [self.passage(text, r["query"], 1 - r["label"]) for text, r in texts[:limit]]
        return made

    def passage(self, chunk: str, query: str, beside: int) -> Row:
        """A chunk as evidence, chosen by the question, without an answer."""
        row = self.row([chunk], query, "", -1, source="relevance", kind="passage")
        row.beside, row.claims, row.words = beside, [], None
        return row

    def passages_of_cases(self, files: Iterable[Path], limit: int) -> list[Row]:
        """Chunks of the cases that hold a right answer, and their look-alikes that do not."""
        made: list[Row] = []
        for path in files:
            for case in lines(path):
                for item in self.random.sample(case["items"], min(4, len(case["items"]))):
                    if not item["ok"] or item["kind"] not in ("copy", "paraphrase", "long", "short", "condition_kept"):
                        continue
                    own = stems(item["a"]) | stems(item["q"])
                    share = [len(own & stems(c)) / max(1, len(own)) for c in case["contexts"]]
                    best = max(range(len(share)), key=share.__getitem__)
                    rest = [i for i in range(len(share)) if i != best]
                    if rest and share[best] > 0.5 and share[best] - max(share[i] for i in rest) > 0.2:
                        made.append(self.passage(case["contexts"][best], item["q"], 0))
                        made.append(self.passage(case["contexts"][self.random.choice(rest)], item["q"], 1))
        self.random.shuffle(made)
        return made[:limit]

    def records(self, number: int) -> list[Row]:
        """Answers over records that are drawn by rule."""
        rows = []
        for i, (context, question, answers) in enumerate(record_cases.draw_cases(7, number)):
            for text, wrong, absent in answers:
                spans = [(at, at + len(wrong))] if wrong and (at := text.find(wrong)) >= 0 else None
                labels = {"absent": absent if wrong else -1, "group": f"table-{i}", "kind": "table", "source": "tables"}
                rows.append(self.row([context], question, text, int(bool(wrong)), spans, **labels))
        return rows

    def other_chunks(self, files: Sequence[Path], limit: int) -> list[Row]:
        """Right and wrong answers over the chunks of another case: all bad, so that the answer alone tells nothing."""
        cases = [c for f in files for c in lines(f)]
        made = []
        for _ in range(limit):
            one, two = self.random.sample(cases, 2)
            item = self.random.choice(one["items"])
            made.append(
                self.row(two["contexts"], item["q"], item["a"], 1, absent=1, kind="other_chunks", source="cases")
            )
        return made


def main() -> None:
    """Write the tokenizer and the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option in ("data", "start", "out"):
        parser.add_argument(f"--{option}", type=Path, required=True)
    parser.add_argument("--cases", type=Path, nargs="*", default=sorted((HERE / "cases").glob("*.jsonl")))
    parser.add_argument("--variants", type=int, default=1)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    train = given.data / "train"

    def texts() -> Iterator[str]:
        for case in (c for f in given.cases for c in lines(f)):
            yield from case["contexts"]
            yield from (f"{i['q']}\n{i['a']}" for i in case["items"])
        for path in [
            train / "ragtruth_train.jsonl.gz",
            *(train / "ground" / f"{n}.jsonl.gz" for n in [*_GROUND, *_WHOLE]),
            *(train / "nli" / f"{n}.jsonl.gz" for n in _NLI),
        ]:
            for r in lines(path):
                yield "\n".join([*r["contexts"], r.get("query") or "", r["answer"]])

    if not (given.out / "kept.json").exists():
        kept = cut(given.start / "tokenizer.json", texts(), given.out / "tokenizer.json")
        (given.out / "kept.json").write_text(json.dumps(kept))
        print("pieces", len(kept), flush=True)
    maker = Maker(given.out / "tokenizer.json")
    cases, validation = maker.cases(given.cases)
    for variant in range(1, given.variants):
        cases += maker.cases(given.cases, variant)[0]
    cases += maker.other_chunks(given.cases, 1_200 * given.variants)
    streams = {
        "cases": [r for r in cases if r.source == "cases"],
        "tables": maker.records(9_000),
        "tools": [r for r in cases if r.group.startswith("tools")],
        "relevance": [r for r in cases if r.source == "relevance"],
        "validation": validation,
        "nli": [r for n, k in _NLI.items() for r in maker.labelled(train / "nli" / f"{n}.jsonl.gz", k)],
        "ground": [r for n, k in _GROUND.items() for r in maker.labelled(train / "ground" / f"{n}.jsonl.gz", k)],
        "ragtruth": [r for _ in range(given.variants) for r in maker.ragtruth(train / "ragtruth_train.jsonl.gz")],
    }
    for n, times in _WHOLE.items():
        streams["ground"] += times * maker.labelled(train / "ground" / f"{n}.jsonl.gz")
    streams["relevance"] += maker.relevance(train / "other") + maker.passages_of_cases(given.cases, 9_000)
    for name, rows in streams.items():
        print(name, len(rows), "bad", sum(r.bad == 1 for r in rows), "pieces", sum(len(r.ids) for r in rows))
    (given.out / "rows.pickle").write_bytes(pickle.dumps(streams))


if __name__ == "__main__":
    import rows  # so that the pickled class is rows.Row

    rows.main()
