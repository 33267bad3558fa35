"""Masks personal data and secrets in texts that leave the process. Evaluators read the unmasked text."""

from __future__ import annotations

import hmac
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from queue import SimpleQueue

from ragtrace import plugins
from ragtrace.base.background import after_fork
from ragtrace.base.lazy import LazyThread
from ragtrace.errors import SettingError
from ragtrace.text.privacy.checks import written
from ragtrace.text.privacy.find import Mask, find_masks
from ragtrace.text.sanitizer import RedactionTimeoutError

_PASSES = 8
"""Passes over one text, against inputs that were built to need many."""
_LABEL, _VALUE_LENGTH = re.compile(r"[a-z][a-z_]{1,40}"), 100
_VALUES = ("1985-07-04", "B-MW 1234", "C01X00T47", "5552671", "12345678", "221B Baker Street")
"""Names that may say what a value is, and the values with which a name is tried: alone they are nothing."""
_CUT = 200
"""Characters before a cut: half of a value may be in them."""


def mask_pii(text: str) -> str:
    """Replace what looks like personal data or a secret by its kind: `[email]`, `[number]`, `[api_key]`, …

    It hides everything that the leak checks `pii_leakage` and `sensitive_data_leakage` report, and more: nine digits
    are a `[number]` (phone, card, national id), whether their check digit is right or not. Linear in the text's length.
    """
    return mask_pii_at(text, ())[0]


def mask_beginning(text: str, length: int) -> str:
    """`mask_pii` of a text that was cut to `length` characters; its end goes, where half of a value may be."""
    masked = mask_pii(text)
    return masked[:-_CUT].rstrip() if len(text) >= length else masked


def mask_named(name: str, value: str) -> str:
    """A value as `mask_pii` masks it behind the name of its field: of `1985-07-04` only the name says what it is."""
    return _behind(name, value) if len(value) <= _VALUE_LENGTH and _is_label(name) else value


@lru_cache(maxsize=1_024)
def _is_label(name: str) -> bool:
    return bool(_LABEL.fullmatch(name)) and any(_behind(name, value) != value for value in _VALUES)


def _behind(name: str, value: str) -> str:
    start = f'{{"{name}": "'
    masked = mask_pii(f'{start}{value}"}}')[len(start) : -2]
    return masked if re.match(r"\[(?!secret)[a-z_]+\]", masked) else value


def mask_pii_at(
    text: str, places: Sequence[int], replacement: Callable[[str, str], str] | None = None
) -> tuple[str, dict[int, int]]:
    """`mask_pii(text)`, and the new offset of each of these offsets into the text. An offset inside of what is masked
    moves to the end of the mask. `replacement` makes the text of a mask from the item and its kind's placeholder."""
    moved = {place: place for place in places}
    for _ in range(_PASSES):
        # A mask can free its neighbour, which was part of a longer word or was behind another label.
        masks = find_masks(text)
        if not masks:
            break
        if replacement is not None:
            masks = [Mask(m.start, m.end, replacement(text[m.start : m.end], m.placeholder)) for m in masks]
        text = replace_spans(text, masks)
        moved = {place: _after(at, masks) for place, at in moved.items()}
    return text, moved


def replace_spans(text: str, spans: Sequence[tuple[int, int, str]]) -> str:
    """The text with a placeholder in the place of each span (start, end exclusive, placeholder); spans are in order and
    do not overlap."""
    pieces: list[str] = []
    last = 0
    for start, end, placeholder in spans:
        pieces += (text[last:start], placeholder)
        last = end
    return "".join((*pieces, text[last:]))


def _after(at: int, masks: Sequence[Mask]) -> int:
    shift = 0
    for mask in masks:
        if at <= mask.start:
            break
        if at < mask.end:
            return mask.start + shift + len(mask.placeholder)
        shift += len(mask.placeholder) - (mask.end - mask.start)
    return at + shift


# --- the setting `redact` ---------------------------------------------------------------------------------------------

MODES = ("off", "pii", "names", "hash", "metadata_only")
"""The names that the setting `redact` accepts beside `module:attribute`."""


