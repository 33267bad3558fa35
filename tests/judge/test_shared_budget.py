"""One budget for processes of many machines, on a real Redis server."""

import contextlib
import json
import logging
import multiprocessing
import os
import random
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

from ragtrace import settings
from ragtrace.errors import SettingError
from ragtrace.evaluate.judge import Judge, JudgeError
from ragtrace.evaluate.judge.budget import NANO, BudgetError, Reservation
from ragtrace.evaluate.judge.ledger import Ledger
from ragtrace.evaluate.judge.shared_budget import SharedBudget
from ragtrace.evaluation import configure, run
from ragtrace.live import doctor
from ragtrace.plugins import load
from ragtrace.testing import Capture, make_trace
from tests.judge import server as s
from tests.judge.test_judge import PROMPT
from tests.judge.test_online import online
from tests.redis_server import RedisServer

redis = pytest.importorskip("redis", reason="redis is not installed: pip install 'ragtrace-otel[judge]'")

CENT = NANO // 100


def ledger(url: str, limit: float = 1.0, **own: Any) -> Ledger:
    """A ledger whose spending is in the Redis server, with the same limit for an hour and a day."""
    return Ledger(hour=limit, day=limit, shared=SharedBudget(url, hour=limit, day=limit, **{"retry": 0.0, **own}))


def spend_all(book: Ledger, nano: int = CENT) -> list[Reservation]:
    """The reservations until there is no room."""
    taken = []
    with contextlib.suppress(BudgetError):
        while True:
            taken.append(book.reserve(nano, 60.0))
    return taken


def stored(server: RedisServer) -> dict[str, str]:
    """The fields of the one key in the server."""
    with redis.Redis.from_url(server.url, decode_responses=True) as client:
        fields: dict[str, str] = client.hgetall(*client.keys())
    return fields


PROCESSES = 8


def _ask(url: str, judge_url: str, number: int) -> None:
    options = {
        "judge_model": "openai/judge", "judge_api_base": judge_url, "judge_ledger": url, "judge_budget_hour": 2.0,
        "judge_budget_day": 2.0, "model_prices": ["openai/judge=0/300"], "judge_max_tokens": 200, "judge_timeout": 90.0,
    }  # fmt: skip
    judge = Judge(settings.load(options, environ={}))
    for i in range(30):
        try:
            judge.ask(PROMPT, {"answer": f"{number} {i}"})
        except JudgeError as error:
            if error.reason == "judge_budget":
                break


@pytest.mark.long
def test_eight_processes_and_a_judge_that_fails(redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """For 2 dollars eight processes ask a failing judge, for 4.80: it counts 1.90 to 2.00, as the server does."""
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    lock, dice, paid = threading.Lock(), random.Random(7), [0]

    def behaviour(handler: Any, body: Any) -> None:
        with lock:
            fails = dice.random() < 1 / 3
            tokens = dice.randint(50, 150)
            paid[0] += 0 if fails else tokens
        (s.status(500) if fails else s.says('{"verdict": true}', tokens=(10, tokens)))(handler, body)

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["litellm", "redis"])
    with s.serving(behaviour) as served:
        processes = [context.Process(target=_ask, args=(redis_server.url, served.url, n)) for n in range(PROCESSES)]
        for process in processes:
            process.start()
        for process in processes:
            process.join(110)
    assert [process.exitcode for process in processes] == [0] * PROCESSES
    spent = paid[0] * 300e-6
    assert 1.90 <= spent <= 2.00
    # The day, because an hour may begin while they ask.
    assert ledger(redis_server.url, limit=2.0).spent("day") == pytest.approx(spent)


def _hold(url: str, reserved: Any) -> None:
    ledger(url, margin=0.0).reserve(90 * CENT, 1.0)
    reserved.set()
    signal.pause()


