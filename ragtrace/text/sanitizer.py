"""The one door through which texts leave the process: cleaned, cut and redacted.

Span attributes, status, exceptions, explanations, events, ids and files all take their texts from here.
"""

import dataclasses
import datetime
import functools
import json
import logging
import math
import re
import traceback
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ragtrace.base.background import after_fork

_log = logging.getLogger(__name__)
_MAX_DEPTH = 8
_MAX_ID = 256
_MARGIN = 4_096
"""Characters beyond the limit that redaction reads, so that a secret at the cut is read whole."""
_MAX_JSON = 16_384
REDACTION_FAILED = "[redaction failed]"
"""Leaves in the place of a text that could not be redacted."""
_LONG_NUMBER = 10_000_000
"""Shorter numbers are counts and sizes."""
_SECRET_FIELD = re.compile(
    r"(?:^|[^a-z])(?:pass(?:word|wd|phrase|code)|pwd|pin|cvv|cvc|otp|secret|bearer|credentials?|(?:set_)?cookie"
    r"|(?:api|private|access|secret|signing)_?key|(?P<words>token|authorization))(?:_?(?:v?\d+|prod|dev|test|old|new))?$"
)
"""Names of fields whose value is always a secret. In a sentence such a word needs more: see `text.privacy`."""
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|-")
_BARE = re.compile(r'"(?:[^"\\]|\\.)*"|-?(\[(?!(?:null|true|false)\])[a-z_]+\])(?=\s*[,}\]])')
"""Finds the strings of a JSON text, and outside of them each placeholder that has replaced a number."""


class RedactionTimeoutError(Exception):
    """The application's redaction function did not return in time."""


class RedactionFailures:
    """Numbers of texts that could not be redacted, by reason: `timeout` or `error`."""

    def __init__(self) -> None:
        self.by_reason = {"timeout": 0, "error": 0}
        after_fork(self._reset)

    def _reset(self) -> None:
        self.by_reason.update(timeout=0, error=0)  # a forked child counts its own

    def count(self, error: Exception) -> None:
        """Count one text that did not leave, and log the first one."""
        if not any(self.by_reason.values()):
            name = type(error).__name__
            _log.warning("ragtrace: the redact function failed (%s). Texts that it does not redact stay here", name)
        self.by_reason["timeout" if isinstance(error, RedactionTimeoutError) else "error"] += 1


