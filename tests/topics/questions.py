"""Questions of a shop, and an embedder that reads words."""

import random
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from ragtrace.console.chatlogs.store import Store
from ragtrace.evaluate.models.embedding import unit_rows
from ragtrace.evaluation import Evaluator
from ragtrace.records import Evaluation, Facts, Score
from ragtrace.testing import make_trace
from tests.row_files import table

NOW = 1_790_000_000.0
DAY = 86_400.0
CHECK = Evaluator("faithfulness", len, threshold=0.5, method="model", version="1")
SUBJECTS: dict[str, str] = table(__file__, "subjects")
"""Topics, each with its words."""


class WordEmbedder:
    """Vectors of words: texts with the same words are near each other. No model, the same on every machine."""

    name = "words"
    dimensions = 4096

    def __init__(self) -> None:
        self.embedded = 0
        """Texts so far."""

    def embed(self, texts: Sequence[str]) -> Any:
        self.embedded += len(texts)
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for word in text.lower().split():
                row[zlib.crc32(word.encode()) % self.dimensions] += 1.0
        return unit_rows(vectors)


def question(subject: str, number: int) -> str:
    """The subject, two of its other words drawn by chance, and a number of its own."""
    chance = random.Random(f"{subject}{number}")
    return " ".join([subject, *chance.sample(SUBJECTS[subject].split()[1:], 2), f"no{number}"])


def asked(number: int, query: str, failed: bool, **more: Any) -> Evaluation:
    """A request and its verdict; `more` are `started`, `cause`, `p`, `app`, `value`, `version`."""
    p = more.get("p", 1.0)
    trace = make_trace(
        query, trace_id=number + 1, span_id=number + 1, started=more.get("started", NOW - 60.0 * (number + 1)),
        facts=Facts(app=more.get("app", "shop"), prompt_version=more.get("prompt"), model=more.get("model")),
        answer=more.get("answer", "Yes."), sampling_probability=p,
    )  # fmt: skip
    score = Score(
        "faithfulness", more.get("value", 0.1 if failed else 0.9), "fail" if failed else "pass",
        version=more.get("version", "1"), method="model", sampling_probability=p,
    )  # fmt: skip
    return Evaluation(trace, (score,), cause=more.get("cause", "unsupported" if failed else "none"))


def fill(store: Store, counts: dict[str, tuple[int, int]], first: int = 0, **more: Any) -> int:
    """Writes (number of questions, of which so many fail) for each subject; the next free number."""
    drawn = [(subject, n < failures) for subject, (count, failures) in counts.items() for n in range(count)]
    numbered = enumerate(drawn, first)
    store.write([asked(n, question(subject, n), failed, **more) for n, (subject, failed) in numbered], [CHECK])
    return first + len(drawn)
