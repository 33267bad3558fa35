"""Burn rates of an error budget (Google, The Site Reliability Workbook, 2018, chapter 5)."""

from __future__ import annotations


def burn_rate(fail_share: float, objective: float) -> float:
    """How many times faster than allowed the error budget is spent: fail_share / (1 - objective). At 1, exactly the
    whole budget is spent by the end of the period.

    `fail_share` is in [0, 1], `objective` (the promised pass rate) in [0, 1). Raises ValueError otherwise.
    """
    if not 0.0 <= fail_share <= 1.0:
        raise ValueError(f"fail_share must be in [0, 1], got {fail_share!r}")
    return fail_share / _budget(objective)


def threshold(share_of_budget: float, period: float, window: float, objective: float) -> float:
    """The share of failures above which a window spends more than `share_of_budget` (in (0, 1]) of a period's error
    budget: share_of_budget * period / window * (1 - objective). `period` and `window` have the same unit.

    Raises ValueError for a tier that can never fire (a threshold of 1 or more: even a window with failures only does
    not exceed it), and for a window that is longer than the period.
    """
    if not 0.0 < share_of_budget <= 1.0:
        raise ValueError(f"share_of_budget must be in (0, 1], got {share_of_budget!r}")
    if not 0.0 < window <= period:
        raise ValueError(f"the window must be above 0 and at most the period ({period!r}), got {window!r}")
    limit = share_of_budget * period / window * _budget(objective)
    if limit >= 1.0:
        raise ValueError(
            f"{share_of_budget:g} of the budget in a window of {window:g} would need a share of failures of "
            f"{limit:.3g}: the tier can never fire; choose a longer window or a smaller share"
        )
    return limit


def _budget(objective: float) -> float:
    if not 0.0 <= objective < 1.0:
        raise ValueError(f"objective must be in [0, 1), got {objective!r}")
    return 1.0 - objective
