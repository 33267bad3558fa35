"""Builds a running ragtrace from its settings."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ragtrace import calibrations, sampling
from ragtrace.base.model_prices import set_prices
from ragtrace.capture import on_off, recorder
from ragtrace.capture.adapters import failures as recording_failures
from ragtrace.capture.content import ContentPolicy
from ragtrace.errors import DataError, SettingError, redact_with, require
from ragtrace.evaluate.privacy_modes import redact_texts
from ragtrace.evaluation import Evaluator, configure
from ragtrace.live import child_process, exit_hooks, requirements, telemetry_setup
from ragtrace.live import runtime as running
from ragtrace.live.pipeline import Adjust, Limits, Pipeline, Sink
from ragtrace.live.runtime import Parts, Runtime
from ragtrace.live.start_line import log_start
from ragtrace.live.suite import make_suite
from ragtrace.plugins import Keeper, parts
from ragtrace.settings import Settings, evaluator_settings, for_evaluators, load, prices
from ragtrace_backends.deliveries import open_deliveries

if TYPE_CHECKING:
    from ragtrace.live.journal import Journal
    from ragtrace_prometheus import PrometheusSink

Connect = Callable[[Settings, ContentPolicy], tuple[Any, Settings]]
"""From the settings to the telemetry (see `telemetry_setup.connect`), and the settings with the application's name."""
Deliver = Callable[[Sequence[Any]], Sequence[Sink]]
"""From the deliveries of scores (see `open_deliveries`) to those of them that get each evaluation at once."""
_log = logging.getLogger(__name__)
_lock = threading.Lock()
_LOADING = 40
"""Seconds for which the start waits for litellm to load."""


@dataclass(frozen=True, slots=True)
class _InitRequest:
    """What `init` was asked for, to see whether a second call asks for the same."""

    settings: Settings
    process_id: int
    objects: tuple[Any, ...]
    """Provider, sampler, function that redacts (None for a mode, which the settings have) and sinks."""
    provider: Any = None
    """The global tracer provider after the start: an application may set its own later, and call `init` again."""

    def equals(self, other: _InitRequest) -> bool:
        """Whether another request, that of a running ragtrace, is the same. Objects are the same by identity."""
        return (
            (self.settings, self.process_id) == (other.settings, other.process_id)
            and list(map(id, self.objects)) == list(map(id, other.objects))
            and other.provider is _global_provider()
        )


def _same(request: _InitRequest) -> Runtime | None:
    """What runs, if it was started by the same request."""
    before = running.current()
    if before is None or before.is_closed or not before.init_request:
        return None
    return before if request.equals(before.init_request) else None


def _global_provider() -> Any:
    """The global tracer provider; None where nobody has loaded OpenTelemetry."""
    trace = sys.modules.get("opentelemetry.trace")
    return None if trace is None else trace.get_tracer_provider()


