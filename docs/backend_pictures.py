"""Draw the pictures of docs/backends.md: python docs/backend_pictures.py

The servers are those of tests/backends. Needs playwright and chromium.
"""

import os
import shutil
import sys
from pathlib import Path
from typing import Any

from picture_sources import write_digest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import ragtrace  # noqa: E402
from ragtrace.evaluation import evaluator  # noqa: E402
from ragtrace.records import Score, Trace  # noqa: E402
from tests.backends.servers import MLFLOW, PHOENIX, Backend, Server, running  # noqa: E402

PASSAGE = {"id": "m1", "content": "The warranty lasts two years and covers parts and labour."}
PAGES = {"phoenix": "/redirects/traces/{id}", "mlflow": "/#/experiments/0/traces?selectedEvaluationId=tr-{id}"}
WIDTHS = {"phoenix": 1440, "mlflow": 1800}
LOADING = 60_000
"""Milliseconds that a page may take on a busy machine."""


@evaluator(needs={"answer"}, threshold=0.5)
def names_its_years(trace: Trace) -> Score:
    """The answer says how many years."""
    return Score("names_its_years", float("years" in trace.answer), explanation="The answer names the years.")


@evaluator(needs={"answer"}, threshold=0.5)
def short_enough(trace: Trace) -> float:
    """1 for an empty answer, 0 for one of a hundred characters."""
    return max(0.0, 1 - len(trace.answer) / 100)


def ask(server: Server, name: str) -> str:
    """Answer a question, score it, and give it a late score; the trace's id."""
    os.environ["OTEL_EXPORTER_OTLP_HEADERS"] = ",".join(f"{key}={value}" for key, value in server.headers.items())
    checks: Any = [names_its_years, short_enough]
    options: Any = {f"{name}_url": server.url, "capture_content": True, "explanations": True, "sample_per_second": 0}
    ragtrace.init(app="shop", otlp_endpoint=server.url, evaluators=checks, **options)
    with ragtrace.request("How long is the warranty?") as request:
        request.retrieved([PASSAGE])
        request.answered("The warranty lasts two years.")
    assert ragtrace.flush(timeout=120)
    ragtrace.score(request.trace_id, "solved", True)
    assert ragtrace.shutdown(timeout=120)
    return request.trace_id


def draw(browser: Any, backend: Backend, name: str) -> None:
    """Draw the page of one request."""
    program = backend.program
    assert program is not None, f"{backend.name} is not installed: see tests/prepare.py"
    with running(backend, program) as server:
        address = server.url + PAGES[name].format(id=ask(server, name))
        page = browser.new_page(viewport={"width": WIDTHS[name], "height": 760})
        if name == "mlflow":  # a hint covers its list of traces at first
            page.goto(address.partition("?")[0])
            page.get_by_role("button", name="Got it").first.click(timeout=LOADING)
        page.goto(address)
        if name == "mlflow":
            page.get_by_role("button", name="Assess").first.click(timeout=LOADING)
        page.wait_for_timeout(LOADING / 2)
        clip = {"x": 0, "y": 0, "width": 1260, "height": 540} if name == "mlflow" else None
        page.screenshot(path=ROOT / "docs" / "pictures" / f"backend-{name}.png", clip=clip)
        page.close()


def main() -> None:
    """Draw both."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        draw(browser, PHOENIX, "phoenix")
        draw(browser, MLFLOW, "mlflow")
        browser.close()
    write_digest("backends")


if __name__ == "__main__":
    main()
