"""What the training scripts share: rows of labelled sets, hashed n-grams, and the error of probabilities."""

import argparse
import gzip
import json
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

OUT = Path(__file__).parents[1] / "ragtrace" / "evaluate" / "models" / "data"


def data_parser(text: str | None) -> argparse.ArgumentParser:
    """The parser of a script that needs --data; `text` is the script's docstring."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    return parser


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The rows of a gzipped file of JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def hashed(texts: Iterable[Collection[int]], width: int, by: float) -> csr_matrix:
    """(n, width): the buckets of each text, whose values have the length `by` together."""
    indices: list[int] = []
    values: list[float] = []
    ends = [0]
    for found in texts:
        indices.extend(found)
        values.extend([by / max(1, len(found)) ** 0.5] * len(found))
        ends.append(len(indices))
    return csr_matrix((values, indices, ends), shape=(len(ends) - 1, width))


def expected_calibration_error(p: np.ndarray, y: np.ndarray) -> float:
    """Mean over ten equal-width bins of |mean probability - share of positives|, weighted by the bin's size."""
    bins = np.minimum((p * 10).astype(int), 9)
    return float(sum(abs(p[bins == b].mean() - y[bins == b].mean()) * (bins == b).mean() for b in set(bins)))
