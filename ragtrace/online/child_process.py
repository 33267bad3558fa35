"""Evaluation in a process of its own, so that the application's threads never wait for the interpreter's lock.

A thread that computes in Python makes every other thread wait for up to five milliseconds at a time. Evaluators that
can be named (built in, by entry point, by `module:attribute`) therefore run in a child process; those that are objects
of the application's run in a thread. A child that hangs or dies is replaced. It ends by itself when its parent does.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import select
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, BinaryIO

from ragtrace.evaluation import Evaluator
from ragtrace.records import Document, Facts, Score, Trace

_HEADER = struct.Struct("!I")
_START = 180.0
"""Seconds that a child may take to be ready: it loads the models that the settings name."""

Results = list[list[Score]]


class ProcessRunner:
    """Runs named evaluators in a child process. For one thread at a time."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        """`environment` is set in the child beside what this process has."""
        self._environment = dict(environment or {})
        self._child: subprocess.Popen[bytes] | None = None
        self._sent: Sequence[Trace] | None = None
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the child and do not wait for it."""
        if self._child is None:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "ragtrace.online.child_process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**environment(), **self._environment},
                start_new_session=True,  # a Ctrl-C at the terminal is the application's alone
            )
            self._sent = None

    def evaluate(
        self, check: Evaluator, batch: Sequence[Trace], wanted: Sequence[int], timeout: float
    ) -> Results | None:
        """The scores of the traces `wanted` (indexes into the batch); None if that takes longer than `timeout` seconds.

        Raises ConnectionError if the child dies. The batch is sent once for all evaluators.
        """
        with self._lock:
            try:
                fresh = self._child is None
                self.start()
                if (fresh or self._sent is None) and self._receive(_START) is None:
                    raise TimeoutError
                if self._sent is not batch:
                    self._send(("batch", [_portable(trace) for trace in batch]))
                    self._sent = batch
                self._send(("run", check.name, check.threshold, check.direction, check.retries, list(wanted)))
                found = self._receive(timeout)
            except (OSError, EOFError, pickle.UnpicklingError) as error:
                self.stop()
                raise ConnectionError(f"the evaluating process ended ({type(error).__name__})") from error
            if found is None:
                self.stop()
            elif isinstance(found, BaseException):
                raise found
            return found  # type: ignore[no-any-return]

    def stop(self) -> None:
        """End the child now. The next call starts another one."""
        child, self._child, self._sent = self._child, None, None
        if child is not None:
            child.kill()
            for pipe in (child.stdin, child.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):  # what was not yet written has no reader any more
                        pipe.close()
            child.wait()

    def _send(self, message: Any) -> None:
        assert self._child is not None and self._child.stdin is not None  # noqa: PT018 start() made both
        _write(self._child.stdin, message)

    def _receive(self, timeout: float) -> Any:
        assert self._child is not None and self._child.stdout is not None  # noqa: PT018 as above
        descriptor = self._child.stdout.fileno()
        until = time.monotonic() + timeout
        data = bytearray()
        needed = _HEADER.size
        while len(data) < needed:
            left = until - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                return None
            piece = os.read(descriptor, needed - len(data))
            if not piece:
                raise EOFError
            data += piece
            if len(data) == _HEADER.size and needed == _HEADER.size:
                needed += _HEADER.unpack(data)[0]
        return pickle.loads(bytes(data[_HEADER.size :]))  # from our own child


_MAX_STEPS, _MAX_STEP_CHARS = 1_000, 4_000


def _portable(trace: Trace) -> Trace:
    """The trace with what evaluators read of it: an application's metadata may hold anything, also what cannot be
    sent."""
    documents = tuple(Document(d.id, d.content, d.score) for d in trace.documents)
    attributes = {"constraints": trace.constraints} if trace.constraints else {}
    steps = tuple(_plain_step(step) for step in trace.steps[:_MAX_STEPS])
    facts = Facts(finish_reason=trace.facts.finish_reason, steps=steps)
    return replace(trace, documents=documents, attributes=attributes, facts=facts)


def _plain_step(step: Any) -> Any:
    """A tool call as JSON gives it back, none of it large: arguments and results are the application's objects."""
    if not isinstance(step, Mapping):
        return type(step).__name__  # the evaluator says that it is no tool call
    return {key: _plain_value(step[key]) for key in ("tool", "args", "result") if key in step}


def _plain_value(value: Any) -> Any:
    if isinstance(value, str):
        return value[:_MAX_STEP_CHARS]
    try:
        text = json.dumps(value, default=str, skipkeys=True)
    except (ValueError, TypeError, RecursionError):
        text = json.dumps(str(value))
    return json.loads(text) if len(text) <= _MAX_STEP_CHARS else text[:_MAX_STEP_CHARS]


def environment() -> dict[str, str]:
    """The parent's, without what would instrument the child and start ragtrace in it once more."""
    environment = {**os.environ, "RAGTRACE_ENABLED": "false", "OTEL_SDK_DISABLED": "true"}
    paths = [p for p in sys.path if p and "auto_instrumentation" not in p]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    return environment


def _write(pipe: BinaryIO | Any, message: Any) -> None:
    body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    pipe.write(_HEADER.pack(len(body)) + body)
    pipe.flush()


def _read(pipe: BinaryIO) -> Any:
    header = pipe.read(_HEADER.size)
    if len(header) < _HEADER.size:
        raise EOFError
    return pickle.loads(pipe.read(_HEADER.unpack(header)[0]))  # from our own parent


def main() -> None:
    """The child: answer until the parent closes its end."""
    from ragtrace import plugins, settings
    from ragtrace.errors import SettingError
    from ragtrace.evaluation import run
    from ragtrace.models import external

    given, answers = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what an evaluator prints must not end up among the answers
    with contextlib.suppress(SettingError):  # an evaluator that asks for one says what is wrong with it
        settings.use(settings.load())  # read once, not at each question
    external.warm()  # an evaluator's own time is too short for it
    _write(answers, "ready")
    batch: list[Trace] = []
    while True:
        try:
            message = _read(given)
        except EOFError:
            return
        if message[0] == "batch":
            batch = message[1]
            continue
        _, name, threshold, direction, retries, wanted = message
        found: Any
        try:
            check = replace(plugins.load(name), threshold=threshold, direction=direction, retries=retries)
            found = run(check, [batch[i] for i in wanted])
        except Exception as error:  # noqa: BLE001 the parent makes a score of it
            found = RuntimeError(f"{type(error).__name__}: {error}"[:300])
        _write(answers, found)


if __name__ == "__main__":
    main()
