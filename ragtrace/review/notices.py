"""What happened in a store, for whoever wants to tell others of it: see `webhooks`.

`review.submitted`: trace_id, review, reviewer (the user's id), verdicts, comment, corrected · `feedback.negative`:
trace_id, source, comment · `calibration.saved`: evaluator, version, threshold, previous, count.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from ragtrace.chatlogs.store import Store

_log = logging.getLogger(__name__)
Listener = Callable[[str, Mapping[str, Any]], None]
_listeners: WeakKeyDictionary[Store, list[Listener]] = WeakKeyDictionary()


def subscribe(store: Store, listener: Listener) -> None:
    """Tell this one of every event of the store in this process, once it is committed. It must return at once."""
    _listeners.setdefault(store, []).append(listener)


def notify(store: Store, event: str, data: Mapping[str, Any]) -> None:
    """Say that something happened. Never raises: what happened is done."""
    for listener in _listeners.get(store, ()):
        try:
            listener(event, data)
        except Exception:  # noqa: BLE001 a listener's failure is its own
            _log.exception("ragtrace: a listener of %s failed", event)
