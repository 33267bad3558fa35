"""Publishes events of a store to listeners in this process, such as `ragtrace.console.review.webhooks`.

`review.submitted`: trace_id, review, reviewer (the user's id), verdicts, comment, corrected · `feedback.negative`:
trace_id, source, comment · `calibration.saved`: evaluator, version, threshold, previous, count."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ragtrace.errors import log_failure

if TYPE_CHECKING:
    from ragtrace.console.chatlogs.store import Store

Listener = Callable[[str, Mapping[str, Any]], None]
_listeners: WeakKeyDictionary[Store, list[Listener]] = WeakKeyDictionary()


def subscribe(store: Store, listener: Listener) -> None:
    """Call the listener with each event of the store in this process, after its commit. It must return at once."""
    _listeners.setdefault(store, []).append(listener)


def notify(store: Store, event: str, data: Mapping[str, Any]) -> None:
    """Call all listeners with an event. Never raises: the event's transaction is committed already."""
    for listener in _listeners.get(store, ()):
        try:
            listener(event, data)
        except Exception:  # noqa: BLE001 a listener's failure must not reach the caller
            log_failure(__name__, "ragtrace: a listener for the event %s raised an exception", event, is_error=True)
