"""Train the toxicity head and print its figures: python training/train_heads.py --data FOLDER

toxicity_sets.py says what FOLDER/train holds; FOLDER/dev (openai_moderation, surge_toxicity, hatecheck, xstest_prompts)
is measured on, and calibrates. Needs scikit-learn and torch. Takes about twenty minutes of one core.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import toxicity
from scipy.sparse import csr_matrix
from toxicity import expected_calibration_error

from ragtrace.evaluate.models.embedding import OnnxEmbedder
from ragtrace.evaluate.models.heads import BUCKETS

__all__ = ["OUT", "expected_calibration_error", "hashed", "rows"]

OUT = Path(__file__).parents[1] / "ragtrace" / "evaluate" / "models" / "data"

Rows = list[dict[str, Any]]


def rows(path: Path) -> Rows:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def hashed(texts: list[str], buckets: Callable[[str], list[int]], by: float) -> csr_matrix:
    indices: list[int] = []
    values: list[float] = []
    ends = [0]
    for text in texts:
        found = buckets(text)
        indices.extend(found)
        values.extend([by / max(1, len(found)) ** 0.5] * len(found))
        ends.append(len(indices))
    return csr_matrix((values, indices, ends), shape=(len(texts), BUCKETS))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    toxicity.train(parser.parse_args().data, OnnxEmbedder(), OUT)


if __name__ == "__main__":
    main()
