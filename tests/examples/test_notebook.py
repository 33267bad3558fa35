"""examples/review_and_calibrate.ipynb: the notebook runs from top to bottom, and was saved with what it prints."""

import os
import re
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.examples.example_folder import EXAMPLES

NOTEBOOK = EXAMPLES / "review_and_calibrate.ipynb"


def printed(notebook: nbformat.NotebookNode) -> list[str]:
    """What each cell of code prints or shows; fails for an error and for a cell that was not run."""
    texts = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.execution_count
            assert all(output.output_type != "error" for output in cell.outputs)
            parts = [output.get("text") or output["data"]["text/plain"] for output in cell.outputs]
            texts.append("".join(parts))
    return texts


def shape(text: str) -> str:
    """A text without its numbers and trace ids, which differ from run to run and from machine to machine."""
    return re.sub(r"[0-9a-f]{32}|[\d.]+|[+-]+| +", "", text)


# nbclient's event loop leaves its sockets to the garbage collector.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.timeout(300)
def test_the_notebook_runs_and_shows_what_it_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Apart from numbers; after the calibration some of the answers that were missed are flagged."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent) + os.pathsep + os.environ["PATH"])
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    saved = printed(notebook)
    NotebookClient(notebook, timeout=200, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    texts = printed(notebook)
    assert [shape(text) for text in texts] == [shape(text) for text in saved]
    before, after = (float(recall) for recall in re.findall(r"recall ([\d.]+),", "".join(texts)))
    assert after > before + 0.03
