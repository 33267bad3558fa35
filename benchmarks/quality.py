"""How good the local evaluators are, on labelled data: python benchmarks/quality.py --data FOLDER [--limit N]

FOLDER holds the labelled sets as gzipped JSON lines (id, source_id, task, query, contexts, answer, label, spans).
Prints, for each set and task, the area under the ROC curve with its 95 % interval (bootstrap over sources), average
precision, balanced accuracy and F1 at the shipped threshold, the expected calibration error of what is a probability,
the coverage (share of rows with a score) and the time for a row, beside a baseline without a model and what was
published; and paired differences. The tables are those of docs/quality.md.
"""

import argparse
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from labelled import Row, rows, trace
from sklearn.metrics import average_precision_score, balanced_accuracy_score, f1_score, roc_auc_score

from ragtrace import plugins
from ragtrace.evaluate.groundedness import Checked, check
from ragtrace.evaluation import run
from ragtrace.text.privacy.find import find_personal_data

_DRAWS = 300
_WORD = re.compile(r"\w+")


Line = list[str]
"""The cells of one row of a table."""
_HEADER = (
    "| what | task | rows | coverage | AUROC (95 %) | in cells | AP | bal. acc. | F1 | ECE | ms | beside |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|---|"
)

PUBLISHED = {
    ("ragtruth_dev", "QA"): "bacc HHEM-2.1-Open .743, GPT-4 .741; F1 LettuceDetect-large .702, GPT-4-turbo .456",
    ("ragtruth_dev", "Summary"): "bacc HHEM-2.1-Open .644, GPT-4 .626; F1 LettuceDetect-large .597, GPT-4-turbo .476",
    ("ragtruth_dev", "Data2txt"): "F1 LettuceDetect-large .885, GPT-4-turbo .783, always yes .783",
    ("wice", "claim-verification"): "bacc MiniCheck-RoBERTa .676, AlignScore .660, GPT-4o .785",
    ("qags_cnndm", "Summary"): "AUROC UniEval .854",
    ("msmarco_hardneg", "query->passage"): "AUROC in a query, word overlap .613",
    ("wice_context", "claim->evidence chunk"): "AUROC in a query, word overlap .906",
    ("lang_mismatch", "all"): "F1 py3langid .957",
    ("toolloop_synth", "all"): "F1 of a call that is made three times .913",
}


def novelty(row: Row) -> float:
    """Baseline: share of the answer's longer words that the context does not have."""
    known = {w for c in row["contexts"] for w in _WORD.findall(c.lower())}
    said = [w for w in _WORD.findall(row["answer"].lower()) if len(w) > 3]
    return sum(w not in known for w in said) / max(1, len(said))


def interval(y: np.ndarray, s: np.ndarray, groups: np.ndarray, measure: Callable[..., float]) -> str:
    """A measure with its 95 % interval."""
    low, high = drawn(y, s, groups, measure)
    return f"{measure(y, s):.3f} ({low:.2f}-{high:.2f})".replace("0.", ".")


def drawn(y: np.ndarray, s: np.ndarray, groups: np.ndarray, measure: Callable[..., float]) -> tuple[float, float]:
    """A measure's 95 % interval: bootstrap over groups."""
    chance = np.random.default_rng(7)
    names, inverse = np.unique(groups, return_inverse=True)
    members = [np.flatnonzero(inverse == g) for g in range(len(names))]
    found = []
    for _ in range(_DRAWS):
        k = np.concatenate([members[g] for g in chance.integers(0, len(names), len(names))])
        if 0 < y[k].sum() < len(k):
            found.append(measure(y[k], s[k]))
    low, high = np.quantile(found, [0.025, 0.975])
    return float(low), float(high)


