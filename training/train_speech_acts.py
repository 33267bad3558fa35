"""Train the classifier of speech acts and print its figures: python training/train_speech_acts.py --data FOLDER

Its examples are speech_acts.txt (a label and a run of a sentence a line, written for it), the sentences of
refusal_phrases.py, sets of FOLDER/train/other, runs of real answers (RAGTruth and others in FOLDER/train), which a
first classifier labels where it is sure, and of the reader's cases, which are claims unless it is sure that they
are not. Two runs that do different things, joined, are examples of `mixed`. The figures are of a four-fold cross-
validation over speech_acts.txt (--validate). Run training/checksums.py afterwards. Needs scikit-learn; takes two
minutes of one core.
"""

import gzip
import json
import random
from array import array
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from refusal_phrases import sentences
from scipy.sparse import csr_matrix, hstack
from sets import data_parser, hashed, rows_of
from sklearn.linear_model import LogisticRegression

from ragtrace.text.sentences import split
from ragtrace.text.speech_acts import ACTS, BUCKETS, CUT, READ, WEIGHTS, buckets

KINDS = (*ACTS, "mixed")
SHARES = (1.0, 0.6, 0.4, 0.4, 0.4, 0.3, 0.2, 0.4)
"""The weight of each kind's examples together, beside that of the claims."""
SCALE, LENGTH, HAND, STRENGTH = 3.0, 0.3, 6.0, 3.0
CAUTION = 0.4
"""Log-odds that are added to those of a claim: a fact that nobody judges costs more than a courtesy that is judged."""
_SURE = 0.9
_REAL = 0.4
"""The weight of a run of a real answer or of a case."""
_MIXED, _CASES = 9_000, 25_000
_JOINS = (", ", ", ", ", but ", ", and ", "; ", ": ", " - ", " \u2013 ", ", so ")
Example = tuple[str, str, float]
"""A text, its kind, and its weight."""


def written() -> list[Example]:
    """The lines of speech_acts.txt."""
    lines = Path(__file__).with_name("speech_acts.txt").read_text(encoding="utf-8").splitlines()
    return [(text, kind, HAND) for kind, text in (line.split("\t", 1) for line in lines)]


def of_sets(folder: Path) -> list[Example]:
    """Sentences that the sets of refusals label as a whole."""
    found = [(text, "abstention" if label else "claim", 1.0) for text, label, _ in sentences(copies=2)]
    for name in ("ref_templates_11lang", "ref_bbq_abstention", "ref_nonrefusal_xquad"):
        for row in rows_of(folder / "train" / "other" / f"{name}.jsonl.gz"):
            kind = {1: "abstention", 0: "claim"}.get(row["label"])
            if kind and row.get("label_name") != "partial_answer" and len(row["answer"]) <= READ:
                found.append((row["answer"], kind, 0.5))
    return found


