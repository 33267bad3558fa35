"""What an answer claims: its sentences cut into single statements, and the ones that state nothing left out.

By rules, linear in the text's length. Decomposition by a language model is the judge's matter.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from ragtrace.text.sentences import Span, split

Kind = Literal["claim", "courtesy", "abstention", "question", "lead_in", "code"]

_CONTEXT = r"(?:passages?|context|documents?|text|sources?|information|excerpts?|material|articles?|data|snippets?)"
_ABSTENTION = re.compile(
    r"\b(?:(?:i|we) (?:do not|don't|cannot|can't|could not|couldn't|am not able to|are not able to|am unable to|"
    r"are unable to|was unable to|were unable to|did not|didn't) "
    r"(?:know|find|answer|help|tell|say|determine|provide|see|locate|have (?:enough|any|the|access|sufficient))"
    r"|i'm (?:unable|not able) to|(?:^|[.,] ?)(?:unable|not able) to (?:answer|find|determine|help)"
    rf"|(?:provided |given |retrieved |above )?{_CONTEXT} (?:does not|doesn't|do not|don't|did not) "
    r"(?:\w+ )?(?:contain|mention|provide|include|specify|say|cover|answer|state|give)"
    r"|no (?:specific |relevant |further |direct )?(?:information|mention|answer|details?) "
    r"(?:about|on|of|in|is|was|were|available|found|to|regarding)"
    rf"|(?:not|n't) (?:mentioned|provided|specified|covered|found|stated|included) in the (?:\w+ )?{_CONTEXT}"
    rf"|not enough {_CONTEXT}|cannot be (?:answered|determined))",
    re.I,
)
_COURTESY = re.compile(
    r"^\W*(?:(?:sure|certainly|of course|absolutely|definitely|great|good|excellent|okay|ok|alright|hello|hi|hey|thanks"
    r"|thank you|you're welcome|welcome|got it|understood|great question|good question|happy to help)\b[^.:;]{0,30}$"
    r"|.{0,40}\bhope (?:this|that|these|it) (?:helps?|answers?|was|is|clarif)"
    r"|.{0,30}\b(?:please )?let (?:me|us) know\b|.{0,30}\bfeel free to (?:ask|reach|contact|let)"
    r"|.{0,40}\bif you (?:have|need|want|would like) (?:any )?(?:other |further |more |additional )?"
    r"(?:questions?|help|assistance|information|details|clarification)"
    r"|.{0,20}\bis there anything else|.{0,20}\b(?:i'm|i am|we're|we are) (?:happy|glad|here) to (?:help|assist)"
    r"|(?:good luck|enjoy|have a (?:great|good|nice)|best (?:regards|wishes)|sincerely|cheers)\b"
    r"|i(?:'m| am) (?:so |very )?sorry\b.{0,60}$|(?:my |our )?apologies\b.{0,60}$)",
    re.I,
)
_LEAD_IN = re.compile(r"[:：]\W*$")
_HERE_IS = re.compile(
    r"^\W*(?:sure|certainly|of course|okay)?\W*(?:here(?:'s| is| are)|below (?:is|are)|the following (?:is|are))\b"
    r"[^.]{0,120}$",
    re.I,
)
_WORD = re.compile(r"[^\W_]{2,}|[぀-ヿ㐀-鿿가-힯]")
_JOINT = re.compile(
    r";\s+|(?:,|(?<=,['\"’”]))\s+(?:and|but|while|whereas|although|though|yet|so)\s+"
    r"(?=(?:it|he|she|they|we|you|there|this|that|these|those|the|a|an|its|his|her|their|some|many|most|all|each|one|"
    r"[A-Z][\w'-]*)\s)|\s+(?:whereas|although)\s+(?=\w)",
)
_VERB = re.compile(
    r"\b(?:is|are|was|were|be|been|has|have|had|do|does|did|can|could|will|would|may|might|must|should|shall|cannot"
    r"|wrote|made|took|went|gave|came|became|began|built|bought|found|got|held|kept|knew|led|left|lost|met|paid|ran|said"
    r"|saw|sent|sold|spoke|told|thought|won|grew|drew|fell|rose"
    r"|[a-z]{3,}(?:ed|es|s|ing))\b"
)
_MIN_WORDS = 3


class Statement(NamedTuple):
    """A piece of an answer: characters start to end, end exclusive, and whether it claims something."""

    start: int
    end: int
    kind: Kind


def statements(answer: str, limit: int = 400) -> list[Statement]:
    """The answer cut into statements, at most `limit`, each with its kind; sentences, compound ones cut further."""
    statements: list[Statement] = []
    for span in split(answer, limit):
        kind = _kind(answer[span.start : span.end])
        if kind == "claim":
            statements.extend(Statement(part.start, part.end, "claim") for part in _parts(answer, span))
        else:
            statements.append(Statement(span.start, span.end, kind))
    return statements[:limit]


def claims(answer: str, limit: int = 400) -> list[Statement]:
    """The statements of an answer that claim something: not courtesies, questions, lead-ins, code, nor that nothing was
    found."""
    return [s for s in statements(answer, limit) if s.kind == "claim"]


def _kind(sentence: str) -> Kind:
    head = sentence[:400]
    if sentence.startswith("```") or not _WORD.search(head):
        return "code"
    if _LEAD_IN.search(sentence[-20:]) or _HERE_IS.match(head):
        return "lead_in"
    if sentence.rstrip("\"'”’)* ").endswith(("?", "？")):
        return "question"
    if _COURTESY.match(head):
        return "courtesy"
    if _ABSTENTION.search(head):
        return "abstention"
    if (
        head.lstrip("0123456789.) ").startswith(("#", "**"))
        and len(_WORD.findall(head)) <= 6
        and not _VERB.search(head)
    ):
        return "lead_in"  # a heading
    return "claim"


def _parts(text: str, span: Span) -> list[Span]:
    """A sentence's clauses that could each stand alone: both sides of a joint have a verb and a few words."""
    parts: list[Span] = []
    start = span.start
    for joint in _JOINT.finditer(text, span.start, span.end):
        left, right = text[start : joint.start()], text[joint.end() : span.end]
        if _is_complete(left) and _is_complete(right):
            parts.append(Span(start, joint.start()))
            start = joint.end()
    parts.append(Span(start, span.end))
    return parts


def _is_complete(clause: str) -> bool:
    return len(_WORD.findall(clause[:600])) >= _MIN_WORDS and _VERB.search(clause[:600]) is not None


def abstains(statement: str) -> bool:
    """Whether a statement says that the answer was not found or cannot be given."""
    return _ABSTENTION.search(statement[:400]) is not None
