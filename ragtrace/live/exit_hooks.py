"""Closes the runtime at the end of its process, in whatever way the process ends."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from functools import cache, partial
from multiprocessing import process, util
from typing import TYPE_CHECKING, Any

from ragtrace.live import runtime as running

if TYPE_CHECKING:
    from ragtrace.live.runtime import Runtime

_log = logging.getLogger(__name__)
_SIGNALS = [signal.SIGTERM, signal.SIGHUP]
_has_warned = False
_process_id = 0  # whose handlers were looked at last
_has_begun = False  # to handle a signal
_wakeup = -1  # into which Python writes the number of each signal, see `_repeat_signals`
_forking = threading.local()
_FIRST = 1_000
"""Priority among what multiprocessing does at the end of a child: before its queues are closed."""


def install(runtime: Runtime) -> None:
    """Close it at the end of this process and of the children that are forked from it, be it by a signal."""
    atexit.register(runtime.close_at_exit)
    # Children of multiprocessing end by os._exit, without atexit, and forget the finalizers of their parent.
    util.register_after_fork(runtime, _close_with_child)
    if process.parent_process() is not None:
        _close_with_child(runtime)  # `init` was called in such a child, e.g. by the initializer of a pool
    _close_with_celery()
    _close_at_signals()
    _keep_signals()


@cache
def _keep_signals() -> None:
    """Have signals wait during a fork. Python forgets one that reaches the child before the hooks of the fork have run,
    and a pool that was terminated so early would wait for this child for ever."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_hold, after_in_parent=_release, after_in_child=_start_child)


def _hold() -> None:
    _forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)


def _release() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _forking.mask)


def _start_child() -> None:
    _release()
    if _wakeup != -1 and (other := signal.set_wakeup_fd(-1)) != _wakeup:
        signal.set_wakeup_fd(other)


def _close_with_child(runtime: Runtime) -> None:
    util.Finalize(None, runtime.close_at_exit, exitpriority=_FIRST)
    with contextlib.suppress(ValueError):  # only the main thread may
        _repeat_signals()


def _repeat_signals() -> None:
    """Send a signal again until its handler has begun: Python calls handlers between two instructions of the main
    thread. If one arrives just before a wait for a lock, a pool that terminates this child would wait for ever."""
    global _wakeup
    if (other := signal.set_wakeup_fd(-1)) != -1:
        signal.set_wakeup_fd(other)  # an event loop's
        return
    reader, _wakeup = os.pipe()
    os.set_blocking(_wakeup, False)
    signal.set_wakeup_fd(_wakeup, warn_on_full_buffer=False)
    threading.Thread(target=_send_again, args=(reader,), name="ragtrace-signals", daemon=True).start()


def _send_again(reader: int) -> None:
    while numbers := os.read(reader, 4_096):  # at once: there may be a timer's signals, too
        time.sleep(0.1)
        for number in set(numbers):
            if not _has_begun and signal.getsignal(number) is _on_signal:
                signal.pthread_kill(threading.main_thread().ident or 0, number)


def _close_with_celery() -> None:
    """Processes of Celery's prefork pool end by os._exit, too; a worker may restart by os.execv. Both say so before."""
    if "celery" not in sys.modules:
        return
    signals = importlib.import_module("celery.signals")
    for end in (signals.worker_process_shutdown, signals.worker_shutdown):
        end.connect(_on_worker_shutdown, dispatch_uid="ragtrace")


def _on_worker_shutdown(pid: int | None = None, **_: Any) -> None:
    if (runtime := running.current()) is not None:  # without a pid a worker ends, whose process may go on
        runtime.flush(runtime.settings.exit_seconds) if pid is None else runtime.close_at_exit()


def look_again(*_: object) -> None:
    """Called with each request: since `init`, or since the fork of this process, a server may have set handlers."""
    global _has_warned  # noqa: PLW0603 once for a process
    if _process_id and os.getpid() != _process_id and not _close_at_signals() and not _has_warned:
        _has_warned = True
        _log.warning(
            "ragtrace: this is not the main thread, so a SIGTERM would end the process at once, and what waits for "
            "scores would be lost; call ragtrace.init in the main thread"
        )


def _close_at_signals() -> bool:
    """Python dies of these signals without running anything. Where the application (or its server) handles a signal
    itself, its own exit calls the functions of atexit. False where this thread may not set a handler."""
    global _process_id  # noqa: PLW0603 handlers are the process's
    if "gunicorn" in sys.modules and signal.SIGINT not in _SIGNALS:  # it sets the default action in its workers
        _SIGNALS.extend((signal.SIGINT, signal.SIGQUIT))
    _process_id = -1  # until no signal is left, each request looks again
    is_main = threading.current_thread() is threading.main_thread()
    for number in _SIGNALS:
        handler = signal.getsignal(number)
        if handler is signal.SIG_DFL and is_main:
            signal.signal(number, _on_signal)
        elif handler is signal.SIG_DFL and number == signal.SIGTERM:
            return False
        # uvicorn at its end restores the default action and raises the signal again: no exit follows.
        server = getattr(handler, "__self__", None)
        captured = getattr(server, "_captured_signals", None)
        if isinstance(captured, list) and not isinstance(captured, _CapturedSignals):
            server._captured_signals = _CapturedSignals(captured)  # type: ignore[union-attr]  # it has the attribute
    _process_id = os.getpid()
    return True


class _CapturedSignals(list[int]):
    """The signals that uvicorn raises again, the latest first: before it does, ragtrace is closed."""

    def __reversed__(self) -> Iterator[int]:
        runtime = running.current()
        if self and runtime is not None:
            with contextlib.suppress(Exception):  # the server goes on
                runtime.close(runtime.settings.exit_seconds)
        return super().__reversed__()


def _on_signal(number: int, _frame: Any) -> None:
    global _has_begun  # noqa: PLW0603 once for a process
    _has_begun = True
    if (runtime := running.current()) is None:
        _die(number)
    else:
        runtime.close_for_signal(partial(_die, number))


def _die(number: int) -> None:
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(128 + number)  # process 1 of a container has no default action
