"""What an answer claims: its sentences cut into single statements, without what states nothing.

Citation marks, source lines, courtesies, apologies and prefaces ("According to the document, …") belong to no
claim; what stands beside them in the same sentence does. By rules, linear in the text's length. Decomposition by a
language model is the judge's matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ragtrace.text.abstentions import READ, abstains
from ragtrace.text.citations import is_entry, is_source, is_source_heading, without_marks
from ragtrace.text.sentences import Span, split

Kind = Literal["claim", "courtesy", "abstention", "question", "lead_in", "code", "source"]

_BOOK = (
    r"(?:documents?|documentation|docs?|passages?|contexts?|texts?|sources?|excerpts?|snippets?|materials?|articles?|"
    r"information|data|handbook|manual|polic(?:y|ies)|guide(?:lines?)?|leaflet|reports?|agreement|contract|faqs?|"
    r"pages?|"
    r"website|records?|sections?|chapters?|tables?|knowledge base|instructions|brochure|terms|search results?|files?|"
    r"chunks?|notes|contract|pdf)"
)
_STATES = (
    r"(?:states?|says?|mentions?|indicates?|specif(?:y|ies)|explains?|notes?|shows?|confirms?|suggests?|tells? us|"
    r"reads?|stipulates?|makes? (?:it )?clear|reveals?)"
)
# What stands before a claim and says only where it was read or how it is told. None of these crosses a comma, so that
# what follows is kept.
_PREFACE = re.compile(
    rf"\W*(?:(?:and|but|so|also) )*(?:\[\^?\d{{1,3}}\]:|(?:according to|based (?:up)?on|as per|per|going by|"
    rf"judging by|from|in|as (?:stated|mentioned|described|"
    rf"noted|indicated|outlined|specified|explained|shown) (?:in|by|on)|as) (?:what )?(?:the |this |these |your |"
    rf"our |my |"
    rf"its )?(?:[\w'.-]+ ){{0,5}}{_BOOK}\b(?: (?:\d+|[\"“'«][^\"”'»\n]{{1,80}}[\"”'»]|provided|given|above|retrieved|"
    rf"available|you (?:provided|shared|gave me|uploaded)|(?:of|for|on|in|about|from) (?:the |this |your |our )?"
    rf"(?:[\w'-]+ ?){{1,5}}|{_STATES})){{0,3}}\s*[,:]"
    rf"|(?:it (?:is|was) {_STATES[:-1]}|stated|mentioned|written|noted|specified|described|explained|indicated)) "
    rf"(?:(?:in|by) (?:the |this )?(?:[\w'-]+ ){{0,4}}{_BOOK} )?that\b"
    rf"|(?:it (?:says|states) (?:(?:in|on) (?:the |this )?(?:[\w'-]+ ){{0,4}}{_BOOK} )?that\b)"
    rf"|(?:the |this |these |your |our )?(?:[\w'.-]+ ){{0,4}}{_BOOK}(?: \d+)?,? (?:also |clearly |"
    rf"further )?{_STATES} that\b"
    r"|(?:please )?(?:also )?(?:note|be aware|keep in mind|bear in mind|remember|(?:do not|"
    r"don't) forget) (?:also )?that\b|please note\s*[,:]"
    r"|(?:i|we) can (?:also )?(?:confirm|tell you|say) that\b"
    r"|(?:i(?:'m| am)|we(?:'re| are)) (?:happy|glad|pleased) to (?:say|tell you|confirm|inform you) that\b"
    r"|(?:to answer your question|in (?:short|summary|brief)|to (?:sum up|summari[sz]e)|for your information|"
    r"as you (?:can "
    r"see|know)|in other words|put simply|simply put)\s*[,:]"
    r"|(?:so|well|hmm+|okay|ok|alright|right|sure(?: thing)?|certainly|of course|absolutely|definitely|great|hello|hi"
    r"|hey|thanks|thank you|good question|great question|no problem)(?: there)?(?:\s*[,!.:\u2013—]|\s+-\s|"
    r"(?=\s+(?:the|a|an|this|these|"
    r"those|it|its|your|our|my|they|you|we|i|all|each|every|here)\b))"
    r"|(?:the |my |a )?(?:short |quick |brief |final )?(?:answer|response|reply|"
    r"summary)(?: to your question)?(?: is)?\s*:(?=\s*\S)"
    r"|here(?:'s| is| are) (?:(?:the|your|an?|my|some) )?(?:\w+ )?(?:answer|response|information|summary|overview|"
    r"details|reply)s?(?: (?:to|on|about|for|of|that|you|from) [^:,.\n]{1,60})?\s*:(?=\s*\S)"
    r"|here(?:'s| is) what (?:the |i |we )[^:,.\n]{1,60}:(?=\s*\S)"
    r"|here(?:'s| is| are)\b(?=[^:\n]{1,120}:\s*\S)"
    r")\s*",
    re.I,
)
_CLAUSE = r"[^,;:.!?\n\u2013—]{0,160}"
_UP_TO_CLAUSE = rf"(?!{_CLAUSE}[\d@]){_CLAUSE}"
# Whole clauses that are polite and say nothing. What follows their comma is kept.
_COURTESY = re.compile(
    rf"(?:\bi hope|^\W*hope(?:fully)?) (?:this|that|these|it|you)\b{_UP_TO_CLAUSE}"
    rf"|\b(?:please )?(?:just )?let (?:me|us) know\b{_UP_TO_CLAUSE}"
    rf"|\b(?:please )?(?:feel free|do(?: not|n't) hesitate) to\b{_UP_TO_CLAUSE}"
    r"|\bif (?:you|there)(?:'d| would)? (?:ever |still |should )?(?:have|need|want|like|are|is|require) (?:to know )?"
    r"(?:any(?:thing)?|some|more|further|other|additional|else)\b"
    + _UP_TO_CLAUSE
    + r"|\b(?:is there|are there) anything else\b[^,;:.!\n\u2013—\d]{0,60}"
    r"|\b(?:i(?:'m| am|'d be| would be| will be)|we(?:'re| are|'d be)) (?:always |more than |very )?(?:happy|glad|"
    rf"here|delighted|pleased) to (?:help|assist|answer|clarify|explain|provide)\b{_UP_TO_CLAUSE}"
    r"|\b(?:i(?:'m| am)|we(?:'re| are))? ?(?:so |very |really |truly |terribly )?sorry\b(?: (?:to hear|for|about|"
    r"if)\b"
    rf"{_UP_TO_CLAUSE}| that\b)?(?:\s*[,:\u2013—-]\s*(?:but|however)?\b|\s+but\b)?"
    rf"|\b(?:my |our |please accept my )?(?:sincere )?apologies\b(?: (?:for|"
    rf"about)\b{_UP_TO_CLAUSE})?(?:\s*[,:\u2013—]\s*(?:but\b)?)?"
    rf"|\b(?:i|we) (?:do )?apologi[sz]e\b(?: (?:for|about|if)\b{_UP_TO_CLAUSE})?(?:\s*[,:]?\s*but\b)?"
    rf"|\b(?:many )?thank(?:s| you)\b(?: (?:so|very) much)?(?: for\b{_UP_TO_CLAUSE})?(?=\s*(?:[^\w\s]|$))"
    r"|\byou(?:'re| are) (?:very |most )?welcome\b"
    r"|\b(?:good|great|excellent|interesting|thoughtful|important) (?:question|point|choice|idea|luck|morning|"
    r"afternoon|"
    r"evening|day)\b|\bthat'?s a (?:very |really )?(?:good|great) (?:question|point)\b"
    r"|\b(?:have|enjoy) (?:an?|your|the) (?:\w+ )?(?:day|weekend|evening|time|trip|stay|one)\b"
    r"|\b(?:got it|understood|good ?bye|no problem|happy to help|glad (?:i could|to) help|best (?:regards|wishes)|"
    r"kind regards|sincerely|cheers|take care|no worries|my pleasure|see you)\b"
    r"|\bi(?:'m| am) (?:just |only )?(?:an? )?(?:ai|virtual|digital|"
    r"chat)[ -]?(?:bot)?(?: language)?(?: (?:assistant|model))?"
    r"(?=\W*(?:$|,|\band\b))"
    r"|\b(?:dear|hello|hi|hey) (?:customer|user|there|team|all|everyone|sir|madam|colleague)\b"
    r"|\b(?:es )?tut mir (?:sehr |wirklich )?leid\b|\bentschuldigung\b|\b(?:je suis |"
    r"nous sommes )?(?:vraiment )?désolée?s?\b"
    r"|\b(?:lo siento|lo lamento|disculpe|perdón)\b|\bmi dispiace\b|\b(?:desculpe|sinto muito|lamento)\b|"
    r"\bhet spijt me\b"
    r"|(?:非常|很)?(?:抱歉|对不起|對不起|遗憾|不好意思)|申し訳(?:ございません|ありません)(?:が|、)?|すみません(?:が|、)?",
    re.I,
)
_EMPTY = """
and but so or also then please well yes no oh ah now again anyway just here there today too you me i we for to of the a
that this with at all sure certainly ok okay great hello hi hey absolutely definitely alright welcome thanks thank
unfortunately regrettably however course sorry apologies und aber mais pero però mas maar leider
"""
_EMPTY_WORDS = frozenset(_EMPTY.split())
_LEFT_OVER = re.compile(r"\A(?:[\s,;:.!?\u2013—]|and\b|but\b)*")
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
_WORD = re.compile(r"[^\W_]{2,}|[぀-ヿ㐀-鿿가-힯]")
_JOINT = re.compile(
    r";\s+|(?:,|(?<=,['\"’”]))\s+(?:and|but|while|whereas|although|though|yet|so)\s+"
    r"(?=(?:it|he|she|they|we|you|there|this|that|these|those|the|a|an|its|his|her|their|some|many|most|all|each|one|"
    r"[A-Z][\w'-]*)\s)|\s+(?:whereas|although)\s+(?=\w)",
)
_TURN = re.compile(
    r"[;:]\s+|,\s+(?:and|but|so|which|because|since|however|though|although|while|yet|aber|mais|pero|mas|ma|però|"
    r"maar)\s+"
    r"|\s+(?:but|however|although|whereas)\s+|\s[\u2013—-]\s|(?:，|、|,)(?:但|但是|不过|然而)"
)
"""Where a sentence that abstains may turn to what it does state."""
_PERSONAL = re.compile(
    r"^\W*(?:(?:so|and|but|therefore|thus) )*(?:i|we)(?:'\w+)? |^\W*(?:please|feel free|try|consider|only|nor|or)\b"
    r"|\b(?:your|this|the) (?:question|query|request)\b",
    re.I,
)
_REDIRECT = re.compile(
    r"^\W*(?:(?:so|and|but|instead|alternatively|for (?:more|further)\b[^,]{0,60}|to \w+[^,]{0,80}|in that case),? )*"
    r"(?:please |kindly |you (?:may|might|can|could|should)(?: also| want to| wish to| need to)? |"
    r"(?:i|we)(?:'d| would| can)? (?:suggest|recommend|advise|encourage)\b.{0,20}? (?:to )?|it (?:is|may be|might be|"
    r"would be) (?:best|better|helpful|advisable|recommended)\b.{0,20}? to |try |consider )"
    r"(?:contact|consult|check|ask|reach|refer|visit|see|speak|talk|provid|clarify|rephras|call|look|review|"
    r"search|turn|"
    r"shar|seek|specify|upload|giv|tell|try|get in touch)",
    re.I,
)
_AVOIDS = re.compile(
    r"^\W*(?:(?:so|and|but|therefore|thus),? )*(?:i|we) (?:would|will|can|could|cannot|can't|must|do|don't|am|"
    r"have|want|prefer"
    r"|suggest|recommend)\b|^\W*(?:so|and|but)? ?i'(?:d|ll|m)\b",
    re.I,
)
_ABOUT_TEXTS = re.compile(
    r"^\W*(?:(?:instead|however|rather|while|but|and),? )?(?:(?:the|these|those|all|both|only|one|each|"
    r"some)(?: of)?(?: the)? )?"
    r"(?:\w+ ){0,2}(?:passages?|documents?|contexts?|texts?|excerpts?|sources?|information|they|it|articles?|"
    r"snippets?)\b"
    r"(?: \d+| [A-Z])?(?: (?:provided|given|retrieved|available|above|here))?,? (?:only |mainly |mostly |merely |"
    r"just |also |"
    r"instead |(?:do|does)(?: not|n't) (?:\w+ly )?)*(?:mentions?|discuss(?:es)?|describes?|focus(?:es)?|covers?|"
    r"talks?|specify|specifies|includes?|provides?|contains?|relates?|"
    r"concerns?|deals?|address(?:es)?|lists?|explains?|gives?|outlines?|refers?|emphasi[sz]es?|compares?|"
    r"(?:is|are) (?:about|related|unrelated|limited|focused|an? ))(?:\b|(?<= ))(?! that\b)"
    r"|^\W*(?:(?:however|but),? )?(?:the|your) (?:question|query) (?:asks|is asking|was|is about|refers|concerns|"
    r"requires)\b",
    re.I,
)
_VERB = re.compile(
    r"\b(?:is|are|was|were|be|been|has|have|had|do|does|did|can|could|will|would|may|might|must|should|shall|cannot"
    r"|wrote|made|took|went|gave|came|became|began|built|bought|found|got|held|kept|knew|led|left|lost|met|paid|"
    r"ran|said"
    r"|saw|sent|sold|spoke|told|thought|won|grew|drew|fell|rose"
    r"|[a-z]{3,}(?:ed|es|s|ing))\b"
)
_DIGIT = re.compile(r"\d")
_CONTACT = re.compile(r"[\d@]|://|www\.")
_WORDS = re.compile(r"[^\W_]+(?:'[^\W_]+)?")
_MIN_WORDS = 3


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

    @property
    def claims(self) -> tuple[Statement, ...]:
        """The statements that claim something."""
        return tuple(s for s in self.statements if s.kind == "claim")

    def without(self, indices: frozenset[int]) -> AnswerParts:
        """The same where these statements, which a classifier knows for abstentions, are no claims."""
        parts = tuple(s._replace(kind="abstention") if i in indices else s for i, s in enumerate(self.statements))
        return AnswerParts(_blank_text(self.text, parts), parts)


def read(answer: str, limit: int = 400) -> AnswerParts:
    """Cut an answer into at most `limit` statements, each with its kind; sentences, compound ones cut further."""
    marked = without_marks(answer).replace("’", "'")
    parts: list[Statement] = []
    pieces: list[str] = []
    last = 0
    in_sources = False
    for span in split(marked, limit):
        sentence = marked[span.start : span.end]
        pieces.append(marked[last : span.start])
        last = span.end
        in_sources = is_source_heading(sentence) or (in_sources and is_entry(sentence))
        if sentence.startswith("```"):
            parts.append(Statement(span.start, span.end, "code"))
        elif in_sources or is_source(answer[span.start : span.end]) or is_source(sentence):
            parts.append(Statement(span.start, span.end, "source"))
        else:
            stated = _without_courtesies(sentence)
            parts.extend(_of_sentence(sentence, stated, span))
            sentence = stated
        pieces.append(sentence)
    text = "".join([*pieces, marked[last:]])
    final = tuple(_without_redirects(text, parts)[:limit])
    return AnswerParts(_blank_text(text, final), final)


def statements(answer: str, limit: int = 400) -> list[Statement]:
    """The statements of an answer, each with its kind; see `read`."""
    return list(read(answer, limit).statements)


def claims(answer: str, limit: int = 400) -> list[Statement]:
    """The statements of an answer that claim something: not courtesies, questions, lead-ins, code, sources, nor that
    nothing was found."""
    return list(read(answer, limit).claims)


def _without_courtesies(sentence: str) -> str:
    """The sentence with spaces in place of courtesies, apologies and prefaces."""
    head = _COURTESY.sub(_blank, sentence[:READ])
    at = 0
    while (preface := _PREFACE.match(head, at)) is not None and preface.end() > at:
        at = preface.end()
    return " " * at + head[at:] + sentence[READ:]


def _blank(match: re.Match[str]) -> str:
    return " " * len(match.group())


def _of_sentence(sentence: str, stated: str, span: Span) -> list[Statement]:
    """A sentence's statements, from what is left of it without courtesies."""
    words = [w.lower() for w in _WORDS.findall(stated[:READ])]
    if stated != sentence and all(w in _EMPTY_WORDS for w in words):
        return [Statement(span.start, span.end, "courtesy")]
    if not _WORD.search(sentence):
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
    for turn in (*_TURN.finditer(clause), None):
        end = turn.start() if turn is not None else len(clause)
        piece = clause[start:end]
        is_claim = not abstains(piece) and not _PERSONAL.search(piece) and _is_complete(piece)
        if piece.strip():
            kind: Kind = "claim" if is_claim else "abstention"
            if pieces and pieces[-1].kind == kind:
                pieces[-1] = pieces[-1]._replace(end=end)
            else:
                pieces.append(Statement(start, end, kind))
        start = turn.end() if turn is not None else end
    yield from pieces


