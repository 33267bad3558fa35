"""What an evaluator is, and how a batch of traces is put through one. Nothing here raises because of an evaluator."""

from __future__ import annotations

import contextvars
import functools
import inspect
import math
import random
import re
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, overload

from ragtrace.errors import EvaluationError, SettingError
from ragtrace.records import INPUTS, MAX_CHARS, Score, Trace, bounded, has_input, problem_of
from ragtrace.sampling import Sampler

if TYPE_CHECKING:
    from ragtrace.settings import Settings

Verdict = float | bool | Score | Iterable[Score] | None
"""What a check may return for one trace: a number, a verdict (True is good), a finished score, or None where the
question does not apply."""

Direction = Literal["higher", "lower"]
NOT_APPLICABLE = "not_applicable"
NO_INPUT = "the request has no "
_NAME = re.compile(r"[a-z0-9_]+\Z")
_MOST_SCORES = 1_000
"""Scores of one verdict: a generator that never ends must not fill the memory."""
_MOST_CHARS = 1_000_000
"""Characters of all explanations of one verdict, where a piece of evidence counts as `_EVIDENCE_CHARS`."""
_EVIDENCE_CHARS = 100
_REASON = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,99}\Z")


@dataclass(frozen=True, slots=True)
class Origin:
    """The name that an evaluator was loaded by, and the function that it had then."""

    name: str
    fn: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Evaluator:
    """A check with what the pipeline must know of it. A value: `dataclasses.replace` changes a threshold."""

    name: str
    """Matches [a-z0-9_]+: it becomes part of attribute names and a metric label."""
    fn: Callable[..., Any]
    """Takes one Trace, or with `batch` a sequence of them; sync or async; returns one Verdict for each trace."""
    needs: frozenset[str] = frozenset()
    """Inputs that a trace must have, and not empty: a subset of `records.INPUTS`. A check without `documents` here also
    runs where nothing was retrieved."""
    version: str = "1"
    threshold: float | None = None
    direction: Direction = "higher"
    range: tuple[float, float] = (0.0, 1.0)
    method: str = "code"
    """`code`, `model` or `judge`."""
    asks_judge: bool = False
    """Whether it may ask ragtrace's judge: a suite with such an evaluator needs a judge to start, and all processes
    that evaluate share its budget."""
    batch: bool = False
    sampler: Sampler | None = None
    """An evaluator's own, lower rate; the trace's sampling comes first. `sampling.share` is independent of it; a
    `sampling.ratio` is a share of all requests where the trace is sampled by its id, too."""
    timeout: float = 10.0
    """Seconds for one call."""
    retries: int = 0
    """How often a call that failed on the network (OSError, TimeoutError) is tried again."""
    description: str = ""
    source: str = ""
    """Where the definition comes from."""
    origin: Origin | None = field(default=None, compare=False, repr=False)
    """Where `plugins.load` loaded it from; None for an object that the application made."""

    settings: Settings | None = field(default=None, repr=False)
    """What `fn` is given if it has a keyword-only parameter `settings`; None for the settings of the environment and of
    ragtrace.toml. `ragtrace.init` sets it where it is None."""

    @property
    def importable_name(self) -> str | None:
        """The name by which another process can load the function; None where it is the application's own."""
        return self.origin.name if self.origin is not None and self.origin.fn is self.fn else None

    def __call__(self, trace: Trace) -> Any:
        """The bare check, for tests and for checks built from checks."""
        fn = _with_settings(self)
        return fn([trace])[0] if self.batch else fn(trace)

    def applies(self, trace: Trace) -> bool:
        """True if the trace has every input that this evaluator needs. A cancelled request has no whole answer."""
        return all(has_input(trace, n) for n in self.needs) and not ("answer" in self.needs and trace.facts.cancelled)


