"""What an answer claims: its sentences cut into single statements, without what states nothing.

Citation marks, source lines, signatures, HTML tags and a model's reasoning belong to no claim, and neither do the runs
of a sentence that a classifier takes for a courtesy, a preface or an abstention. Linear in the text's length.
Decomposition by a language model is the judge's matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ragtrace.text import marks
from ragtrace.text.sentences import split
from ragtrace.text.speech_acts import READ, act_of, runs

Kind = Literal["claim", "courtesy", "abstention", "question", "lead_in", "code", "source"]

_LEAD_IN = re.compile(r"[:\uff1a]\W*$")
_COUNTS = re.compile(
    r"\b(?:step|schritt) ?\d+\b|\b\d+ (?:\w+ )?(?:steps?|ways?|things?|options?|items?|points?|reasons?|"
    r"examples?|tips?|types?|kinds?|parts?)\b",
    re.I,
)
_NUMBERING = re.compile(r"^[\s#*>-]*(?:\(?\d{1,3}[.)]\s*)?")
_TABLE_RULE = re.compile(r"[ \t|]*\n[ \t]*\|?[ \t]*:?-{2,}:?[ \t]*\|")
"""The line below the first one of a table in Markdown."""
_WORD = re.compile(r"[^\W_]{2,}|[぀-ヿ㐀-鿿가-힯]")
_JOINT = re.compile(
    r";\s+|(?:,|(?<=,['\"’”]))\s+(?:and|but|while|whereas|although|though|yet|so)\s+"
    r"(?=(?:it|he|she|they|we|you|there|this|that|these|those|the|a|an|its|his|her|their|some|many|most|all|each|one|"
    r"[A-Z][\w'-]*)\s)|\s+(?:whereas|although)\s+(?=\w)"
)
_SURE_VERB = (
    r"\b(?:is|are|was|were|be|been|has|have|had|do|does|did|can|could|will|would|may|might|must|should|shall|cannot"
    r"|wrote|made|took|went|gave|came|became|began|built|bought|found|got|held|kept|knew|led|left|lost|met|paid"
    r"|ran|said|saw|sent|sold|spoke|told|thought|won|grew|drew|fell|rose)\b"
)
_VERB = re.compile(rf"{_SURE_VERB}|\b[a-z]{{3,}}(?:ed|es|s|ing)\b")
_TITLE = re.compile(r"(?:#{1,6} |\*\*[^*]+\*\*:?\W*\Z)")
_NO_TITLE = re.compile(rf"{_SURE_VERB}|[.!?]\W*\Z")
_DIGIT = re.compile(r"\d")
_CONTACT = re.compile(r"[\d@]|://|www\.")
_EMPHASIS = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`|(?<![\w*])(?P<stars>\*{1,3})(?=[^\s*])(?P<inner>[^*\n]{1,300})(?<=\S)(?P=stars)(?![\w*])",
    re.S,
)
"""Code, which keeps its stars, or words between stars."""
_MIN_WORDS = 3
_SHORT = 3
"""Words of a short answer at most: "No, you can't."."""
_PIECE_CHARS = 600
"""Characters of a claim at most."""
_MAX_PIECES = 5_000
"""Word pieces of claims that are read, estimated: those of 25,000 characters of English."""
_PIECE = re.compile(r"[A-Za-z\u00c0-\u024f]{1,12}|\w|[^\w\s]")
_ENDLESS_WORD = re.compile(r"[\w+/=]{40,}")
"""Base64 or a key: a tokenizer that knows no such word cuts it into pieces of two characters."""
_LETTER = re.compile(r"[^\W\d_]")
_SIGN = re.compile(r"[^\W_]")
_LONG_WORD = re.compile(r"[^\s\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7af\uff00-\uffef]{100,}")
_MIN_DATA, _MAX_DATA = 120, 2_000
"""Characters from which a sentence can be data, and those that tell."""


class Statement(NamedTuple):
    """A piece of an answer: characters start to end, end exclusive, and whether it claims something."""

    start: int
    end: int
    kind: Kind


@dataclass(frozen=True, slots=True)
class AnswerParts:
    """An answer's statements, in order, not overlapping, and its text with spaces in place of what states nothing."""

    text: str
    """As long as the answer: citation marks, source lines, courtesies, abstentions and prefaces are spaces, and
    apostrophes are straight."""
    statements: tuple[Statement, ...]
    complete: bool = True
    """False where the answer is so long that its end was not read; the end of `text` is then spaces."""

    @property
    def claims(self) -> tuple[Statement, ...]:
        """The statements that claim something."""
        return tuple(s for s in self.statements if s.kind == "claim")

    def declined(self) -> AnswerParts:
        """The same where what it claims belongs to a refusal."""
        parts = tuple(s._replace(kind="abstention") if s.kind == "claim" else s for s in self.statements)
        return AnswerParts(_blank_text(self.text, parts), parts, self.complete)


