"""The notebook of the examples runs from top to bottom, and was saved so; their pages work in a real browser."""

import json
import os
import re
import shutil
import sys
import urllib.error
import urllib.parse
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.applications.processes import WAIT, Application, running
from tests.examples.example_folder import EXAMPLES, copy_example, run_script, scored_spans, started, stored_request

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


RIGHT = "How many books can I borrow?"
UNKNOWN = "Who runs the archive?"
SERVERS = {
    "runserver": ("manage", "runserver", "{port}"),
    "gunicorn": ("gunicorn", "--bind", "127.0.0.1:{port}", "--workers", "2", "--threads", "4", "library.wsgi"),
}


class Visitor:
    """A browser: it keeps cookies, and sends the token of the page's form."""

    def __init__(self, application: Application) -> None:
        self._url = f"http://127.0.0.1:{application.port}/"
        self._open = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar())).open
        page = self._open(self._url, timeout=WAIT).read().decode()
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page)
        assert token is not None
        self._token = token[1]

    def post(self, path: str, **fields: str) -> list[dict[str, Any]]:
        """The lines of a response, each a JSON object."""
        body = urllib.parse.urlencode({"csrfmiddlewaretoken": self._token, **fields}).encode()
        with self._open(self._url + path, body, timeout=WAIT) as response:
            return [json.loads(line) for line in response]


@pytest.mark.parametrize("server", SERVERS)
def test_answers_are_streamed_and_scores_and_thumbs_arrive(server: str, tmp_path: Path) -> None:
    """Answers come in pieces; requests arrive with session, verdict and thumb; another site's question is refused."""
    with started("django_llamaindex", tmp_path, SERVERS[server]) as (folder, received, application):
        application.wait(lambda: "Library desk" in application.get("/"))
        with pytest.raises(urllib.error.HTTPError, match="403"):  # a form of another site has no token
            urllib.request.urlopen(f"http://127.0.0.1:{application.port}/ask", b"question=x", timeout=WAIT)
        visitor = Visitor(application)
        first, *right = visitor.post("ask", question=RIGHT)
        assert len(right) > 5
        assert "".join(line["piece"] for line in right) == "You can borrow ten books at a time."
        second, *wrong = visitor.post("ask", question=UNKNOWN)
        assert "Mister Novak" in "".join(line["piece"] for line in wrong)
        assert visitor.post("feedback", trace_id=second["trace_id"], thumbs="down") == [{"taken": True}]
        if server == "runserver":  # after Ctrl-C its reloader leaves the server a quarter of a second
            application.wait(lambda: len(scored_spans(received, "groundedness")) == 2)
            application.interrupt()
        else:
            application.stop()
    spans = scored_spans(received, "groundedness")
    verdicts = {trace: span["gen_ai.evaluation.groundedness.label"] for trace, span in spans.items()}
    assert verdicts == {first["trace_id"]: "pass", second["trace_id"]: "fail"}, application.tail()
    assert len({span["gen_ai.conversation.id"] for span in spans.values()}) == 1
    stored = stored_request(folder / "chatlogs.db", second["trace_id"])
    assert (stored.trace.query, stored.thumbs) == (UNKNOWN, -1)


WORKER = ("ragtrace", "worker", "--http", "127.0.0.1:{port}", "--buffer", "buffer.db")


def test_an_application_without_ragtrace_gets_scores(tmp_path: Path) -> None:
    """Each question of the application leaves the worker with its session and verdict, and is in the worker's store."""
    with started("worker", tmp_path, WORKER) as (folder, received, worker):
        worker.wait(lambda: bool(worker.get("/readyz")))
        run_script(folder, "application.py", OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{worker.port}")
        worker.stop()
    spans = scored_spans(received, "groundedness")
    verdicts = {span["output.value"]: span["gen_ai.evaluation.groundedness.label"] for span in spans.values()}
    assert verdicts == {
        "The helmet is under the seat.": "pass",
        "The first 30 minutes cost one euro.": "pass",
        "Yes, children below twelve ride for free in Vienna.": "fail",
    }, worker.tail()
    assert {span["session.id"] for span in spans.values()} == {"s-1"}
    for trace_id, span in spans.items():
        stored = stored_request(folder / "chatlogs.db", trace_id)
        assert (stored.trace.answer, stored.trace.facts.app) == (span["output.value"], "bike-rental")


CELERY = ("celery", "-A", "tasks", "worker", "--concurrency", "2")


@pytest.mark.parametrize("broker", ["folder", "redis"])
def test_a_batch_is_answered_and_scored(broker: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    address = request.getfixturevalue("redis_server").url if broker == "redis" else ""
    with started("celery_batch", tmp_path, CELERY, BROKER=address) as (folder, received, worker):
        output = run_script(folder, "ask.py", BROKER=address)
        worker.stop()
    answers = re.findall(r"^(\S.*)\n    (.+)  \(trace (\w{32})\)$", output, re.MULTILINE)
    assert [question for question, _, _ in answers] == (folder / "questions.txt").read_text().splitlines()
    spans = scored_spans(received, "groundedness")
    assert spans.keys() == {trace_id for _, _, trace_id in answers}, worker.tail()
    for _, answer, trace_id in answers:
        verdict = "fail" if "Oslo" in answer else "pass"
        assert spans[trace_id]["gen_ai.evaluation.groundedness.label"] == verdict
        assert spans[trace_id]["gen_ai.conversation.id"] == "questions.txt"
    stored = stored_request(folder / "chatlogs.db", answers[0][2])
    assert next(document.id for document in stored.trace.documents).startswith("paragraph-")
