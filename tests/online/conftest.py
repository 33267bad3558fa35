"""Pipelines and evaluating processes that end with their test."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from ragtrace.evaluation import Evaluator
from ragtrace.live.child_process import ProcessRunner
from ragtrace.live.pipeline import Limits, Pipeline

Make = Callable[..., Pipeline]


@pytest.fixture
def make() -> Iterator[Make]:
    """Makes pipelines: MAKE(EVALUATORS, SINK, ..., OPTION=...)."""
    pipelines: list[Pipeline] = []

    def start(checks: Sequence[Evaluator], *sinks: Any, **options: Any) -> Pipeline:
        pipelines.append(Pipeline(checks, sinks, **{"limits": Limits(wait=0.01), **options}))
        return pipelines[-1]

    yield start
    for pipeline in pipelines:
        pipeline.close(1.0)


@pytest.fixture
def runner() -> Iterator[ProcessRunner]:
    process = ProcessRunner()
    yield process
    process.stop()
