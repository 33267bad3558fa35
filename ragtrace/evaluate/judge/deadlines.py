"""Deadlines, and threads around a call that blocks: one that ends in time, and many side by side."""

import contextlib
import contextvars
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

T = TypeVar("T")
U = TypeVar("U")

_deadline: contextvars.ContextVar[float | None] = contextvars.ContextVar("ragtrace_judge_deadline", default=None)


@contextlib.contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """What runs in this context, with the threads of `within` and `gather`, is wanted within so many seconds. A
    deadline that an outer context has set stays."""
    outer = _deadline.get()
    token = _deadline.set(time.monotonic() + seconds if outer is None else outer)
    try:
        yield
    finally:
        _deadline.reset(token)


def remaining() -> float | None:
    """Seconds until the deadline; None without one."""
    end = _deadline.get()
    return None if end is None else end - time.monotonic()


def within(seconds: float, call: Callable[[], T]) -> T:
    """The call's result. Raises TimeoutError after so many seconds: a server that sends a byte now and then keeps a
    reader's own timeout from ever ending it."""
    results: list[Any] = []
    context = contextvars.copy_context()

    def work() -> None:
        try:
            results.append((True, context.run(call)))
        except BaseException as error:  # noqa: BLE001 raised again in the caller's thread
            results.append((False, error))

    thread = threading.Thread(target=work, name="ragtrace-judge", daemon=True)
    thread.start()
    thread.join(seconds)
    if not results:
        raise TimeoutError(f"no answer in {seconds:g} s")
    good, value = results[0]
    if good:
        return value  # type: ignore[no-any-return]
    raise value


def gather(call: Callable[[T], U], items: Sequence[T], limit: int) -> list[U]:
    """`call` of every item, at most `limit` at a time, in order. `call` must not raise. The threads are daemons: an
    exiting program does not wait for a judge."""
    if len(items) <= 1 or limit <= 1:
        return [call(item) for item in items]
    results: dict[int, U] = {}
    waiting = iter(range(len(items)))
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                i = next(waiting, None)
            if i is None:
                return
            results[i] = call(items[i])

    contexts = [contextvars.copy_context() for _ in range(min(limit, len(items)))]
    threads = [threading.Thread(target=context.run, args=(work,), daemon=True) for context in contexts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [results[i] for i in range(len(items))]
