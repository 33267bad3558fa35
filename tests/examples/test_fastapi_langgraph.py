"""examples/fastapi_langgraph: answers are streamed, and scores and thumbs arrive."""

import json
import urllib.request
from pathlib import Path
from typing import Any

from tests.applications.processes import WAIT, Application
from tests.examples.example_folder import scored_spans, started, stored_request

RIGHT = "How long is the warranty?"
UNKNOWN = "What does a new milk jug cost?"


def post(application: Application, path: str, body: dict[str, str]) -> Any:
    """An open response."""
    url, headers = f"http://127.0.0.1:{application.port}/{path}", {"Content-Type": "application/json"}
    return urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers), timeout=WAIT)


def ask(application: Application, question: str) -> tuple[str, list[str]]:
    """The trace id and the pieces of an answer."""
    with post(application, "ask", {"question": question, "session": "s-1", "user": "ada"}) as response:
        assert response.headers["Content-Type"].startswith("text/event-stream")
        blocks = [block.split("\n") for block in response.read().decode().split("\n\n")[:-1]]
    events = [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in blocks]
    assert (events[0][0], events[-1][0]) == ("trace", "end")
    return events[0][1], [data for name, data in events if name == "piece"]


def test_answers_are_streamed_and_scores_and_thumbs_arrive(tmp_path: Path) -> None:
    command = ("uvicorn", "--port", "{port}", "app:app")
    with started("fastapi_langgraph", tmp_path, command) as (folder, received, application):
        application.wait(lambda: "Coffee help" in application.get("/"))
        right, pieces = ask(application, RIGHT)
        assert len(pieces) > 5
        assert "".join(pieces) == "The warranty covers parts and labour for 24 months from delivery."
        wrong, pieces = ask(application, UNKNOWN)
        assert "49 euros" in "".join(pieces)
        thumb = {"trace_id": wrong, "thumbs": "down", "comment": "not in the shop"}
        with post(application, "feedback", thumb) as response:
            assert json.load(response) == {"taken": True}
        application.stop()
    spans = scored_spans(received, "groundedness")
    assert spans.keys() == {right, wrong}, application.tail()
    assert {(span["gen_ai.conversation.id"], span["user.id"]) for span in spans.values()} == {("s-1", "ada")}
    verdicts = {trace: span["gen_ai.evaluation.groundedness.label"] for trace, span in spans.items()}
    assert verdicts == {right: "pass", wrong: "fail"}
    stored = stored_request(folder / "chatlogs.db", wrong)
    assert (stored.trace.query, stored.thumbs) == (UNKNOWN, -1)
    assert [document.metadata["source"] for document in stored.trace.documents]
