"""How names, numbers, times and tables are written for people."""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime

from ragtrace.statistics.estimates import Estimate

NONE = "\N{EN DASH}"
"""Stands for a figure that does not exist."""


def model_name(model: str) -> str:
    """The name of a model, or `(no model)` if it is empty."""
    return model or "(no model)"


def clip(text: str, width: int = 100) -> str:
    """One line of text of at most `width` characters."""
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: width - 1]}…"


def number(value: float) -> str:
    """A number with three decimals, or with three digits if it is 10 or more."""
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def mean_with_interval(mean: float | None, interval: tuple[float, float] | None) -> str:
    """A mean with its interval: `0.812 (0.790 to 0.834)`; `-` without a mean."""
    text = "-" if mean is None else f"{mean:.3f}"
    return f"{text} ({interval[0]:.3f} to {interval[1]:.3f})" if interval else text


def rate(estimate: Estimate | None) -> str:
    """A share with its interval, in percent."""
    if estimate is None:
        return NONE
    low, high = estimate.interval or (estimate.value, estimate.value)
    return f"{100 * estimate.value:.1f} % ({100 * low:.1f} to {100 * high:.1f})"


def moment(seconds: float) -> str:
    """A Unix time as date and time in UTC."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError, OSError):
        return f"{seconds:.0f} s"


def table(rows: Sequence[Sequence[str]], right: Collection[int] = (), columns: int | None = None) -> list[str]:
    """Rows of equal length as lines with aligned columns. The columns whose indices are in `right` are aligned at their
    right edge, the others at their left one.

    The first row is the head. If the lines would be longer than `columns`, each row is a paragraph instead: its first
    cell, and below it a line for each other cell with its name."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    if columns is not None and sum(widths) + 2 * (len(widths) - 1) > columns:
        head, *body = rows
        return [line for row in body for line in _paragraph(head, row)]
    return [
        "  ".join(
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _paragraph(head: Sequence[str], row: Sequence[str]) -> list[str]:
    return [row[0], *(f"  {name}: {cell}" for name, cell in zip(head[1:], row[1:], strict=True))]