def read(answer: str, limit: int = 400) -> AnswerParts:
    """Cut an answer into at most `limit` statements, of some 5,000 word pieces in all: sentences, or their clauses."""
    answer = marks.without_markup(answer)
    marked = marks.without_marks(answer).replace("’", "'")
    footnotes = marks.Footnotes(answer)
    parts: list[Statement] = []
    last = 0
    in_sources = in_signature = False
    for span in split(marked, limit):
        sentence = marked[span.start : span.end]
        last = span.end
        in_sources = marks.is_source_heading(sentence) or (in_sources and marks.is_entry(sentence))
        in_signature = marks.is_closing(sentence) or (in_signature and marks.is_signature(sentence))
        if sentence.startswith("```"):
            parts.append(Statement(span.start, span.end, "code"))
        elif in_sources or footnotes.has(span):
            parts.append(Statement(span.start, span.end, "source"))
        elif in_signature:
            parts.append(Statement(span.start, span.end, "courtesy"))
        elif "|" in sentence and _TABLE_RULE.match(marked, span.end):
            parts.append(Statement(span.start, span.end, "lead_in"))  # the names of a table's columns
        else:
            parts.extend(_of_sentence(sentence, span.start))
    text = _EMPHASIS.sub(_without_stars, marked)
    parts = _with_short_answer(text, _without_redirects(text, parts))
    final = tuple(_within_limits(text, parts, limit))
    complete = not marked[last:].strip() and (not parts or (bool(final) and final[-1].end == parts[-1].end))
    end = len(text) if complete else final[-1].end if final else 0
    return AnswerParts(_blank_text(text[:end], final) + " " * (len(text) - end), final, complete)


def _without_stars(match: re.Match[str]) -> str:
    """Bold and italic words with spaces in place of their stars: the models take stars for something new."""
    inner, blank = match["inner"], " " * len(match["stars"] or "")
    return match.group() if inner is None else f"{blank}{inner}{blank}"


def _within_limits(text: str, parts: list[Statement], limit: int) -> Iterator[Statement]:
    """The first statements that fit into the limits. A claim that is longer than any sentence is cut at white space:
    what judges it takes memory for its length times the context's."""
    room = _MAX_PIECES
    for part in parts:
        start = part.start
        while start < part.end:
            end = part.end if part.kind == "code" else min(part.end, start + _PIECE_CHARS)
            if end < part.end and (space := text.rfind(" ", start + 1, end)) > start:
                end = space
            room -= _word_pieces(text, start, end) if part.kind == "claim" else 0
            limit -= 1
            if room < 0 or limit < 0:
                return
            yield Statement(start, end, part.kind)
            start = end


