"""An answer and its chunks, cut where sentences and the passages that they rest on begin and end; and the parts of an
answer that a reviewer marks as wrong, as the page shows them and its form sends them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ragtrace.console.safe_text import clip
from ragtrace.errors import DataError
from ragtrace.records import Document, Evidence
from ragtrace.text import sentences

SIGNS = {"supported": "✓", "unsupported": "?", "contradicted": "✗"}
"""The sign beside the colour."""
_GRADE = {"contradicted": 0, "unsupported": 1, "supported": 2}
_FOLD = 2_400
"""Characters of a text that are shown before it is folded."""
_CUTS = 2_000
"""Claims that are marked at most: an answer of more is no answer."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of text with one set of claims."""

    text: str
    claims: tuple[int, ...] = ()
    """Numbers of the claims, from 1; the worst one first."""
    verdict: str = ""
    opens: tuple[int, ...] = ()
    """Claims whose first stretch this is: links lead here."""
    ends: bool = False
    """Whether the worst claim ends here: its sign follows."""
    label: str = ""
    """The verdict in words, with its probability."""
    target: str = ""
    """Where the link leads, an id on the page; empty where the other side has nothing."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text in pieces, and what of it is folded away at first."""

    visible: tuple[Piece, ...]
    rest: tuple[Piece, ...] = ()
    left: int = 0
    """Characters in `rest`."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A retrieved chunk as the page shows it."""

    rank: int
    """From 1."""
    document: Document
    text: Text
    claims: tuple[int, ...]
    """Those that have their closest passage here."""


_Span = tuple[int, int, int, Evidence]
"""Start, end, number of the claim, and the claim."""


def answer_text(answer: str, evidence: Sequence[Evidence], chunks: Sequence[Document]) -> Text:
    """The answer, its sentences marked; where claims overlap, the worst one counts. Offsets outside it are cut."""
    spans = [
        (max(0, e.start), min(len(answer), e.end), number, e) for number, e in enumerate(evidence[:_CUTS], start=1)
    ]
    targets = {number: f"p{number}" if _passage(e, chunks) else "" for *_, number, e in spans}
    return _fold(_pieces(answer, spans, targets), bool(spans))


def chunk_texts(chunks: Sequence[Document], evidence: Sequence[Evidence]) -> tuple[Chunk, ...]:
    """The chunks by rank, the passages in them marked."""
    by_rank: dict[int, list[_Span]] = {}
    for number, e in enumerate(evidence[:_CUTS], start=1):
        if (passage := _passage(e, chunks)) is not None:
            by_rank.setdefault(passage[0], []).append((passage[1], passage[2], number, e))
    return tuple(_chunk(rank, document, by_rank.get(rank, [])) for rank, document in enumerate(chunks))


def _chunk(rank: int, document: Document, spans: list[_Span]) -> Chunk:
    pieces = _pieces(document.content, spans, {number: f"s{number}" for *_, number, _ in spans})
    claims = sorted({number for piece in pieces for number in piece.claims})
    return Chunk(rank + 1, document, _fold(pieces, bool(spans)), tuple(claims))


def _pieces(text: str, spans: Sequence[_Span], targets: Mapping[int, str]) -> list[Piece]:
    """The stretches of a text. `targets` says by claim where its link leads."""
    pieces, opened = [], set[int]()
    span_ends = {number: end for _, end, number, _ in spans}
    for start, end, over in _cut(text, spans):
        if not over:
            pieces.append(Piece(text[start:end]))
            continue
        claims = tuple(number for number, _ in over)
        opens = tuple(n for n in claims if n not in opened)
        opened.update(opens)
        number, worst = over[0]
        ends = span_ends[number] == end
        pieces.append(Piece(text[start:end], claims, _verdict(worst), opens, ends, _label(worst), targets[number]))
    return pieces


def _cut(text: str, spans: Sequence[_Span]) -> list[tuple[int, int, list[tuple[int, Evidence]]]]:
    usable = [span for span in spans if span[0] < span[1]]
    cuts = sorted({0, len(text), *(at for a, b, *_ in usable for at in (a, b))})
    starts = sorted(usable, key=lambda span: span[0])
    stretches, active, at = [], [], 0
    for start, end in pairwise(cuts):
        while at < len(starts) and starts[at][0] <= start:
            active.append(starts[at])
            at += 1
        active = [span for span in active if span[1] > start]
        over = sorted(((n, e) for _, _, n, e in active), key=lambda pair: (_badness(pair[1]), pair[0]))
        stretches.append((start, end, over))
    return stretches


def _fold(pieces: list[Piece], marked: bool) -> Text:
    """All of a marked text, for a link must lead to what is seen, unless it is very long; else its beginning."""
    limit = 4 * _FOLD if marked else _FOLD
    if sum(len(piece.text) for piece in pieces) <= limit + 400:
        return Text(tuple(pieces))
    visible: list[Piece] = []
    room = limit
    for i, piece in enumerate(pieces):
        if len(piece.text) > room:
            if not piece.claims:
                visible.append(Piece(piece.text[:room]))
                rest = (Piece(piece.text[room:]), *pieces[i + 1 :])
            else:
                rest = tuple(pieces[i:])
            return Text(tuple(visible), rest, sum(len(p.text) for p in rest))
        visible.append(piece)
        room -= len(piece.text)
    return Text(tuple(visible))


def _passage(e: Evidence, chunks: Sequence[Document]) -> tuple[int, int, int] | None:
    """Rank, start and end of the closest passage, where there is one."""
    rank, start, end = e.document_rank, e.document_start, e.document_end
    if rank is None or start is None or end is None or not 0 <= rank < len(chunks):
        return None
    start, end = max(0, start), min(len(chunks[rank].content), end)
    return (rank, start, end) if start < end else None


def _verdict(e: Evidence) -> str:
    return e.verdict if e.verdict in SIGNS else "unsupported"


def _label(e: Evidence) -> str:
    verdict = _verdict(e)
    return verdict if e.probability is None else f"{verdict}, supported with probability {e.probability:.2f}"


def _badness(e: Evidence) -> tuple[int, float]:
    return _GRADE.get(e.verdict, 1), 1.0 if e.probability is None else e.probability


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
