"""Export while the application computes without a break."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process
BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "export_pressure.py"


def test_a_saturated_event_loop_drops_no_span() -> None:
    """200 tasks that never idle end six times as many spans as the queue takes: each reaches the collector."""
    # A queue of the usual size: a busy machine may let the collector's process wait while the application goes on.
    size = ["--spans", "24576", "--queue", "4096", "--work", "2000"]
    command = [sys.executable, str(BENCHMARK), *size]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=280)
    report = json.loads(done.stdout)
    assert (report["missing"], report["dropped"]) == (0, 0)
