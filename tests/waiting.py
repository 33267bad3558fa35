"""What tests wait for."""

import os
import time
from collections.abc import Callable

import pytest


def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait until the condition holds; fail where it does not in this time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def in_fork(work: Callable[[], object]) -> None:
    """Do the work in a forked child; fail where it raises or returns False there."""
    if not hasattr(os, "fork"):
        pytest.skip("this system has no fork")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = int(work() is False)
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