def _word_pieces(text: str, start: int, end: int) -> int:
    """How many word pieces these characters have, estimated."""
    endless = sum(len(word) for word in _ENDLESS_WORD.findall(text, start, end))
    return max(len(_PIECE.findall(text, start, end)), endless // 2)


def _of_sentence(sentence: str, begin: int) -> Iterator[Statement]:
    """The statements of a sentence that starts at `begin`."""
    kind: Kind | None = None
    if not _SIGN.search(sentence) or _is_data(sentence):
        kind = "code"
    elif sentence.rstrip("\"'”’)* ").endswith(("?", "？")):
        kind = "question"
    elif _is_heading(sentence):
        kind = "lead_in"
    if kind is not None:
        yield Statement(begin, begin + len(sentence), kind)
        return
    for start, end, act in runs(sentence):
        if act == "claim" or act == "redirect":  # noqa: PLR1714 - mypy narrows only this
            yield from _clauses(sentence[start:end].rstrip(), begin + start)
        else:
            yield Statement(begin + start, begin + end, act)


def _is_data(sentence: str) -> bool:
    """Whether a long piece is no prose: few letters, or mostly one word that no language has."""
    head = sentence[:_MAX_DATA]
    if len(head) < _MIN_DATA:
        return False
    letters = len(_LETTER.findall(head))
    word = _LONG_WORD.search(head)
    return letters < 0.3 * (len(head) - head.count(" ")) or (word is not None and 2 * len(word.group()) > len(head))


def _clauses(sentence: str, begin: int) -> Iterator[Statement]:
    """The clauses of a run that starts at `begin`, each a claim, and a lead-in at its end."""
    parts = _parts(sentence)
    for number, (start, end) in enumerate(parts):
        clause = sentence[start:end]
        is_last = number == len(parts) - 1
        introduces = is_last and _LEAD_IN.search(clause[-20:]) and not _states_number(clause)
        yield Statement(begin + start, begin + end, "lead_in" if introduces else "claim")


def _without_redirects(text: str, parts: list[Statement]) -> list[Statement]:
    """Beside an abstention, where else to ask and what the documents are about instead are no claims."""
    if not any(p.kind == "abstention" for p in parts):
        return parts
    return [
        p._replace(kind="courtesy") if p.kind == "claim" and act_of(text[p.start : p.end]) == "redirect" else p
        for p in parts
    ]


def _with_short_answer(text: str, parts: list[Statement]) -> list[Statement]:
    """A short answer that comes first ("Yes.") is one claim with the next one, which explains it: alone it has no word
    that could be compared with the documents."""
    first = next((i for i, p in enumerate(parts) if p.kind == "claim"), len(parts))
    if [p.kind for p in parts[first + 1 : first + 2]] != ["claim"]:
        return parts
    short = text[parts[first].start : parts[first].end]
    if len(short.split()) > _SHORT or _DIGIT.search(short) or _LETTER.match(short.rstrip("*_ ")[-1:]):
        return parts
    return [*parts[:first], parts[first]._replace(end=parts[first + 1].end), *parts[first + 2 :]]


def _blank_text(text: str, parts: Sequence[Statement]) -> str:
    pieces: list[str] = []
    last = 0
    for start, end, kind in parts:
        if kind in ("courtesy", "abstention", "source"):
            pieces += [text[last:start], " " * (end - start)]
            last = end
    return "".join([*pieces, text[last:]])


def states_amount(claim: str) -> bool:
    """Whether a claim has a number, an address or a link, apart from its own number in a list."""
    return _CONTACT.search(_NUMBERING.sub("", claim[:READ])) is not None


def _states_number(clause: str) -> bool:
    """Whether a lead-in states an amount, apart from its own number and from how many entries follow."""
    rest = _COUNTS.sub("", _NUMBERING.sub("", clause[:READ]))
    return _DIGIT.search(rest) is not None and _VERB.search(rest) is not None


def _is_heading(sentence: str) -> bool:
    rest = _NUMBERING.sub("", sentence[:READ])
    marked = sentence.lstrip("0123456789.) ").startswith(("#", "**"))
    verb = _NO_TITLE if _TITLE.match(sentence) else _VERB  # "Opening hours" has no verb
    return marked and len(_WORD.findall(rest)) <= 6 and not verb.search(rest) and not _DIGIT.search(rest)


def _parts(sentence: str) -> list[tuple[int, int]]:
    """A sentence's clauses that could each be a sentence: both sides of a joint have a verb and a few words."""
    parts: list[tuple[int, int]] = []
    start = 0
    for joint in _JOINT.finditer(sentence):
        left, right = sentence[start : joint.start()], sentence[joint.end() : joint.end() + READ]
        if _is_complete(left) and _is_complete(right):
            parts.append((start, joint.start()))
            start = joint.end()
    parts.append((start, len(sentence)))
    return parts


def _is_complete(clause: str) -> bool:
    head = clause[:READ]
    return len(_WORD.findall(head)) >= _MIN_WORDS and _VERB.search(head) is not None
