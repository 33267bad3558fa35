"""Builds unit tests of rules in promtool's format."""

import math
from collections.abc import Sequence

STEP = 5
"""Minutes between samples, and between evaluations of the rules."""
Series = dict[str, str]
GAP = math.nan
Phase = tuple[float, float]
"""Hours, and increments a minute."""


def counter(metric: str, phases: Sequence[Phase], **labels: str) -> Series:
    """Returns a counter that grows phase by phase. An increment of -1 is a restart at 0; GAP means no scrapes."""
    values, at = [], 0.0
    for hours, per_minute in phases:
        if per_minute < 0:
            at = 0.0
            continue
        steps = round(hours * 60 / STEP)
        if math.isnan(per_minute):
            values.append(f"_x{steps}")
            continue
        step = per_minute * STEP
        values.append(f"{at:g}+{step:g}x{steps - 1}")
        at += step * steps
    return _series(metric, " ".join(values), labels)


def gauge_phases(metric: str, phases: Sequence[tuple[float, float | None]], **labels: str) -> Series:
    """Returns a gauge by its phases: hours, and the value or None where it is absent."""
    texts = [f"_x{round(h * 60 / STEP)}" if v is None else f"{v:g}x{round(h * 60 / STEP) - 1}" for h, v in phases]
    return _series(metric, " ".join(texts), labels)


def _series(metric: str, values: str, labels: dict[str, str]) -> Series:
    all_labels = {"app": "shop", "env": "prod", **labels}
    inner = ",".join(f'{k}="{v}"' for k, v in all_labels.items())
    return {"series": f"{metric}{{{inner}}}", "values": values}


def evaluated(
    phases: Sequence[tuple[float, float, float]], evaluator: str = "faithfulness", weight: float = 20.0, **labels: str
) -> list[Series]:
    """Returns the series of evaluations; a phase is (hours, evaluations a minute, share that fails).

    Each evaluation represents `weight` requests; a rate below 0 is a restart of the process."""
    series = []
    for verdict in ("pass", "fail"):
        rates = [(h, -1.0 if n < 0 else n * (s if verdict == "fail" else 1 - s)) for h, n, s in phases]
        for metric, times in (
            ("ragtrace_evaluations_total", 1.0),
            ("ragtrace_evaluation_weight_total", weight),
            ("ragtrace_evaluation_weight_squared_total", weight * weight),
        ):
            scaled = [(h, r if r < 0 else r * times) for h, r in rates]
            series.append(counter(metric, scaled, evaluator=evaluator, verdict=verdict, **labels))
    return series
