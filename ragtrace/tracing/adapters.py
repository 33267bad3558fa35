"""What the adapters of all frameworks need."""

from __future__ import annotations

import asyncio
import hashlib
import math
import sys
from collections.abc import Iterable
from typing import Any


def content_id(content: str) -> str:
    """An id for a chunk that has none: backends drop whole lists of documents because of one without."""
    return hashlib.sha1(content.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()[:16]


def number(value: Any) -> float | None:
    """A finite number, or None: retrievers give scores as Python's, numpy's or nobody's numbers."""
    if value is None or isinstance(value, (bool, str)) or not hasattr(value, "__float__"):
        return None
    found = float(value)
    return found if math.isfinite(found) else None


def is_cancellation(error: BaseException | None) -> bool:
    """The consumer walked away, or the task was cancelled."""
    return isinstance(error, (GeneratorExit, asyncio.CancelledError))


def instrumented_by(candidates: Iterable[tuple[str, str]]) -> str | None:
    """The first of some instrumentors, given as (module, class), that is active in this process. Imports nothing."""
    for module, name in candidates:
        loaded = sys.modules.get(module)
        instance = getattr(getattr(loaded, name, None), "_instance", None)
        if getattr(instance, "_is_instrumented_by_opentelemetry", False):
            return module
    return None
