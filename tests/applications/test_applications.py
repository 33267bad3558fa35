"""Each question to a real application is one request, whole: in its spans over OTLP and in its metrics."""

import urllib.parse
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.applications.processes import Application, Request, celery_client, requests_of, running
from tests.otlp.receivers import Received, http_server

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def receiver() -> Iterator[tuple[str, Received]]:
    with http_server() as server:
        yield server


def expected(number: int) -> Request:
    """What the spans must say of question `number`."""
    who = (f"session-{number % 7}", f"user-{number}")
    return Request(f"question {number}", f"As passage {number} says.", *who, (f"Passage {number} of the manual.",))


def path(view: str, number: int) -> str:
    asked = expected(number)
    fields = {"question": asked.question, "session": asked.session, "user": asked.user}
    return f"/{view}?{urllib.parse.urlencode(fields)}"


def ask_all(numbers: range, ask: Callable[[int], str], at_once: int) -> None:
    """Ask all questions, so many at a time; each answer must be its question's own."""
    with ThreadPoolExecutor(at_once) as pool:
        for number, answer in zip(numbers, pool.map(ask, numbers), strict=True):
            assert answer == expected(number).answer


def check(application: Application, received: Received, count: int) -> None:
    """The metrics and the spans count what was asked, and the spans say it."""
    application.wait(lambda: application.counts() == {"ok": count, "scored": count})
    application.stop()
    found = sorted(requests_of(received), key=lambda request: int(request.user[5:]))
    assert found == [expected(number) for number in range(count)], application.tail()


def events(text: str) -> str:
    return "".join(event.removeprefix("data: ") for event in text.split("\n\n"))


UVICORN = ("uvicorn", "--port", "{port}", "--log-level", "warning")
GUNICORN = ("gunicorn", "--bind", "127.0.0.1:{port}", "--threads", "4")
ASYNC_VIEWS, VIEWS = ("ask",), ("ask", "ask_async")


@pytest.mark.parametrize(
    ("framework", "command", "views", "count"),
    [
        ("langchain", (*UVICORN, "fastapi_application:app"), ASYNC_VIEWS, 200),
        ("llama_index", (*UVICORN, "fastapi_application:app"), ASYNC_VIEWS, 200),
        ("llama_index", (*UVICORN, "django_application:asgi"), VIEWS, 20),
        ("langchain", (*GUNICORN, "django_application:wsgi"), VIEWS, 20),
    ],
    ids=["fastapi-langchain", "fastapi-llama_index", "django-asgi", "django-wsgi"],
)
def test_servers(  # noqa: PLR0917 fixtures
    framework: str, command: tuple[str, ...], views: tuple[str, ...], count: int, tmp_path: Path,
    receiver: tuple[str, Received],
) -> None:  # fmt: skip
    """Each answer, streamed or not, in threads or on the event loop, is one request with its own facts."""
    endpoint, received = receiver
    with running(tmp_path, endpoint, command, FRAMEWORK=framework) as application:
        application.wait(lambda: events(application.get(path(views[0], 0))) == expected(0).answer)
        ask = lambda number: events(application.get(path(views[number % len(views)], number)))  # noqa: E731
        ask_all(range(1, count), ask, 20)
        check(application, received, count)


@pytest.mark.parametrize(
    ("pool", "framework"), [("prefork", "langchain"), ("threads", "langchain"), ("solo", "llama_index")]
)
def test_celery(pool: str, framework: str, tmp_path: Path, receiver: tuple[str, Received]) -> None:
    endpoint, received = receiver
    client = celery_client(tmp_path)
    command = ("celery", "-A", "celery_application", "worker", "--pool", pool, "--concurrency", "2")
    variables = {"FRAMEWORK": framework, "POOL": pool, "BROKER": str(tmp_path)}
    with running(tmp_path, endpoint, command, **variables) as application:
        asked = [expected(number) for number in range(20)]
        sent = [client.send_task("celery_application.ask", (r.question, r.session, r.user)) for r in asked]
        assert [task.get(timeout=60) for task in sent] == [request.answer for request in asked], application.tail()
        check(application, received, 20)