def paired(of_set: list[Row], task: str, first: list[float | None], second: list[float | None]) -> str:
    """How much larger the first score's AUROC is, on the rows that both have, with its 95 % interval: both are drawn
    together. Nothing where all rows are of one kind."""
    have = [i for i, r in enumerate(of_set) if r["task"] == task and first[i] is not None and second[i] is not None]
    y = np.array([int(of_set[i]["label"]) for i in have])
    both = np.array([[first[i], second[i]] for i in have], float)
    if not 0 < y.sum() < len(y):
        return ""
    groups = np.array([of_set[i]["source_id"] for i in have])

    def gain(labels: np.ndarray, scores: np.ndarray) -> float:
        return float(roc_auc_score(labels, scores[:, 0]) - roc_auc_score(labels, scores[:, 1]))

    low, high = drawn(y, both, groups, gain)
    return f"{gain(y, both):+.3f} ({low:+.2f} to {high:+.2f})"


def in_cells(y: np.ndarray, s: np.ndarray, cells: np.ndarray) -> str:
    """Mean AUROC inside cells that hold at least five rows of each kind."""
    found = []
    for c in np.unique(cells):
        k = cells == c
        if 5 <= y[k].sum() <= k.sum() - 5:
            found.append(roc_auc_score(y[k], s[k]))
    return f"{np.mean(found):.3f}" if len(found) > 1 else ""


def calibration(y: np.ndarray, p: np.ndarray) -> float:
    """Expected calibration error over ten bins of equal width."""
    bins = np.minimum((p * 10).astype(int), 9)
    return float(sum(abs(p[bins == b].mean() - y[bins == b].mean()) * (bins == b).mean() for b in set(bins)))


def table(
    name: str,
    of_set: list[Row],
    scores: dict[str, tuple[list[float | None], float | None, bool]],
    ms: float,
    cells: Callable[[Row], str] | None = None,
) -> list[Line]:
    """Lines for each task (and for all, where there are several): scores are higher where the label is likelier; with
    the threshold from which a row is flagged, and whether the score is a probability."""
    lines = []
    tasks = sorted({r["task"] for r in of_set})
    for task in tasks:
        mine = [i for i, r in enumerate(of_set) if r["task"] == task]
        for what, (values, threshold, probability) in scores.items():
            have = [i for i in mine if values[i] is not None]
            if not have:
                continue
            y = np.array([int(of_set[i]["label"]) for i in have])
            s = np.array([float(values[i] or 0.0) for i in have])
            if not 0 < y.sum() < len(y):
                continue
            groups = np.array([of_set[i]["source_id"] for i in have])
            inside = in_cells(y, s, np.array([cells(of_set[i]) for i in have])) if cells else ""
            line = [what, f"{name} {task}", str(len(mine)), f"{len(have) / len(mine):.2f}"]
            line += [interval(y, s, groups, roc_auc_score), inside, f"{average_precision_score(y, s):.3f}"]
            measures = () if threshold is None else (balanced_accuracy_score, f1_score)
            line += [f"{measure(y, s >= threshold):.3f}" for measure in measures] or ["", ""]
            line.append(f"{calibration(y, s):.3f}" if probability else "")
            line.append("" if what.startswith("baseline") else f"{ms:.0f}")
            line.append(PUBLISHED.get((name, task), "") if what == next(iter(scores)) else "")
            lines.append(line)
    return lines


def show(lines: Iterable[Line]) -> None:
    """Print a table."""
    print(_HEADER)
    for line in lines:
        print("| " + " | ".join(line) + " |", flush=True)
    print()


# --- the sets ---------------------------------------------------------------------------------------------------------


COMPARED = ("hallucination_cross_encoder", "groundedness_lexical", "baseline: novel words")


