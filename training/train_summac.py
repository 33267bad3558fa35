"""Train the layer of SummaC-Conv: python training/train_summac.py --data FOLDER [--limit N]

FOLDER/train holds ragtruth_train.jsonl.gz (task, contexts, answer, spans: characters that people marked). A
claim is inconsistent if a marked span touches it, or if it is of another source's summary; these two weigh as much
together as the consistent claims. Prints the AUROC of both on a fifth of the sources that was left out, and writes
ragtrace/evaluate/models/data/summac.npz; run training/checksums.py afterwards.
"""

import random

import numpy as np
from sets import OUT, data_parser, rows_of
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from ragtrace.evaluate.composite import support_by_sentence
from ragtrace.evaluate.models.summac import histogram
from ragtrace.text.claims import read

_LONGEST = 1_800
"""Characters of a source: every claim is read beside every sentence of it."""
_CONSISTENT, _MARKED, _OTHER = range(3)
_SHARES = np.array([0.5, 0.25, 0.25])
_PRIOR = np.log(6)
"""Log-odds of a claim before it is read: in traffic six of seven are consistent, rather than the half of _SHARES."""


def main() -> None:
    parser = data_parser(__doc__)
    parser.add_argument("--limit", type=int, default=160)
    options = parser.parse_args()
    chance = random.Random(7)
    rows = [row for row in rows_of(options.data / "train" / "ragtruth_train.jsonl.gz") if row["task"] == "Summary"]
    rows = [row for row in rows if len("\n".join(row["contexts"])) <= _LONGEST]
    groups = [[row for row in rows if bool(row["spans"]) is marked] for marked in (True, False)]
    found: list[tuple[list[float], int, str]] = []
    for row in (row for group in groups for row in chance.sample(group, min(options.limit // 2, len(group)))):
        source = "\n".join(row["contexts"])
        other = chance.choice([r for r in rows if r["source_id"] != row["source_id"]])
        claims = read(row["answer"]).claims
        marked = [any(s["start"] < c.end and s["end"] > c.start for s in row["spans"]) for c in claims]
        foreign = " ".join(other["answer"][c.start : c.end] for c in read(other["answer"]).claims[:2])
        for text, kinds in ((row["answer"], [_MARKED if m else _CONSISTENT for m in marked]), (foreign, [_OTHER] * 2)):
            columns = support_by_sentence(source, text)
            if not isinstance(columns, str) and len(columns) == len(kinds):
                found += [(histogram(c), kind, row["source_id"]) for c, kind in zip(columns, kinds, strict=True)]
    x, kinds = np.array([f[0] for f in found]), np.array([f[1] for f in found])
    weights = (_SHARES / np.bincount(kinds))[kinds] * len(kinds)
    names = sorted({f[2] for f in found})
    held = set(random.Random(1).sample(names, len(names) // 5))
    out = np.array([f[2] in held for f in found])
    fitted = LogisticRegression(max_iter=1_000).fit(x[~out], kinds[~out] == _CONSISTENT, weights[~out])
    scores = fitted.decision_function(x)
    for kind, name in ((_MARKED, "marked"), (_OTHER, "of another source")):
        pair = out & np.isin(kinds, (_CONSISTENT, kind))
        area = roc_auc_score(kinds[pair] == _CONSISTENT, scores[pair])
        print(f"{name}: {(kinds == kind).sum()} of {len(kinds)} claims, AUROC {area:.3f}")
    fitted.fit(x, kinds == _CONSISTENT, weights)
    np.savez(OUT / "summac.npz", weights=np.append(fitted.coef_[0], fitted.intercept_[0] + _PRIOR))


if __name__ == "__main__":
    main()
