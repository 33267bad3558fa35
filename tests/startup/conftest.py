"""ragtrace, started and stopped as an application does."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import ragtrace
from ragtrace.evaluation import evaluator
from ragtrace.records import Trace

Start = Callable[..., ragtrace.Runtime]


@evaluator(needs={"answer"}, threshold=0.5)
def quick(trace: Trace) -> float:
    return 1.0


@pytest.fixture
def start() -> Iterator[Start]:
    def init(**options: Any) -> ragtrace.Runtime:
        return ragtrace.init(**{"frameworks": ("langchain",), "sample_per_second": 0, "evaluators": [quick], **options})

    yield init
    ragtrace.shutdown(1.0)