@dataclass(frozen=True, slots=True)
class KeyedHash:
    """Replaces identifiers and email addresses by keyed hashes (HMAC-SHA256): the same value has the same hash wherever
    the key is the same, so sessions can still be joined, and nobody without the key can try values out."""

    key: bytes = field(repr=False)

    def identifier(self, value: str) -> str:
        """`id_` and 20 letters for an identifier, e.g. of a user or a session."""
        return f"id_{self._digest(value)}"

    def text(self, text: str) -> str:
        """`mask_pii(text)` with `[email:` and 20 letters in the place of each email address."""
        return mask_pii_at(text, (), self._placeholder)[0]

    def _placeholder(self, item: str, placeholder: str) -> str:
        if placeholder != "[email]":
            return placeholder
        return f"[email:{self._digest(written(item).strip().lower())}]"

    def _digest(self, value: str) -> str:
        # Letters alone: digits would look like a number to the next pass.
        digest = hmac.digest(self.key, value.encode("utf-8", "replace"), "sha256")[:10]
        return digest.hex().translate(_TO_LETTERS)


_TO_LETTERS = str.maketrans("0123456789abcdef", "ghijklmnopqrstuv")


# --- a function of the application ------------------------------------------------------------------------------------


def redaction_function(name: str, setting: str) -> Callable[[str], str]:
    """The application's function that a setting names as `module:attribute`. Raises SettingError for a name that is
    neither this nor a mode, and for what cannot be imported or called."""
    if ":" not in name:
        raise SettingError(f"{setting} is {name!r}; give one of {', '.join(MODES)}, or module:attribute of a function")
    function = plugins.resolve(name, setting)
    if not callable(function):
        raise SettingError(f"{setting} is {name!r}, which is not a function; give one from text to text")
    return function  # type: ignore[no-any-return]


class TimeLimited:
    """A redaction function of the application with a time limit for each text, called in a thread of its own.

    Raises RedactionTimeoutError where the function takes longer than `seconds`, or waits longer than four times that
    for other texts. While a call that took too long still runs, and for `pause` seconds after the third in a row,
    further texts fail at once: a function that hangs costs the application no more than these three.
    """

    def __init__(self, function: Callable[[str], str], seconds: float = 0.25, pause: float = 30.0) -> None:
        self._function, self._seconds, self._pause = function, seconds, pause
        self._reset()
        after_fork(self._reset)

    def _reset(self) -> None:
        self._calls: SimpleQueue[_Call] = SimpleQueue()
        self._lock = threading.RLock()  # a finalizer may end a span while its thread has the lock
        self._thread = LazyThread("ragtrace-redact", self._work)
        self._running: _Call | None = None
        self._late = 0
        self._resume = 0.0

    def __call__(self, text: str) -> str:
        """The redacted text. Raises what the function raises, and RedactionTimeoutError."""
        if time.monotonic() < self._resume or self._hangs():
            raise RedactionTimeoutError
        call = _Call(text)
        if not self._thread.start():
            raise RedactionTimeoutError
        self._calls.put(call)
        if not self._wait(call):
            call.is_late = True
            with self._lock:
                self._late += 1
                if self._late >= _LATE:
                    self._resume = time.monotonic() + self._pause
            raise RedactionTimeoutError
        self._late = 0
        if call.error is not None:
            raise call.error
        return call.result

    def _wait(self, call: _Call) -> bool:
        """Whether the call ends in time. Its own time begins when the thread takes it."""
        end = time.monotonic() + _PATIENCE * self._seconds
        remaining = self._seconds
        while not call.done.wait(remaining):
            now = time.monotonic()
            remaining = min(call.started + self._seconds if call.started else now + self._seconds, end) - now
            if remaining <= 0 or (not call.started and self._hangs()):
                return call.done.is_set()
        return True

    def _hangs(self) -> bool:
        running = self._running
        return running is not None and time.monotonic() - running.started > self._seconds

    def _work(self) -> None:
        while True:
            call = self._calls.get()
            if not call.is_late:
                call.started = time.monotonic()
                self._running = call
                try:
                    call.result = self._function(call.text)
                except BaseException as error:  # noqa: BLE001 the application's function; the caller gets it
                    call.error = error if isinstance(error, Exception) else RuntimeError(type(error).__name__)
                self._running = None
            call.done.set()


_PATIENCE = 4
_LATE = 3
"""Calls that are late in a row, after which the function is left alone for a while."""


@dataclass(slots=True)
class _Call:
    text: str
    result: str = ""
    started: float = 0.0
    """time.monotonic() when the thread took it; 0 before."""
    error: Exception | None = None
    is_late: bool = False
    done: threading.Event = field(default_factory=threading.Event)