@pytest.mark.process
def test_a_killed_workers_reservation_returns(redis_server: RedisServer) -> None:
    """It is there again when the killed process' request must have ended; a question that waits gets it."""
    context = multiprocessing.get_context("spawn")
    reserved = context.Event()
    holder = context.Process(target=_hold, args=(redis_server.url, reserved))
    holder.start()
    assert reserved.wait(60)
    os.kill(holder.pid or 0, signal.SIGKILL)
    holder.join()
    book = ledger(redis_server.url)
    with pytest.raises(BudgetError) as caught:
        book.reserve(NANO + 1, 1.0)
    assert not caught.value.may_pass
    book.reserve(90 * CENT, 1.0, patience=60.0)
    assert book.spent("hour") == pytest.approx(0.9)


def test_windows_limits_and_settlements(redis_server: RedisServer) -> None:
    """The cost replaces the reservation; hour and day are counted in one key; two names are two budgets."""
    book, other = ledger(redis_server.url), ledger(f"{redis_server.url}#other")
    reserved = book.reserve(50 * CENT, 60.0)
    with pytest.raises(BudgetError, match="of 1 US dollars a hour is used up") as caught:
        ledger(redis_server.url).reserve(60 * CENT, 60.0)
    assert caught.value.may_pass
    ledger(redis_server.url).settle(reserved, 10 * CENT)
    assert (book.spent("hour"), book.spent("day")) == (0.1, 0.1)
    book.settle(ledger(redis_server.url).reserve(60 * CENT, 60.0), 60 * CENT)
    assert book.spent("hour") == 0.7
    assert len(stored(redis_server)) == 2
    assert other.spent("hour") == 0.0
    assert ledger(redis_server.url, limit=float("inf")).reserve(500 * NANO, 1.0).nano == 500 * NANO


def test_a_redelivered_trace_reserves_once(redis_server: RedisServer) -> None:
    """The same id takes the open one's place, also without room; the first settlement still counts: it was spent."""
    book = ledger(redis_server.url)
    first = book.reserve(60 * CENT, 60.0, id="score")
    second = ledger(redis_server.url).reserve(60 * CENT, 60.0, id="score")
    assert book.spent("hour") == 0.6
    book.settle(second, 20 * CENT)
    book.settle(first, 30 * CENT)
    assert book.spent("hour") == 0.5


def test_the_id_is_that_of_the_score(redis_server: RedisServer, judging: Callable[..., Judge]) -> None:
    """It follows from trace, evaluator and question: another trace with the same texts has another one."""
    ids = []

    def behaviour(handler: Any, body: Any) -> None:
        ids.extend(field for field in stored(redis_server) if field.startswith("open:"))
        s.status(500)(handler, body)

    with s.serving(behaviour) as served:
        judge = judging(served.url, judge_ledger=redis_server.url, retries=0)
        check = configure(load("faithfulness_judge"), judge._settings)
        for trace_id in (1, 1, 2):
            run(check, [make_trace(trace_id=trace_id)])
    # Each question is asked three times: with a schema, for an object, and without a form.
    assert len(ids) == 9
    assert len(set(ids[:6])) == len(set(ids[6:])) == 1
    assert ids[0] != ids[8]


def test_old_windows_and_reservations_are_removed(redis_server: RedisServer) -> None:
    """The first request of an hour removes sums of days ago and reservations that nobody settled."""
    book = ledger(redis_server.url)
    book.reserve(CENT, 60.0)
    (hour,) = (field for field in stored(redis_server) if field.startswith("hour:"))
    never_settled = json.dumps({"owner": "y", "nano": 5, "expires": 1.0, "fields": ["hour:3600"]})
    with redis.Redis.from_url(redis_server.url, decode_responses=True) as client:
        (key,) = client.keys()
        client.hdel(key, hour)
        client.hset(key, mapping={"hour:3600": 5, "day:0": 5, "open:x": never_settled})
    ledger(redis_server.url).reserve(CENT, 60.0)
    fields = stored(redis_server)
    assert {field.partition(":")[0] for field in fields} == {"hour", "day", "open"}
    assert len(fields) == 4
    assert fields[hour] == str(CENT)