@dataclass(frozen=True, slots=True)
class Sanitizer:
    """How texts are prepared before they leave. No method raises."""

    redact: Callable[[str], str] | None = None
    """Applied to every text, in the thread that reads a span's attributes: usually an exporter's."""
    max_chars: int = 16_384
    """Characters of one text that are kept."""
    identify: Callable[[str], str] | None = None
    """Applied to the ids of users and sessions in the place of `redact`, e.g. a keyed hash."""
    redact_named: Callable[[str, str], str] | None = None
    """The value of a field behind the field's name, which alone may say what it is."""
    failures: RedactionFailures = field(default_factory=RedactionFailures)
    """Counts the texts that did not leave because their redaction failed."""

    def text(self, value: object, limit: int | None = None) -> str:
        """Any object as a text that every encoder accepts, of at most `limit` characters (`max_chars` by default)."""
        limit = self.max_chars if limit is None else limit
        if self.redact is None:
            if type(value) is str and len(value) <= limit and value.isascii() and "\0" not in value:
                return value  # nearly every text: there is nothing to clean
            return sendable(value, limit)
        # Redaction comes before the cut: a secret that is cut in two is no longer recognised.
        whole = sendable(value).replace("�", "")  # the marks that stand for NUL would hide values of UTF-16
        window = limit + _MARGIN
        try:
            redacted = _still_json(whole, sendable(self.redact(whole[:window])))
            if len(redacted) < limit + _MARGIN // 2 and window < len(whole):  # placeholders are short
                window *= 4
                redacted = sendable(self.redact(whole[:window]))
        except Exception as error:  # noqa: BLE001 the application's function; what it could not redact does not leave
            self.failures.count(error)
            return REDACTION_FAILED
        if len(whole) <= window:
            return sendable(redacted, limit)
        head = redacted[: max(0, len(redacted) - _MARGIN // 2)][:limit]  # a secret at the end may be cut in two
        return f"{head}... [{len(whole) - window + len(redacted) - len(head)} characters cut]"

    def identifier(self, value: object) -> str:
        """The id of a user or a session as it leaves."""
        if self.identify is None:
            return self.text(value, _MAX_ID)
        return sendable(self.identify(sendable(value)), _MAX_ID)

    def attributes(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Span or event attributes with every text in their values redacted. Their own names stay."""
        if self.redact is None:
            return dict(attributes)
        return {key: self.value_of(key, value, self._attribute) for key, value in attributes.items()}

    def value_of(self, name: object, value: Any, prepare: Callable[[Any], Any]) -> Any:
        """The value of a field, redacted with its name: it may say that the value is a secret, or what it is."""
        prepared = prepare(value)
        if self.redact is None or not isinstance(name, str) or value is None or isinstance(value, bool):
            return prepared
        label = _CAMEL.sub("_", name).lower()
        if (secret := _SECRET_FIELD.search(label)) is not None:
            kinds = (str, list, tuple) if secret["words"] else (str, list, tuple, int)
            return "[secret]" if isinstance(value, kinds) and value not in ("", [], ()) else prepared
        if self.redact_named is not None and isinstance(value, str) and prepared == value:
            return self.redact_named(label.rpartition(".")[2], value)
        return prepared

    def _attribute(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, (list, tuple)):
            items = tuple(map(self._attribute, value))
            is_changed = any(
                isinstance(new, str) and isinstance(old, (int, float)) for new, old in zip(items, value, strict=True)
            )
            return tuple(map(str, items)) if is_changed else items  # the items of one attribute have one type
        if isinstance(value, Mapping):
            return {self.text(key): self.value_of(key, item, self._attribute) for key, item in value.items()}
        if isinstance(value, (bytes, bytearray, memoryview)):
            return self.text(value)
        is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        return self._number(value) if is_whole and abs(value) >= _LONG_NUMBER else value

    def _number(self, value: float) -> float | str:
        # A number can be a phone number or a card, and a float in a column where one row is empty.
        text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
        return value if (redacted := self.text(text)) == text else redacted

    def json(self, value: object, limit: int = _MAX_JSON) -> str:
        """A value as JSON with every text in it redacted; `{}` where it cannot be written, or is longer than `limit`
        characters: half a JSON text cannot be read."""
        try:
            text = sendable(_as_json(value if self.redact is None else self._plain(value, 0)))
        except Exception:  # noqa: BLE001 cycles
            return "{}"
        return text if len(text) <= limit else "{}"

    def _plain(self, value: Any, depth: int) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, (int, float)):
            return self._number(value)
        if depth < _MAX_DEPTH and isinstance(value, Mapping):
            deeper = functools.partial(self._plain, depth=depth + 1)
            return {self.text(key): self.value_of(key, item, deeper) for key, item in value.items()}
        if depth < _MAX_DEPTH and isinstance(value, (list, tuple, set, frozenset)):
            return [self._plain(item, depth + 1) for item in value]
        return self.text(value)

    def exception(self, error: BaseException) -> dict[str, str]:
        """The attributes of an `exception` event: type, message and stack trace."""
        try:
            stack = "".join(traceback.format_exception(error))
        except Exception:  # noqa: BLE001 an exception whose __str__ raises
            stack = type(error).__name__
        return {
            "exception.type": type(error).__qualname__, "exception.message": self.text(error),
            "exception.stacktrace": self.text(stack), "exception.escaped": "False",
        }  # fmt: skip


def _still_json(before: str, after: str) -> str:
    """The redacted text, with quotes around each placeholder that has replaced a number of JSON."""
    if before[:1] not in ("{", "[") or before == after:
        return after
    try:
        json.loads(before)
    except (ValueError, RecursionError):
        return after
    return _BARE.sub(lambda m: f'"{m[1]}"' if m[1] else m[0], after)


def sendable(value: object, limit: int = 1_000_000) -> str:
    """Any object as a string of at most `limit` characters that UTF-8 can encode and that holds no NUL. Never raises.

    A lone surrogate makes protobuf refuse the whole batch, and databases behind many backends refuse NUL.
    """
    if type(value) is not str:
        value = _as_text(value)
    if len(value) > limit:
        value = f"{value[:limit]}... [{len(value) - limit} characters cut]"
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            value = value.encode("utf-8", "replace").decode("utf-8")
    return value.replace("\0", "�") if "\0" in value else value


def identity_of(value: object) -> str:
    """An id, a tag or a name as a string that is long enough for what it holds to be redacted before `Sanitizer` cuts
    it."""
    return sendable(value, _MAX_ID + _MARGIN)


def _as_text(value: object) -> str:
    try:
        if isinstance(value, str):  # e.g. LangChain's `TextAccessor`; encoders take plain strings alone
            return "".join((value,)) if issubclass(type(value), str) else str(value)  # else a proxy of one
        plain = value if isinstance(value, (dict, list, tuple)) else _plain_of(value)
        if plain is None:
            return str(value)
        return plain if isinstance(plain, str) else _as_json(plain)
    except Exception:  # noqa: BLE001 cycles, objects whose repr raises: a name is better than nothing
        return f"<{type(value).__name__}>"


def _as_json(value: Any) -> str:
    """A value as JSON that every parser reads, in its own letters."""
    try:
        return _encode_text(value)
    except (TypeError, ValueError):  # a key that is no text; NaN or an infinity
        return _encode_text(_with_text_keys(finite(value)))


def _with_text_keys(value: Any) -> Any:
    """A value whose mappings have texts as keys: JSON has no others."""
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else _as_text(key): _with_text_keys(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_with_text_keys(item) for item in value]
    plain = _plain_of(value)
    return value if plain is None else _with_text_keys(plain)


def fields_of(value: object) -> dict[str, Any] | None:
    """The fields of a dataclass or a pydantic object; None for other values, and for a class with its own `__str__`:
    that one says how it is written. A text of it is then its dict's, not its repr."""
    plain = _plain_of(value)
    return plain if isinstance(plain, dict) else None


def _plain_of(value: object) -> Any:
    """The fields of a dataclass or a pydantic object, or the value of a root model; the value of an enumeration, the
    items of a set or a deque, a time in ISO format, bytes as a text; None for other values."""
    kind = type(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _decoded(bytes(value))
    if isinstance(value, (set, frozenset, deque)):
        return list(value)
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if dataclasses.is_dataclass(kind) and kind.__str__ is object.__str__:
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(kind)}
    if not (getattr(kind.__str__, "__module__", None) or "").startswith("pydantic."):
        return None
    dump = getattr(value, "model_dump", None) or getattr(value, "dict", None)  # pydantic 1 has the second alone
    return dump() if callable(dump) else None


def _decoded(value: bytes) -> str:
    """Bytes of UTF-8 as their text. For others, e.g. an image's, their number: whether a value is in them cannot be
    seen."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"<{len(value)} bytes>"


def _fallback(value: object) -> Any:
    """For json: an object that it cannot write. An object without a working str is named by its type."""
    try:
        plain = _plain_of(value)
        return str(value) if plain is None else plain
    except Exception:  # noqa: BLE001 an application's __str__
        return f"<{type(value).__name__}>"


_encode = json.JSONEncoder(default=_fallback, allow_nan=False).encode
"""json.dumps makes a new encoder for each call with a default."""


def _text_encoder() -> Callable[[Any], str]:
    """The encoder of `_as_json`. `JSONEncoder` makes a new one in C for each value, which costs more than the value.
    Without the marks of that one, a value that contains itself raises RecursionError."""
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return json.JSONEncoder(default=_fallback, allow_nan=False, ensure_ascii=False).encode
    pieces = make(None, _fallback, json.encoder.encode_basestring, None, ": ", ", ", False, False, False)
    return lambda value: "".join(pieces(value, 0))


_encode_text = _text_encoder()


def dumps(value: object) -> str:
    """A value as JSON that every parser reads. Raises ValueError or RecursionError for a value that contains itself."""
    try:
        return _encode(value)
    except ValueError:  # NaN or an infinity
        return _encode(finite(value))


def finite(value: Any) -> Any:
    """A value with NaN and infinities as words: JSON has none, and a line that no parser takes is lost."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value
