"""Closes the runtime at the end of its process, in whatever way the process ends."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from multiprocessing import process, util
from typing import TYPE_CHECKING, Any

from ragtrace.live import runtime as running

if TYPE_CHECKING:
    from ragtrace.live.runtime import Runtime

_FIRST = 1_000
"""Priority among what multiprocessing does at the end of a child: before its queues are closed."""


def install(runtime: Runtime) -> None:
    """Close it at the end of this process and of the children that are forked from it, be it by SIGTERM."""
    atexit.register(runtime.close_at_exit)
    # Children of multiprocessing, also those of a ProcessPoolExecutor, end by os._exit: without atexit. They forget the
    # finalizers of their parent, so each one needs its own.
    util.register_after_fork(runtime, _close_with_child)
    if process.parent_process() is not None:
        _close_with_child(runtime)  # `init` was called in such a child, e.g. by the initializer of a pool
    _close_with_celery()
    if threading.current_thread() is threading.main_thread():
        _close_at_sigterm()


def _close_with_child(runtime: Runtime) -> None:
    util.Finalize(None, runtime.close_at_exit, exitpriority=_FIRST)


def _close_with_celery() -> None:
    """Processes of Celery's prefork pool end by os._exit, too, and send a signal before."""
    if "celery" not in sys.modules:
        return
    signals = importlib.import_module("celery.signals")
    signals.worker_process_shutdown.connect(_on_worker_shutdown, dispatch_uid="ragtrace")


def _on_worker_shutdown(**_: Any) -> None:
    runtime = running.current()
    if runtime is not None:
        runtime.close_at_exit()


def _close_at_sigterm() -> None:
    """Python dies of SIGTERM without running anything. Where the application (or its server) handles the signal itself,
    its own exit calls the functions of atexit."""
    handler = signal.getsignal(signal.SIGTERM)
    if handler is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _on_sigterm)
        return
    # uvicorn handles the signal, and when it has served the last request it restores the default action and raises the
    # signal again: no exit follows.
    server = getattr(handler, "__self__", None)
    if isinstance(captured := getattr(server, "_captured_signals", None), list):
        server._captured_signals = _CapturedSignals(captured)  # type: ignore[union-attr]  # it has the attribute


class _CapturedSignals(list[int]):
    """The signals that uvicorn raises again, the latest first: before it does, ragtrace is closed."""

    def __reversed__(self) -> Iterator[int]:
        runtime = running.current()
        if self and runtime is not None:
            with contextlib.suppress(Exception):  # the server goes on
                runtime.close(runtime.settings.exit_seconds)
        return super().__reversed__()


def _on_sigterm(_number: int, _frame: Any) -> None:
    runtime = running.current()
    if runtime is None:
        _die()
    else:
        runtime.close_for_signal(_die)


def _die() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)
