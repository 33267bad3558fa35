"""Brings annotations to a backend in the background: a bounded queue, batches, retries, counters.

A backend says how a batch is sent (`Backend.send`); everything else is here. Each annotation that was accepted is
delivered, replaced by a newer one with the same key, still waiting, or lost for a reason:
`accepted = delivered + replaced + waiting + sum(lost)` in each snapshot."""

import logging
import random
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ragtrace.base.background import Background, Bounds, after_fork
from ragtrace.capture.child_thread import suppress_tracing
from ragtrace.records import Evaluation
from ragtrace_backends.annotations import Annotation, AnnotationForm, Key, from_evaluation
from ragtrace_backends.rest_client import BackendError, RefusedError, RestClient, ServerError

_log = logging.getLogger(__name__)
_LAST = 1.0
"""Seconds for a last try of what waits for its span when `close` ends."""


@dataclass(frozen=True, slots=True)
class DeliveryLimits:
    """How much may wait, and for how long."""

    items: int = 50_000
    """Annotations that wait at most; a further one is lost as `queue_full`."""
    bytes: float = 64 * 1024 * 1024
    """Bytes that wait at most; a further one is lost as `queue_bytes`."""
    wait: float = 3.0
    """Seconds that an annotation waits at most for company: meanwhile its span is exported."""
    missing: float = 300.0
    """Seconds within which the backend must have the span. After that the annotation is lost as `span_missing`."""
    pauses: tuple[float, float] = (0.5, 60.0)
    """Seconds until the next try after a failure: the first pause, and the longest. A pause doubles, and half of it is
    chance. A Retry-After of the backend is obeyed."""
    server_errors: int = 5
    """Times that a batch is sent again after a status 500. Then its halves are sent, and a single annotation is lost
    as `server_error`. A backend that does not answer is asked without end."""


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """How the items of a batch ended, by `Annotation.key`. The backend has taken what is in none of these."""

    missing: Collection[Key] = ()
    """The backend does not have their spans yet."""
    again: Collection[Key] = ()
    """To be sent again: the backend was busy, or the rest of the batch was refused because of the others."""
    refused: Mapping[Key, str] = field(default_factory=dict)
    """Refused for good, with a reason in one word."""


class Backend:
    """A tool that shows annotations beside traces."""

    name: str
    batch: int
    """Annotations in one call of `send` at most."""
    make_client: Callable[[str], RestClient]

    def __init__(self, url: str = "env") -> None:
        """See `make_client` of the module. Raises SettingError for an invalid URL, and where keys are missing."""
        self._client = self.make_client(url)

    def send(self, batch: Sequence[Annotation]) -> BatchOutcome:
        """Send annotations so that a repetition changes nothing. Raises the errors of `rest_client`; the whole batch
        is then sent again, or in halves, or is lost."""
        raise NotImplementedError

    def close(self) -> None:
        """End the requests that are under way, and close the connections."""
        self._client.close()


@dataclass(frozen=True, slots=True)
class DeliveryStats:
    """A snapshot. `accepted = delivered + replaced + waiting + sum(lost.values())`."""

    accepted: int
    delivered: int
    replaced: int
    """Not sent, because a newer one with the same key was waiting."""
    waiting: int
    lost: Mapping[str, int]
    """By reason."""
    failures: int
    """Requests that failed and were made again."""
    unrecorded: int
    """Not accepted, because the application's sampler has dropped the trace: the backend will never have it."""


@dataclass(frozen=True, slots=True)
class _Item:
    number: int
    annotation: Annotation
    missing_since: float = 0.0
    """When the backend said first that it does not have the span; 0 if it did not."""


class _Part(NamedTuple):
    """A batch, or a piece of one."""

    items: list[_Item]
    tries: int
    """Times that it is sent again after a status 500."""


