"""Turns of a conversation that name nothing which documents could answer: greetings, thanks, "go on"."""

from __future__ import annotations

import re

_WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)?|\d+")
_MAX_WORDS = 12
_WORDS = frozenset(
    "a about again all alright am an and another anything are as at be bit bot briefly bye can cool could detail details "
    "did do does doesn don else ever example explain fine for from further get give go good goodbye got great had has "
    "have hello help hey hi how i in is it its just kindly last later let like list longer main make me mean more much "
    "my need next nice no not now of off oh ok okay on one ones or other out over perfect please point points problem "
    "question questions quick really repeat reply right same say second see short shorter should show simple simpler so "
    "some something sorry still step steps summarise summarize summary sure table tell text thank thanks that the them "
    "then there these they thing things think third this those tl dr to too translate try understand up us very was we "
    "welcome well were what which who whom why will with work works worked working would wow wrong yeah yep yes you "
    "your again first continue elaborate rephrase reword broken morning afternoon evening day night "
    # German, French, Spanish, Italian, Portuguese, Dutch
    "bitte danke hallo ja mehr nein nochmal schön tschüss warum weiter wie gut vielen dank aha "
    "merci bonjour salut oui non plus encore pourquoi comment au revoir très bien "
    "gracias hola sí si adiós por favor más vale bueno buenos días muchas "
    "grazie ciao prego sì ancora perché buongiorno va bene "
    "obrigado obrigada olá sim não mais porquê bom dia "
    "bedankt hoi dag meer nee waarom dank je wel".split()
)
_ENDINGS = ("n't", "'s", "'m", "'re", "'ve", "'ll", "'d")


def asks_nothing(query: str) -> bool:
    """Whether a turn of at most twelve words holds none that names a subject: "hi", "thanks a lot", "tell me more"."""
    words = _WORD.findall(query[:400].lower().replace("\u2019", "'"))
    return 0 < len(words) <= _MAX_WORDS and all(map(_is_empty, words))


def _is_empty(word: str) -> bool:
    for ending in _ENDINGS:
        word = word.removesuffix(ending)
    return word in _WORDS
