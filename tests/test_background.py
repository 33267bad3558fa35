"""The bounded queue with worker threads: nothing is lost without being counted, and a forked child starts empty."""

import gc
import logging
import math
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import pytest

from ragtrace.base.background import Background, Bounds, after_fork
from tests.waiting import in_fork, until

FULL_BATCHES = Bounds(batch=4, wait=math.inf)
forking = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
Make = Callable[..., Background[Any]]


@pytest.fixture
def make() -> Iterator[Make]:
    with ExitStack() as queues:
        yield lambda work, *bounds, **more: queues.enter_context(closing(Background("test", work, *bounds, **more)))


class Blocked:
    """Work that waits until the test releases it, and keeps its batches."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.started = threading.Event()
        self.release = threading.Event()

    def __call__(self, batch: list[int]) -> None:
        self.started.set()
        self.release.wait(60)
        self.batches.append(batch)


def test_a_thread_is_started_outside_of_the_lock(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new thread may run finalizers before it says that it has started, and these may put something."""
    queue = make(lambda batch: None)
    start = threading.Thread.start

    def started(thread: threading.Thread) -> None:
        helper = threading.Thread(target=queue.put, args=(2,))
        start(helper)
        helper.join(5)
        assert not helper.is_alive()
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", started)
    assert queue.put(1) is None
    assert queue.flush(60)
    assert queue.stats().done == 2


def test_a_caller_takes_what_waits(make: Make) -> None:
    batches: list[list[int]] = []
    queue = make(batches.append, FULL_BATCHES)
    for i in range(3):
        queue.put(i, 10)
    assert queue.take() == [0, 1, 2]
    assert (queue.stats().done, queue.stats().waiting, queue.stats().waiting_bytes) == (3, 0, 0)
    queue.put(3)
    assert queue.flush(60)
    assert batches == [[3]]


def test_items_come_in_order_and_in_another_thread(make: Make) -> None:
    """The work gets every item once, oldest first, in a daemon thread of the given name; close waits for them."""
    items: list[int] = []
    threads: set[threading.Thread] = set()

    def work(batch: list[int]) -> None:
        items.extend(batch)
        threads.add(threading.current_thread())

    queue = make(work, Bounds(batch=7, wait=math.inf))
    for i in range(100):
        assert queue.put(i) is None
    assert queue.close() == []
    assert items == list(range(100))
    assert [(thread.name, thread.daemon, thread.is_alive()) for thread in threads] == [("test", True, False)]


def test_a_full_batch_starts_the_work_and_flush_starts_a_partial_one(make: Make) -> None:
    batches: list[list[int]] = []
    queue = make(batches.append, FULL_BATCHES)
    for i in range(6):
        queue.put(i)
    until(lambda: batches)
    assert batches == [[0, 1, 2, 3]]
    assert queue.flush()
    assert batches == [[0, 1, 2, 3], [4, 5]]


def test_several_workers_share_the_items(make: Make) -> None:
    sessions: list[str] = []

    @contextmanager
    def session() -> Iterator[None]:
        sessions.append("entered")
        yield
        sessions.append("left")

    both = threading.Barrier(2, timeout=30)

    def work(batch: list[int]) -> None:
        both.wait()

    queue = make(work, Bounds(workers=2), session=session)
    queue.put(1)
    queue.put(2)
    assert queue.flush(60)
    assert queue.stats().failures == 0
    queue.close()
    assert sessions == ["entered", "entered", "left", "left"]


def test_the_work_is_called_again_when_it_is_due(make: Make) -> None:
    """The work says after how many seconds it is to be called although nothing was put; then its list is empty."""
    batches: list[list[int]] = []

    def work(batch: list[int]) -> float | None:
        batches.append(batch)
        return 0.01 if len(batches) == 1 else None

    queue = make(work)
    queue.put(1)
    until(lambda: len(batches) == 2)
    assert batches == [[1], []]
    queue.wake()  # somebody may ask for a call, too; flush waits for it
    assert queue.flush()
    assert batches == [[1], [], []]