def _without_redirects(text: str, parts: list[Statement]) -> list[Statement]:
    """Beside an abstention, where else to ask and what the passages are about instead are no claims."""
    if not any(p.kind == "abstention" for p in parts):
        return parts
    final = []
    for part in parts:
        clause = text[part.start : part.end][:READ]
        kind = part.kind
        if kind == "claim" and (_ABOUT_TEXTS.match(clause) or (_AVOIDS.match(clause) and not _CONTACT.search(clause))):
            kind = "abstention"
        elif kind == "claim" and _REDIRECT.match(clause) and not _CONTACT.search(clause):
            kind = "courtesy"
        final.append(part._replace(kind=kind))
    return final


def _blank_text(text: str, parts: tuple[Statement, ...]) -> str:
    pieces: list[str] = []
    last = 0
    for start, end, kind in parts:
        if kind in ("courtesy", "abstention", "source"):
            pieces += [text[last:start], " " * (end - start)]
            last = end
    return "".join([*pieces, text[last:]])


def _states_number(clause: str) -> bool:
    """Whether a lead-in states an amount, apart from its own number and from how many entries follow."""
    rest = _COUNTS.sub("", _NUMBERING.sub("", clause[:READ]))
    return _DIGIT.search(rest) is not None and _VERB.search(rest) is not None


def _is_heading(sentence: str) -> bool:
    rest = _NUMBERING.sub("", sentence[:READ])
    marked = sentence.lstrip("0123456789.) ").startswith(("#", "**"))
    return marked and len(_WORD.findall(rest)) <= 6 and not _VERB.search(rest) and not _DIGIT.search(rest)


def _parts(sentence: str) -> list[tuple[int, int]]:
    """A sentence's clauses that could each stand alone: both sides of a joint have a verb and a few words."""
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
