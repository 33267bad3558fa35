"""Train the layer of SummaC-Conv: python training/train_summac.py --data FOLDER [--limit N]

FOLDER holds ragtruth_train.jsonl.gz (task, contexts, answer, spans: characters of the answer that people marked). A
claim is inconsistent if a marked span touches it. Prints the AUROC on a fifth of the sources that was left out, and
writes ragtrace/evaluate/models/data/summac.npz; run training/checksums.py afterwards.
"""

import random

import numpy as np
from sets import OUT, data_parser, rows_of
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from ragtrace.evaluate.composite import support_by_sentence
from ragtrace.evaluate.models.summac import histogram
from ragtrace.text.claims import claims


def main() -> None:
    parser = data_parser(__doc__)
    parser.add_argument("--limit", type=int, default=600)
    options = parser.parse_args()
    summaries = [row for row in rows_of(options.data / "ragtruth_train.jsonl.gz") if row["task"] == "Summary"]
    chosen = random.Random(7).sample(summaries, min(options.limit, len(summaries)))
    features, labels, sources = [], [], []
    for row in chosen:
        found = support_by_sentence("\n".join(row["contexts"]), row["answer"])
        said = claims(row["answer"])
        if isinstance(found, str) or len(found) != len(said):
            continue
        for column, claim in zip(found, said, strict=True):
            marked = any(s["start"] < claim.end and s["end"] > claim.start for s in row["spans"])
            features.append([*histogram(column)])
            labels.append(not marked)
            sources.append(row["source_id"])
    x, y = np.array(features), np.array(labels)
    names = sorted(set(sources))
    held = set(random.Random(1).sample(names, len(names) // 5))
    out = np.array([s in held for s in sources])
    model = LogisticRegression(C=1.0, max_iter=1_000).fit(x[~out], y[~out])
    print(
        f"{len(y)} claims, {1 - y.mean():.3f} inconsistent; AUROC on the fifth left out "
        f"{roc_auc_score(y[out], model.decision_function(x[out])):.3f}"
    )
    model = LogisticRegression(C=1.0, max_iter=1_000).fit(x, y)
    np.savez(OUT / "summac.npz", weights=np.append(model.coef_[0], model.intercept_[0]))


if __name__ == "__main__":
    main()
