"""Evaluation in a process of its own, so that the application's threads never wait for the interpreter's lock.

A thread that computes in Python makes every other thread wait for up to five milliseconds at a time. Evaluators that
were loaded by a name (built in, by entry point, by `module:attribute`) therefore run in a child process, which can also
crash without harm; those that are objects of the application's run in a thread. A child that hangs or dies is replaced.
It ends when its parent does.

Linux runs a thread of the policy SCHED_IDLE only where no other thread wants the processor, and puts it aside at once
when one does. A lower priority (`nice`) does not: the other thread waits for the end of a time slice of some
milliseconds."""

import contextlib
import json
import logging
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from ragtrace.base.background import after_fork
from ragtrace.evaluation import Evaluator
from ragtrace.live import messages
from ragtrace.records import Document, Facts, Score, Trace
from ragtrace.text.sanitizer import dumps, sendable

_STARVED_SECONDS = 2.0
_STARVED_SHARE = 0.05
"""A process that waited for so many seconds and got less than this share of them is starved: beside one busy thread for
each processor the policy gives it 0.3 %. Ten evaluating processes on one processor have a tenth each."""


class ProcessorTimes(NamedTuple):
    """Seconds since the start of a process's main thread."""

    ran: float
    waited: float
    """It could have run, and no processor was free."""


def take_what_is_left() -> None:
    """Run the threads of this process only while a processor is idle, if the system supports that."""
    with contextlib.suppress(AttributeError, OSError):  # no Linux, or a sandbox that forbids it
        for thread in os.listdir("/proc/self/task"):
            os.sched_setscheduler(int(thread), os.SCHED_IDLE, os.sched_param(0))


def processor_times(pid: int) -> ProcessorTimes | None:
    """The times of a process; None where the system does not count them."""
    try:
        ran, waited, _slices = Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()
        return ProcessorTimes(int(ran) / 1e9, int(waited) / 1e9)
    except (OSError, ValueError):
        return None


def is_starved(begin: ProcessorTimes | None, now: ProcessorTimes | None) -> bool:
    """Whether a process got hardly any of the processors between two looks at its times."""
    if begin is None or now is None:
        return False
    ran, waited = now.ran - begin.ran, now.waited - begin.waited
    return waited > _STARVED_SECONDS and ran < _STARVED_SHARE * (ran + waited)


_log = logging.getLogger(__name__)
COMMAND = (sys.executable, "-P", "-m", "ragtrace.live.child_main")
_START = 180.0
"""Seconds that a child may take to be ready: it loads the models that the settings name."""
_LOOK = 1.0
"""Seconds between two looks at whether a child that evaluates gets processor time."""
_TRANSFER = 30
"""Seconds that a child may take to read, or to write, one message that has begun."""
_NOT_SENT = frozenset({"fn", "sampler", "origin"})
"""Fields of an evaluator that the child loads itself or does not use."""

Results = list[list[Score]]
_is_child = False


class ChildDiedError(ConnectionError):
    """The child process ended while it evaluated."""


class _StarvedError(Exception):
    """The child gets hardly any processor time."""