def test_a_delayed_item_comes_later_and_closing_ends_its_delay(make: Make) -> None:
    """An item with a delay is overtaken by others, counts as waiting, and is worked on before close returns."""
    items: list[str] = []
    queue = make(items.extend)
    queue.put("in an hour", delay=3_600)
    queue.put("now")
    until(lambda: items)  # without a flush
    queue.put("soon", delay=0.02)
    assert not queue.flush(0.5)
    assert items == ["now", "soon"]
    assert queue.stats().waiting == 1
    assert queue.close() == []
    assert items == ["now", "soon", "in an hour"]


@pytest.mark.parametrize(
    ("bounds", "loss"), [(Bounds(items=3), "queue_full"), (Bounds(bytes=30), "queue_bytes")], ids=["items", "bytes"]
)
def test_a_full_queue_refuses_and_never_blocks(make: Make, bounds: Bounds, loss: str) -> None:
    work = Blocked()
    queue = make(work, bounds)
    queue.put(0, size=10)
    assert work.started.wait(60)
    assert [queue.put(i, size=10) for i in range(1, 6)] == [None, None, None, loss, loss]
    stats = queue.stats()
    assert (stats.total, stats.waiting, stats.waiting_bytes, stats.running, stats.dropped) == (6, 3, 30, 1, {loss: 2})
    work.release.set()
    assert queue.flush()
    assert work.batches == [[0], [1], [2], [3]]
    assert queue.stats().done == 4


def test_an_item_larger_than_the_bound_is_taken_alone(make: Make) -> None:
    """The byte bound delays a giant until nothing else waits; it does not make it impossible."""
    sizes: list[int] = []
    queue = make(sizes.extend, Bounds(bytes=10))
    assert queue.put(1_000, size=1_000) is None
    assert queue.flush()
    assert sizes == [1_000]


def test_a_full_queue_may_lose_its_oldest_item(make: Make) -> None:
    work = Blocked()
    queue = make(work, Bounds(items=2, drop_oldest=True))
    queue.put(0)
    assert work.started.wait(60)
    assert [queue.put(i) for i in range(1, 5)] == [None, None, "queue_full", "queue_full"]
    work.release.set()
    assert queue.flush()
    assert work.batches == [[0], [3], [4]]
    assert queue.stats().dropped == {"queue_full": 2}