def init(
    *,
    tracer_provider: Any = None,
    sampler: sampling.Sampler | None = None,
    sinks: Sequence[Sink] = (),
    redact: str | Callable[[str], str] | None = None,
    settings_file: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Runtime:
    """Start ragtrace in this process: instrument the frameworks, evaluate in the background, send the scores.

    `options` are the fields of `ragtrace.settings.Settings`; each can also be given as `RAGTRACE_<NAME>` or in
    ragtrace.toml. `tracer_provider` is one that the application has set up itself; without it the global one is used,
    or one is made. `sampler` replaces the sampling settings. `sinks` are called with every evaluation, in a thread of
    ragtrace's.

    Raises SettingError for a wrong setting and for evaluators whose models are not installed, and MissingExtraError for
    a setting that needs a package that is not installed.
    A second call closes what the first one started; with the same arguments and settings it returns that instead, as
    where a notebook's cell or a script of Streamlit runs again. In an evaluating process, which imports the modules of
    evaluators, it starts nothing. With `enabled=False` (RAGTRACE_ENABLED=false) it patches nothing and starts nothing,
    and all calls of what it returns, and of `ragtrace`, still work."""
    if child_process.is_child():
        return Runtime(Settings(enabled=False, frameworks=()), Pipeline(()), Parts())
    if not callable(redact) and redact is not None:
        options["redact"] = redact
    settings = load(options, file=settings_file)
    if not settings.enabled:
        return _idle(settings)
    function = redact if callable(redact) else None
    request = _InitRequest(settings, os.getpid(), (tracer_provider, sampler, function, *sinks))
    if (before := _same(request)) is not None:
        return before
    settings, capture = _capture(settings, function)
    checks = _suite(settings)
    with _lock:
        if (before := _same(request)) is not None:
            return before  # another thread was faster
        if (before := running.current()) is not None and before.adopt is not None:
            before.adopt(checks)
            return before
        if before is not None:
            before.close(before.settings.exit_seconds)  # without time for the old one to load its models
        on_off.switch(True)
        connect = partial(telemetry_setup.connect, tracer_provider=tracer_provider)
        runtime = _start(settings, capture, checks, sampler or _sampler(settings), tuple(sinks), connect)
        runtime.init_request = replace(request, provider=_global_provider())
        others = getattr(runtime.telemetry, "others", None)
        running.instrument(runtime, True, replace(capture, others=others))
        exit_hooks.install(runtime)
        running.set_current(runtime)
        log_start(runtime, checks, has_sinks=bool(sinks))
    return runtime


def start_evaluation(settings: Settings, connect: Connect, deliver: Deliver = tuple) -> Runtime:
    """Start evaluation alone, for a process that finds its requests in another way: it is not the one of this process,
    nothing is instrumented, and it does not close by itself. `connect` makes what brings scores to spans, and `deliver`
    chooses what brings them to other tools at once.

    Raises SettingError and MissingExtraError as `init` does."""
    settings, capture = _capture(replace(settings, source="callbacks", frameworks=()), None)
    return _start(settings, capture, _suite(settings), _sampler(settings), (), connect, deliver)


def _suite(settings: Settings) -> list[Evaluator]:
    """The evaluators of the settings. Raises SettingError for those that cannot run here."""
    checks = make_suite(settings)
    requirements.check(checks, settings)  # otherwise every score would be an error
    _check_judge(settings, checks)
    return checks


def _idle(settings: Settings) -> Runtime:
    """A runtime that does nothing, for `enabled=False`. What an earlier `init` started ends."""
    with _lock:
        before = running.current()
        if before is not None and before.adopt is not None:
            return before
        if before is not None:
            before.close(before.settings.exit_seconds)  # without time for the old one to load its models
        on_off.switch(False)
        runtime = Runtime(settings, Pipeline((), sampler=sampling.ratio(0.0)), Parts())
        runtime.take_score = lambda _trace_id, _score: False
        running.set_current(runtime)
    return runtime


def _start(  # noqa: PLR0917 each is a part of the runtime
    settings: Settings,
    capture: ContentPolicy,
    checks: Sequence[Evaluator],
    sampler: sampling.Sampler,
    sinks: tuple[Sink, ...],
    connect: Connect,
    deliver: Deliver = tuple,
) -> Runtime:
    """Start the pipeline and what receives its evaluations."""
    from ragtrace.evaluate.causes import cause

    set_prices(prices(settings.model_prices))
    settings, remove_spending = _shared_budget(settings, checks)
    if settings.model("embedding"):  # one that cannot be loaded is an error at start, not one on every score
        from ragtrace.evaluate.models.embedding import get_embedder

        get_embedder(settings.model("embedding"))
    own = evaluator_settings(settings)  # goes to other processes, to which objects among the settings cannot
    checks = [configure(check, own) for check in checks]
    calibration = _calibration(settings)
    calibrated = checks if calibration is None else calibration(checks)
    telemetry, settings = connect(settings, capture)
    hold = telemetry.hold if telemetry is not None else None
    if hold is not None:
        hold.wait_for_models()
    metrics = _metrics(settings, calibrated)
    journal = _journal(settings, capture, checks)
    keeper = _keeper(settings, calibrated)
    store, feedback = (None, None) if keeper is None else (keeper.sink, keeper.feedback)
    deliveries = open_deliveries(settings, capture.sanitizer)
    of_spans = telemetry.sinks if telemetry is not None else ()  # after the store: what a backend shows is there, too
    parts: list[Sink | None] = [metrics, journal, store, *of_spans, *deliver(deliveries)]
    counts = metrics.observe_request if metrics and getattr(telemetry, "counts_requests", True) else None
    pipeline = Pipeline(
        checks, (*sinks, *(part for part in parts if part is not None)), sampler=sampler,
        limits=Limits(items=settings.queue_items, workers=max(1, settings.workers)),
        observers=(exit_hooks.look_again, *(() if counts is None else (counts,))), cause=cause,
        observe_duration=None if metrics is None else metrics.observe_duration,
        isolated_names=[check.name for check in checks if settings.workers and child_process.can_isolate(check)],
        environment=for_evaluators(settings), adjust=_with_store(calibration, store),
        on_loaded=None if hold is None else hold.begin,
    )  # fmt: skip
    if metrics is not None:
        metrics.watch(
            pipeline, telemetry, capture.sanitizer.failures.by_reason, deliveries, lambda: recording_failures.count
        )
        metrics.share(settings.prometheus_port, settings.prometheus_host)
    pipeline.start()
    recorder.set_consumer(pipeline)
    source = telemetry_setup.span_source(settings, capture.sanitizer, telemetry)
    runtime = Runtime(settings, pipeline, Parts(telemetry, metrics, journal, store, feedback, source, deliveries))
    runtime.at_close = remove_spending
    return runtime


def _metrics(settings: Settings, checks: Sequence[Evaluator]) -> PrometheusSink | None:
    if settings.prometheus_port < 0:
        return None
    require("prometheus_client", "otlp", "prometheus_port")
    from ragtrace_prometheus import PrometheusSink
    from ragtrace_prometheus.watcher import JudgeLimits

    return PrometheusSink(
        app=settings.app, env=settings.env, evaluators=checks, priced=list(prices(settings.model_prices)),
        strata=_strata(settings),
        directory=os.environ.get("PROMETHEUS_MULTIPROC_DIR"),  # as prometheus_client: empty is unset
        judge=JudgeLimits(
            settings.judge_model, settings.judge_budget_hour, settings.judge_budget_day, bool(settings.judge_ledger)
        ),
    )  # fmt: skip


def _journal(settings: Settings, capture: ContentPolicy, checks: Sequence[Evaluator]) -> Journal | None:
    if not settings.report_file:
        return None
    from ragtrace.live.journal import Journal

    return Journal(
        settings.report_file, app=settings.app, env=settings.env, evaluators=checks, sanitizer=capture.sanitizer
    )


def _keeper(settings: Settings, checks: Sequence[Evaluator]) -> Keeper | None:
    """What keeps evaluations and feedback, of the first part that the settings ask for it."""
    if not settings.store:
        return None
    keepers = (part.keep(settings, checks) for part in parts())
    keeper = next((each for each in keepers if each is not None), None)
    if keeper is None:
        raise SettingError("store is set, but no part of ragtrace that keeps requests is installed: reinstall it")
    return keeper


def _with_store(calibration: Adjust | None, store: Any) -> Adjust | None:
    """The calibration, which also gives the store each new version: scores belong to a version's threshold."""
    if calibration is None or store is None:
        return calibration
    last: list[tuple[str, float | None]] = []

    def adjust(checks: Sequence[Evaluator]) -> Sequence[Evaluator]:
        nonlocal last
        calibrated = calibration(checks)
        versions = [(check.version, check.threshold) for check in calibrated]
        if versions != last:
            last = versions
            store.update_evaluators(calibrated)
        return calibrated

    return adjust


def _calibration(settings: Settings) -> Adjust | None:
    if not settings.calibration_file:
        return None
    try:
        return calibrations.File(settings.calibration_file)
    except DataError as error:
        raise SettingError(str(error)) from error


def _check_judge(settings: Settings, checks: Sequence[Evaluator]) -> None:
    """Raise SettingError for a judge that cannot be used, so that the error comes at start and not with every score.
    The judge is created in a process of its own that ends again: litellm is large, and the application does not need it
    where other processes ask the judge. The application starts without an answer where litellm takes too long."""
    if not any(check.asks_judge for check in checks):
        return
    code = "from ragtrace.evaluate.judge import get_judge\nfrom ragtrace.settings import load\nget_judge(load())"
    code = f"import signal\nsignal.alarm({_LOADING + 5})\n{code}"  # it ends, too, where this process is killed
    environment = {**child_process.environment(), **for_evaluators(settings)}
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False, timeout=_LOADING
        )
    except subprocess.TimeoutExpired:
        _log.warning("ragtrace: litellm did not load within %d s: whether the judge answers, its scores say", _LOADING)
        return
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [""])[-1].partition(": ")[2]
        raise SettingError(last or f"the judge cannot be started: its process ended with code {done.returncode}")