def _with_settings(check: Evaluator) -> Callable[..., Any]:
    """The function of an evaluator, with the settings where it has a parameter for them."""
    try:
        parameter = inspect.signature(check.fn).parameters.get("settings")
    except (TypeError, ValueError):  # a built-in function has no signature
        return check.fn
    if parameter is None or parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
        return check.fn
    from ragtrace.settings import load  # loaded only where an evaluator has settings: `import ragtrace` stays quick

    return functools.partial(check.fn, settings=check.settings or load())


def configure(check: Evaluator, settings: Settings) -> Evaluator:
    """The evaluator with these settings, unless it has its own."""
    return check if check.settings is not None else replace(check, settings=settings)


@overload
def evaluator(fn: Callable[..., Any], /) -> Evaluator: ...
@overload
def evaluator(
    *,
    name: str | None = ..., needs: Iterable[str] = ..., version: str = ..., threshold: float | None = ...,
    direction: Direction = ..., range: tuple[float, float] = ..., method: str = ..., asks_judge: bool = ...,
    batch: bool = ..., sampler: Sampler | None = ..., timeout: float = ..., retries: int = ..., source: str = ...,
) -> Callable[[Callable[..., Any]], Evaluator]: ...  # fmt: skip
def evaluator(fn: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make an evaluator of a function; its name and docstring become the evaluator's.

    >>> @evaluator(needs={"documents", "answer"}, version="2")
    ... def cites_a_document(trace: Trace) -> bool:
    ...     \"\"\"The answer names at least one retrieved document.\"\"\"
    ...     return any(document.id in trace.answer for document in trace.documents)

    Raises SettingError for a name, an input or a direction that does not exist, a version that
    is no text, and a threshold that is no number.
    """

    def make(function: Callable[..., Any]) -> Evaluator:
        name = options.pop("name", None) or getattr(function, "__name__", "")
        needs = options.pop("needs", ())
        needs = frozenset([needs] if isinstance(needs, str) else needs)
        threshold, version = options.get("threshold"), options.get("version", "1")
        if not _NAME.match(name):
            raise SettingError(f"evaluator name {name!r}: use lower-case letters, digits and underscores")
        if unknown := needs.difference(INPUTS):
            raise SettingError(f"evaluator {name!r} needs {sorted(unknown)}; known inputs are {sorted(INPUTS)}")
        if (direction := options.get("direction", "higher")) not in ("higher", "lower"):
            raise SettingError(f"evaluator {name!r} has the direction {direction!r}; give higher or lower")
        if not isinstance(version, str):
            raise SettingError(f"evaluator {name!r} has the version {version!r}; give a text")
        if threshold is not None and not (isinstance(threshold, (int, float)) and not math.isnan(threshold)):
            raise SettingError(f"evaluator {name!r} has the threshold {threshold!r}; give a number")
        description = inspect.getdoc(function) or ""
        return Evaluator(name=name, fn=function, needs=needs, description=description, **options)

    return make if fn is None else make(fn)


def run(check: Evaluator, traces: Sequence[Trace], limit: float | None = None) -> list[list[Score]]:
    """Put traces through one evaluator: the scores of each, in order. Failures are scores with `error`.

    A batch that raises is tried again trace by trace, so that one bad trace does not take its neighbours with it.
    Blocks as long as the evaluator does; the pipeline bounds that from outside. Coroutines that are not done after
    `limit` seconds are cancelled.
    """
    judges_retrieval = "documents" in check.needs and "answer" not in check.needs
    if judges_retrieval:  # results of tools and earlier turns are no retrieval of this request
        traces = [
            replace(trace, documents=() if trace.facts.chunks_of_earlier_turns else trace.chunks) for trace in traces
        ]
    indexes = [i for i, trace in enumerate(traces) if check.applies(trace)]
    missing = (", ".join(sorted(n for n in check.needs if not has_input(trace, n))) for trace in traces)
    reasons = (f"{NO_INPUT}{names}" if names else None for names in missing)
    results = [[Score(check.name, label=NOT_APPLICABLE, explanation=reason)] for reason in reasons]
    for i, verdict in zip(indexes, _verdicts(check, [traces[i] for i in indexes], limit), strict=True):
        try:
            results[i] = normalise(check, verdict)
        except BaseException as error:  # noqa: BLE001 a verdict is somebody's object: its methods may raise anything
            results[i] = normalise(check, error)
    return [[_stamp(check, score) for score in scores] for scores in results]


def _verdicts(check: Evaluator, traces: Sequence[Trace], limit: float | None) -> list[Any]:
    if not traces:
        return []
    try:
        return _call(check, traces, limit)
    except BaseException as error:  # noqa: BLE001 an evaluator is somebody's code: whatever it raises becomes a score
        _let_through(error)
        if len(traces) == 1:
            return [error]
        return [_verdicts(check, [trace], limit)[0] for trace in traces]


def _call(check: Evaluator, traces: Sequence[Trace], limit: float | None) -> list[Any]:
    fn = _with_settings(check)
    if check.batch:
        verdicts = _retried(check, lambda: _resolve(fn(traces)))
        if len(verdicts) != len(traces):
            raise ValueError(f"{len(verdicts)} verdicts for {len(traces)} traces")
        return list(verdicts)
    if inspect.iscoroutinefunction(fn):
        return list(_run_to_end(_gather(check, fn, traces, limit)))
    return [_one(check, fn, trace) for trace in traces]


def _one(check: Evaluator, fn: Callable[..., Any], trace: Trace) -> Any:
    try:
        return _retried(check, lambda: _resolve(fn(trace)))
    except BaseException as error:  # noqa: BLE001 as above; the exception itself is the verdict
        _let_through(error)
        return error


def _let_through(error: BaseException) -> None:
    """Raises the Ctrl-C of a person again: it reaches the main thread, unless the process has switched it off."""
    is_main = threading.current_thread() is threading.main_thread()
    if isinstance(error, KeyboardInterrupt) and is_main and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        raise error


def _resolve(value: Any) -> Any:
    if not inspect.isawaitable(value):
        return value

    async def awaited() -> Any:
        return await value

    return _run_to_end(awaited())


def _run_to_end(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine. It gets a thread of its own if an event loop runs in the current one (async tests)."""
    import asyncio  # takes longer than the rest of ragtrace, which pytest's plugin loads in every run
    from concurrent.futures import ThreadPoolExecutor

    if asyncio._get_running_loop() is None:
        return asyncio.run(coroutine)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(contextvars.copy_context().run, asyncio.run, coroutine).result()


async def _gather(check: Evaluator, fn: Callable[..., Any], traces: Sequence[Trace], limit: float | None) -> list[Any]:
    import asyncio

    async def one(trace: Trace) -> Any:
        for attempt in range(check.retries):
            try:
                return await fn(trace)
            except _PASSING:
                await asyncio.sleep(_pause(attempt))
        return await fn(trace)

    tasks = [asyncio.ensure_future(one(trace)) for trace in traces]
    _, pending = await asyncio.wait(tasks, timeout=limit)
    for task in pending:  # one that hangs costs its own score alone
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    late = EvaluationError("timeout", f"the evaluator gave no answer within {limit or 0.0:g} s")
    return [late if task in pending else result for task, result in zip(tasks, results, strict=True)]


_PASSING = (OSError, TimeoutError)
"""Failures that a second try may not meet again: the network's."""


def _retried(check: Evaluator, call: Callable[[], Any]) -> Any:
    for attempt in range(check.retries):
        try:
            return call()
        except _PASSING:
            time.sleep(_pause(attempt))
    return call()


def _pause(attempt: int) -> float:
    """Seconds before the next try: doubling, with jitter so that many do not come back at once."""
    return 0.1 * 2.0**attempt * (0.5 + random.random())


def normalise(check: Evaluator, verdict: Any) -> list[Score]:
    """A verdict of any allowed kind as scores. Whatever cannot be one becomes a score with `error`."""
    if verdict is None:
        return [Score(check.name, label=NOT_APPLICABLE)]
    if isinstance(verdict, BaseException):
        reason = verdict.reason if isinstance(verdict, EvaluationError) else type(verdict).__name__
        return [
            Score(check.name, error=reason if _is_reason(reason) else "evaluator_error", explanation=_brief(verdict))
        ]
    if isinstance(verdict, Score):
        return [_checked(check, verdict)]
    if isinstance(verdict, bool) or getattr(getattr(verdict, "dtype", None), "kind", "") == "b":  # numpy's
        return [Score(check.name, value=float(verdict), label="pass" if verdict else "fail")]
    if isinstance(verdict, (int, float)):
        return [_checked(check, Score(check.name, value=float(verdict)))]
    if isinstance(verdict, Iterable) and not isinstance(verdict, (str, bytes)) and getattr(verdict, "ndim", None) != 0:
        scores = _checked_all(check, verdict)
        if scores:
            return scores
    # Numbers of other libraries (numpy's) know how to become a float; text would, too, but was not meant as one.
    if hasattr(verdict, "__float__") and not isinstance(verdict, str):
        return [_checked(check, Score(check.name, value=float(verdict)))]
    return [_bad_verdict(check, f"the check returned a {type(verdict).__name__}")]


def _checked_all(check: Evaluator, items: Iterable[Any]) -> list[Score]:
    """The scores of a verdict of several; [] for one that holds anything else.

    Each is bounded before the next is taken: a thousand texts of any length are more than the memory.
    """
    scores: list[Score] = []
    left = _MOST_CHARS
    for item in items:
        if not isinstance(item, Score):
            return []
        if len(scores) == _MOST_SCORES:
            return [_bad_verdict(check, f"the check returned more than {_MOST_SCORES} scores")]
        score = _checked(check, item)
        left -= len(score.explanation or "") + _EVIDENCE_CHARS * len(score.evidence)
        scores.append(score if left >= 0 else replace(score, explanation="[left out: too long]", evidence=()))
    return scores


def _bad_verdict(check: Evaluator, explanation: str) -> Score:
    return Score(check.name, error="bad_verdict", explanation=explanation)


def _checked(check: Evaluator, score: Score) -> Score:
    if reason := problem_of(score):
        return _bad_verdict(check, reason)
    try:
        score = bounded(score)
    except Exception as error:  # noqa: BLE001 evidence is anybody's object
        return _bad_verdict(check, _brief(error))
    if score.error is not None:
        if not _is_reason(score.error):
            score = replace(score, error="evaluator_error", explanation=score.error)
        return replace(score, value=None, label=None)
    if score.value is None:
        return score
    if not math.isfinite(score.value):
        return replace(score, value=None, label=None, error="not_a_number")
    return replace(score, label=label(check, score.value)) if score.label is None else score


def _is_reason(error: object) -> bool:
    """Whether it is one word: a sentence may quote the input, and a metric's label leaves the process."""
    return isinstance(error, str) and _REASON.match(error) is not None


def label(check: Evaluator, value: float) -> str | None:
    """`pass` or `fail` by the threshold; a value that equals it passes. None where there is no threshold."""
    if check.threshold is None:
        return None
    good = value >= check.threshold if check.direction == "higher" else value <= check.threshold
    return "pass" if good else "fail"


def under(check: Evaluator, score: Score) -> Score:
    """A score as this evaluator labels it, where it was made under another threshold or version.

    What the evaluator says of the cause belongs to a failure: a score that passes now has none.
    """
    score = replace(score, version=check.version)
    if score.name != check.name or score.value is None or score.label not in ("pass", "fail", None):
        return score
    new = label(check, score.value)
    return replace(score, label=new, cause=None, failures=()) if new == "pass" else replace(score, label=new)


def _stamp(check: Evaluator, score: Score) -> Score:
    if score.version == check.version and score.method == check.method:
        return score
    method = check.method if score.method == "code" else score.method
    return replace(score, version=check.version, method=method)


def _brief(error: BaseException) -> str:
    """The error's message, bounded. What leaves is cut after it is redacted: half a secret is not recognised."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 an exception whose __str__ raises is still an exception to report
        text = "no message"
    return text[:MAX_CHARS]
