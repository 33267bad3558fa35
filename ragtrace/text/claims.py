"""What an answer claims: its sentences cut into single statements, without what states nothing.

Citation marks, source lines, courtesies, apologies, prefaces ("According to the document, …"), signatures, HTML tags
and a model's reasoning belong to no claim; the rest of the same sentence does. By rules, linear in the text's length.
Decomposition by a language model is the judge's matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ragtrace.text.abstentions import READ, abstains
from ragtrace.text.citations import Footnotes, is_entry, is_source, is_source_heading, without_marks
from ragtrace.text.courtesies import without_courtesies
from ragtrace.text.letters import is_closing, is_signature
from ragtrace.text.markup import without_markup
from ragtrace.text.redirects import is_redirect
from ragtrace.text.sentences import Span, split
from ragtrace.text.short_answers import joined

Kind = Literal["claim", "courtesy", "abstention", "question", "lead_in", "code", "source"]

_EMPTY = """
and but so or also then please well yes no oh ah now again anyway just here there today too you me i we for to of the a
that this with at all sure certainly ok okay great hello hi hey absolutely definitely alright welcome thanks thank
unfortunately regrettably however course sorry apologies und aber mais pero però mas maar leider
"""
_EMPTY_WORDS = frozenset(_EMPTY.split())
_LEFT_OVER = re.compile(r"\A(?:[\s,;:.!?\u2013—]|and\b|but\b)*")
_COLON = re.compile(r"[:;]\s+")
_LEAD_IN = re.compile(r"[:\uff1a]\W*$")
_HERE_IS = re.compile(
    r"^\W*(?:here(?:'s| is| are)|below (?:is|are)|the following (?:is|are))\b[^.,;:\d]{0,120}\W*$", re.I
)
_COUNTS = re.compile(
    r"\b(?:step|schritt) ?\d+\b|\b\d+ (?:\w+ )?(?:steps?|ways?|things?|options?|items?|points?|reasons?|"
    r"examples?|tips?|"
    r"types?|kinds?|parts?)\b",
    re.I,
)
_NUMBERING = re.compile(r"^[\s#*>-]*(?:\(?\d{1,3}[.)]\s*)?")
_TABLE_RULE = re.compile(r"[ \t|]*\n[ \t]*\|?[ \t]*:?-{2,}:?[ \t]*\|")
"""The line below the first one of a table in Markdown."""
_WORD = re.compile(r"[^\W_]{2,}|[぀-ヿ㐀-鿿가-힯]")
_JOINT = re.compile(
    r";\s+|(?:,|(?<=,['\"’”]))\s+(?:and|but|while|whereas|although|though|yet|so)\s+"
    r"(?=(?:it|he|she|they|we|you|there|this|that|these|those|the|a|an|its|his|her|their|some|many|most|all|each|one|"
    r"[A-Z][\w'-]*)\s)|\s+(?:whereas|although)\s+(?=\w)",
)
_TURN = re.compile(
    r"[;:]\s+|,\s+(?:and|but|so|which|because|since|however|though|although|while|yet|aber|mais|pero|mas|ma|però|"
    r"maar)\s+"
    r"|,\s+(?=[Ii](?:'d|'m| would)? (?:think|believe|guess|assume|estimate|suppose|say)\b|(?:maybe|perhaps|probably)\b)"
    r"|\s+(?:but|however|although|whereas)\s+|\s[\u2013—-]\s|(?:，|、|,)(?:但|但是|不过|然而)|が、"
)
"""Where a sentence that abstains may turn to what it does state."""
_CONCEDES = re.compile(
    r"^\W*(?:while|whilst|although|though|even (?:though|if)|since|because|obwohl|auch wenn|bien que|aunque|sebbene|"
    r"anche se|embora|hoewel|ook al)\b",
    re.I,
)
"""The beginning of a sentence that states something after a comma: "Although I found no fee, it is 20 euros"."""
_COMMA = re.compile(rf"{_TURN.pattern}|,\s+")
_PERSONAL = re.compile(
    r"^\W*(?:(?:so|and|but|therefore|thus) )*(?:i|we)(?:'\w+)? |^\W*(?:please|feel free|try|consider|only|nor|or)\b"
    r"|\b(?:your|this|the) (?:question|query|request)\b",
    re.I,
)
_AVOIDS = re.compile(
    r"^\W*(?:(?:so|and|but|therefore|thus),? )*(?:i|we) (?:would|will|can|could|cannot|can't|must|do|don't|am|"
    r"have(?= (?:no|not|nothing|only|never|been|to|created|opened|raised|logged|forwarded|escalated|notified)\b)|"
    r"want|prefer)\b|^\W*(?:so|and|but)? ?i'(?:d|ll|m)\b",
    re.I,
)
_OPINES = re.compile(
    r"^\W*(?:(?:so|and|but|therefore|thus),? )*(?:i|we)(?:'d|'ll| would| will| can| could| must| do| have| want to)"
    r"(?: \w+ly| also| just| still| to| be)*"
    r" (?:say|add|guess|estimate|assume|suppose|suspect|expect|believe|think|imagine|bet|confirm|assure|tell|note|"
    r"conclude|infer|read|heard|learn(?:ed|t)|sure)\b",
    re.I,
)
"""What the speaker holds to be true, however careful the words are: "I would say that …"."""
_OPINION = re.compile(
    r"^\W*(?:(?:so|and|but|however),? )*i(?:'d|'m| would| can| have|'ve)?(?: (?:do|still|only|quite|pretty|\w+ly))* "
    r"(?:think|believe|guess|assume|suppose|suspect|estimate|bet|recall|sure|certain|confident|heard|say|confirm|"
    r"tell you)\b(?:,? (?:that|because|since)\b)?[,:]?\s+(?!about\b)",
    re.I,
)
"""What makes a fact the speaker's opinion; the fact follows: "I think it is 20 euros"."""
_AMOUNT = re.compile(
    r"[$€£]\s?\d|\b(?:\d+|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|\w+ty|hundred)"
    r"(?: ?[%€£]| (?:percent|euros?|eur|dollars?|usd|pounds|hours?|days?|weeks?|months?|years?)\b)",
    re.I,
)
_ABOUT_TEXTS = re.compile(
    r"^\W*(?:(?:instead|however|rather|while|but|and),? )?"
    # what a thing has or covers is a fact; of a text, it is what the text is about
    r"(?!(?:it|they|(?:the )?information) (?:includes?|provides?|contains?|covers?|gives?|(?:is|are) an?)\b)"
    r"(?:(?:the|these|those|all|both|only|one|each|"
    r"some)(?: of)?(?: the)? )?"
    r"(?:\w+ ){0,2}(?:passages?|documents?|contexts?|texts?|excerpts?|sources?|information|they|it|articles?|"
    r"snippets?)\b"
    r"(?: \d+| [A-Z])?(?: (?:provided|given|retrieved|available|above|here))?,? (?:only |mainly |mostly |merely |"
    r"just |also |"
    r"instead |(?:do|does)(?: not|n't) (?:\w+ly )?)*(?:mentions?|discuss(?:es)?|describes?|focus(?:es)?|covers?|"
    r"talks?|specify|specifies|includes?|provides?|contains?|relates?|"
    r"concerns?|deals?|address(?:es)?|lists?|explains?|gives?|outlines?|refers?|emphasi[sz]es?|compares?|"
    r"(?:is|are) (?:about|related|unrelated|limited|focused|an? ))(?:\b|(?<= ))(?! that\b)"
    r"|^\W*(?:the (?:closest|nearest|only|most relevant) \w+|(?:what|all) i (?:did find|found)) (?:is|was) (?:an?|the) "
    r"(?:section|chapter|passage|article|page|paragraph)s? (?:on|about)\b"
    r"|^\W*(?:(?:however|but),? )?(?:the|your) (?:question|query) (?:asks|is asking|was|is about|refers|concerns|"
    r"requires)\b",
    re.I,
)
_SURE_VERB = (
    r"\b(?:is|are|was|were|be|been|has|have|had|do|does|did|can|could|will|would|may|might|must|should|shall|cannot"
    r"|wrote|made|took|went|gave|came|became|began|built|bought|found|got|held|kept|knew|led|left|lost|met|paid|"
    r"ran|said"
    r"|saw|sent|sold|spoke|told|thought|won|grew|drew|fell|rose)\b"
)
_VERB = re.compile(rf"{_SURE_VERB}|\b[a-z]{{3,}}(?:ed|es|s|ing)\b")
_TITLE = re.compile(r"(?:#{1,6} |\*\*[^*]+\*\*:?\W*\Z)")
_NO_TITLE = re.compile(rf"{_SURE_VERB}|[.!?]\W*\Z")
_DIGIT = re.compile(r"\d")
_CONTACT = re.compile(r"[\d@]|://|www\.")
_WORDS = re.compile(r"[^\W_]+(?:'[^\W_]+)?")
_EMPHASIS = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`|(?<![\w*])(?P<stars>\*{1,3})(?=[^\s*])(?P<inner>[^*\n]{1,300})(?<=\S)(?P=stars)(?![\w*])",
    re.S,
)
"""Code, which keeps its stars, or words between stars."""
_MIN_WORDS = 3
_MAX_PIECES = 5_000
"""Word pieces of claims that are read, estimated: those of 25,000 characters of English."""
_PIECE = re.compile(r"[A-Za-z\u00c0-\u024f]{1,12}|\w|[^\w\s]")
_ENDLESS_WORD = re.compile(r"[\w+/=]{40,}")
"""Base64 or a key: a tokenizer that knows no such word cuts it into pieces of two characters."""
_LETTER = re.compile(r"[^\W\d_]")
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

    def without(self, indices: frozenset[int]) -> AnswerParts:
        """The same where these statements, which a classifier knows for abstentions, are no claims."""
        if not indices:
            return self
        parts = [s._replace(kind="abstention") if i in indices else s for i, s in enumerate(self.statements)]
        parts = _without_redirects(self.text, parts)
        return AnswerParts(_blank_text(self.text, parts), tuple(parts), self.complete)


def read(answer: str, limit: int = 400) -> AnswerParts:
    """Cut an answer into at most `limit` statements, of some 5,000 word pieces in all: sentences, or their clauses."""
    answer = without_markup(answer)
    marked = without_marks(answer).replace("’", "'")
    footnotes = Footnotes(answer)
    parts: list[Statement] = []
    pieces: list[str] = []
    last = 0
    in_sources = in_signature = False
    for span in split(marked, limit):
        sentence = marked[span.start : span.end]
        pieces.append(marked[last : span.start])
        last = span.end
        in_sources = is_source_heading(sentence) or (in_sources and is_entry(sentence))
        in_signature = is_closing(sentence) or (in_signature and is_signature(sentence))
        if sentence.startswith("```"):
            parts.append(Statement(span.start, span.end, "code"))
        elif in_sources or is_source(answer[span.start : span.end]) or is_source(sentence) or footnotes.has(span):
            parts.append(Statement(span.start, span.end, "source"))
        elif in_signature:
            parts.append(Statement(span.start, span.end, "courtesy"))
        elif "|" in sentence and _TABLE_RULE.match(marked, span.end):
            parts.append(Statement(span.start, span.end, "lead_in"))  # the names of a table's columns
        else:
            stated = without_courtesies(sentence)
            parts.extend(_of_sentence(sentence, stated, span))
            sentence = stated
        pieces.append(sentence)
    text = _EMPHASIS.sub(_without_stars, "".join([*pieces, marked[last:]]))
    parts = [Statement(*part) for part in joined(text, _without_redirects(text, parts))]
    final = tuple(_within_limits(text, parts, limit))
    complete = not marked[last:].strip() and (not parts or (bool(final) and final[-1].end == parts[-1].end))
    end = len(text) if complete else final[-1].end if final else 0
    return AnswerParts(_blank_text(text[:end], final) + " " * (len(text) - end), final, complete)


