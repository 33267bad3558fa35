"""examples/django_llamaindex under `runserver` and gunicorn, and examples/worker with an untraced application."""

import json
import re
import urllib.error
import urllib.parse
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

import pytest

from tests.applications.processes import WAIT, Application
from tests.examples.example_folder import run_script, scored_spans, started, stored_request

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