class ProcessRunner:
    """Runs evaluators that have an importable name in a child process. Calls from several threads take turns."""

    def __init__(
        self, environment: Mapping[str, str] | None = None, command: Sequence[str] = COMMAND, names: Sequence[str] = ()
    ) -> None:
        """`environment` is set in the child beside what this process has. `command` starts it; the descriptor of its
        connection is appended. `names` are the evaluators whose models the child loads first, by the names to load them
        by."""
        self._environment = dict(environment or {})
        self._command = tuple(command)
        self._names = tuple(names)
        self._takes_what_is_left = True
        self._reset()
        after_fork(self._reset)

    def _reset(self) -> None:
        # Also for a forked process: the child and its connection belong to the parent.
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._ready = False
        self._batch: Sequence[Trace] | None = None

    def start(self) -> None:
        """Start the child and do not wait for it. Raises OSError if the system has no room for another process."""
        if self._child is not None:
            return
        here, there = socket.socketpair()
        with here, there:
            limit = struct.pack("ll", _TRANSFER, 0)
            here.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
            here.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
            self._child = subprocess.Popen(
                [*self._command, str(there.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # the application's may be a protocol; see child_main
                pass_fds=[there.fileno()],
                env={**environment(), **self._environment},
                # A Ctrl-C at the terminal is the application's alone. In a session of its own the child would have as
                # much of the processors as all of the application's, whatever its policy (Linux' autogroups).
                process_group=0,
            )
            self._connection = Connection(here.detach())
        messages.send(
            self._connection, messages.Preparation(names=self._names, takes_what_is_left=self._takes_what_is_left)
        )

    def wait_until_ready(self) -> None:
        """Start the child unless it runs already, and wait until its models are loaded. Raises ConnectionError if it
        does not start."""
        with self._lock:
            self._prepare()

    def evaluate(self, check: Evaluator, batch: Sequence[Trace], indexes: Sequence[int], timeout: float) -> Results:
        """The scores of the traces at `indexes` in the batch. A batch is sent once for all evaluators.

        Raises TimeoutError after `timeout` seconds, ChildDiedError if the child dies while it evaluates, another
        ConnectionError if there is no working child, and RuntimeError if the evaluator cannot be loaded or run there.
        """
        options = {field.name: getattr(check, field.name) for field in fields(check) if field.name not in _NOT_SENT}
        request = messages.EvaluationRequest(name=check.importable_name or check.name, options=options, indexes=indexes)
        with self._lock:
            try:
                reply = self._answer(batch, request, timeout)
            except _StarvedError:
                self._take_a_share()
                reply = self._answer(batch, request, timeout)
        if not isinstance(reply, messages.Scores):
            raise RuntimeError(reply.description if isinstance(reply, messages.Failure) else f"unexpected {reply!r}")
        return reply.scores

    def _answer(self, batch: Sequence[Trace], request: messages.EvaluationRequest, timeout: float) -> messages.Message:
        connection = self._prepare()
        self._send_batch(connection, batch)
        try:
            messages.send(connection, request)
            return self._receive_in_time(connection, timeout)
        except TimeoutError:
            self.stop()
            raise
        except (OSError, EOFError, messages.ProtocolError) as error:
            self.stop()
            raise ChildDiedError(f"the evaluating process ended ({type(error).__name__})") from error

    def _receive_in_time(self, connection: Connection, timeout: float) -> messages.Message:
        """The child's answer. Raises _StarvedError if the child has no processor time to work it out."""
        begin, deadline = self._times(), time.monotonic() + timeout
        while self._takes_what_is_left and deadline - time.monotonic() > _LOOK and not connection.poll(_LOOK):
            if is_starved(begin, self._times()):
                raise _StarvedError
        left = max(deadline - time.monotonic(), 0.0)
        if not connection.poll(left):
            raise TimeoutError(f"the evaluating process gave no answer within {left:g} s")
        return messages.receive(connection)

    def _take_a_share(self) -> None:
        """End the child; those that follow run as any process does."""
        self.stop()
        self._takes_what_is_left = False
        _log.info("ragtrace: the application leaves no processor time: evaluation takes its share from now on")

    def _times(self) -> ProcessorTimes | None:
        return processor_times(self._child.pid) if self._child is not None else None

    def _prepare(self) -> Connection:
        """The connection to a child that is ready."""
        try:
            self.start()
            assert self._connection is not None  # start() has made it
            if not self._ready:
                self._receive_in_time(self._connection, _START)
                self._ready = True
        except _StarvedError:
            self._take_a_share()
            return self._prepare()
        except messages.ProtocolError as error:
            self.stop()
            _log.error(
                "ragtrace: the evaluating process was refused, because it sent %s. Another one is started. If ragtrace "
                "was upgraded while the application was running, restart the application.",
                error,
            )
            raise ConnectionError(f"the evaluating process was refused: it sent {error}") from error
        except (OSError, EOFError) as error:
            self.stop()
            raise ConnectionError(f"the evaluating process did not start ({type(error).__name__})") from error
        return self._connection

    def _send_batch(self, connection: Connection, batch: Sequence[Trace]) -> None:
        """Send the batch if the child does not have it."""
        if self._batch is batch:
            return
        try:
            messages.send(connection, messages.Batch(traces=[portable(trace) for trace in batch]))
        except OSError as error:
            self.stop()
            raise ConnectionError(f"the evaluating process takes no batch ({type(error).__name__})") from error
        self._batch = batch

    def stop(self) -> None:
        """End the child now. The next call starts another one."""
        child, connection = self._child, self._connection
        self._child = self._connection = self._batch = None
        self._ready = False
        if connection is not None:
            connection.close()
        if child is not None:
            child.kill()
            child.wait()


def is_child() -> bool:
    """Whether this process is an evaluating process: `ragtrace.init` starts nothing in it."""
    return _is_child


def become_child() -> None:
    """Make this process an evaluating process."""
    global _is_child  # noqa: PLW0603 a property of the process
    _is_child = True


def can_isolate(check: Evaluator) -> bool:
    """Whether a child process can load this evaluator by a name. One in `__main__` is another module there."""
    name = check.importable_name
    return name is not None and not name.startswith("__main__:")


_MAX_STEPS, _MAX_STEP_CHARS, _MAX_CONSTRAINT_CHARS = 1_000, 4_000, 1_000_000
_FACTS = ("name", "finish_reason", "usage", "stages", "cancelled", "chunks_of_earlier_turns")


def portable(trace: Trace) -> Trace:
    """The trace with what evaluators read of it. The application's metadata may hold values that cannot be sent."""
    documents = tuple(Document(d.id, d.content, d.score, source=d.source) for d in trace.documents)
    constraints = trace.constraints
    attributes = {} if constraints is None else {"constraints": _portable_value(constraints, _MAX_CONSTRAINT_CHARS)}
    steps = tuple(_portable_step(step) for step in trace.steps[:_MAX_STEPS])
    facts = Facts(steps=steps, **{name: getattr(trace.facts, name) for name in _FACTS})
    return replace(trace, documents=documents, attributes=attributes, facts=facts)


def _portable_step(step: Any) -> Any:
    """A tool call as JSON can hold it, cut to size: arguments and results are the application's objects."""
    if not isinstance(step, Mapping):
        return type(step).__name__  # the evaluator reports that it is no tool call
    return {key: _portable_value(step[key]) for key in ("tool", "args", "result") if key in step}


def _portable_value(value: Any, limit: int = _MAX_STEP_CHARS) -> Any:
    """An object of the application's as JSON can hold it; its text where that is longer than `limit` characters. The
    other process may not have its class, and it may raise what it likes when it is read."""
    if isinstance(value, str):
        return sendable(value, limit)
    try:
        text = dumps(value)
        return json.loads(text) if len(text) <= limit else text[:limit]
    except Exception:  # noqa: BLE001 cycles, deep nesting, keys that are no texts
        return sendable(value, limit)
    except BaseException:  # noqa: BLE001 it must not cost the other requests of its batch
        return f"<{type(value).__name__}>"


def environment() -> dict[str, str]:
    """The parent's environment with its `sys.path`, without what would instrument the child or start ragtrace in it."""
    environment = {**os.environ, "RAGTRACE_ENABLED": "false", "OTEL_SDK_DISABLED": "true"}
    paths = [os.path.abspath(path) for path in map(str, sys.path) if "auto_instrumentation" not in path]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    return environment