def _without_stars(match: re.Match[str]) -> str:
    """Bold and italic words with spaces in place of their stars: the models take stars for something new."""
    inner, blank = match["inner"], " " * len(match["stars"] or "")
    return match.group() if inner is None else f"{blank}{inner}{blank}"


def statements(answer: str, limit: int = 400) -> list[Statement]:
    """The statements of an answer, each with its kind; see `read`."""
    return list(read(answer, limit).statements)


def claims(answer: str, limit: int = 400) -> list[Statement]:
    """The statements of an answer that claim something."""
    return list(read(answer, limit).claims)


def _within_limits(text: str, parts: list[Statement], limit: int) -> Iterator[Statement]:
    """The first statements that fit into the limits. A claim that is longer than any sentence is cut at white space:
    what judges it takes memory for its length times the context's."""
    room = _MAX_PIECES
    for part in parts:
        start = part.start
        while start < part.end:
            end = part.end if part.kind == "code" else min(part.end, start + READ)
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


def _of_sentence(sentence: str, stated: str, span: Span) -> list[Statement]:
    """A sentence's statements, from what is left of it without courtesies."""
    words = [w.lower() for w in _WORDS.findall(stated[:READ])]
    if stated != sentence and all(w in _EMPTY_WORDS for w in words):
        return [Statement(span.start, span.end, "courtesy")]
    if (not _WORD.search(sentence) and not abstains(sentence)) or _is_data(stated):
        return [Statement(span.start, span.end, "code")]
    if all(w in _EMPTY_WORDS for w in words) and not {"yes", "no"} & set(words) and len(stated) <= READ:
        return [Statement(span.start, span.end, "courtesy")]
    inner = _LEFT_OVER.sub("", stated, count=1) if stated != sentence else stated
    begin = span.start + len(stated) - len(inner)
    inner = inner.rstrip()
    part = Span(begin, begin + len(inner))
    if _HERE_IS.match(inner):
        return [Statement(*part, "lead_in")]
    if inner.rstrip("\"'”’)* ").endswith(("?", "？")):
        return [Statement(*part, "question")]
    if _is_heading(inner):
        return [Statement(*part, "lead_in")]
    return list(_clauses(inner, begin))