def _shared_budget(settings: Settings, checks: Sequence[Evaluator]) -> tuple[Settings, Callable[[], None] | None]:
    """The settings with a file for the judge's spending, if they name none, and what removes the file then. Each
    worker evaluates in a process of its own, and a child that hangs is replaced, but all of them share one budget."""
    if settings.judge_store or settings.judge_ledger or not any(check.asks_judge for check in checks):
        return settings, None
    folder, owner = tempfile.mkdtemp(prefix="ragtrace-"), os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # not in a forked worker that ends before the others
            shutil.rmtree(folder, ignore_errors=True)

    return replace(settings, judge_ledger=os.path.join(folder, "spending")), remove


def _capture(settings: Settings, function: Callable[[str], str] | None) -> tuple[Settings, ContentPolicy]:
    """The settings, and what leaves the process, redacted with `function` or as the settings say."""
    settings, sanitizer = redact_texts(settings, function)
    redact_with(sanitizer.redact and sanitizer.text)
    words = {"true": True, "false": False, "": None}
    content = words.get(settings.capture_content.lower(), settings.capture_content)
    try:
        tags = frozenset(settings.capture_tags)
        return settings, ContentPolicy.of(content, openinference=settings.openinference, tags=tags, sanitizer=sanitizer)
    except ValueError as error:
        raise SettingError(str(error)) from None


def _sampler(settings: Settings) -> sampling.Sampler:
    sampler = sampling.ratio(settings.sample)
    if settings.sample_per_second:
        limit = sampling.rate_limit(settings.sample_per_second)
        sampler = limit if settings.sample == 1.0 else sampling.all_of(sampler, limit)
    slow = [sampling.slow(settings.sample_slower_than)] if settings.sample_slower_than else []
    sampler = sampling.any_of(sampling.errors(), *slow, sampler)
    return sampling.behind_head(sampler, settings.head_sample, publishes=bool(settings.transport))


def _strata(settings: Settings) -> list[str]:
    """The reasons that `_sampler`'s decisions may have."""
    ratio = ["ratio"] if settings.sample != 1.0 or not settings.sample_per_second else []
    limit = ["rate_limit"] if settings.sample_per_second else []
    slow = ["slow"] if settings.sample_slower_than else []
    return [*ratio, *limit, "error", *slow]
