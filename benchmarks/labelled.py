"""Labelled rows for the benchmarks: readers of the sets, and the rows that are good and bad for an evaluator."""

import gzip
import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from ragtrace.records import Document, Facts, Trace

Row = dict[str, Any]


def rows(folder: Path, name: str, limit: int = 0) -> list[Row]:
    """The rows of a set, `NAME.jsonl.gz` or `NAME.jsonl`; with a limit, that many drawn by lot."""
    packed = folder / f"{name}.jsonl.gz"
    raw = gzip.decompress(packed.read_bytes()) if packed.exists() else (folder / f"{name}.jsonl").read_bytes()
    everything = [json.loads(line) for line in raw.splitlines() if line.strip()]
    if not limit or limit >= len(everything):
        return everything
    chosen = sorted(random.Random(7).sample(range(len(everything)), limit))
    return [everything[i] for i in chosen]


def trace(row: Row) -> Trace:
    """A row as the evaluators see it."""
    documents = tuple(Document(f"d{i}", c) for i, c in enumerate(row["contexts"]))
    facts = Facts(steps=tuple(row.get("steps", ())))
    return Trace(1, 1, row["query"] or "", documents, row["answer"] or "", row.get("reference"), facts=facts)


@dataclass(frozen=True, slots=True)
class Example:
    """A row that is good or bad for an evaluator."""

    source: str
    """Rows of one source are not independent: they are drawn together."""
    good: bool
    trace: Trace


Examples = Iterator[Example]


def labelled(name: str, task: str = "", label: str = "label") -> Callable[[Path], Examples]:
    """The rows of a set (of one task): 1 is bad. RAGTruth's refusals and broken answers are left out."""

    def read(folder: Path) -> Examples:
        for row in rows(folder, name):
            if (not task or row["task"] == task) and row.get("quality", "good") == "good":
                yield Example(row["source_id"], not row[label], trace(row))

    return read


def begin(folder: Path) -> Examples:
    """BEGIN's two parts as one set."""
    return chain(labelled("begin_cmu")(folder), labelled("begin_wow")(folder))


def alike(name: str, *, good: bool) -> Callable[[Path], Examples]:
    """The rows of a set, of which all are good for an evaluator, or bad."""
    return lambda folder: (Example(row["source_id"], good, trace(row)) for row in rows(folder, name))


def ragtruth_answers(folder: Path) -> Examples:
    """Ordinary answers of six models, supported or not: good for an evaluator of their form and tone."""
    return (replace(each, good=True) for each in labelled("ragtruth_dev")(folder))


def written_answers(name: str) -> Callable[[Path], Examples]:
    """The answers of a file beside this one, which was written for ragtrace by somebody who had not seen what the
    classifiers are trained on: 1 is a refusal, or toxic."""

    def read(_folder: Path) -> Examples:
        for row in _beside(name):
            yield Example(row["id"], not row["label"], trace({"answer": row["answer"], "query": "", "contexts": []}))

    return read


def ragtruth_references(folder: Path) -> Examples:
    """Answers to questions, with a supported answer of another model as the reference; bad where a person marked a
    hallucination."""
    references: dict[str, str] = {}
    for row in rows(folder, "ragtruth_dev"):
        if row["task"] == "QA" and row["quality"] == "good":
            reference = references.get(row["source_id"])
            if reference is not None:
                yield Example(row["source_id"], not row["label"], trace({**row, "reference": reference}))
            elif not row["label"]:
                references[row["source_id"]] = row["answer"]


def _handmade(folder: Path, name: str) -> list[Row]:
    return rows(folder / "handmade", name)


def _passing(folder: Path) -> list[Row]:
    """The hand-written answers that are faithful."""
    written = [*_handmade(folder, "rag"), *_handmade(folder, "rag_long_pairs"), *_handmade(folder, "negation_pairs")]
    return [row for row in written if row["expect"] == "pass"]


def _topic(row: Row) -> str:
    """The rows over the same chunks are one source."""
    return row["contexts"][0] if row["contexts"] else str(row["id"])