def of_cases(chance: random.Random) -> list[str]:
    """Sentences of the reader's cases, and their parts: nearly all claim something."""
    answers = set()
    for path in sorted((Path(__file__).parent / "reader" / "cases").glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            answers |= {item["a"] for item in json.loads(line)["items"]}
    return chance.sample(pieces(sorted(answers)), _CASES)


def pieces(answers: Sequence[str]) -> list[str]:
    """The sentences of answers, and their parts."""
    found: set[str] = set()
    for answer in answers:
        for start, end in split(answer[:1_000], 60):
            sentence = answer[start:end]
            cuts = [m.end() for m in CUT.finditer(sentence) if m.end() < len(sentence)]
            found |= {sentence[a:b].strip() for a, b in pairwise([0, *cuts, len(sentence)])} | {sentence}
    return sorted(found)


def runs_of_answers(folder: Path, chance: random.Random, count: int = 4_000) -> list[str]:
    """Sentences of real answers, and their parts."""
    names = ["ragtruth_train", "other/ref_multilingual_polyrefuse", "other/ref_mtrag_answerability"]
    found: list[str] = []
    for name in names:
        answers = [row["answer"] for row in rows_of(folder / "train" / f"{name}.jsonl.gz")]
        found += chance.sample(answers, min(count, len(answers)))
    return pieces(found)


def mixed(examples: Sequence[Example], chance: random.Random) -> list[Example]:
    """Two runs of different kinds in one sentence."""
    of_kind = {kind: [text for text, k, weight in examples if k == kind and weight == HAND] for kind in ACTS}
    spoken = ("claim", "abstention", "courtesy", "lead_in", "redirect")
    pairs = [(a, b) for a in spoken for b in (*spoken, "source") if b not in (a, "lead_in")]
    found = []
    for _ in range(_MIXED):
        first, second = (chance.choice(of_kind[kind]) for kind in chance.choice(pairs))
        second = second[:1].lower() + second[1:] if chance.random() < 0.7 else second
        found.append((first.rstrip(" .!:;,") + chance.choice(_JOINS) + second, "mixed", 1.0))
    return found


def matrix(texts: Sequence[str]) -> csr_matrix:
    """(n, 2 · BUCKETS + 1): what the classifier computes with, times its scale."""
    lengths = np.array([[LENGTH * np.log1p(len(text[:READ]))] for text in texts])
    kinds = zip(*map(buckets, texts), strict=True)
    parts = [hashed(of_kind, 2 * BUCKETS, SCALE) for of_kind in kinds]
    return hstack([sum(parts[1:], parts[0]), csr_matrix(lengths)]).tocsr()


def fitted(examples: Sequence[Example]) -> Any:
    """A softmax over the kinds."""
    y = np.array([KINDS.index(kind) for _, kind, _ in examples])
    weights = np.array([weight for _, _, weight in examples])
    of_kind = np.bincount(y, weights, len(KINDS))
    weights *= (np.array(SHARES) * of_kind[0] / of_kind)[y]
    model = LogisticRegression(C=STRENGTH, max_iter=120, random_state=0)
    return model.fit(matrix([text for text, _, _ in examples]), y, sample_weight=weights)


def trained(hand: Sequence[Example], folder: Path, real: Sequence[str]) -> Any:
    """The second classifier, for which the first one has labelled runs of real answers."""
    chance = random.Random(20261125)
    known = [*hand, *of_sets(folder)]
    stated = of_cases(chance)
    first = fitted([*known, *((text, "claim", 0.5) for text in stated), *mixed(hand, chance)])
    for texts, otherwise in ((real, "mixed"), (stated, "claim")):
        odds = first.predict_proba(matrix(texts))
        kinds = [KINDS[k] if p >= _SURE else otherwise for k, p in zip(odds.argmax(1), odds.max(1), strict=True)]
        known += [(text, kind, _REAL) for text, kind in zip(texts, kinds, strict=True) if kind != "mixed"]
    return fitted([*known, *mixed(hand, chance)])


def validate(hand: Sequence[Example], folder: Path, real: Sequence[str]) -> None:
    """Print how the lines of a quarter are taken by a classifier that was trained on the others."""
    place = np.random.default_rng(7).permutation(len(hand)) % 4
    table = np.zeros((len(ACTS), len(ACTS)), int)
    for fold in range(4):
        model = trained([e for e, f in zip(hand, place, strict=True) if f != fold], folder, real)
        held = [e for e, f in zip(hand, place, strict=True) if f == fold]
        odds = model.decision_function(matrix([text for text, _, _ in held])) + CAUTION * (np.arange(len(KINDS)) == 0)
        best = odds[:, : len(ACTS)].argmax(1)
        for (_, kind, _), k in zip(held, best, strict=True):
            table[ACTS.index(kind), k] += 1
    print("written as \\ taken for | " + " | ".join(ACTS))
    for act, line in zip(ACTS, table, strict=True):
        print(act, "|", " | ".join(map(str, line)), f"| {line[ACTS.index(act)] / line.sum():.2f}")


def write(model: Any) -> None:
    """Weights as eight bits with a scale for each kind."""
    weights = model.coef_[:, : 2 * BUCKETS] * SCALE
    scales = np.abs(weights).max(1) / 127
    biases = model.intercept_ + CAUTION * (np.arange(len(KINDS)) == 0)
    head = array("f", [*scales, *(model.coef_[:, -1] * LENGTH), *biases]).tobytes()
    rounded = np.rint(weights / scales[:, None]).astype(np.int8)
    WEIGHTS.write_bytes(gzip.compress(head + rounded.tobytes(), mtime=0))
    print(f"{WEIGHTS.name}: {WEIGHTS.stat().st_size} bytes")


def main() -> None:
    parser = data_parser(__doc__)
    parser.add_argument("--validate", action="store_true", help="print the figures, and write nothing")
    given = parser.parse_args()
    hand = written()
    real = runs_of_answers(given.data, random.Random(20261125))
    if given.validate:
        validate(hand, given.data, real)
    else:
        write(trained(hand, given.data, real))


if __name__ == "__main__":
    main()
