"""Money of the judge: whole billionths of a dollar (so that sums are exact), the windows of a budget, reservations, and
the key of the score that is being paid for."""

import contextlib
import contextvars
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ragtrace.errors import EvaluationError

NANO = 1_000_000_000
WINDOWS = {"hour": 3_600, "day": 86_400}
"""Seconds of each window of a budget. Windows start at multiples of their length in Unix time."""

Starts = tuple[tuple[str, int], ...]
"""The name of each window and its start in Unix time."""


class BudgetError(EvaluationError):
    """The budget has no room for another request. `may_pass`: others are open, and may cost less."""

    def __init__(self, window: str, limit: float, may_pass: bool = False, why: str = "is used up") -> None:
        super().__init__("judge_budget", f"the judge's budget of {limit:g} US dollars a {window} {why}")
        self.may_pass = may_pass


@dataclass(frozen=True, slots=True)
class Reservation:
    """Money set aside for one request."""

    id: str
    nano: int
    starts: Starts
    owner: str = ""
    """Which of several reservations of the same id this is; empty where ids are never used twice."""


def window_starts(now: float) -> dict[str, int]:
    """The start of each window at a Unix time."""
    return {kind: int(now) - int(now) % seconds for kind, seconds in WINDOWS.items()}


def nano_limits(limits: Mapping[str, float]) -> dict[str, int | None]:
    """Limits in US dollars as billionths of a dollar; None for no limit."""
    return {kind: None if limit == float("inf") else round(limit * NANO) for kind, limit in limits.items()}


_score_key: contextvars.ContextVar[str] = contextvars.ContextVar("ragtrace_judge_score_key", default="")


@contextlib.contextmanager
def paying_for(key: str) -> Iterator[None]:
    """Requests in this context, with the threads of `within` and `gather`, are made for the score with this key (trace,
    span, evaluator and version)."""
    token = _score_key.set(key)
    try:
        yield
    finally:
        _score_key.reset(token)


def current_score_key() -> str:
    """The key that `paying_for` has set; empty outside of it."""
    return _score_key.get()
