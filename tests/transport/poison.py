"""An evaluator for workers that are killed: the question says what it does."""

import os
import time

from ragtrace.records import Trace


def obedient(trace: Trace) -> float:
    """1.0; or an error, the end of the process, or a pause, where the question asks for it."""
    question = trace.query or ""
    if "END THE PROCESS" in question:
        os._exit(9)
    if "RAISE" in question:
        raise ValueError("the question asked for it")
    time.sleep(0.01)
    return 1.0
