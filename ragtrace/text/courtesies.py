"""Courtesies, apologies and prefaces: the parts of a sentence that state no fact about the subject."""

from __future__ import annotations

import re

from ragtrace.text.abstentions import READ
from ragtrace.text.letters import SALUTATION

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
# The words before a claim that say only where it was read or in which manner. None of these crosses a comma, so that
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
    rf"|{SALUTATION}"
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
    r")\*{0,3}\s*",
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
    rf"|^\W*all the best(?: (?:for|with|on|in)\b{_UP_TO_CLAUSE}|(?= *(?:[,.!\n]|$)))"
    r"|\b(?:got it|understood|good ?bye|no problem|happy to help|glad (?:i could|to) help|best (?:regards|wishes)|"
    r"kind regards|sincerely|cheers|take care|no worries|my pleasure|see you)\b"
    r"|\bi(?:'m| am) (?:just |only )?(?:an? )?(?:ai|virtual|digital|"
    r"chat)[ -]?(?:bot)?(?: language)?(?: (?:assistant|model))?"
    r"(?=\W*(?:$|,|\band\b))"
    r"|\b(?:dear|hello|hi|hey) (?:customer|user|there|team|all|everyone|sir|madam|colleague)\b"
    r"|^\W*confidence(?: (?:level|score))?\W{1,4}(?:very )?(?:high|medium|low|\d[\d.]*\s*%?(?: ?/ ?\d+)?)\W*$"
    r"|\b(?:es )?tut mir (?:sehr |wirklich )?leid\b|\bentschuldigung\b|\b(?:je suis |"
    r"nous sommes )?(?:vraiment )?désolée?s?\b"
    r"|\b(?:lo siento|lo lamento|disculpe|perdón)\b|\bmi dispiace\b|\b(?:desculpe|sinto muito|lamento)\b|"
    r"\bhet spijt me\b"
    r"|(?:非常|很)?(?:抱歉|对不起|對不起|遗憾|不好意思)|申し訳(?:ございません|ありません)(?:が|、)?|すみません(?:が|、)?",
    re.I,
)


def without_courtesies(sentence: str) -> str:
    """The sentence with spaces in place of courtesies, apologies and prefaces."""
    head = _COURTESY.sub(_blank, sentence[:READ])
    at = 0
    while (preface := _PREFACE.match(head, at)) is not None and preface.end() > at:
        at = preface.end()
    return " " * at + head[at:] + sentence[READ:]


def _blank(match: re.Match[str]) -> str:
    return " " * len(match.group())
