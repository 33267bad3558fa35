"""Requests and evaluations as metrics; `catalogue` lists them.

`app` and `env` are labels of every series: those that a request names, else the settings'. Evaluator names, models,
prompt versions, verdicts and reasons are bounded; ids and texts are never labels. Only exemplars name a trace."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector

from ragtrace.base.background import Background, Bounds, after_fork
from ragtrace.errors import SettingError, log_failure
from ragtrace.evaluation import Evaluator
from ragtrace.records import Evaluation, Trace
from ragtrace.sampling import Decision
from ragtrace.text.sanitizer import sendable
from ragtrace_prometheus.catalogue import Catalogue
from ragtrace_prometheus.evaluations import Evaluations
from ragtrace_prometheus.families import Base, Family, joined
from ragtrace_prometheus.labels import Caps
from ragtrace_prometheus.requests import FeedbackNote, RequestNote, Requests, note
from ragtrace_prometheus.watcher import JudgeLimits, Watcher

if TYPE_CHECKING:
    from ragtrace_prometheus.processes import Processes
    from ragtrace_prometheus.server import MetricsServer

_log = logging.getLogger(__name__)
_INTERVAL = 1.0
"""Seconds that a request waits at most until it is counted, and between two writings of this process's file."""
_BOUNDS = Bounds(items=10_000, batch=64, wait=_INTERVAL)
"""Requests that wait to be counted: a further one is lost, and counted as an internal error. 64 take less than a
millisecond, which is how long other threads wait for the interpreter."""
_TRY_EVERY = 5.0
"""Seconds between two tries to have a port that another program uses."""
_COUNTING = 5.0
"""Seconds that a scrape waits at most for the thread that counts."""


_APPLICATIONS = 20
"""Applications, each in an environment, that have series of their own."""


class _Counts(NamedTuple):
    catalogue: Catalogue
    requests: Requests
    evaluations: Evaluations


