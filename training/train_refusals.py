"""Train the refusal head and print its figures: python training/train_refusals.py --data FOLDER

FOLDER holds dev/xstest_refusal, train/ragtruth_train and train/other/ with the sets named ref_*. The head says of a
statement, and of the opening of a whole answer, whether it declines. Its figures are of a three-fold cross-validation
over XSTest's prompts and over the templates of `refusal_phrases`, with the other sets in every fold. Run
training/checksums.py afterwards. Needs scikit-learn. Takes some minutes of one core.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from refusal_phrases import sentences
from scipy.sparse import csr_matrix, hstack
from sets import OUT, data_parser, expected_calibration_error, hashed, rows_of
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, roc_auc_score
from sklearn.model_selection import GroupKFold

from ragtrace.evaluate.models.heads import BUCKETS, NGRAM_CHARS, char_buckets, word_buckets
from ragtrace.text.claims import read

SCALE, LENGTH = 3.0, 0.3
LANGUAGES = ("en", "de", "fr", "es", "it", "pt", "nl", "zh", "ja", "pl", "ru", "ko", "ar")


@dataclass(frozen=True)
class Example:
    """A text of the training set; `fold` is the group that a fold keeps together, empty where it is in all folds."""

    text: str
    label: int
    fold: str
    weight: float = 1.0


def statements_of(answer: str) -> list[tuple[str, str]]:
    """An answer's statements with their kinds."""
    parts = read(answer)
    return [(answer[s.start : s.end], s.kind) for s in parts.statements if s.kind in ("claim", "abstention")]


def of_answer(answer: str, label: int, fold: str, weight: float) -> Iterator[Example]:
    """The opening of an answer, and its first statement."""
    yield Example(answer, label, fold, weight)
    first = statements_of(answer[:400])
    if first and len(first[0][0]) < len(answer):
        yield Example(first[0][0], label, fold, weight)


def examples(folder: Path) -> list[Example]:
    chance = random.Random(20261122)
    drawn: list[Example] = []

    files: dict[str, list[dict[str, Any]]] = {}

    def draw(name: str, count: int, weight: float, **having: Any) -> None:
        if name not in files:
            files[name] = rows_of(folder / "train" / "other" / f"{name}.jsonl.gz")
        found = [r for r in files[name] if r["label"] is not None]
        found = [r for r in found if all(r.get(k) in v for k, v in having.items())]
        for row in chance.sample(found, min(count, len(found))):
            drawn.extend(of_answer(row["answer"], row["label"], "", weight))

    for language in LANGUAGES:
        draw("ref_multilingual_polyrefuse", 110, 0.5, lang=(language,), label=(1,))
        draw("ref_multilingual_polyrefuse", 110, 0.5, lang=(language,), label=(0,))
    draw("ref_english_model_outputs", 500, 0.5, confidence=("medium", "high"))
    draw("ref_coconot_contrast", 400, 0.5, confidence=("high",))
    draw("ref_mtrag_answerability", 400, 1.0)
    draw("ref_bbq_abstention", 200, 0.5)
    draw("ref_nonrefusal_xquad", 600, 0.5)
    draw("ref_korean_orbench", 200, 0.5)
    draw("ref_templates_11lang", 2_000, 1.0, label_name=("refusal", "abstention_no_information"))
    draw("ref_templates_11lang", 2_000, 1.0, label_name=("answer_that_looks_like_refusal",))
    drawn.extend(of_ragtruth(rows_of(folder / "train" / "ragtruth_train.jsonl.gz"), chance))
    drawn.extend(Example(text, label, template) for text, label, template in sentences())
    for row in rows_of(folder / "dev" / "xstest_refusal.jsonl.gz"):
        drawn.extend(of_answer(row["answer"], row["label"], "xstest" + row["source_id"], 1.0))
    return drawn


def of_ragtruth(answers: list[dict[str, Any]], chance: random.Random) -> Iterator[Example]:
    """Statements of answers by their kinds; abstaining answers; and abstentions with a claim after them, which are
    answers."""
    chance.shuffle(answers)
    claimed: list[str] = []
    abstained: list[str] = []
    for row in answers[:1_500]:
        for text, kind in statements_of(row["answer"]):
            (claimed if kind == "claim" else abstained).append(text)
    for text in chance.sample(claimed, 1_500):
        yield Example(text, 0, "", 1.0)
    declined = sorted(set(abstained))
    for text in chance.sample(declined, min(400, len(declined))):
        yield Example(text, 1, "", 0.5)
    for row in answers[1_500:1_900]:
        if not any(kind == "abstention" for _, kind in statements_of(row["answer"])):
            yield Example(row["answer"], 0, "", 1.0)
    refusals = [text for text, label, _ in sentences(copies=1) if label]
    for _ in range(500):
        first, second = chance.choice(refusals), " ".join(chance.sample(claimed, 2))
        yield Example(f"{first} {second}" if chance.random() < 0.7 else f"{second} {first}", 0, "", 1.0)


def ngrams(texts: list[str]) -> csr_matrix:
    """(n, 2 * BUCKETS + 1): the character and the word buckets, times their scale, and the length."""
    lengths = np.array([[LENGTH * np.log1p(len(t))] for t in texts])
    parts = [hashed(map(buckets, texts), BUCKETS, SCALE) for buckets in (char_buckets, word_buckets)]
    return hstack([*parts, csr_matrix(lengths)]).tocsr()


def train(folder: Path, out: Path | None = OUT) -> None:
    """Print the cross-validated figures; train on everything and write to `out`, if there is one."""
    drawn = examples(folder)
    x = ngrams([e.text[:NGRAM_CHARS] for e in drawn])
    y = np.array([e.label for e in drawn])
    weights = np.array([e.weight for e in drawn])

    def fitted(chosen: np.ndarray) -> LogisticRegression:
        model = LogisticRegression(C=3.0, max_iter=100, solver="liblinear", random_state=0)
        return model.fit(x[chosen], y[chosen], sample_weight=weights[chosen])

    held = np.array([i for i, e in enumerate(drawn) if e.fold])
    always = np.array([i for i, e in enumerate(drawn) if not e.fold])
    p = np.zeros(len(drawn))
    for fit_rows, test in GroupKFold(3).split(held, y[held], [drawn[i].fold for i in held]):
        p[held[test]] = fitted(np.r_[always, held[fit_rows]]).predict_proba(x[held[test]])[:, 1]
    for name in ("XSTest", "phrases"):
        k = [i for i in held if drawn[i].fold.startswith("xstest") == (name == "XSTest")]
        line = f"{name:8} n {len(k):5}  F1 {f1_score(y[k], p[k] >= 0.5):.3f}  AUROC {roc_auc_score(y[k], p[k]):.3f}"
        print(f"{line}  ECE {expected_calibration_error(p[k], y[k]):.3f}")
    if out is not None:
        model = fitted(np.arange(len(drawn)))
        write(out / "refusal.npz", np.r_[model.coef_[0], model.intercept_])


def write(path: Path, weights: np.ndarray) -> None:
    """Write the head's file, with the scales folded in and without weights of an embedding."""
    chars, words = weights[:BUCKETS] * SCALE, weights[BUCKETS : 2 * BUCKETS] * SCALE
    np.savez_compressed(
        path, labels=np.array(["refusal"]), dense=np.zeros((1, 0), np.float32), chars=chars[None].astype(np.float16),
        words=words[None].astype(np.float16), platt=np.array([1.0, 0.0], np.float32),
        rest=np.array([[weights[-2] * LENGTH, weights[-1]]], np.float32),
    )  # fmt: skip
    print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    train(data_parser(__doc__).parse_args().data)