def xstest_prompts(folder: Path) -> Examples:
    """Harmless questions with words that look bad, judged as if they were answers."""
    for row in rows(folder, "xstest_prompts"):
        yield Example(row["source_id"], True, trace({**row, "answer": row["query"]}))


def handmade_grounding(folder: Path) -> Examples:
    """Hand-written answers, faithful or with something in them that the chunks do not support."""
    for name in ("rag", "rag_long_pairs", "negation_pairs"):
        for row in _handmade(folder, name):
            if row["expect"] in ("pass", "fail"):
                yield Example(_topic(row), row["expect"] == "pass", trace(row))


def handmade_answers(folder: Path) -> Examples:
    """The hand-written faithful answers: good for every evaluator."""
    return (Example(_topic(row), True, trace(row)) for row in _passing(folder))


def handmade_questions(folder: Path) -> Examples:
    """Faithful answers with their own chunks and question, and with the question of a row about other chunks."""
    return swapped(_passing(folder))


def own_and_foreign(folder: Path) -> Examples:
    """Questions with the chunks that were retrieved for them, and with those of another question."""
    return swapped([row for row in rows(folder, "qa_swap") if row["task"] == "own-answer"])


def swapped(of_set: list[Row]) -> Examples:
    """Each row as it is, and with the question of the next row that shares no chunk with it."""
    for i, row in enumerate(of_set):
        yield Example(_topic(row), True, trace(row))
        foreign = (r for r in of_set[i + 1 :] + of_set[:i] if not set(r["contexts"]) & set(row["contexts"]))
        for other in foreign:
            yield Example(_topic(row), False, trace({**row, "query": other["query"]}))
            break


def other_words(_folder: Path) -> Examples:
    """Questions with a chunk that answers in other words, with one near the subject that does not answer, and with the
    right one of the next question in the language; `other_words.txt` beside this file was written for ragtrace."""
    written = Path(__file__).with_name("other_words.txt").read_text(encoding="utf-8").splitlines()
    cases = [line.split(" | ") for line in written if not line.startswith("#")]
    for place, (language, question, right, wrong) in enumerate(cases):
        after = cases[place + 1 :] + cases[:place]
        foreign = next((chunk for other, _, chunk, _ in after if other == language), wrong)
        for good, chunk in ((True, right), (False, wrong), (False, foreign)):
            text = chunk.replace(r"\|", "|").replace(r"\n", "\n")
            yield Example(question, good, trace({"query": question, "contexts": [text], "answer": ""}))


def exchanges(with_chunks: bool) -> Callable[[Path], Examples]:
    """Questions and faithful answers of assistants, with their own question and with another's: those with chunks, and
    the lists, tables and code without. `exchanges.jsonl` beside this file was written for ragtrace."""

    def read(_folder: Path) -> Examples:
        return swapped([row for row in _beside("exchanges") if bool(row["contexts"]) == with_chunks])

    return read


def _beside(name: str) -> list[Row]:
    """The rows of a file beside this one, which was written for ragtrace."""
    return [{"id": f"{name} {number}", **row} for number, row in enumerate(rows(Path(__file__).parent, name))]


def grounded_exchanges(_folder: Path) -> Examples:
    """The faithful answers of `exchanges.jsonl` that have chunks."""
    return (Example(_topic(row), True, trace(row)) for row in _beside("exchanges") if row["contexts"])


BLIND = ("blind_answers", "grounding_answers")
"""Right and wrong answers over chunks that look alike, whose writers had seen neither the evaluators nor what they are
trained on: files beside this one."""
FRESH = ("fresh_answers",)  # as blind, and used in no calibration and for no threshold


def flattened(name: str) -> list[Row]:
    """The rows of a set: `query`, `contexts`, `answer`, `expect` (pass or fail), `category`, `group`."""
    found = []
    for number, row in enumerate(rows(Path(__file__).parent, name)):
        if "items" not in row:
            found.append(row | {"group": row["id"].split("-")[0]})
            continue
        for item in row["items"]:
            expect = "pass" if item["ok"] else "fail"
            found.append(
                {"query": item["q"], "answer": item["a"], "contexts": row["contexts"], "expect": expect}
                | {"category": item["kind"], "group": f"{number}"}
            )
    return [row for row in found if row["expect"] in ("pass", "fail")]


