"""How noisy the verdicts are that the alerts read: python benchmarks/alerts/noise.py --data FOLDER [--rows 600]

FOLDER holds the labelled sets as for benchmarks/quality.py. Prints how often faithfulness, at its shipped threshold,
fails an answer that is bad (sensitivity) and passes one that is good (specificity), on RAGTruth's questions: figures
that traffic.py has as constants.
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path

from ragtrace import plugins
from ragtrace.evaluate.groundedness import check


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=600)
    options = parser.parse_args()
    with gzip.open(options.data / "ragtruth_dev.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [row for row in map(json.loads, lines) if row["task"] == "QA"][: options.rows]
    threshold = plugins.load("faithfulness").threshold or 0.0
    failed: dict[bool, list[bool]] = {True: [], False: []}
    for row in rows:
        result = check(row["query"] or "", row["answer"], row["contexts"])
        if not isinstance(result, str):
            failed[bool(row["label"])].append(sum(result.supported()) / len(result.claims) < threshold)
    bad, good = failed[True], failed[False]
    print(f"{len(rows)} answers, {len(bad) + len(good)} with a verdict, {len(bad)} of them bad")
    print(f"sensitivity {sum(bad) / len(bad):.3f}, specificity {1 - sum(good) / len(good):.3f}")


if __name__ == "__main__":
    main()
