"""Runs work behind the application's back: a bounded queue, daemon worker threads, and one rule for forks.

The application's thread calls `put`, which never blocks and never raises. Worker threads take batches out of the queue.
Every loss is counted: `total = done + waiting + running + dropped` in each snapshot.

A forked child starts with an empty queue, zero counts and new locks: what waited belongs to the parent, and another
thread may have held any lock at the fork. A queue that was closed before the fork stays closed."""

import heapq
import math
import os
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable, Mapping, Set
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import Generic, Literal, NamedTuple, TypeVar

from ragtrace.errors import log_failure

Item = TypeVar("Item")
Loss = Literal["queue_full", "queue_bytes", "shutdown", "internal"]
"""Why an item was lost: too many or too large items waited, the queue was closed, or the work raised an exception."""


def after_fork(reset: Callable[[], None]) -> None:
    """Call the bound method `reset` once in each forked child, before other code runs there.

    Its object is referenced weakly, so the registration does not keep it alive. Does nothing on a system without fork.
    """
    if not hasattr(os, "register_at_fork"):
        return
    method = weakref.WeakMethod(reset)

    def reset_if_alive() -> None:
        if (live_method := method()) is not None:
            live_method()

    os.register_at_fork(after_in_child=reset_if_alive)


def step_aside() -> None:
    """Let other threads run: background work calls this between its pieces.

    A thread that computes holds the interpreter's lock for 5 ms at a time. An event loop lets go of the lock whenever
    it waits for its sockets, so without this each of its turns could take 5 ms longer."""
    time.sleep(0.0001)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a queue may hold, and when its workers take a batch."""

    items: int = 10_000
    """Most items that wait. A further one is lost as `queue_full`."""
    bytes: float = math.inf
    """Most bytes that wait. A further item is lost as `queue_bytes`, unless it is alone: otherwise an item that is
    larger than this bound could never be taken."""
    batch: int = 1
    """Most items in one call of the work."""
    wait: float = 0.0
    """Seconds that an item waits at most until a batch is full. With `math.inf` only a full batch, `flush`, `wake`,
    `close` or a due call (see `Background`) starts the work."""
    workers: int = 1
    """Worker threads."""
    drop_oldest: bool = False
    """Whether a full queue loses its oldest item instead of the new one."""


@dataclass(frozen=True, slots=True)
class QueueStats:
    """A snapshot of a queue. `total = done + waiting + running + sum(dropped.values())`."""

    total: int
    """Items given to `put`."""
    done: int
    waiting: int
    waiting_bytes: int
    running: int
    """Items that the work has been called with."""
    oldest_age: float
    """Seconds since the oldest waiting item was put; 0 if none waits."""
    dropped: Mapping[Loss, int]
    """Lost items by reason."""
    failures: int
    """Exceptions raised by the work, and threads that could not be started."""


class _Entry(NamedTuple):
    number: int
    """1 for the first item of this process, and so on."""
    item: object
    size: int
    since: float


class Background(Generic[Item]):
    """A bounded queue with daemon worker threads.

    `work` is called with a list of items, oldest first, in a worker thread. It may return the number of seconds after
    which it is called again even if nothing is put by then; the list is then empty. If it raises an exception, the
    items of this batch count as lost (`internal`), the first exception is logged, and the worker goes on.

    `lock` is the reentrant lock of all counts: hold it to change counts of your own in the same snapshot as `put`. It
    is reentrant because a finaliser may call `put` while its thread holds the lock."""

    def __init__(
        self,
        name: str,
        work: Callable[[list[Item]], float | None],
        bounds: Bounds | None = None,
        *,
        session: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        """`name` is the name of the threads. Each worker thread enters `session()` before its first batch and leaves it
        after its last one. Threads start with the first item, or with `start`."""
        self._name = name
        self._work = work
        self._bounds = bounds or Bounds()
        self._batch, self._workers = self._bounds.batch, self._bounds.workers
        self._session = session
        self._closed = False
        self._reset()
        after_fork(self._reset)

    def _reset(self) -> None:
        self.lock = threading.RLock()
        self._changed = threading.Condition(self.lock)
        self._queue: deque[_Entry] = deque()
        self._delayed: list[tuple[float, _Entry]] = []
        self._bytes = self._flushing = self._count = self._failures = 0
        self._wake_requested = self._failure_logged = False
        self._threads: list[threading.Thread] = []
        self._running: dict[int, tuple[int, int]] = {}  # by thread: number of the first item, count of items
        self._dropped: Counter[Loss] = Counter()

    # --- the application's thread ------------------------------------------------------------------------

    def put(self, item: Item, size: int = 0, *, delay: float = 0.0) -> Loss | None:
        """Queue an item of `size` bytes for `work`; None, or why an item was lost. Never blocks, never raises.

        The work gets it after `delay` seconds at the earliest; `close` ends the delay."""
        try:
            with self.lock:
                self._count += 1
                queue = self._queue
                waiting = len(queue) + len(self._delayed)
                loss = self._loss(waiting, size) if waiting or self._closed else None
                if loss is not None:
                    self._dropped[loss] += 1
                    if not self._bounds.drop_oldest or loss == "shutdown" or not queue:
                        return loss
                    self._bytes -= queue.popleft().size
                now = time.monotonic()
                entry = _Entry(self._count, item, size, now)
                self._bytes += size
                if delay:
                    heapq.heappush(self._delayed, (now + delay, entry))
                else:
                    queue.append(entry)
                if delay or len(queue) == 1 or len(queue) == self._batch:
                    self._changed.notify_all()
            if len(self._threads) < self._workers and not self.lock._is_owned():  # type: ignore[attr-defined]
                self._start_threads()
            return loss
        except Exception:  # noqa: BLE001 the application's thread must not fail because of the queue
            self._failures += 1
            return "internal"

    def _loss(self, waiting: int, size: int) -> Loss | None:
        if self._closed:
            return "shutdown"
        if waiting >= self._bounds.items:
            return "queue_full"
        if self._bytes + size > self._bounds.bytes:
            return "queue_bytes"
        return None

    def wake(self) -> None:
        """Have the work called soon, even with an empty list. Never blocks, never raises."""
        with self.lock:
            if self._closed or self._wake_requested:
                return
            self._wake_requested = True
            self._changed.notify_all()
        self._start_threads()

    def start(self) -> None:
        """Start the worker threads now, so that the first item does not wait; also after a `put` under `lock`."""
        if not self._closed and len(self._threads) < self._workers:
            self._start_threads()

    def _start_threads(self) -> None:
        """Start what is missing. Not under a lock: meanwhile finalizers may `put`, and a signal's handler may wait."""
        with self.lock:
            numbers = range(len(self._threads), self._workers)
            threads = [threading.Thread(target=self._run, name=self._name, daemon=True) for _ in numbers]
            self._threads += threads
        for thread in threads:
            try:
                thread.start()
            except RuntimeError:  # no further thread at present; the next item tries again
                with self.lock, suppress(ValueError):
                    self._failures += 1
                    self._threads.remove(thread)

    # --- the worker threads ------------------------------------------------------------------------------

    def _run(self) -> None:
        lock = self.lock  # differs in a child that `work` has forked: there this thread has nothing left to do
        due = math.inf
        try:
            with self._session():
                while lock is self.lock and (batch := self._next_batch(due)) is not None:
                    due = time.monotonic() + self._run_batch(batch, lock)
                    del batch  # while this thread waits for the next one, it keeps nothing of it alive
        except Exception:  # noqa: BLE001 the session failed; the next item starts another thread
            self._report_failure("cannot start or end its session", lock)
        finally:
            with lock, suppress(ValueError):
                self._threads.remove(threading.current_thread())

    def _next_batch(self, due: float) -> list[_Entry] | None:
        """Wait for the next batch. It is empty when the work is due or `wake` was called. None after `close`."""
        with self._changed:
            while True:
                now = time.monotonic()
                while self._delayed and (self._closed or self._delayed[0][0] <= now):
                    self._queue.append(heapq.heappop(self._delayed)[1])
                if self._wake_requested or self._is_batch_ready(now):
                    break
                if self._closed:
                    return None
                if now >= due:
                    break
                self._changed.wait(self._seconds_to_wait(now, due))
            self._wake_requested = False
            batch = [self._queue.popleft() for _ in range(min(self._batch, len(self._queue)))]
            self._bytes -= sum(entry.size for entry in batch)
            self._running[threading.get_ident()] = (batch[0].number if batch else self._count, len(batch))
            return batch

    def _is_batch_ready(self, now: float) -> bool:
        if not self._queue or len(self._queue) >= self._batch:
            return bool(self._queue)
        return self._closed or self._flushing > 0 or now >= self._queue[0].since + self._bounds.wait

    def _seconds_to_wait(self, now: float, due: float) -> float | None:
        moment = min(due, self._queue[0].since + self._bounds.wait) if self._queue else due
        moment = min(moment, self._delayed[0][0]) if self._delayed else moment
        return None if moment == math.inf else moment - now

    def _run_batch(self, batch: list[_Entry], lock: threading.RLock) -> float:
        """Call the work; seconds until it is to be called again although nothing was put."""
        seconds = None
        loss: Loss | None = None
        try:
            seconds = self._work([entry.item for entry in batch])  # type: ignore[misc]  # `put` took them as Item
        except BaseException:  # noqa: BLE001 also SystemExit: a worker that ends would take all later items with it
            loss = "internal"
            self._report_failure(f"failed, and {len(batch)} items were lost", lock)
        with lock:
            if lock is self.lock:
                _, unsettled = self._running.pop(threading.get_ident(), (0, 0))
                if loss is not None:
                    self._dropped[loss] += unsettled
                if self._flushing:
                    self._changed.notify_all()
        return math.inf if seconds is None else seconds

    def settle(self, count: int, loss: Loss | None = None, *, thread: int | None = None) -> None:
        """Count so many items of the batch with which the work is called in this thread (the current one by default) as
        done or lost, before the work returns: then only the others are done or lost with it."""
        with self.lock:
            thread = threading.get_ident() if thread is None else thread
            number, unsettled = self._running.get(thread, (0, 0))
            if count := min(count, unsettled):
                self._running[thread] = (number, unsettled - count)
                self._dropped.update([loss] * count if loss else [])

    def _report_failure(self, what: str, lock: threading.RLock) -> None:
        with lock:
            self._failures += 1
            first, self._failure_logged = not self._failure_logged, True
        if first:
            log_failure(__name__, "The thread %s %s. More failures are only counted.", self._name, what, is_error=True)

    def pause(self, seconds: float) -> bool:
        """Wait in the work before a further try. Returns True at once when the queue is closed."""
        with self._changed:
            return self._changed.wait_for(lambda: self._closed, seconds)

    # --- control -----------------------------------------------------------------------------------------

    def flush(self, timeout: float = 10.0) -> bool:
        """Wait until everything that was put before this call is done or lost; False after `timeout` seconds."""
        if self.waiting or self._wake_requested:
            self._start_threads()
        with self._changed:
            last = self._count
            self._flushing += 1
            self._changed.notify_all()
            try:
                return self._changed.wait_for(lambda: not self._is_pending(last), timeout)
            finally:
                self._flushing -= 1

    def _is_pending(self, last: int) -> bool:
        """Whether an item up to number `last`, or a call that `wake` requested, is not done."""
        if self._wake_requested or (self._queue and self._queue[0].number <= last):
            return True
        numbers = [number for number, _ in self._running.values()] + [entry.number for _, entry in self._delayed]
        return min(numbers, default=math.inf) <= last

    def take(self) -> list[Item]:
        """Take the items that wait, oldest first. The caller does their work itself; they count as done."""
        with self._changed:
            entries = list(self._queue)
            self._queue.clear()
            self._bytes -= sum(entry.size for entry in entries)
            self._changed.notify_all()
        return [entry.item for entry in entries]  # type: ignore[misc]  # `put` took them as Item

    def close(self, timeout: float = 5.0) -> list[Item]:
        """Take no further items, give the work what waits for up to `timeout` seconds, and end the threads.

        Returns the items that the work did not get; they count as lost (`shutdown`). Safe to call twice."""
        deadline = time.monotonic() + timeout
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            threads = list(self._threads)
        if threads:
            self.flush(timeout)
        with self._changed:
            entries = [*self._queue, *(entry for _, entry in sorted(self._delayed))]
            self._queue.clear()
            self._delayed.clear()
            self._bytes = 0
            self._wake_requested = False
            if entries:
                self._dropped["shutdown"] += len(entries)
            self._changed.notify_all()
        for thread in threads:
            if thread is not threading.current_thread() and thread.ident is not None:
                thread.join(max(0.0, deadline - time.monotonic()))
        return [entry.item for entry in entries]  # type: ignore[misc]  # `put` took them as Item

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    @property
    def waiting(self) -> int:
        """Items that wait, those with a delay included."""
        return len(self._queue) + len(self._delayed)

    @property
    def running(self) -> int:
        """Items that the work has been called with and that are not done."""
        return sum(count for _, count in self._running.values())

    @property
    def running_threads(self) -> frozenset[int]:
        """The identifiers of the threads in which the work is called."""
        return frozenset(self._running)

    def wait_for(self, threads: Set[int], timeout: float) -> bool:
        """Wait until the work is called in none of these threads; False after `timeout` seconds."""
        with self._changed:
            self._flushing += 1  # they notify
            try:
                return self._changed.wait_for(lambda: not threads & self._running.keys(), timeout)
            finally:
                self._flushing -= 1

    def stats(self) -> QueueStats:
        """The counts of this process, from one snapshot."""
        with self.lock:
            return QueueStats(
                total=self._count, done=self._count - self.waiting - self.running - sum(self._dropped.values()),
                waiting=self.waiting, waiting_bytes=self._bytes, running=self.running,
                oldest_age=time.monotonic() - self._queue[0].since if self._queue else 0.0,
                dropped=dict(self._dropped), failures=self._failures,
            )  # fmt: skip