def grounding(folder: Path, limit: int) -> None:
    """Supported or not: RAGTruth's tasks, and sets that were never trained on."""
    print("## Groundedness\n")
    lines: list[Line] = []
    gains: list[list[str]] = []
    marked: list[tuple[Row, Checked]] = []
    for name in ("ragtruth_dev", "wice", "qags_cnndm", "begin_cmu", "begin_wow"):
        of_set = rows(folder, name, limit)
        started = time.process_time()
        readings = [check(r["query"] or "", r["answer"], r["contexts"]) for r in of_set]
        ms = (time.process_time() - started) * 1000 / len(of_set)

        def by(value: Callable[[Checked], float], readings: list[Checked | str] = readings) -> list[float | None]:
            return [None if isinstance(f, str) else value(f) for f in readings]

        def bound(evaluator: str) -> float:
            return 1 - (plugins.load(evaluator).threshold or 0.0)

        scores: dict[str, tuple[list[float | None], float | None, bool]] = {
            "groundedness": (by(lambda c: 1 - min(c.supported())), bound("groundedness"), False),
            "faithfulness": (by(lambda c: 1 - c.share()), bound("faithfulness"), False),
            COMPARED[0]: (by(lambda c: c.support.ungrounded), bound(COMPARED[0]), True),
            "baseline: novel words": ([novelty(r) for r in of_set], None, False),
        }
        words, words_ms = evaluated("groundedness_lexical", of_set)
        by_words = [None if v is None else 1 - v for v in words]
        lexical: dict[str, Any] = {"groundedness_lexical": (by_words, bound("groundedness_lexical"), True)}

        def generator(row: Row) -> str:
            return str(row.get("model") or "")

        lines += table(name, of_set, scores, ms, generator) + table(name, of_set, lexical, words_ms, generator)
        scores |= lexical
        values = [scores[what][0] for what in COMPARED]
        for task in sorted({r["task"] for r in of_set}):
            gains.append([f"{name} {task}", *(paired(of_set, task, values[0], other) for other in values[1:])])
        if name == "ragtruth_dev":
            marked = [(row, each) for row, each in zip(of_set, readings, strict=True) if isinstance(each, Checked)]
    show(lines)
    print(f"How much larger the AUROC of `{COMPARED[0]}` is, on the same rows (95 %, paired bootstrap over sources):\n")
    print("| task | " + " | ".join(f"than {other}" for other in COMPARED[1:]) + " |\n|---|---|---|")
    for gain in gains:
        print("| " + " | ".join(gain) + " |")
    print("\nUnsupported words, F1 of characters:")
    for task in sorted({r["task"] for r, _ in marked}):
        print(f"- ragtruth_dev {task}: {character_f1([(r, f) for r, f in marked if r['task'] == task]):.3f}")
    print(f"- ragtruth_dev all: {character_f1(marked):.3f}")
    tokens = [(r, check("", r["answer"], r["contexts"])) for r in rows(folder, "wice_tokens", limit)]
    print(f"- wice_tokens: {character_f1([(r, f) for r, f in tokens if isinstance(f, Checked)]):.3f}\n")


def character_f1(found: list[tuple[Row, Checked]]) -> float:
    """F1 over characters, pooled over rows."""
    hit = said = true = 0
    for row, checked in found:
        gold, mine = np.zeros(len(row["answer"]), bool), np.zeros(len(row["answer"]), bool)
        for s in row["spans"]:
            gold[s["start"] : s["end"]] = True
        for a, b in (span for _, claim in checked.claims for span in claim.spans):
            mine[a:b] = True
        hit, said, true = hit + int((gold & mine).sum()), said + int(mine.sum()), true + int(gold.sum())
    return 2 * hit / max(1, said + true)


def evaluated(name: str, of_set: list[Row]) -> tuple[list[float | None], float]:
    """An evaluator's values, and milliseconds for a row."""
    loaded = plugins.load(name)
    started = time.process_time()
    found = [s[0].value for r in of_set for s in run(loaded, [trace(r)])]
    return found, (time.process_time() - started) * 1000 / len(of_set)


def negated(values: list[float | None]) -> list[float | None]:
    return [None if v is None else -v for v in values]


def per_query(of_set: list[Row], values: list[float | None]) -> float:
    """Mean over queries of the AUROC of relevant against irrelevant passages."""
    groups: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for row, value in zip(of_set, values, strict=True):
        groups[row["source_id"]].append((row["label"], value or 0.0))
    found = []
    for members in groups.values():
        good = [v for label, v in members if label == 0]
        bad = [v for label, v in members if label == 1]
        if good and bad:
            found.append(float(np.mean([(g > b) + 0.5 * (g == b) for g in good for b in bad])))
    return float(np.mean(found))