def test_many_threads_lose_nothing(make: Make) -> None:
    queue = make(lambda batch: None, Bounds(items=50, batch=8, workers=2))

    def put_many() -> None:
        for i in range(500):
            queue.put(i)

    threads = [threading.Thread(target=put_many) for _ in range(10)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        stats = queue.stats()
        assert stats.total == stats.done + stats.waiting + stats.running + sum(stats.dropped.values())
        assert stats.done >= 0
    assert queue.flush()
    stats = queue.stats()
    assert (stats.total, stats.done + stats.dropped.get("queue_full", 0)) == (5_000, 5_000)


def test_work_that_fails_is_counted_logged_once_and_goes_on(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    items: list[int] = []

    def work(batch: list[int]) -> None:
        if batch[0] < 3:
            raise ValueError("for the test")
        items.extend(batch)

    queue = make(work)
    with caplog.at_level(logging.ERROR):
        for i in range(5):
            queue.put(i)
        assert queue.flush()
    assert items == [3, 4]
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    stats = queue.stats()
    assert (stats.failures, stats.dropped, stats.done) == (3, {"internal": 3}, 2)


def test_a_batch_may_be_settled_in_parts(make: Make) -> None:
    """What the work, or another thread for it, has counted as done or lost is not counted again at its end."""
    release = threading.Event()
    threads: list[int] = []

    def work(batch: list[int]) -> None:
        queue.settle(1)
        threads.append(threading.get_ident())
        release.wait(30)
        raise ValueError("for the test")

    queue = make(work, FULL_BATCHES)
    for i in range(4):
        queue.put(i)
    until(lambda: threads)
    queue.settle(2, "shutdown", thread=threads[0])
    stats = queue.stats()
    assert (stats.done, stats.running, stats.dropped) == (1, 1, {"shutdown": 2})
    release.set()
    assert queue.flush(60)
    stats = queue.stats()
    assert (stats.done, stats.running, stats.dropped) == (1, 0, {"shutdown": 2, "internal": 1})
    queue.settle(5, "shutdown", thread=threads[0])  # nothing runs there
    assert queue.stats() == stats


def test_a_session_that_fails_is_counted_and_tried_again(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    attempts: list[int] = []
    items: list[int] = []

    @contextmanager
    def session() -> Iterator[None]:
        attempts.append(1)
        if len(attempts) == 1:
            raise OSError("for the test")
        yield

    queue = make(items.extend, session=session)
    queue.put(1)
    until(lambda: caplog.records and not queue._threads)
    queue.put(2)
    assert queue.flush()
    assert items == [1, 2]


def test_close_returns_what_there_was_no_time_for_and_can_be_called_again(make: Make) -> None:
    work = Blocked()
    queue = make(work)
    for i in range(3):
        queue.put(i)
    assert work.started.wait(60)
    assert queue.close(0.01) == [1, 2]
    assert queue.put(3) == "shutdown"
    assert queue.close(0.01) == []
    work.release.set()
    assert queue.flush()
    assert work.batches == [[0]]
    assert queue.stats().dropped == {"shutdown": 3}


def test_a_pause_between_two_tries_ends_with_close(make: Make) -> None:
    """Work that waits for a database is not waited for: close wakes it, and it makes its last try."""
    tries: list[bool] = []
    started = threading.Event()

    def work(batch: list[int]) -> None:
        started.set()
        while not tries or not tries[-1]:
            tries.append(queue.pause(3_600))

    queue = make(work)
    queue.put(1)
    assert started.wait(60)
    assert queue.close() == []
    assert tries == [True]


def test_flush_is_not_kept_by_what_comes_later(make: Make) -> None:
    first = threading.Event()
    held = threading.Event()

    def work(batch: list[int]) -> None:
        (first if batch[0] == 0 else held).wait(60)

    queue = make(work)
    queue.put(0)
    result: list[bool] = []
    flushing = threading.Thread(target=lambda: result.append(queue.flush(30)))
    flushing.start()
    until(lambda: queue._flushing)
    queue.put(1)
    first.set()
    flushing.join(30)
    assert result == [True]
    held.set()


@pytest.mark.process
@forking
def test_a_lock_that_another_thread_held_at_the_fork_is_free_in_the_child(make: Make) -> None:
    """A child never inherits a lock that nobody in it can release."""
    queue = make(lambda batch: None)
    holding, release = threading.Event(), threading.Event()

    def hold() -> None:
        with queue.lock:
            holding.set()
            release.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    assert holding.wait(60)
    try:
        in_fork(lambda: queue.put(1) is None and queue.flush(30))
    finally:
        release.set()
        holder.join()


@pytest.mark.process
@forking
def test_a_fork_inside_the_work_leaves_the_parents_items_alone(make: Make) -> None:
    """The thread that forks goes on in the child, too; there it takes nothing more and counts nothing."""
    codes: list[int] = []
    parent = os.getpid()

    def work(batch: list[int]) -> None:
        if os.getpid() != parent:
            return  # the child's own thread, with the child's item
        in_fork(lambda: queue.stats().total == 0 and queue.put(5) is None)
        codes.append(0)

    queue = make(work)
    queue.put(1)
    queue.put(2)
    assert queue.flush(60)
    assert codes == [0, 0]
    assert queue.stats().done == 2


@pytest.mark.process
@forking
def test_a_queue_that_was_closed_stays_closed_in_a_child(make: Make) -> None:
    """A child of an application that has ended ragtrace does not start it again."""
    queue = make(lambda batch: None, Bounds())
    queue.close()
    in_fork(lambda: queue.put(1) == "shutdown")


@pytest.mark.process
@forking
def test_the_fork_rule_runs_once_and_only_in_the_child() -> None:
    class Counting:
        def __init__(self) -> None:
            self.resets = 0
            after_fork(self.reset)

        def reset(self) -> None:
            self.resets += 1

    counting = Counting()
    in_fork(lambda: counting.resets == 1 and in_fork(lambda: counting.resets == 2) is None)
    assert counting.resets == 0


@pytest.mark.process
@forking
def test_the_fork_rule_keeps_nothing_alive() -> None:
    queue = Background("test", lambda batch: None, Bounds())
    reference = weakref.ref(queue)
    del queue
    gc.collect()
    assert reference() is None
    in_fork(lambda: True)
