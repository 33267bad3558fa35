"""What Prometheus may know of the store: what waits for people, and how far the evaluators agree with them.

The traced applications count what happens; these are gauges over what is stored, the same for every process that serves
the store."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sqlalchemy import func, select

from ragtrace.console.chatlogs.overview import ordered, pass_rates
from ragtrace.console.chatlogs.schema import items, reviews
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.review import anchors
from ragtrace.console.review.agreement import Agreement, agreement
from ragtrace.console.review.true_shares import estimates
from ragtrace.console.topics.topic_figures import largest_topics
from ragtrace.statistics import Estimate
from ragtrace.statistics.true_share import TrueShare

_FRESH = 60.0
"""Seconds for which figures are shown again: agreement reads every verdict."""
_WINDOW = 30 * 86_400.0
"""Agreement is that of the last 30 days: an evaluator that drifts must show."""
_TOPICS_FRESH = 300.0
"""The same for topics, which read the questions of a day, and for true shares, which read all scores."""
_DAY = 86_400.0
MOST_TOPICS = 20
"""Most values of the label `topic`, apart from `other`."""
_BOUNDS = ("estimate", "lower", "upper")


class ReviewCollector:
    """A collector for `prometheus_client`. Any thread may scrape it; it asks the store once a minute at most, and every
    five minutes for topics."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._updated = float("-inf")
        self._families: list[Any] = []
        self._topics_updated = float("-inf")
        self._topics: list[Any] = []

    def collect(self) -> Iterator[Any]:
        """The families. Raises StoreError if the store cannot be read."""
        with self._lock:
            now = self._clock()
            if not 0 <= now - self._updated < _FRESH:
                self._families = [*_queue(self._store, now), *_figures(agreement(self._store, since=now - _WINDOW))]
                self._updated = now
            if not 0 <= now - self._topics_updated < _TOPICS_FRESH:
                self._topics, self._topics_updated = (
                    [*_topics(self._store, now), *_people(self._store, now), *_anchors(self._store, now)],
                    now,
                )
            yield from (*self._families, *self._topics)


def _gauge(name: str, documentation: str, labels: Sequence[str] = (), value: float | None = None) -> Any:
    from prometheus_client.core import GaugeMetricFamily

    return GaugeMetricFamily(name, documentation, value, labels or None)


def _add_bounds(family: Any, labels: Sequence[str], estimate: Estimate | TrueShare) -> None:
    """Adds an estimate and the ends of its interval, which may be unknown."""
    for bound, value in zip(_BOUNDS, (estimate.value, *(estimate.interval or ())), strict=False):
        family.add_metric([*labels, bound], value)


def _queue(store: Store, now: float) -> Iterator[Any]:
    with store.reading() as connection:
        counts = connection.execute(
            select(items.c.state, items.c.reason, func.count()).group_by(items.c.state, items.c.reason)
        ).all()
        oldest = connection.scalar(select(func.min(items.c.created)).where(items.c.state == "open"))
        done = connection.execute(select(func.count(), func.max(reviews.c.created))).one()
    waiting = _gauge("ragtrace_review_items", "Logs picked for review", ["state", "reason"])
    for state, reason, count in counts:
        waiting.add_metric([state, reason], count)
    yield waiting
    yield _gauge(
        "ragtrace_review_oldest_open_seconds",
        "How long the oldest open log has waited; 0 where none does",
        value=0.0 if oldest is None else max(0.0, now - oldest),
    )
    yield _gauge("ragtrace_reviews", "Reviews that are stored", value=done[0])
    if done[1] is not None:
        text = "When a review came in last, in Unix seconds"
        yield _gauge("ragtrace_last_review_timestamp_seconds", text, value=done[1])


def _topics(store: Store, now: float) -> Iterator[Any]:
    """The topics of the last day by the main evaluator; nothing where no question is grouped."""
    rates = pass_rates(store, now - _DAY, now)
    evaluator = next(iter(ordered([name for name, rate in rates.items() if rate is not None])), "")
    totals = largest_topics(store, now - _DAY, now, evaluator, MOST_TOPICS)
    if not totals:
        return
    requests = _gauge("ragtrace_topic_requests", "Estimated requests of 24 hours by topic of their question", ["topic"])
    gaps = _gauge("ragtrace_topic_gaps", "Those of them to which the retrieval found nothing that answers", ["topic"])
    failures = _gauge(
        "ragtrace_topic_failure_ratio",
        "Share of failures of 24 hours by topic, weighted back to the whole traffic",
        ["topic", "evaluator", "bound"],
    )
    for name, total in totals:
        requests.add_metric([name], total.requests)
        gaps.add_metric([name], total.gap_requests)
        if share := total.verdicts.rate():
            _add_bounds(failures, (name, evaluator), share)
    yield from (requests, gaps, failures)


def _people(store: Store, now: float) -> Iterator[Any]:
    """The shares that people would fail, of 30 days."""
    labels = ["app", "evaluator"]
    ratio = _gauge(
        "ragtrace_true_failure_ratio",
        "Share of the requests of 30 days that people would fail, from their verdicts and all scores",
        [*labels, "bound"],
    )
    count = _gauge("ragtrace_true_failure_verdicts", "Reviewed logs behind that share", labels)
    for each in estimates(store, now - _WINDOW, now):
        _add_bounds(ratio, (each.app, each.evaluator), each.share)
        count.add_metric([each.app, each.evaluator], each.share.verdicts)
    yield from (ratio, count)


def _anchors(store: Store, now: float) -> Iterator[Any]:
    """Evidence on what changed: the evaluator, or the application."""
    logs = _gauge(
        "ragtrace_anchor_log_e",
        "Log of the e-value against the hypothesis that the evaluator scores reviewed logs as before (unchanged), or "
        "that it fails 10 points more or fewer of them (moved)", ["evaluator", "against"],
    )  # fmt: skip
    counts = _gauge("ragtrace_anchors", "Reviewed logs that were scored again", ["evaluator"])
    ran = _gauge("ragtrace_anchor_run_timestamp_seconds", "When that was last, in Unix seconds", ["evaluator"])
    for one in anchors.drifts(store, now):
        logs.add_metric([one.evaluator, "unchanged"], one.log_changed)
        logs.add_metric([one.evaluator, "moved"], one.log_same)
        counts.add_metric([one.evaluator], one.anchors)
        ran.add_metric([one.evaluator], one.ran)
    yield from (logs, counts, ran)


def _figures(results: Agreement) -> Iterator[Any]:
    figures = _gauge(
        "ragtrace_review_agreement",
        "Evaluator against people, of the label fail, over 30 days, weighted back to the whole traffic",
        ["evaluator", "figure", "bound"],
    )
    logs = _gauge("ragtrace_review_logs", "Logs of 30 days that people and the evaluator judged", ["evaluator"])
    alphas = _gauge("ragtrace_reviewer_alpha", "Krippendorff's alpha of the reviewers over 30 days", ["evaluator"])
    for each in results.evaluators:
        logs.add_metric([each.evaluator], each.logs)
        for name in ("precision", "recall", "f1", "kappa"):
            if (estimate := getattr(each, name)) is not None:
                _add_bounds(figures, (each.evaluator, name), estimate)
    for name, alpha in results.alphas.items():
        if name and alpha.value is not None:
            alphas.add_metric([name], alpha.value)
    yield from (figures, logs, alphas)