def relevance(folder: Path, limit: int) -> None:
    """Is a passage, is an answer on the question."""
    print("## Relevance\n")
    lines: list[Line] = []
    for name in ("msmarco_hardneg", "wice_context"):
        of_set = rows(folder, name, 0 if name == "msmarco_hardneg" else min(limit or 2000, 2000))
        values, ms = evaluated("context_relevancy_recall", of_set)
        scores: dict[str, Any] = {"context_relevancy_recall": (negated(values), None, False)}
        lines += table(name, of_set, scores, ms)
        print(f"{name}: AUROC inside a query {per_query(of_set, values):.3f}\n")
    of_set = rows(folder, "haluquestqa", 0)
    human = [r for r in of_set if r["model"] == "human"] or [r for r in of_set if "human" in str(r["model"])]
    values, ms = evaluated("answer_relevance", human)
    lines += table("haluquestqa (human)", human, {"answer_relevance": (negated(values), None, False)}, ms)
    show(lines)


def text_checks(folder: Path, limit: int) -> None:
    """Languages, loops, secrets, personal data: no model that was trained here."""
    print("## Language, loops, secrets, personal data\n")
    lines: list[Line] = []
    for name, evaluator in (
        ("lang_mismatch", "language_mismatch"),
        ("loop_synth", "looping_repeated_ngrams"),
        ("loop_synth", "looping_repeated_substring"),
        ("toolloop_synth", "looping_tool_calls"),
        ("secrets_synth", "sensitive_data_leakage"),
    ):
        of_set = [{**r, "task": "all"} for r in rows(folder, name, limit)]
        values, ms = evaluated(evaluator, of_set)
        loaded = plugins.load(evaluator)
        if loaded.direction == "higher":
            values, threshold = negated(values), -(loaded.threshold or 0.0) + 1e-9
        else:
            threshold = (loaded.threshold or 0.0) + 1e-9
        lines += table(name, of_set, {evaluator: (values, threshold, False)}, ms)
    show(lines)
    kinds = {"EMAIL_ADDRESS": "email", "CREDIT_CARD": "credit_card", "IBAN_CODE": "iban", "IP_ADDRESS": "ip_address"}
    kinds |= {"US_SSN": "us_ssn", "PHONE_NUMBER": "phone"}
    hit = missed = wrong = 0
    for row in rows(folder, "presidio_pii", 0):
        matches = find_personal_data(row["answer"])
        gold = [(kinds[s["type"]], s["start"], s["end"]) for s in row["spans"] if s["type"] in kinds]
        for kind, start, end in gold:
            ok = any(f.kind == kind and f.start < end and start < f.end for f in matches)
            hit, missed = hit + ok, missed + (not ok)
        wrong += sum(not any(f.kind == k and f.start < e and s < f.end for k, s, e in gold) for f in matches)
    f1 = 2 * hit / (2 * hit + missed + wrong)
    print(f"Personal data of structured types, spans: F1 {f1:.3f} ({hit} right, {missed} missed, {wrong} wrong)\n")


def heads(folder: Path, limit: int) -> None:
    """Refusals, cross-validated, since they are trained on dev as well; toxicity, which is not."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "training"))
    import toxicity
    import train_refusals

    from ragtrace.evaluate.models.embedding import OnnxEmbedder

    print("## Refusal by cross-validation; toxicity\n\n```")
    embedder = OnnxEmbedder()
    train_refusals.train(folder.parent, out=None)
    toxicity.figures(folder.parent, embedder)
    print("```\n")


PARTS = {"grounding": grounding, "relevance": relevance, "text": text_checks, "heads": heads}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds dev/ (and train/ for the heads)")
    parser.add_argument("--limit", type=int, default=0, help="rows of a set at most, evenly drawn; 0 for all")
    parser.add_argument("--only", default=",".join(PARTS), help=f"parts, of {', '.join(PARTS)}")
    options = parser.parse_args()
    for part in options.only.split(","):
        PARTS[part](options.data / "dev", options.limit)


if __name__ == "__main__":
    main()
