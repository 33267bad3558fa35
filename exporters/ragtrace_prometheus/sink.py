"""Requests and evaluations as metrics. What there is stands in `catalogue`.

`app` and `env` stand on every series; evaluator names, models, prompt versions, verdicts and reasons are bounded; ids
and text are never labels. A trace is named by exemplars alone, which OpenMetrics scrapes show.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from ragtrace.errors import SettingError
from ragtrace.evaluation import Evaluator
from ragtrace.records import Evaluation, Trace
from ragtrace.sampling import Decision
from ragtrace.text.sanitizer import sendable
from ragtrace_prometheus.catalogue import Catalogue
from ragtrace_prometheus.evaluations import Evaluations
from ragtrace_prometheus.exposition import PlainRegistry, as_metric
from ragtrace_prometheus.families import Taken
from ragtrace_prometheus.labels import Caps
from ragtrace_prometheus.requests import Request, Requests, take_down
from ragtrace_prometheus.watcher import Watcher

if TYPE_CHECKING:
    from ragtrace_prometheus.processes import Processes
    from ragtrace_prometheus.server import MetricsServer

_log = logging.getLogger(__name__)
_WAITING = 10_000
"""Requests that wait to be counted; a further one is lost, and counted as an internal error."""
_PORTION = 64
"""Requests that are counted at a time, and from how many on the thread is called: less than a millisecond's work, which
is how long other threads wait."""
_INTERVAL = 1.0
"""Seconds between two writings of this process's file, where several processes are one application."""