def _is_data(sentence: str) -> bool:
    """Whether a long piece is no prose: few letters, or mostly one word that no language has."""
    head = sentence[:_MAX_DATA]
    if len(head) < _MIN_DATA:
        return False
    letters = len(_LETTER.findall(head))
    word = _LONG_WORD.search(head)
    return letters < 0.3 * (len(head) - head.count(" ")) or (word is not None and 2 * len(word.group()) > len(head))


def _clauses(sentence: str, begin: int) -> Iterator[Statement]:
    """The clauses of a sentence that starts at `begin`: claims, what abstains, and a lead-in at its end."""
    parts = _parts(sentence)
    for number, (start, end) in enumerate(parts):
        clause = sentence[start:end]
        if number == len(parts) - 1 and _LEAD_IN.search(clause[-20:]) and not _states_number(clause):
            yield Statement(begin + start, begin + end, "lead_in")
        elif abstains(clause):
            for a, b, kind in _turns(clause):
                yield Statement(begin + start + a, begin + start + b, kind)
        else:
            yield Statement(begin + start, begin + end, "claim")


def _turns(clause: str) -> Iterator[Statement]:
    """A clause that abstains: it, and what it turns to state."""
    start = 0
    pieces: list[Statement] = []
    turns = _COMMA if _CONCEDES.match(clause) else _TURN
    for turn in (*turns.finditer(clause), None):
        end = turn.start() if turn is not None else len(clause)
        piece = clause[start:end]
        content = _OPINION.sub("", piece, count=1)
        states = _is_complete(content) or _DIGIT.search(content) is not None
        is_claim = states and not abstains(piece) and not _PERSONAL.search(content)
        if piece.strip():
            kind: Kind = "claim" if is_claim else "abstention"
            fact = end - len(content) if is_claim else start
            if fact > start and pieces and pieces[-1].kind == "abstention":
                pieces[-1] = pieces[-1]._replace(end=fact)  # "but I think" belongs to it
                start = fact
            if pieces and pieces[-1].kind == kind:
                pieces[-1] = pieces[-1]._replace(end=end)
            else:
                pieces.append(Statement(start, end, kind))
        start = turn.end() if turn is not None else end
    yield from pieces


def _without_redirects(text: str, parts: list[Statement]) -> list[Statement]:
    """Beside an abstention, what the passages are about instead is no claim, and after it, where else to ask."""
    if not any(p.kind == "abstention" for p in parts):
        return parts
    final = []
    abstained = False
    for part in parts:
        clause = _OPINION.sub("", text[part.start : part.end][:READ], count=1)
        kind = part.kind
        abstained = abstained or kind == "abstention"
        if kind == "claim" and (_is_about_texts(clause) or _avoids(clause)):
            kind = "abstention"
        elif abstained and kind == "claim" and is_redirect(clause):
            kind = "courtesy"
        final.append(part._replace(kind=kind))
    return final


def _is_about_texts(clause: str) -> bool:
    """Whether a clause says what the passages are about, and repeats no fact from them."""
    subject = _ABOUT_TEXTS.match(clause)
    return subject is not None and not _AMOUNT.search(clause, subject.end())


def _avoids(clause: str) -> bool:
    """Whether a clause only says what the speaker will or cannot do."""
    says = _OPINES.match(clause) or _CONTACT.search(clause) or any(map(_is_complete, _COLON.split(clause)[1:]))
    return not says and _AVOIDS.match(clause) is not None


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
