"""What importing the readers of data sets loads."""

from __future__ import annotations

import subprocess
import sys

import pytest

PIPELINE = {"ragtrace.startup", "ragtrace.online.pipeline", "ragtrace.tracing.recorder"}


@pytest.mark.parametrize("module", ["ragtrace.chatlogs.ingest", "ragtrace.offline.selection", "ragtrace.reporting"])
def test_reading_data_sets_does_not_load_the_pipeline(module: str) -> None:
    """Importing the readers of data sets, the choice of evaluators or the reports loads no part of the pipeline."""
    code = f"import sys, {module}; print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not PIPELINE & set(result.stdout.split())
