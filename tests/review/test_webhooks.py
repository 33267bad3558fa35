"""Webhooks out: signed, repeated, without content, to nobody who should not hear. Alerts in: the worst logs."""

import base64
import hashlib
import hmac
import importlib.util
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ragtrace.console.chatlogs.store import Store
from ragtrace.console.review import notices, webhooks
from ragtrace.console.review.alerts import Alerts, review_items_from_alert
from ragtrace.console.review.calibration import fit, save
from ragtrace.console.review.feedback import add_feedback
from ragtrace.console.review.policy import Policy
from ragtrace.console.review.queue import submit
from ragtrace.console.review.webhooks import Webhooks, make_target, signature
from ragtrace.errors import SettingError
from ragtrace.records import Facts, Feedback
from tests.judge.server import Listening, QuietHandler, send
from tests.review.review_data import NOW, bad, evaluation, good, ids, people, queued, review, scored, verdict
from tests.row_files import rows
from tests.waiting import in_fork, until

SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef").decode()


class Receiver(Listening):
    """Keeps what is posted; answers with the statuses that it was given, 200 afterwards."""

    def __init__(self, *statuses: int) -> None:
        self.got: list[tuple[dict[str, str], bytes]] = []
        left = list(statuses)
        owner = self

        class Handler(QuietHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                owner.got.append(({k.lower(): v for k, v in self.headers.items()}, body))
                send(self, left.pop(0) if left else 200, b"", location="/elsewhere")

        super().__init__(Handler)
        self.url += "/hook?x=1"


@pytest.fixture
def receiver() -> Iterator[Callable[..., Receiver]]:
    with ExitStack() as servers:
        yield lambda *statuses: servers.enter_context(Receiver(*statuses))


def test_an_event_arrives_signed(receiver: Callable[..., Receiver]) -> None:
    """By Standard Webhooks' rule, which is computed here by hand; content stays here unless the target may have it."""
    plain, full = receiver(), receiver()
    hooks = Webhooks([make_target(plain.url, SECRET), make_target(full.url, SECRET, content=True)])
    hooks.send("review.submitted", {"trace_id": "a" * 32, "comment": "secret words", "answer": "x"})
    until(lambda: bool(plain.got and full.got))
    hooks.close()
    headers, body = plain.got[0]
    said = json.loads(body)
    assert (said["type"], said["data"]) == ("review.submitted", {"trace_id": "a" * 32})
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    mac = hmac.new(b"0123456789abcdef", signed, hashlib.sha256).digest()
    assert headers["webhook-signature"] == "v1," + base64.b64encode(mac).decode()
    assert abs(int(headers["webhook-timestamp"]) - time.time()) < 60
    assert json.loads(full.got[0][1])["data"]["comment"] == "secret words"
    assert hooks.sent == 2


def test_the_published_signature() -> None:
    """The example of the specification's reference libraries."""
    secret = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    found = signature(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert found == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_failure_is_tried_again_and_then_counted(receiver: Callable[..., Receiver]) -> None:
    """The same event id in every try; a redirect is an answer like any other, and never followed."""
    flaky = receiver(500, 302)
    hooks = Webhooks([make_target(flaky.url, SECRET)], pauses=(0.01, 0.01))
    hooks.send("feedback.negative", {"trace_id": "b" * 32})
    until(lambda: hooks.sent == 1)
    assert (len({headers["webhook-id"] for headers, _ in flaky.got}), len(flaky.got)) == (1, 3)
    hooks.close()
    dead = receiver(500, 500, 500)
    gone = Webhooks([make_target(dead.url, SECRET)], pauses=(0.01, 0.01))
    gone.send("feedback.negative", {})
    until(lambda: gone.lost == 1)
    assert len(dead.got) == 3
    gone.close()


def test_nobody_waits_for_a_webhook() -> None:
    """A target that does not answer holds up neither the sender nor the end of the process."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(1)
        hooks = Webhooks([make_target(f"http://127.0.0.1:{silent.getsockname()[1]}", SECRET)], pauses=())
        for _ in range(3_000):
            hooks.send("calibration.saved", {"evaluator": "x"})
        assert hooks.lost > 1_000, "the queue is bounded"
        hooks.close(0.1)
        hooks.close(0.1)
    until(lambda: not any(t.name == "ragtrace-webhooks" and t.is_alive() for t in threading.enumerate()))


@pytest.mark.process
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_sends_its_own_events(receiver: Callable[..., Receiver]) -> None:
    """A worker that is forked later has a thread of its own; what waited in the parent is sent by it, once."""
    server = receiver(500)
    hooks = Webhooks([make_target(server.url, SECRET)], pauses=(3_600.0,))
    hooks.send("review.submitted", {"process": "parent"})
    until(lambda: len(server.got) == 1 and hooks._queue.waiting == 1)

    def in_the_child() -> bool:
        hooks.send("review.submitted", {"process": "child"})
        until(lambda: hooks.sent == 1)
        hooks.close()
        return True

    in_fork(in_the_child)
    hooks.close()
    assert [json.loads(body)["data"]["process"] for _, body in server.got] == ["parent", "child", "parent"]


@pytest.mark.parametrize(("url", "secret", "said"), rows(__file__, "targets_that_cannot_be"))
def test_targets_that_cannot_be(url: str, secret: str, said: str) -> None:
    """Refused at once, with what is wrong: also secrets that are too short, or no base64."""
    with pytest.raises(SettingError, match=said):
        make_target(url, secret)


INSIDE = "10.0.0.1 169.254.169.254 127.0.0.1 ::1 192.168.1.1 ::ffff:10.0.0.1 fd00::1 0.0.0.0 224.0.0.1"


@pytest.mark.parametrize("address", [*INSIDE.split(), "93.184.216.34"])
def test_a_name_that_leads_inside_is_not_followed(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name may resolve to the private network: nothing connects there, nor to a second answer of the name server."""
    asked: list[Any] = []

    def connected(address: tuple[str, int], **_: Any) -> Any:
        asked.append(address)
        raise OSError("connected")

    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(2, 1, 6, "", (address, 443))])
    monkeypatch.setattr(socket, "create_connection", connected)
    public = address not in INSIDE.split()
    with pytest.raises(OSError) as caught:  # noqa: PT011 its kind is looked at below
        webhooks.post(make_target("https://example.com/hook", SECRET), "msg_1", b"{}", 1)
    assert isinstance(caught.value, PermissionError) is not public
    assert asked == [(address, 443)] * public


