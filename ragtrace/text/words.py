"""Words that say nothing: those without a meaning of their own, those of small talk, and a text of one word again and
again."""

import re

_LISTED = """
a an the and or but if then than so as at by for from in into of on onto to with without within is are was were be been
being am do does did have has had will would can could may might must shall should it its this that these those he she
they them his her their i we you our your my me us which who whom whose what when where why how not no nor also there
here s t re ve d ll m more most such other some any each both all up out over about
"""
FUNCTION_WORDS = frozenset(_LISTED.split())

_LETTER, _LATIN = re.compile(r"[^\W\d_]"), re.compile(r"[A-Za-z\u00c0-\u024f]")


def is_latin(text: str) -> bool:
    """Whether at least half of a text's letters are Latin; True for a text without letters."""
    return 2 * len(_LATIN.findall(text)) >= len(_LETTER.findall(text))


# --- empty texts ------------------------------------------------------------------------------------------------------

_ANY_WORD = re.compile(r"\w+")
_READ = 8_000
_REPEATED = 4
"""Mean number of times that an answer repeats each of its words, from which it says nothing."""


def is_empty(text: str) -> str | None:
    """Why a text says nothing, in a few words: it is blank, has signs only, or one word again and again. None where it
    says something."""
    if not text.strip():
        return "the answer is blank"
    if text.strip() == "Empty Response":
        return "LlamaIndex found nothing, and answered so"
    words = _ANY_WORD.findall(text[:_READ].lower())
    if not words:
        return "the answer has no word"
    if len(words) >= _REPEATED and len(set(words)) <= len(words) / _REPEATED and len(set(words)) <= 2:
        return "the answer repeats one word"
    return None


# --- small talk -------------------------------------------------------------------------------------------------------

_WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)?|\d+")
_MAX_WORDS = 12
_SMALL_TALK = """
    a about adiós afternoon again aha all alright am an ancora and another anything are as at au be bedankt bene
    bien bit bitte bom bonjour bot briefly broken bueno buenos buongiorno bye can ciao comment continue cool
    could dag dank danke day detail details dia did do does doesn don dr días elaborate else encore evening ever
    example explain favor fine first for from further get give go good goodbye got gracias grazie great gut had
    hallo has have hello help hey hi hoi hola how i in is it its ja je just kindly last later let like list
    longer lot lots main mais make me mean meer mehr merci more morning much muchas my más nee need nein next
    nice night no nochmal non not now não obrigada obrigado of off oh ok okay olá on one ones or other oui out
    over perché perfect please plus point points por porquê pourquoi prego problem question questions quick
    really repeat rephrase reply revoir reword right salut same say schön second see short shorter should show
    si sim simple simpler so some something sorry step steps still summarise summarize summary sure sì sí table
    tell text thank thanks that the them then there these they thing things think third this those tl to too
    translate try très tschüss understand up us va vale very vielen waarom warum was we weiter wel welcome well
    were what which who whom why wie will with work worked working works would wow wrong yeah yep yes you your
"""
_SMALL_WORDS = frozenset(_SMALL_TALK.split())
"""In English, German, French, Spanish, Italian, Portuguese and Dutch."""
_ENDINGS = ("n't", "'s", "'m", "'re", "'ve", "'ll", "'d")


def asks_nothing(query: str) -> bool:
    """Whether a turn of at most twelve words holds none that names a subject: "hi", "thanks a lot", "tell me more"."""
    words = _WORD.findall(query[:400].lower().replace("\u2019", "'"))
    return 0 < len(words) <= _MAX_WORDS and all(map(_names_nothing, words))


def _names_nothing(word: str) -> bool:
    for ending in _ENDINGS:
        word = word.removesuffix(ending)
    return word in _SMALL_WORDS
