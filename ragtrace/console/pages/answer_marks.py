"""The parts of an answer that a reviewer marks as wrong: as the page shows them, and as its form sends them."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ragtrace.console.safe_text import clip
from ragtrace.errors import DataError
from ragtrace.records import Evidence
from ragtrace.text import sentences

NAMES = {"unsupported": "not supported", "contradicted": "contradicted"}
"""Verdict of a mark → its name for people."""
_SENTENCES = 200
_FORM = re.compile(r"(\d{1,8}):(\d{1,8}):([a-z]{1,20})\Z")


@dataclass(frozen=True, slots=True)
class AnswerMark:
    """A part of the answer, with its words."""

    value: str
    """As the form sends it: `start:end:verdict`, in code points, end exclusive."""
    words: str
    verdict: str
    """For people."""


def answer_marks(answer: str, evidence: Sequence[Evidence]) -> dict[str, Any]:
    """What the page needs: the marks that are there, the answer's sentences, for marking without a mouse or without
    script, and where they begin and end."""
    spans = sentences.split(answer, _SENTENCES)
    marked = {(one.start, one.end) for one in evidence}
    return {
        "marks": [_mark(answer, one) for one in evidence],
        "sentences": [_mark(answer, Evidence(*span, "unsupported")) for span in spans if span not in marked],
        "sentence_places": " ".join(f"{start}-{end}" for start, end in spans),
    }


def _mark(answer: str, one: Evidence) -> AnswerMark:
    words = clip(answer[one.start : one.end], 120)
    return AnswerMark(f"{one.start}:{one.end}:{one.verdict}", words, NAMES.get(one.verdict, one.verdict))


def parse_marks(values: Iterable[str]) -> list[Evidence]:
    """The marks that a form sent. Raises DataError for an invalid one."""
    marks = []
    for value in values:
        match = _FORM.match(value)
        if match is None:
            raise DataError("a mark of the answer is not start:end:verdict; load the page again and mark it once more")
        marks.append(Evidence(int(match[1]), int(match[2]), match[3]))
    return marks
