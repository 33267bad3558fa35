"""Label values that cannot grow without end."""

from __future__ import annotations

import threading

OTHER = "other"


class LabelCap:
    """Lets the first `limit` values of a label pass and turns the rest into `other`."""

    def __init__(self, limit: int = 50) -> None:
        self._limit = limit
        self._known: set[str] = set()
        self._lock = threading.Lock()
        self.overflows = 0
        """How often a value was turned into `other`."""

    def __call__(self, value: object) -> str:
        """The value as a label, or `other`."""
        text = str(value)[:100] or "unknown"
        if text in self._known:
            return text
        with self._lock:
            if len(self._known) < self._limit:
                self._known.add(text)
                return text
            self.overflows += 1
        return OTHER
