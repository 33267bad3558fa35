"""The readers of data sets: what importing them loads, and which columns they read."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ragtrace.offline.rows import row_of
from ragtrace.records import INPUTS, has_input

PIPELINE = {"ragtrace.startup", "ragtrace.online.pipeline", "ragtrace.tracing.recorder"}


@pytest.mark.process
@pytest.mark.parametrize("module", ["ragtrace.chatlogs.ingest", "ragtrace.offline.selection", "ragtrace.reporting"])
def test_reading_data_sets_does_not_load_the_pipeline(module: str) -> None:
    """Importing the readers of data sets, the choice of evaluators or the reports loads no part of the pipeline."""
    code = f"import sys, {module}; print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not PIPELINE & set(result.stdout.split())


@pytest.mark.parametrize("name", INPUTS)
def test_every_input_is_a_column(name: str) -> None:
    """Each input that an evaluator can need is a column of a data set, and arrives in the trace."""
    values = {"documents": ["a text"], "steps": [{"tool": "search"}], "constraints": [["a", "b"]]}
    row = row_of({"answer": "yes", name: values.get(name, "a text")}, 1)
    assert has_input(row.trace, name)
