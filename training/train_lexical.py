"""Fit `groundedness_lexical` and print its coefficients and figures: python training/train_lexical.py --data FOLDER

FOLDER holds train/ragtruth_train.jsonl.gz, from which the coefficients are, and dev/ragtruth_dev.jsonl.gz, wice and
qags_cnndm, on which they are measured. Needs scikit-learn; takes a minute.
"""

from pathlib import Path
from typing import Any

import numpy as np
from sets import data_parser, rows_of
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from ragtrace.evaluate.lexical import Known, features
from ragtrace.text.claims import read


def table(path: Path) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Tasks, features and labels of the answers that claim something."""
    tasks: list[str] = []
    found: list[list[float]] = []
    labels: list[int] = []
    for row in rows_of(path):
        numbers = of_row(row)
        if numbers is not None:
            tasks.append(row["task"])
            found.append(numbers)
            labels.append(row["label"])
    return tasks, np.array(found), np.array(labels)


def of_row(row: dict[str, Any]) -> list[float] | None:
    reading = read(row["answer"])
    if not reading.claims:
        return None
    return features(
        reading.text, [(s.start, s.end) for s in reading.claims], Known.of([row["query"] or "", *row["contexts"]])
    )


def main() -> None:
    folder = data_parser(__doc__).parse_args().data
    _, x, y = table(folder / "train" / "ragtruth_train.jsonl.gz")
    model = LogisticRegression(C=1.0, max_iter=1_000).fit(x, y)
    print("WEIGHTS =", tuple(round(float(w), 3) for w in model.coef_[0]))
    print("SHIFT =", round(float(model.intercept_[0]), 3))
    for name in ("ragtruth_dev", "wice", "qags_cnndm"):
        tasks, x, y = table(folder / "dev" / f"{name}.jsonl.gz")
        p = model.predict_proba(x)[:, 1]
        for task in sorted(set(tasks)):
            of_task = np.array([t == task for t in tasks])
            print(name, task, len(y[of_task]), f"AUROC {roc_auc_score(y[of_task], p[of_task]):.3f}")


if __name__ == "__main__":
    main()