class PrometheusSink:
    """A sink for evaluations and an observer of requests, in a registry of its own.

    The request's thread leaves a note; a thread of the sink's counts it when there are many, and every scrape does.
    """

    def __init__(
        self,
        *,
        app: str,
        env: str,
        evaluators: Sequence[Evaluator],
        registry: CollectorRegistry | None = None,
        prices: Mapping[str, tuple[float, float]] | None = None,
        strata: Sequence[str] = ("ratio",),
        directory: str | os.PathLike[str] | None = None,
    ) -> None:
        """`registry` defaults to a new one. `prices` are US dollars for a million tokens of input and of output, by
        model. `strata` are the reasons that the sampler gives for its decisions, as far as they are known before the
        first one. `directory` is where the processes of one application meet (see docs/metrics.md); without it this
        process is alone.

        SettingError for a registry that holds ragtrace's metrics already, and for a directory that cannot be used.
        """
        base = (sendable(app, 200), sendable(env, 200))
        self._labels = dict(zip(("app", "env"), base, strict=True))
        self._caps = Caps()
        self._catalogue = Catalogue(evaluators)
        self._requests = Requests(self._catalogue, base, self._caps, dict(prices or {}), strata)
        self._evaluations = Evaluations(self._catalogue, base, self._caps, evaluators)
        self._watcher: Watcher | None = None
        self._server: MetricsServer | None = None
        self._processes = _processes(directory) if directory else None
        self._closed = False
        self._renew()
        self.registry = registry or PlainRegistry()
        try:
            self.registry.register(_Metrics(self))
        except ValueError:
            raise SettingError(
                "this registry holds ragtrace's metrics already; give each PrometheusSink its own"
            ) from None
        _renew_in_children(self)

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._starting = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._waiting: deque[Request | str] = deque()
        self._written: list[Taken] = []
        self._failures = 0

    def _forked(self) -> None:
        """In a forked child: what waited and what was counted belongs to the parent, and any lock may have been held
        at the fork."""
        self._renew()
        for cap in self._caps.all():
            cap.forked()
        for family in self._catalogue.families:
            family.forked()
        if self._watcher is not None:
            self._watcher.forked()
        if self._processes is not None:
            self._processes.forked()
        if self._server is not None:
            self._server.forked()
            self._server = None

    # --- in the request's thread -----------------------------------------------------------------

    def observe_request(self, trace: Trace, decision: Decision) -> None:
        """Note a finished request. One bounded append; never raises, never waits."""
        try:
            self._note(take_down(trace, decision))
        except Exception:  # noqa: BLE001 a trace may hold anything
            self._failures += 1

    def observe_feedback(self, value: str) -> None:
        """Note what a user said of an answer: `up` or `down`; everything else is `other`."""
        self._note(value)

    def _note(self, what: Request | str) -> None:
        waiting = self._waiting
        if len(waiting) >= _WAITING:
            self._failures += 1
            return
        waiting.append(what)
        if len(waiting) >= _PORTION and not self._wake.is_set():
            self._wake.set()
            self._start()
        elif self._thread is None and self._processes is not None:
            self._start()

    # --- in the pipeline's threads ---------------------------------------------------------------

    def __call__(self, evaluation: Evaluation) -> None:
        """Count an evaluation."""
        with self._lock:
            self._evaluations.count(evaluation)

    def observe_duration(self, evaluator: str, seconds: float) -> None:
        """Note how long an evaluator took for one trace."""
        with self._lock:
            self._evaluations.count_duration(evaluator, seconds)

    # --- in the sink's own thread ----------------------------------------------------------------

    def _start(self) -> None:
        """Start the thread, unless somebody is at it."""
        if self._thread is not None or self._closed or not self._starting.acquire(blocking=False):
            return
        try:
            if self._thread is None:
                thread = threading.Thread(target=self._work, name="ragtrace-counts", daemon=True)
                thread.start()
                self._thread = thread
        except RuntimeError:  # no thread to be had: scrapes count what waits
            self._failures += 1
        finally:
            self._starting.release()

    def _work(self) -> None:
        due = time.monotonic()
        while not self._closed:
            self._wake.wait(None if self._processes is None else max(0.0, due - time.monotonic()))
            self._wake.clear()
            try:
                self._count_waiting()
                if self._processes is not None and time.monotonic() >= due:
                    due = time.monotonic() + _INTERVAL
                    self._write()
            except Exception:  # noqa: BLE001 this thread goes on: nobody would start another
                self._failed("the thread that counts failed")

    def _count_waiting(self) -> None:
        for left in range(len(self._waiting), 0, -_PORTION):
            with self._lock:
                self._count(_PORTION)
            if left > _PORTION:
                time.sleep(0)  # whoever waits for the interpreter goes first

    def _count(self, most: int) -> None:
        """Count up to so many of those that wait. The lock is held: what was taken out is counted when it is free."""
        for _ in range(min(most, len(self._waiting))):
            what = self._waiting.popleft()
            try:
                if isinstance(what, str):
                    self._requests.count_feedback(what)
                else:
                    self._requests.count(what)
            except Exception:  # noqa: BLE001 one odd request must not keep the others from being counted
                self._failed("a request was not counted")

    # --- at a scrape -----------------------------------------------------------------------------

    def taken(self) -> list[Taken]:
        """Every metric of this moment, of all processes where there are several. OSError where their files cannot be
        read: no scrape at all is better than one without the others, whose counters would seem to start again."""
        if self._processes is None:
            return self._own()
        own = self._write()
        try:
            return self._processes.merged(own)
        except OSError:
            self._failed("PROMETHEUS_MULTIPROC_DIR cannot be used at the moment")
            raise

    def _own(self) -> list[Taken]:
        self._count_waiting()
        with self._lock:
            self._count(_WAITING)
            found = [family.take() for family in self._catalogue.families]
        return found + (self._watcher.taken() if self._watcher is not None else [])

    def _write(self) -> list[Taken] | None:
        """Write this process's file; what stands in it now, or None."""
        processes = self._processes
        if processes is None or self._closed:
            return None
        with self._writing:
            own = self._own()
            if [each.values for each in own] == [each.values for each in self._written]:
                return self._written
            try:
                processes.write(own)
            except OSError:
                self._failed("PROMETHEUS_MULTIPROC_DIR cannot be used at the moment")
                return None
            self._written = own
            return own

    def _failed(self, what: str) -> None:
        self._failures += 1
        if self._failures == 1:
            _log.warning("ragtrace: %s; further failures are only counted", what, exc_info=True)

    def watch(self, pipeline: Any, telemetry: Any = None) -> None:
        """Read the pipeline's counts and the exporters' at each scrape."""
        self._watcher = Watcher(self._labels, pipeline, telemetry, self._caps, lambda: self._failures)

    # --- beginning and end -----------------------------------------------------------------------

    @property
    def url(self) -> str | None:
        """Where /metrics is served, or None."""
        return self._server.url if self._server is not None else None

    def serve(self, port: int, host: str = "127.0.0.1") -> MetricsServer:
        """Serve /metrics. Raises SettingError if the port cannot be had. Several processes of one application, which
        share a directory, may have one port: each connection goes to one of them."""
        from ragtrace_prometheus.server import serve

        self._server = serve(self.registry, port, host, shared=self._processes is not None)
        if self._processes is not None:
            self._start()
        return self._server

    def close(self) -> None:
        """Stop serving and counting; the other processes keep what this one counted. Safe to call twice."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self._write()
        self._closed = True
        self._wake.set()
        if self._processes is not None:
            with self._writing:
                self._processes.close()


class _Metrics(Collector):
    """A sink's metrics, in a registry."""

    def __init__(self, sink: PrometheusSink) -> None:
        self._sink = sink

    def taken(self) -> list[Taken]:
        """As they are kept."""
        return self._sink.taken()

    def collect(self) -> Iterator[Metric]:
        """As prometheus_client has them."""
        return map(as_metric, self._sink.taken())

    def describe(self) -> list[Metric]:
        """Their names, for a registry."""
        return [as_metric(Taken(family.spec, (), ())) for family in self._sink._catalogue.families]


def _processes(directory: str | os.PathLike[str]) -> Processes:
    from ragtrace_prometheus.processes import Processes

    try:
        return Processes(directory)
    except OSError as error:
        raise SettingError(
            f"PROMETHEUS_MULTIPROC_DIR is {os.fspath(directory)!r}, which cannot be used: {error}"
        ) from None


def _renew_in_children(sink: PrometheusSink) -> None:
    reference = weakref.ref(sink)

    def renew() -> None:
        if (alive := reference()) is not None:
            alive._forked()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=renew)
