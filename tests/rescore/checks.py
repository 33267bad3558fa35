"""Evaluators of the tests. `RESCORE_CALLS` names a file that gets one line for each evaluation of `slow`, and
`RESCORE_STOPS` the number of lines after which it is interrupted, as by Ctrl-C."""

import os
import re
import time

from ragtrace.evaluation import evaluator
from ragtrace.records import Trace


@evaluator(needs={"answer"}, version="2", threshold=0.5)
def brief(trace: Trace) -> float:
    """The answer is brief."""
    return 1.0 if len(trace.answer) < 10 else 0.25


@evaluator(needs={"answer"}, version="1")
def slow(trace: Trace) -> float:
    """A value of the answer's own, slowly."""
    time.sleep(0.01)
    with open(os.environ["RESCORE_CALLS"], "a+", encoding="utf-8") as file:
        file.write(f"{trace.trace_id:032x}\n")
        file.seek(0)
        if str(len(file.readlines())) == os.environ.get("RESCORE_STOPS"):
            raise KeyboardInterrupt
    return len(trace.answer) / 1_000


@evaluator(needs={"answer"})
def fragile(trace: Trace) -> float:
    """Fails for some answers as long as `RESCORE_BROKEN` is set."""
    if os.environ.get("RESCORE_BROKEN") and trace.answer.endswith("3"):
        raise ConnectionError("the server is away")
    return 1.0


@evaluator(needs={"answer"})
def deadly(trace: Trace) -> float:
    """Ends its process for one answer."""
    if trace.answer.endswith("17"):
        os._exit(3)
    return 1.0


@evaluator(needs={"reference"})
def compared(trace: Trace) -> bool:
    """The answer is the reference."""
    return trace.answer == trace.reference


def without_numbers(text: str) -> str:
    """A redact function."""
    return re.sub(r"\d", "#", text)
