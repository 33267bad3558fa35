"""Brings the verdicts that people give in the console to Phoenix, MLflow and Langfuse."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragtrace.console.chatlogs.store import Store
    from ragtrace_backends.score_delivery import ScoreDelivery

_log = logging.getLogger(__name__)
_WAITING = 10_000
"""Reviews that wait at most."""
_CLOSE = 10.0
"""Seconds for which the end of the console waits for each backend."""


@contextmanager
def deliver_verdicts(store: Store) -> Iterator[Sequence[ScoreDelivery]]:
    """Send the verdicts of each review that is submitted while the block runs to the backends that the settings name;
    gives the deliveries. Raises SettingError and MissingExtraError as `open_deliveries` does."""
    from ragtrace.evaluate.privacy_modes import redact_texts
    from ragtrace.settings import load
    from ragtrace_backends.deliveries import open_deliveries

    settings, sanitizer = redact_texts(load())
    deliveries = open_deliveries(settings, sanitizer)
    if not deliveries:
        yield ()
        return
    from ragtrace.base.background import Background, Bounds
    from ragtrace.console.review import notices

    reviews = Background[Mapping[str, Any]](
        "ragtrace-verdicts", lambda batch: _send(store, batch, deliveries), Bounds(items=_WAITING, batch=100)
    )

    def listen(event: str, data: Mapping[str, Any]) -> None:
        if event == "review.submitted" and (loss := reviews.put(dict(data))):
            _log.warning("ragtrace: the verdicts of review %s are not sent to other tools (%s)", data["review"], loss)

    notices.subscribe(store, listen)
    try:
        yield deliveries
    finally:
        reviews.close(_CLOSE)
        for delivery in deliveries:
            delivery.close(_CLOSE)
            if lost := delivery.stats().lost:
                _log.warning(
                    "ragtrace: %d verdicts did not reach %s: %s", sum(lost.values()), delivery.name, dict(lost)
                )


def _send(store: Store, batch: Sequence[Mapping[str, Any]], deliveries: Sequence[ScoreDelivery]) -> None:
    from ragtrace.console.review.verdicts import root_span
    from ragtrace_backends.annotations import from_verdict

    for review in batch:
        request = review["trace_id"], root_span(store, review["trace_id"])
        for evaluator, label in review["verdicts"].items():
            for delivery in deliveries:
                own = review["reviewer"], evaluator, label, review["comment"]
                delivery.put(from_verdict(*request, *own, delivery.form))