class ScoreDelivery:
    """A sink that takes the scores of evaluations, and annotations, to a backend."""

    def __init__(
        self, backend: Backend, form: AnnotationForm | None = None, limits: DeliveryLimits | None = None
    ) -> None:
        """`form` prepares the texts; without it explanations stay in the process."""
        self.name = backend.name
        self.form = form or AnnotationForm()
        self.on_settled: Callable[[Sequence[Annotation]], None] | None = None
        """Called with annotations that were delivered, replaced or lost, but not with those that `close` leaves: a
        durable buffer holds these for the next process."""
        self._backend = backend
        self._limits = limits or DeliveryLimits()
        bounds = Bounds(self._limits.items, self._limits.bytes, backend.batch, self._limits.wait)
        self._queue: Background[_Item] = Background(f"ragtrace-{backend.name}", self._work, bounds, session=_untraced)
        self._reset()
        after_fork(self._reset)

    def _reset(self) -> None:
        # In a forked child all counts begin at 0; what waited belongs to the parent.
        self._lock = threading.Lock()
        self._open: dict[int, _Item] = {}
        self._newest: dict[Key, int] = {}
        self._accepted = self._failures = self._unrecorded = 0
        self._outcomes: Counter[str] = Counter()
        self._reported: set[type[BackendError]] = set()
        self._closing, self._ended = threading.Event(), threading.Event()
        self._pause = self._limits.pauses[0]

    # --- taking ----------------------------------------------------------------------------------

    def __call__(self, evaluation: Evaluation) -> None:
        """Take the scores of one evaluation, in the pipeline's thread. Never waits."""
        for annotation in from_evaluation(evaluation, self.form):
            if evaluation.trace.facts.unrecorded:
                self._unrecorded += 1
            else:
                self.put(annotation)

    def put(self, annotation: Annotation) -> bool:
        """Take an annotation; False if it is lost, because too many wait or after `close`. Never waits."""
        with self._lock:
            self._accepted += 1
            item = _Item(self._accepted, annotation)
            self._open[item.number] = item
            loss: str | None = "shutdown" if self._closing.is_set() else None
            if len(self._open) > self._limits.items:
                loss = "queue_full"
            loss = loss or self._queue.put(item, annotation.size)
            if loss is None:  # one that is lost replaces none
                self._newest[annotation.key] = item.number
        self._queue.start()
        if loss is not None:
            self._lose([item], loss)
        return loss is None

    # --- the worker thread -----------------------------------------------------------------------

    def _work(self, batch: list[_Item]) -> None:
        try:
            self._deliver(batch)
        except BaseException:  # counted as lost before the queue logs it: the counts must add up
            self._lose(batch, "internal")
            raise

    def _deliver(self, batch: Sequence[_Item]) -> None:
        """Send a batch until each annotation was taken, refused, or found to be without its span."""
        parts = deque([_Part(self._current(batch), self._limits.server_errors)])
        while parts:
            part = parts.popleft()
            if not part.items:
                continue
            try:
                outcome = self._backend.send([item.annotation for item in part.items])
            except BackendError as error:
                parts.extendleft(self._parts_after(error, part))
                continue
            again = self._count(part.items, outcome)
            self._pause = self._limits.pauses[0]
            if again:
                parts.appendleft(_Part(again, part.tries))

    def _parts_after(self, error: BackendError, part: _Part) -> Sequence[_Part]:
        """What is sent next after a failure, after a pause where one helps."""
        items, tries = part.items, part.tries
        self._report(error)
        if isinstance(error, RefusedError):
            if error.is_for_all or len(items) == 1:
                self._lose(items, error.reason)
                return ()
            return _halves(items, tries)
        if isinstance(error, ServerError):
            tries -= 1
        if tries <= 0 and len(items) == 1:
            self._lose(items, "server_error")
            return ()
        if not self._wait(getattr(error, "retry_after", 0.0), is_short=isinstance(error, ServerError)):
            self._lose(items, "shutdown")
            return ()
        return (_Part(items, tries),) if tries > 0 else _halves(items, 2)

    def _current(self, batch: Sequence[_Item]) -> list[_Item]:
        """The items of a batch for which no newer one with the same key came."""
        with self._lock:
            current = [item for item in batch if self._newest.get(item.annotation.key) == item.number]
        numbers = {item.number for item in current}
        self._finish([item for item in batch if item.number not in numbers], "replaced")
        return current

    def _count(self, items: Sequence[_Item], outcome: BatchOutcome) -> list[_Item]:
        """Count how the items of a batch ended; the items that are to be sent again now."""
        delivered, again = [], []
        for item in items:
            key = item.annotation.key
            if key in outcome.missing:
                self._put_back(item)
            elif key in outcome.again:
                again.append(item)
            elif key in outcome.refused:
                self._lose([item], outcome.refused[key])
            else:
                delivered.append(item)
        self._finish(delivered, "delivered")
        return again

    def _put_back(self, item: _Item) -> None:
        """Try an item later, whose span the backend does not have yet."""
        now = time.monotonic()
        item = item if item.missing_since else replace(item, missing_since=now)
        waited = now - item.missing_since
        if waited >= self._limits.missing:
            self._lose([item], "span_missing")
            return
        first, longest = self._limits.pauses
        delay = 2 * first if self._closing.is_set() else min(max(2 * first, waited), longest / 2)
        if loss := self._queue.put(item, item.annotation.size, delay=delay):
            self._lose([item], loss)

    def _wait(self, retry_after: float, *, is_short: bool) -> bool:
        """Wait before the next try. Returns False if the time of `close` is over: then there is no next try."""
        first, longest = self._limits.pauses
        pause, self._pause = self._pause, min(2 * self._pause, longest)
        pause = max(retry_after, (min(pause, 4 * first) if is_short else pause) * random.uniform(0.5, 1.0))
        if self._closing.wait(pause):
            self._ended.wait(min(pause, 2 * first))
        return not self._ended.is_set()

    def _finish(self, items: Iterable[_Item], outcome: str) -> int:
        """Count items once; how many of them were counted here."""
        with self._lock:
            done = [item for item in items if self._open.pop(item.number, None) is not None]
            for item in done:
                if self._newest.get(item.annotation.key) == item.number:
                    del self._newest[item.annotation.key]
            if done:
                self._outcomes[outcome] += len(done)
        if done and self.on_settled is not None and outcome != "shutdown":
            self.on_settled([item.annotation for item in done])
        return len(done)

    def _lose(self, items: Iterable[_Item], reason: str) -> None:
        with self._lock:
            is_first = reason not in self._outcomes
        is_kept = reason == "shutdown" and self.on_settled is not None
        if self._finish(items, reason) and is_first and not is_kept:
            _log.warning(
                "ragtrace: a score for %s was lost (%s). Further losses for this reason are only counted.",
                self.name, reason,
            )  # fmt: skip

    def _report(self, error: BackendError) -> None:
        with self._lock:
            self._failures += 1
            is_first = type(error) not in self._reported
            self._reported.add(type(error))
        if is_first:
            _log.warning("ragtrace: %s. Further failures of this kind are only counted.", error)

    # --- control ---------------------------------------------------------------------------------

    @property
    def undelivered(self) -> int:
        """Annotations that were lost so far."""
        return sum(self.stats().lost.values())

    def stats(self) -> DeliveryStats:
        """The counters, from one snapshot."""
        with self._lock:
            lost = {name: count for name, count in self._outcomes.items() if name not in ("delivered", "replaced")}
            delivered, replaced = self._outcomes["delivered"], self._outcomes["replaced"]
            waiting = len(self._open)
            return DeliveryStats(self._accepted, delivered, replaced, waiting, lost, self._failures, self._unrecorded)

    def flush(self, timeout: float = 10.0) -> bool:
        """Wait until everything taken so far is delivered or lost; False after `timeout` seconds."""
        until = time.monotonic() + timeout
        with self._lock:
            last = self._accepted
        while self._is_open(last):
            left = until - time.monotonic()
            if left <= 0:
                return False
            if self._queue.flush(left):
                time.sleep(0.001)  # what was put back into the queue meanwhile is waited for next
        return True

    def _is_open(self, last: int) -> bool:
        with self._lock:
            return next(iter(self._open), last + 1) <= last

    def close(self, timeout: float = 5.0) -> bool:
        """Take nothing more, deliver what waits for up to `timeout` seconds, and count the rest as lost (`shutdown`).
        True if nothing was lost so. Safe to call twice."""
        self._closing.set()
        self.flush(timeout)
        self._queue.close(min(timeout, _LAST))
        self._ended.set()
        self._backend.close()
        with self._lock:
            rest = list(self._open.values())
        self._lose(rest, "shutdown")
        return not rest


def _halves(items: list[_Item], tries: int) -> tuple[_Part, ...]:
    middle = len(items) // 2
    # `extendleft` turns the order round.
    return _Part(items[middle:], tries), _Part(items[:middle], tries)


@contextmanager
def _untraced() -> Iterator[None]:
    """What the worker's thread asks is not traced by the application's instrumentation."""
    suppress_tracing()
    yield
