"""What one process may spend while the store of a shared budget cannot be reached."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from ragtrace.evaluate.judge.budget import BudgetError, Reservation, Starts, nano_limits, window_starts

Window = tuple[str, int]
"""The name of a window and its start in Unix time."""


class StaticShare:
    """A share of what was left of each window when the store last answered; of the whole limit in a window that has
    begun since then. With N processes and a share of at most 1/N, all of them together stay within the budget. Safe to
    use from many threads."""

    def __init__(self, share: float, limits: Mapping[str, float], clock: Callable[[], float] = time.time) -> None:
        """`limits` are US dollars by window. `share` is in [0, 1]."""
        self._share, self._limits, self._clock = share, dict(limits), clock
        self._nano = nano_limits(limits)
        self._lock = threading.Lock()
        self._last_sums: dict[Window, int] = {}
        self._spent: dict[Window, int] = {}
        self._open = 0

    def note(self, sums: Mapping[Window, int]) -> None:
        """Remember what the store says of the present windows: nano-dollars spent or set aside."""
        with self._lock:
            self._last_sums = dict(sums)

    def last_sums(self) -> dict[Window, int]:
        """What the store said last."""
        with self._lock:
            return dict(self._last_sums)

    def reserve(self, nano: int) -> Reservation:
        """Set money aside without the store. Raises BudgetError where the share has no room for it."""
        with self._lock:
            starts: Starts = tuple(window_starts(self._clock()).items())
            for window in starts:
                kind, limit = window[0], self._nano[window[0]]
                if limit is None:
                    continue
                room = self._share * max(0, limit - self._last_sums.get(window, 0))
                if self._spent.get(window, 0) + nano > room:
                    why = (
                        "cannot be asked for: the server of judge_budget_url does not answer, and this process has "
                        f"spent its share of {self._share:g} (judge_budget_share) of what was left"
                    )
                    raise BudgetError(kind, self._limits[kind], may_pass=self._open > 0, why=why)
            self._add(starts, nano)
            self._open += 1
            return Reservation("", nano, starts)

    def settle(self, reserved: Reservation, nano: int) -> None:
        """Put what a request really cost in the place of what was set aside for it."""
        with self._lock:
            self._open -= 1
            self._add(reserved.starts, nano - reserved.nano)

    def _add(self, starts: Starts, nano: int) -> None:
        for window in starts:
            self._spent[window] = self._spent.get(window, 0) + nano

    def spent(self, window: Window) -> int:
        """What is known of a window: what the store said last, and what was spent since then without it."""
        with self._lock:
            return self._last_sums.get(window, 0) + self._spent.get(window, 0)

    def take(self) -> dict[Window, int]:
        """What was spent or set aside without the store since the last call, to be reported to the store. A settlement
        that follows is a difference in the next report."""
        with self._lock:
            report, self._spent = self._spent, {}
        return {window: nano for window, nano in report.items() if nano}

    def put_back(self, report: Mapping[Window, int]) -> None:
        """Keep for the next report what `take` gave and the store did not get."""
        with self._lock:
            for window, nano in report.items():
                self._spent[window] = self._spent.get(window, 0) + nano