class PrometheusSink(Collector):
    """A sink for evaluations and an observer of requests, in a registry of its own.

    The request's thread leaves a note. A thread of the sink's own counts it when there are many, and at every scrape.
    """

    def __init__(
        self,
        *,
        app: str,
        env: str,
        evaluators: Sequence[Evaluator],
        priced: Sequence[str] = (),
        strata: Sequence[str] = ("ratio",),
        directory: str | os.PathLike[str] | None = None,
        judge: JudgeLimits | None = None,
    ) -> None:
        """`priced` are models whose cost begins at 0. `strata` are the reasons for the sampler's decisions, as far as
        they are known before the first one. `directory` is shared by the processes of one application (see
        docs/metrics.md); without it this process is alone. `judge` is shown where an evaluator may ask it.

        Raises SettingError for a directory that cannot be used."""
        self._base = (sendable(app, 200), sendable(env, 200))
        self._evaluators, self._priced, self._strata = evaluators, priced, strata
        self._judge = judge or JudgeLimits()
        self._watcher: Watcher | None = None
        self._server: MetricsServer | None = None
        self._checks: dict[str, Callable[[], str]] = {}
        self._address: tuple[int, str] | None = None
        """Port and host to serve on, of a process that tries until it has them."""
        self._next_try = 0.0
        self._processes: Processes | None = None
        if directory:
            from ragtrace_prometheus.processes import Processes

            try:
                self._processes = Processes(directory)
            except OSError as error:
                path = os.fspath(directory)
                raise SettingError(f"PROMETHEUS_MULTIPROC_DIR is {path!r}, which cannot be used: {error}") from None
        self._closed = False
        self._reset()
        self._queue: Background[RequestNote | FeedbackNote] = Background("ragtrace-counts", self._work, _BOUNDS)
        self.registry = CollectorRegistry()
        self.registry.register(self)
        after_fork(self._forked)

    def _reset(self) -> None:
        """Begin at 0."""
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._written: list[Family] = []
        self._due = 0.0
        self._failures = 0
        self._caps = Caps()
        self._counts: dict[Base, _Counts] = {}
        self._own = self._counts_of(*self._base)

    def _counts_of(self, app: str | None, env: str | None) -> _Counts:
        """What counts for an application; for one too many what counts for the settings'."""
        base = (sendable(app or self._base[0], 200), sendable(env or self._base[1], 200))
        if base not in self._counts and len(self._counts) < _APPLICATIONS:
            catalogue = Catalogue(base, self._evaluators)
            requests = Requests(catalogue, self._caps, self._priced, self._strata)
            evaluations = Evaluations(catalogue, self._caps, self._evaluators, self._judge.model)
            self._counts[base] = _Counts(catalogue, requests, evaluations)
        return self._counts.get(base) or self._own

    def _forked(self) -> None:
        """In a forked child: what was counted belongs to the parent."""
        self._reset()
        self._address = None  # the parent serves
        server, self._server = self._server, None
        if server is not None:
            server.forked()
        if self._processes is not None:
            self._processes.reset()

    def observe_request(self, trace: Trace, decision: Decision) -> None:
        """Note a finished request. One bounded append; never raises, never waits."""
        try:
            self._queue.put(note(trace, decision))
        except Exception:  # noqa: BLE001 a trace may hold anything
            self._failures += 1

    def observe_feedback(self, value: str, score: float | None = None, category: str | None = None) -> None:
        """Note a user's feedback: `up` or `down`, everything else is `other`; its score, and its category."""
        self._queue.put(FeedbackNote(value, score, category))

    def __call__(self, evaluation: Evaluation) -> None:
        """Count an evaluation."""
        with self._lock:
            facts = evaluation.trace.facts
            self._counts_of(facts.app, facts.env).evaluations.count(evaluation)

    def observe_duration(self, evaluator: str, seconds: float) -> None:
        """Count how long an evaluator took for one trace."""
        with self._lock:
            self._own.evaluations.count_duration(evaluator, seconds)

    def _work(self, items: list[RequestNote | FeedbackNote]) -> float | None:
        """Count. Of several processes, write this one's file when it is due; the seconds until it is due again."""
        self._count(items)
        time.sleep(0)  # other threads that wait for the interpreter go first
        if self._address is not None and self._server is None and time.monotonic() >= self._next_try:
            self._try_to_serve(*self._address)
        if self._processes is None:
            return None if self._server is not None or self._address is None else _TRY_EVERY
        if not self._processes.has_company():
            return _INTERVAL
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + _INTERVAL
            self._write()
        return self._due - time.monotonic()

    def _count(self, items: list[RequestNote | FeedbackNote]) -> None:
        with self._lock:
            for item in items:
                try:
                    if isinstance(item, FeedbackNote):
                        self._own.requests.count_feedback(item)
                    else:
                        self._counts_of(item.app, item.env).requests.count(item)
                except Exception:  # noqa: BLE001 one odd request must not keep the others from being counted
                    self._fail("a request was not counted")

    def _fail(self, message: str) -> None:
        self._failures += 1
        if self._failures == 1:
            log_failure(__name__, "ragtrace: %s; further failures are only counted", message)

    def collect(self) -> list[Family]:
        """Every metric of this moment, of all processes where there are several. OSError where their files cannot be
        read: no scrape at all is better than one without the others, whose counters would seem to start again."""
        self._count(self._queue.take())
        self._queue.flush(_COUNTING)  # the thread may be counting others
        if self._processes is None or not self._processes.has_company():
            return self._families()
        own = self._write()
        try:
            return self._processes.merged(own)
        except OSError:
            self._fail("PROMETHEUS_MULTIPROC_DIR cannot be read at the moment")
            raise

    def describe(self) -> list[Family]:
        """The metrics without values, for a registry."""
        return [family.replaced([], []) for family in self._own.catalogue.families]

    def _families(self) -> list[Family]:
        self._count(self._queue.take())
        with self._lock:
            of_applications = zip(*(counts.catalogue.families for counts in self._counts.values()), strict=True)
            families = [joined(members) for members in of_applications]
        return families + (self._watcher.families(self._caps) if self._watcher is not None else [])

    def _lost(self) -> int:
        queue = self._queue.stats()
        return self._failures + queue.failures + sum(queue.dropped.values())

    def _write(self) -> list[Family] | None:
        """Write this process's file; what is in it now, or None."""
        with self._writing:
            if self._processes is None or self._closed or not self._processes.has_company():
                return None
            families = self._families()
            if [family.values for family in families] != [family.values for family in self._written]:
                try:
                    self._processes.write(families)
                except OSError:
                    self._fail("PROMETHEUS_MULTIPROC_DIR cannot be written at the moment")
                    return None
                self._written = families
            return self._written

    def watch(
        self,
        pipeline: Any,
        telemetry: Any = None,
        redaction: Mapping[str, int] | None = None,
        deliveries: Sequence[Any] = (),
        recording_failures: Callable[[], int] = lambda: 0,
    ) -> None:
        """Read at each scrape the pipeline's counts, the exporters' and those of the deliveries of scores, the numbers
        of texts whose redaction failed, by reason, and the number of failures while requests were recorded."""
        failures = {} if redaction is None else redaction

        def lost() -> int:
            return self._lost() + recording_failures()

        if (unready := getattr(telemetry, "unready_reason", None)) is not None:  # a worker's
            self._checks.update({"/healthz": lambda: "", "/readyz": unready})
        self._watcher = Watcher(
            self._base, lambda: list(self._counts), self._judge, pipeline, telemetry, self._fail, lost, failures,
            deliveries,
        )  # fmt: skip

    @property
    def url(self) -> str | None:
        """Where /metrics is served, or None."""
        return self._server.url if self._server is not None else None

    def share(self, port: int, host: str = "127.0.0.1") -> None:
        """Serve /metrics together with the other processes of the application (same user, folder, `app`, `env`, host
        and port): whichever is asked shows the sum. Where another program has the port, that is logged and tried again
        every few seconds. Raises SettingError for a port or host that cannot be opened for another reason."""
        if port and self._processes is None and hasattr(socket, "SO_REUSEPORT"):
            try:
                from ragtrace_prometheus.processes import Processes, meeting_place

                self._processes = Processes(meeting_place(*self._base, port, host), lasting=False)
            except (ImportError, OSError) as error:
                _log.info("ragtrace: other processes of this application cannot join its metrics: %s", error)
        self._try_to_serve(port, host)
        self._address = (port, host)
        self._queue.wake()

    def _try_to_serve(self, port: int, host: str) -> None:
        from ragtrace_prometheus import server

        try:
            if self._processes is None:
                self._server = server.serve(self.registry, port, host, checks=self._checks)
                return
            with self._writing:
                self._server = self._processes.enter(
                    lambda first: server.serve(self.registry, port, host, shared=True, first=first, checks=self._checks)
                )
        except SettingError as error:
            if not server.is_taken(error):
                raise
            if not self._next_try:
                _log.warning(
                    "ragtrace: prometheus_port is %d, which another program uses on %s, so /metrics is not served "
                    "until it is free; give another port, 0 for any free one, or -1 for none", port, host,
                )  # fmt: skip
            self._next_try = time.monotonic() + _TRY_EVERY
        except OSError as error:
            _log.warning("ragtrace: /metrics is not served: %s", error)

    def close(self) -> None:
        """Stop serving and counting; the other processes keep what this one counted. Safe to call twice."""
        self._address = None
        if self._server is not None:
            self._server.close()
            self._server = None
        self._queue.close()
        self._write()
        with self._writing:
            self._closed = True
            if self._processes is not None:
                self._processes.leave()