def test_without_the_store_nothing_is_spent(redis_server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    """While the server is away no request is paid for, and the last sum is known; it is asked again when back."""
    book = ledger(redis_server.url)
    book.settle(book.reserve(40 * CENT, 60.0), 40 * CENT)
    redis_server.kill()
    with caplog.at_level(logging.INFO, logger="ragtrace"):
        with pytest.raises(BudgetError, match="does not answer"):
            book.reserve(CENT, 60.0)
        assert book.spent("hour") == pytest.approx(0.4)
        assert book.reserve(0, 1.0).nano == 0
        redis_server.start()
        assert book.reserve(CENT, 60.0).nano == CENT
    assert [r.levelname for r in caplog.records] == ["WARNING", "INFO"]
    assert str(redis_server.port) in caplog.messages[0]


def test_settlements_wait_for_the_store(redis_server: RedisServer) -> None:
    """A request that ends while the server is away is settled when it is back; the server kept the reservation."""
    book = ledger(redis_server.url)
    reserved = book.reserve(50 * CENT, 60.0)
    redis_server.kill()
    book.settle(reserved, 5 * CENT)
    redis_server.start()
    assert ledger(redis_server.url).spent("hour") == 0.5
    assert book.spent("hour") == 0.05


def test_a_store_that_lost_its_data(redis_server: RedisServer) -> None:
    """It learns from the next process what had been spent: the budget does not begin anew."""
    book = ledger(redis_server.url)
    book.settle(book.reserve(90 * CENT, 60.0), 90 * CENT)
    redis_server.kill()
    redis_server.lose_data()
    redis_server.start()
    assert len(spend_all(book, 5 * CENT)) == 2
    assert spend_all(ledger(redis_server.url), 5 * CENT) == []


def test_a_key_of_another_kind_is_no_free_budget(redis_server: RedisServer) -> None:
    """Where the server answers with an error, that is a store that cannot be used: nothing is spent."""
    with redis.Redis.from_url(redis_server.url) as client:
        client.set("ragtrace:judge-budget:judge", "text")
    assert spend_all(ledger(redis_server.url)) == []


@pytest.mark.parametrize("url", ["http://:secret@host", "host:6379", "redis://", "redis:///0#x"])
def test_addresses_that_are_none(url: str, judging: Callable[..., Judge]) -> None:
    """An address of another kind is a SettingError that names the setting and does not quote a password."""
    with pytest.raises(SettingError, match="judge_ledger") as caught:
        judging("http://x", judge_ledger=url)
    assert "secret" not in str(caught.value)


def test_the_evaluating_processes_of_two_runtimes_share_it(redis_server: RedisServer) -> None:
    """Two runtimes of `ragtrace.init` with money for three scores have three between them."""
    captures = [Capture(), Capture()]
    with s.serving(s.says('{"claims": [{"claim": "a", "verdict": "supported"}]}', tokens=(100, 100))) as served:
        for number, capture in enumerate(captures):
            runtime = online(
                served.url, capture, evaluators=["faithfulness_judge"], judge_budget_hour=0.00035,
                judge_ledger=redis_server.url, judge_concurrency=1,
            )  # fmt: skip
            for i in range(2):
                runtime.pipeline.submit(make_trace(trace_id=2 * number + i + 1, query=f"Question {number} {i}?"))
            assert runtime.flush(100.0)
            runtime.close(1.0)
    errors = [score.error for capture in captures for e in capture.evaluations for score in e.scores]
    assert errors == [None, None, None, "judge_budget"]


def test_the_doctor_asks_the_server(redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """`ragtrace doctor` says whether the server of the budget answers, and shows no password."""
    monkeypatch.setenv("RAGTRACE_JUDGE_LEDGER", redis_server.url.replace("//", "//:secret@"))
    with_server = next(each for each in doctor.examine() if each.what == "judge_ledger")
    redis_server.kill()
    without = next(each for each in doctor.examine() if each.what == "judge_ledger")
    assert (with_server.state, without.state) == ("ok", "wrong")
    assert "is not asked" in without.detail
    assert "secret" not in with_server.detail + without.detail
