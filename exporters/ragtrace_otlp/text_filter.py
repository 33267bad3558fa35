"""Leaves the texts out of other libraries' spans where `capture_content` leaves them out of ragtrace's own."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from ragtrace import semconv
from ragtrace.capture.content import ContentPolicy
from ragtrace.errors import SettingError
from ragtrace.text.sanitizer import RedactionFailures, Sanitizer

_OURS = re.compile(
    "|".join(map(re.escape, (semconv.SAMPLED, semconv.STATUS, semconv.PROBABILITY, semconv.FAILURE_CAUSE)))
    + rf"|{re.escape(semconv.SCORE_PREFIX)}\..+\.(?:score|label|explanation|sampling_probability)"
)
"""What ragtrace adds to the root of a request that another library has traced."""
_TEXTS = re.compile(
    r"(?:^|[._-])(?:api_?key|args?|arguments|answers?|auth|authorization|body|completions?|content|cookies?"
    r"|credentials?|customer|documents?|e?mail|(?:end)?user|fragment|(?:first|full|last|user)_?name|forwarded|headers?"
    r"|comments?|input|keywords?|kwargs|login|messages?|metadata|output|param(?:eter)?s?|pass(?:code|phrase|wd|word)?"
    r"|phone|pin|prompts?|pwd|query|questions?|reply|replies|results?|search|secret|stacktrace|statement|subject|terms?"
    r"|texts?|title|token|topic|uid|user_?(?:agent|id)|username|utterances?|values?|variables"
    r"|(?:client|peer|remote)_(?:addr(?:ess)?|ip))(?:$|[._\[-])"
    r"|method_original$|^client\.|(?:^|[._-])(?:birth(?:_?da(?:y|te))?|dob)$|peer\.(?:ip|addr(?:ess)?)$"
)
"""Names of attributes that hold what somebody wrote or who that was, in the old and the new conventions."""
_PERSONS = re.compile(
    r"(?:^|[._-])(?<!max_)(?<!num_)(?<!process\.)(?:customer|login|otp|pass(?:code|word)|phone|pin|uid|user|enduser)(?:[._]?id)?$"
)
"""Names of numbers that say who somebody is, or open a door."""
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_PATHS = frozenset({"http.target", "url.path", "http.route"})
_URLS = frozenset({"http.url", "url.full", "url.original"})
_LOGIN = re.compile(r"://[^/?#\s:@]*:(?!\d{1,5}[/?#])[^@/?#\s]*[/?#]\S*@")
"""A login whose password has characters that an address may not have there."""
_WORD = re.compile(r"(?!.*\+.*\+)[\w.:/*<>{}\[\]()+~|-]{1,128}", re.ASCII)
"""No words that a form has joined: with more than one plus sign."""
_SEGMENT = re.compile(r"[A-Za-z]{0,24}(?:[_-][A-Za-z]{0,24}){0,2}|v\d{1,2}|[<{][\w:]{1,32}[>}]", re.ASCII)
_LONG_NUMBER = 10_000_000
_INSTRUMENTATION = "opentelemetry.instrumentation."
_log = logging.getLogger(__name__)


def text_filter_for(capture: ContentPolicy, is_asked: bool, *, is_ours: bool) -> Sanitizer | TextFilter | None:
    """What changes the spans of other libraries in a tracer provider: always in one that `init` makes (`is_ours`), else
    where `redact_others` asks for it (`is_asked`). None where their texts may leave as they are.

    Warns of the libraries whose texts leave an application's provider. Raises SettingError where texts are captured,
    and nothing says how they are redacted."""
    if is_asked and capture.spans and capture.sanitizer.redact is None:
        raise SettingError("redact_others is true, but redact is off; set redact to pii, for example")
    if (is_ours or is_asked) and capture.spans:
        return capture.sanitizer if capture.sanitizer.redact or capture.sanitizer.identify else None
    if is_ours or is_asked:
        return TextFilter(capture.sanitizer.identify)
    is_secret = not capture.spans or capture.sanitizer.redact is not None
    if is_secret and (libraries := _instrumentations()):
        _log.warning(
            "ragtrace: the application's TracerProvider exports the spans of %s with their texts (queries of URLs); "
            "redact_others = true treats them as ragtrace's own",
            ", ".join(libraries),
        )
    return None


def _instrumentations() -> list[str]:
    """The libraries whose OpenTelemetry instrumentation is loaded."""
    parts = [(name.split("."), module) for name, module in sys.modules.items() if name.startswith(_INSTRUMENTATION)]
    own = [(name[2], vars(module)) for name, module in parts if len(name) == 3 and name[2] != "instrumentor"]
    return sorted(name for name, values in own if any(each.endswith("Instrumentor") for each in values))


class TextFilter:
    """Used in place of a `Sanitizer` for spans of other libraries: keeps numbers, and words such as methods, hosts,
    routes and names of models. It leaves out sentences, attributes whose name is that of a text, and personal data."""

    def __init__(self, identify: Callable[[str], str] | None = None) -> None:
        """`identify` makes the ids of users and sessions that leave."""
        self.identify, self.failures = identify, RedactionFailures()
        _is_safe("")  # loads the rules now, and not in a request's thread

    def text(self, value: str, limit: int) -> str:
        """The name of a span or an event: a few words without a query; else its first word."""
        words = list(map(_clean, value.split()))
        is_name = len(words) <= (4 if any(word[0] == "/" or "://" in word for word in words) else 2)
        name = " ".join(words)
        if is_name and all(map(_is_word, words)) and _is_safe(name):
            return name[:limit] or "span"
        first = words[0] if words else ""
        is_plain = not is_name or first[:1] == "/" or first.isalpha()  # else a value may begin
        return first[:limit] if first and is_plain and _is_word(first) else "span"

    def attributes(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """The attributes that hold no text. Addresses keep their host and the plain words of their path."""
        result: dict[str, Any] = {}
        for key, value in attributes.items():
            if _OURS.fullmatch(key):
                result[key] = value
            elif key in _PATHS:
                result[key] = path(str(attributes.get("http.route") or value))
            elif key in _URLS:
                result[key] = _address(str(value), attributes.get("http.route"))
            elif not isinstance(value, bool) and (_names_text(key, value) or _is_named_secret(key, value)):
                continue
            elif _is_plain(value := _clean(value) if isinstance(value, str) else value):
                result[key] = value
        return result


def _names_text(key: str, value: Any) -> bool:
    names = _TEXTS if isinstance(value, (str, list, tuple)) else _PERSONS
    return names.search(_CAMEL.sub("_", key).lower()) is not None


def _is_named_secret(key: str, value: Any) -> bool:
    """Whether `redact = "pii"` hides the value because of its name."""
    return bool(_pii().value_of(key, value, lambda each: each) != value)


@lru_cache(maxsize=1)
def _pii() -> Sanitizer:
    from ragtrace.text.redaction import mask_named, mask_pii  # its rules take long to load

    return Sanitizer(mask_pii, redact_named=mask_named)


def path(text: str) -> str:
    """Replaces each segment by a star, except plain words and the placeholders of a route."""
    segments = text.partition("?")[0].partition("#")[0].split("/")
    return "/".join(each if not each or (_SEGMENT.fullmatch(each) and _is_safe(each)) else "*" for each in segments)


def _clean(word: str) -> str:
    """A word, of which an address or a path keeps what is plain."""
    return _address(word) if "://" in word else path(word) if word.startswith("/") else word


def _address(text: str, route: object = None) -> str:
    """An address without texts; with a route, whose words are the application's, in the place of its path."""
    try:
        parts = urlsplit(_LOGIN.sub("://", text))
    except ValueError:
        return "*"
    start = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" if parts.netloc else ""
    return start + path(f"/{route.lstrip('/')}" if isinstance(route, str) else parts.path)


def _is_plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value)) and not (len(value) > 1 and isinstance(value[0], str))  # the words of a text
    if isinstance(value, str):
        return _is_word(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return isinstance(value, bool)
    return abs(value) < _LONG_NUMBER or _is_word(f"{value:.0f}")


def _is_word(text: str) -> bool:
    return bool(_WORD.fullmatch(text)) and _is_safe(text)


@lru_cache(maxsize=4_096)
def _is_safe(text: str) -> bool:
    return _pii().text(text) == text