def changed_answers(_folder: Path) -> Examples:
    """The blind answers."""
    for row in (row for name in BLIND for row in flattened(name)):
        yield Example(_topic(row), row["expect"] == "pass", trace(row))


def questions_of_changed_answers(_folder: Path) -> Examples:
    """The right ones of the blind answers, each to its own question and to one of the group behind it."""
    for name in BLIND:
        right = [row for row in flattened(name) if row["expect"] == "pass"]
        first = {row["group"]: row["query"] for row in reversed(right)}
        following = dict(zip(first, [*list(first)[1:], *list(first)[:1]], strict=True))
        for row in right:
            yield Example(_topic(row), True, trace(row))
            yield Example(_topic(row), False, trace(row | {"query": first[following[row["group"]]]}))


def empty_answers(_folder: Path) -> Examples:
    """Answers that say nothing and odd ones that say something, whose writer had not seen the evaluators."""
    for number, row in enumerate(_beside("empty_answers")):
        of_model = replace(trace(row | {"query": "What is it?", "contexts": []}), facts=Facts(usage={"model": (1, 1)}))
        yield Example(str(number), not row["empty"], of_model)


def handmade(name: str, evaluator: str = "", categories: tuple[str, ...] = ()) -> Callable[[Path], Examples]:
    """A hand-written set whose bad rows have `fail` or `refuse`; of one evaluator, and of some categories."""

    def read(folder: Path) -> Examples:
        for row in _handmade(folder, name):
            if (not evaluator or row["evaluator"] == evaluator) and (not categories or row["category"] in categories):
                good = row["expect"] not in ("fail", "refuse", "refusal")
                yield Example(str(row["id"]), good, trace(row))

    return read


SETS: Mapping[str, Callable[[Path], Examples]] = {
    "ragtruth_dev QA": labelled("ragtruth_dev", "QA"), "ragtruth_dev Summary": labelled("ragtruth_dev", "Summary"),
    "ragtruth_dev Data2txt": labelled("ragtruth_dev", "Data2txt"), "ragtruth answers": ragtruth_answers,
    "ragtruth references": ragtruth_references, "qags_cnndm": labelled("qags_cnndm"), "wice": labelled("wice"),
    "begin": begin, "handmade grounding": handmade_grounding, "handmade answers": handmade_answers,
    "qa_swap": labelled("qa_swap"), "handmade questions": handmade_questions, "own and foreign chunks": own_and_foreign,
    "msmarco_hardneg": labelled("msmarco_hardneg"), "wice_context": labelled("wice_context"),
    "handmade other words": other_words, "handmade grounded exchanges": grounded_exchanges,
    "handmade changed answers": changed_answers, "handmade questions of changed answers": questions_of_changed_answers,
    "handmade exchanges": exchanges(with_chunks=True), "handmade lists and code": exchanges(with_chunks=False),
    "own refusals": written_answers("refusal_answers"), "own toxic answers": written_answers("toxic_answers"),
    "answers of languages": alike("lang_mismatch", good=True), "empty answers": empty_answers,
    "ragtruth_refusal": alike("ragtruth_refusal", good=False),
    "handmade refusal": handmade("refusal"), "handmade full_refusal": handmade("rag", categories=("full_refusal",)),
    "openai_moderation": labelled("openai_moderation"), "surge_toxicity": labelled("surge_toxicity"),
    "hatecheck": labelled("hatecheck"), "xstest_prompts": xstest_prompts, "handmade toxicity": handmade("toxicity"),
    "presidio_pii": labelled("presidio_pii", label="label_strict"), "handmade pii": handmade("pii", "pii"),
    "secrets_synth": labelled("secrets_synth"), "handmade secrets": handmade("pii", "secret"),
    "loop_synth": labelled("loop_synth"), "lang_mismatch": labelled("lang_mismatch"),
}  # fmt: skip
"""The sets by name, as `thresholds.py` combines them."""
