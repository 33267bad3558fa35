"""Fixtures for pytest, which finds them by itself where ragtrace is installed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ragtrace.evaluation import Evaluator
    from ragtrace.startup.memory_recorder import Recording


@pytest.fixture
def ragtrace_evaluators() -> Sequence[str | Evaluator]:
    """The evaluators of `ragtrace_recording`: none, unless a test file or conftest.py has a fixture of this name."""
    return ()


@pytest.fixture
def ragtrace_recording(ragtrace_evaluators: Sequence[str | Evaluator]) -> Iterator[Recording]:
    """The test's requests in memory: `spans`, `traces`, `scores` and `feedback`. See `ragtrace.testing.record`."""
    from ragtrace.startup.memory_recorder import record

    with record(ragtrace_evaluators) as recording:
        yield recording