def alert(status: str = "firing", started: str = "2025-10-09T08:00:00.000Z", **labels: str) -> Alerts:
    one = {"status": status, "labels": {"alertname": "RagtraceQualityLow", **labels}, "startsAt": started}
    return Alerts.model_validate({"version": "4", "status": "firing", "alerts": [one]})


@pytest.fixture
def failing(store: Store) -> Store:
    """Two applications, two evaluators, failures of an hour and an old one."""
    apps = (Facts(app="help"), Facts(app="shop"))
    made = [evaluation(i, scored(good, 0.4 - i / 100), scored(bad, 0.1), facts=apps[i % 2]) for i in range(20)]
    made.append(evaluation(99, scored(good, 0.0), facts=apps[1], started=NOW - 200_000))
    store.write(made, [good, bad], now=NOW)
    return store


def test_an_alert_brings_its_worst_logs(failing: Store) -> None:
    """Recent ones of its application and evaluator, worst first, up to the limit; again, the next ones, none twice."""
    good_shop = alert(app="shop", evaluator="good")
    assert review_items_from_alert(failing, good_shop, NOW, limit=4) == 4
    rows = [row for row in queued(failing) if row.slot == 0]
    assert {row.reason for row in rows} == {"alert"}
    stored = [failing.get(row.trace_id) for row in rows]
    values = [score.value for s in stored for score in s.evaluation.scores if score.name == "good"]
    assert sorted(values) == pytest.approx([0.21, 0.23, 0.25, 0.27])
    assert {s.trace.facts.app for s in stored} == {"shop"}
    assert [review_items_from_alert(failing, good_shop, NOW, limit=4) for _ in range(3)] == [4, 2, 0]
    others = (alert(app="shop", evaluator="bad"), alert(app="nobody"), alert(app="help"))
    assert [review_items_from_alert(failing, other, NOW) for other in others] == [0, 0, 10]


def test_alerts_are_bounded_by_the_quota(failing: Store) -> None:
    """However many come in a day; resolved ones bring nothing."""
    policy = Policy(quota=5)
    assert review_items_from_alert(failing, alert(), NOW, policy=policy, limit=100) == 5
    assert review_items_from_alert(failing, alert(app="shop"), NOW, policy=policy) == 0
    assert review_items_from_alert(failing, alert("resolved", app="shop"), NOW + 86_400) == 0


def test_labels_are_data(failing: Store) -> None:
    """SQL in them, a time that is none: nothing happens."""
    payload = alert(started="yesterday", app="shop' OR 1=1 --", evaluator="'; DROP TABLE items; --")
    assert review_items_from_alert(failing, payload, NOW) == 0
    assert queued(failing) == []


def test_what_happens_is_told(failing: Store, receiver: Callable[..., Receiver], tmp_path: Path) -> None:
    """A review, bad feedback and a calibration are told without comments; a listener that fails does no harm."""
    there = receiver()
    hooks = Webhooks([make_target(there.url, SECRET)])
    notices.subscribe(failing, lambda *_: 1 / 0)
    notices.subscribe(failing, hooks.send)
    (ann,) = people(failing, "ann")
    trace = next(iter(ids(failing)))
    submit(failing, trace, review(trace, comment="secret"), ann, NOW)
    add_feedback(failing, Feedback(trace, -1, "secret"), NOW)
    add_feedback(failing, Feedback(trace, 1, "secret"), NOW)
    rows = [verdict(i, i / 60, "fail", "fail" if i < 30 else "pass") for i in range(60)]
    if importlib.util.find_spec("numpy") is not None:
        save(tmp_path / "c.json", [fit(rows, 0.9, "higher")], store=failing)
        until(lambda: len(there.got) == 3)
    until(lambda: len(there.got) >= 2)
    hooks.close()
    said = {event["type"]: event["data"] for event in (json.loads(body) for _, body in there.got)}
    assert said["review.submitted"]["verdicts"] == {"good": "fail"}
    assert said["review.submitted"]["trace_id"] == said["feedback.negative"]["trace_id"] == trace
    assert not any(b"secret" in body for _, body in there.got)
    assert set(said) <= {"review.submitted", "feedback.negative", "calibration.saved"}


def test_the_environment_names_targets() -> None:
    """Several, or none; a secret that is missing is an error, not an unsigned post."""
    assert webhooks.load_targets({}) == []
    name, urls = "RAGTRACE_CONSOLE_WEBHOOK", ["https://a.example/x", "https://b.example/y"]
    given = {f"{name}S": ", ".join(urls), f"{name}_SECRET": SECRET, f"{name}_CONTENT": "true"}
    assert [(t.url, t.content, t.private) for t in webhooks.load_targets(given)] == [(url, True, False) for url in urls]
    with pytest.raises(SettingError, match="secret"):
        webhooks.load_targets({f"{name}S": urls[0]})
