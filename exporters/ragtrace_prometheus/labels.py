"""Label values that cannot grow without end and cannot break the exposition."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, fields

OTHER = "other"
_MAX_CHARS = 100
_MAX_ORIGIN = 20
"""Models, and prompt versions, that have a series of their own."""

Origin = tuple[str, str]
"""Model and prompt version, as labels; "" where unknown."""


def clean(value: object) -> str:
    """Any object as a label value: at most 100 characters, each one printable; others become `_`. Never raises."""
    if not isinstance(value, str):
        try:
            value = str(value)
        except Exception:  # noqa: BLE001 an application's __str__
            value = type(value).__name__
    text = value[:_MAX_CHARS]
    if text.isprintable():  # neither line ends nor NUL nor lone surrogates, which UTF-8 cannot encode
        return text
    return "".join(c if c.isprintable() else "_" for c in text)


class LabelCap:
    """Lets the first `limit` values of a label pass and turns the rest into `other`."""

    def __init__(self, limit: int = 50, empty: str = "unknown") -> None:
        """`empty` stands for the empty value, and does not count against the limit."""
        self._limit = limit
        self._empty = empty
        self._known: set[str] = set()
        self._lock = threading.Lock()
        self.overflows = 0
        """How often a value was turned into `other`."""

    def forked(self) -> None:
        """In a forked child: another thread may have held the lock, and what overflowed is the parent's."""
        self._lock = threading.Lock()
        self.overflows = 0

    def __call__(self, value: object) -> str:
        """The value as a label, or `other`."""
        if isinstance(value, str) and value in self._known:
            return value
        text = clean(value)
        if not text:
            return self._empty
        with self._lock:
            if text in self._known:
                return text
            if len(self._known) < self._limit:
                self._known.add(text)
                return text
            self.overflows += 1
        return OTHER


@dataclass(frozen=True, slots=True)
class Caps:
    """The caps of one sink."""

    evaluator: LabelCap = field(default_factory=lambda: LabelCap(100))
    reason: LabelCap = field(default_factory=lambda: LabelCap(50))
    stratum: LabelCap = field(default_factory=lambda: LabelCap(20))
    model: LabelCap = field(default_factory=lambda: LabelCap(_MAX_ORIGIN, empty=""))
    prompt_version: LabelCap = field(default_factory=lambda: LabelCap(_MAX_ORIGIN, empty=""))

    def all(self) -> list[LabelCap]:
        """Each of them."""
        return [getattr(self, each.name) for each in fields(self)]

    def origin(self, model: object, version: object) -> Origin:
        """Where an answer came from, as labels."""
        return ("" if model is None else self.model(model), "" if version is None else self.prompt_version(version))
