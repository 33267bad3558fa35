"""Burn rates of an error budget (Google, The Site Reliability Workbook, 2018, chapter 5)."""

from __future__ import annotations


def burn_rate(fail_share: float, objective: float) -> float:
    """How many times faster than allowed the error budget is used up: fail_share / (1 - objective). 1 uses up exactly
    the budget by the end of the period.

    `fail_share` lies in [0, 1], `objective` (the pass rate that is promised) in [0, 1). Raises ValueError otherwise.
    """
    if not 0.0 <= fail_share <= 1.0:
        raise ValueError(f"a share of failures lies in [0, 1], not at {fail_share!r}")
    return fail_share / _budget(objective)


def threshold(share_of_budget: float, period: float, window: float, objective: float) -> float:
    """The share of failures in a window above which the window uses up more than `share_of_budget` (in (0, 1]) of a
    period's error budget: share_of_budget * period / window * (1 - objective). `period` and `window` are in the same
    unit.

    Raises ValueError for a tier that could never fire (a threshold of 1 or more: not even a window of nothing but
    failures exceeds it), and for a window that is longer than the period.
    """
    if not 0.0 < share_of_budget <= 1.0:
        raise ValueError(f"a share of the budget lies in (0, 1], not at {share_of_budget!r}")
    if not 0.0 < window <= period:
        raise ValueError(f"a window of {window!r} does not lie within a period of {period!r}")
    found = share_of_budget * period / window * _budget(objective)
    if found >= 1.0:
        raise ValueError(
            f"{share_of_budget:g} of the budget in a window of {window:g} would need a share of failures of "
            f"{found:.3g}: the tier can never fire; take a longer window or a smaller share"
        )
    return found


def _budget(objective: float) -> float:
    if not 0.0 <= objective < 1.0:
        raise ValueError(f"an objective lies in [0, 1), not at {objective!r}")
    return 1.0 - objective
