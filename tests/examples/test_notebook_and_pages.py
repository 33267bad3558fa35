"""The notebook of the examples runs from top to bottom, and was saved so; their pages work in a real browser."""

import os
import re
import shutil
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.applications.processes import running
from tests.examples.example_folder import EXAMPLES, copy_example, stored_request

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


AXE = EXAMPLES.parent / "tests" / "console" / "node_modules" / "axe-core" / "axe.min.js"
PAGES = {
    "fastapi_langgraph": (("uvicorn", "--port", "{port}", "app:app"), "How long is the warranty?", "24 months"),
    "django_llamaindex": (("manage", "runserver", "--noreload", "{port}"), "What is the late fee?", "20 cents"),
}
"""Command, question and a part of the answer, by example."""


@pytest.mark.browser
@pytest.mark.parametrize("example", PAGES)
def test_a_user_asks_and_clicks_a_thumb(example: str, tmp_path: Path) -> None:
    """A click on a button of the answer is thanked for and stored. No error is logged, and axe-core finds nothing."""
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium")
    if chromium is None and not os.environ.get("CI"):
        pytest.skip("chromium is not installed: apt-get install chromium")
    command, question, part = PAGES[example]
    folder = copy_example(example, tmp_path)
    errors: list[str] = []
    with running(folder, "", command) as application, playwright.sync_playwright() as driver:
        application.wait(lambda: "<h1>" in application.get("/"))
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 400, "height": 700})
        page.on("console", lambda message: errors.append(message.text))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"http://127.0.0.1:{application.port}/")
        page.get_by_label("Your question").fill(question)
        with page.expect_response("**/ask") as response:
            page.get_by_role("button", name="Ask").click()
        page.get_by_text(part).wait_for()
        trace_id = re.search(r"[0-9a-f]{32}", response.value.text())
        if AXE.exists():
            page.evaluate(AXE.read_text("utf-8"))
            assert page.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"] == []
        page.get_by_role("button", name="This answer is good").click()
        page.get_by_text("Thank you.").wait_for()
        browser.close()
        application.interrupt()
    assert errors == []
    assert trace_id is not None
    assert stored_request(folder / "chatlogs.db", trace_id[0]).thumbs == 1
