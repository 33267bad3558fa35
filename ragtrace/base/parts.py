"""Products that plug in: the console, the worker and the evaluation of data sets, and those of other distributions.

`init` and the command line find them by the entry point group `ragtrace.parts`, and know none of them by name.
"""

import importlib.metadata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ragtrace.evaluation import Evaluator
from ragtrace.settings import Settings

GROUP = "ragtrace.parts"


@dataclass(frozen=True, slots=True)
class Keeper:
    """What a part runs beside the pipeline to keep what happens."""

    sink: Any
    """Is called with every evaluation; has `flush(seconds)`, `close(seconds)`, `wait_for_spill(seconds)`, `undelivered`
    and `update_evaluators(checks)`."""
    feedback: Any
    """Is called with every `Feedback`; has `flush`, `close` and `undelivered`."""


@dataclass(frozen=True, slots=True)
class Part:
    """A product, as the entry point gives it. Importing it loads nothing heavy."""

    add_commands: Callable[[Any], None]
    """Adds its commands to the subparsers of `ragtrace`."""
    keep: Callable[[Settings, Sequence[Evaluator]], Keeper | None] = lambda _settings, _checks: None
    """Opens its keeper for these evaluators; None where the settings ask for none."""


def parts() -> list[Part]:
    """The parts that are installed, in the order of their names."""
    points = sorted(importlib.metadata.entry_points(group=GROUP), key=lambda point: point.name)
    return [point.load() for point in points]
