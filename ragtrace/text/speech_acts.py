"""What the parts of a sentence do: state something, decline, greet, introduce, or send elsewhere.

A softmax over hashed character and word n-grams says it of a run of text. A sentence is divided at its commas, colons
and dashes into the runs that the classifier is surest of together, so that "I'm sorry, but the fee is 20 euros" has
a courtesy and a claim. Trained by `training/train_speech_acts.py`; docs/models/refusal.md has its figures.
"""

import gzip
import math
import re
import zlib
from array import array
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple

from ragtrace.base.lazy import Lazy
from ragtrace.errors import ModelError

Act = Literal["claim", "abstention", "courtesy", "lead_in", "redirect", "source", "code"]
ACTS: tuple[Act, ...] = ("claim", "abstention", "courtesy", "lead_in", "redirect", "source", "code")
"""A redirect says where else to ask, what to tell, or what the documents are about instead."""
_OF_PARTS = 5
"""The first acts are what a part of a sentence can do."""
WEIGHTS = Path(__file__).parents[1] / "evaluate" / "models" / "data" / "speech_acts.gz"
"""Read without `ragtrace.evaluate.models`, whose packages those who judge by words alone do not have."""
BUCKETS = 1 << 15
READ = 300
"""Characters of a run that are read."""
CUT = re.compile(r"(?:[,;:]|\s[\u2013\u2014-])\s+|[\u2014，、；：]\s*|\s(?=(?:but|because) )")
"""Where a sentence may be divided."""
_RUNS = 7
_COST = 0.4
"""What one more run costs, in natural logarithms of probability."""
_NUMBER_COST = 1.0
"""What a number in a courtesy costs: "Happy to help: it weighs 5 kilograms" is divided."""
_SURE = math.log(0.9)
"""From this on a sentence is a claim as a whole."""
_WORD = re.compile(r"[\w']+")
_DIGIT = re.compile(r"\d")
_QUOTED = re.compile(
    r"\"[^\"\n]+\"|[\u201c\u201e][^\u201c\u201d\n]+[\u201c\u201d]|\u00ab[^\u00bb\n]+\u00bb|\u300c[^\u300d\n]+\u300d"
)
"""Somebody else's words, or a program's. An answer that is quoted as a whole is the assistant's own."""


class SpeechRun(NamedTuple):
    """Characters start to end of a sentence, end exclusive, and what they do."""

    start: int
    end: int
    act: Act


class Classifier:
    """Weights by kind: those of `ACTS`, and of runs that do two things."""

    def __init__(self) -> None:
        """Raises ModelError where the file of the weights is missing or damaged."""
        try:
            content = gzip.decompress(WEIGHTS.read_bytes())  # checks its own sum
        except (OSError, EOFError, zlib.error) as error:
            raise ModelError(f"the weights {WEIGHTS} cannot be read ({error}); reinstall ragtrace-otel") from error
        kinds = len(ACTS) + 1
        numbers = array("f", content[: 12 * kinds])  # the scale of a kind's weights, its weight of the length, its bias
        self._scales, self._lengths, self._biases = numbers[:kinds], numbers[kinds : 2 * kinds], numbers[2 * kinds :]
        weights = array("b", content[12 * kinds :])
        width = 2 * BUCKETS
        self._weights = [weights[k * width : (k + 1) * width] for k in range(kinds)]

    def log_probabilities(self, text: str) -> list[float]:
        """The logarithm of the probability of each kind."""
        groups = buckets(text)
        length = math.log1p(len(text[:READ]))
        odds = []
        for scale, of_length, bias, weights in zip(
            self._scales, self._lengths, self._biases, self._weights, strict=True
        ):
            sums = (sum(map(weights.__getitem__, group)) / math.sqrt(len(group)) for group in groups if group)
            odds.append(bias + of_length * length + scale * sum(sums))
        largest = max(odds)
        total = largest + math.log(sum(math.exp(z - largest) for z in odds))
        return [z - total for z in odds]

    def runs(self, sentence: str) -> list[SpeechRun]:
        """The runs of a sentence, in order; they cover it, and no two neighbours do the same. What introduces a claim
        is part of it, because "Yes," is, and only a whole sentence names a source or is code."""
        whole = self.log_probabilities(sentence)
        parts = _parts(sentence)
        if whole[0] >= _SURE or len(parts) == 1:
            return [SpeechRun(0, len(sentence), _best(whole, sentence)[1])]
        best: list[tuple[float, list[SpeechRun]]] = [(0.0, [])]
        for j in range(1, len(parts) + 1):
            options = []
            for i in range(j):
                start, end = parts[i][0], parts[j - 1][1]
                text = sentence[start:end]
                logs = whole if text == sentence else self.log_probabilities(text)[:_OF_PARTS]
                surest, act = _best(logs, text)
                options.append((best[i][0] + surest - (_COST if i else 0.0), [*best[i][1], SpeechRun(start, end, act)]))
            best.append(max(options, key=lambda option: option[0]))
        final: list[SpeechRun] = []
        for run in best[-1][1]:
            if final and (final[-1].act == run.act or (final[-1].act, run.act) == ("lead_in", "claim")):
                final[-1] = SpeechRun(final[-1].start, *run[1:])
            else:
                final.append(run)
        return final


def buckets(text: str) -> tuple[set[int], set[int]]:
    """The hash buckets of a text's n-grams of three to five bytes, and those of its words, pairs, triples and opening
    words, which follow `BUCKETS`."""
    text = text[:READ].lower()
    own = _QUOTED.sub(" ", text)
    text = own if _WORD.search(own) else text
    clean = f" {' '.join(text.split())} ".encode("utf-8", "replace")
    crc, mask = zlib.crc32, BUCKETS - 1
    chars = {crc(clean[i : i + n]) & mask for n in (3, 4, 5) for i in range(len(clean) - n + 1)}
    words = _WORD.findall(text)
    opening = [f"^{' '.join(words[:n])}" for n in (1, 2, 3)]
    triples = zip(words, words[1:], words[2:], strict=False)
    phrases = [*opening, *words, *map(" ".join, pairwise(words)), *map(" ".join, triples)]
    return chars, {BUCKETS + (crc(phrase.encode("utf-8", "replace")) & mask) for phrase in phrases}


def _best(logs: Sequence[float], text: str) -> tuple[float, Act]:
    """The likeliest act with its logarithm. A number is a fact, so a text that has one is hardly a courtesy."""
    doubt = _NUMBER_COST if _DIGIT.search(text) else 0.0
    acts = ((log - doubt if act == "courtesy" else log, act) for log, act in zip(logs, ACTS, strict=False))
    return max(acts, key=lambda pair: pair[0])


def _parts(sentence: str) -> list[tuple[int, int]]:
    """At most `_RUNS` parts of a sentence; the last one has the rest."""
    cuts = [m.end() for m in CUT.finditer(sentence) if m.end() < len(sentence)][: _RUNS - 1]
    return list(pairwise([0, *cuts, len(sentence)]))


_classifier = Lazy(Classifier)


def runs(sentence: str) -> list[SpeechRun]:
    """The runs of a sentence; see `Classifier.runs`."""
    return _classifier.get().runs(sentence)


def act_of(text: str) -> Act:
    """What a text does as a whole."""
    return _best(_classifier.get().log_probabilities(text), text)[1]


def claim_probability(text: str) -> float:
    """The probability in [0, 1] that a text as a whole is a claim and nothing else."""
    return math.exp(_classifier.get().log_probabilities(text)[0])
