"""The evaluating process: `python -m ragtrace.live.child_main DESCRIPTOR` answers until its parent is gone."""

import contextlib
import logging
import os
import queue
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.connection import Connection

from ragtrace import plugins
from ragtrace.errors import SettingError
from ragtrace.evaluation import run
from ragtrace.live.child_process import become_child, take_what_is_left
from ragtrace.live.messages import (
    Batch,
    EvaluationRequest,
    Failure,
    Message,
    Preparation,
    ProtocolError,
    Ready,
    Scores,
    receive,
    send,
)
from ragtrace.records import MAX_CHARS, Document, Trace
from ragtrace.settings import Settings, load

_EXAMPLE = Trace(
    trace_id=0, span_id=0, query="How long is the pump covered?",
    documents=(Document("d0", "The pump is covered for 24 months from delivery."),),
    answer="The pump is covered for 24 months.", reference="24 months",
)  # fmt: skip


def main(descriptor: int) -> None:
    """Answer the requests that come over the connection with this file descriptor."""
    become_child()
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # a terminal may stop processes of the background that write to it
    os.set_inheritable(descriptor, False)  # a process that an evaluator starts must not keep the connection open
    with contextlib.suppress(OSError):
        os.dup2(2, 1)  # what an evaluator prints goes to the standard error
    connection, process = Connection(descriptor), os.getpid()
    messages: queue.SimpleQueue[Message] = queue.SimpleQueue()
    threading.Thread(target=_receive_all, args=(connection, messages), daemon=True).start()
    settings: Settings | None = None
    logging.getLogger("ragtrace.settings").setLevel(logging.ERROR)  # the parent has given its warnings
    with contextlib.suppress(SettingError):  # an evaluator that uses a setting reports what is wrong with it
        settings = load()  # once, not for each request
    traces: Sequence[Trace] = ()
    while True:
        message = messages.get()
        if isinstance(message, Preparation):
            if message.takes_what_is_left:
                take_what_is_left()
            _load_models(message.names, settings)
            _send(connection, Ready())
        elif isinstance(message, Batch):
            traces = message.traces
        elif isinstance(message, EvaluationRequest):
            reply = _evaluate(message, traces, settings)
            if os.getpid() != process:  # the evaluator has forked, and this is the copy: it must not answer, too
                os._exit(0)
            _send(connection, reply)


def _load_models(names: Sequence[str], settings: Settings | None) -> None:
    """Load the models that the settings and these evaluators use: an evaluator's own timeout, the hold and the end of a
    short program have no time for that. The scores of an evaluator whose model cannot be loaded have the error.

    Each built-in evaluator evaluates one example. Others are loaded with their first request, under their timeout."""
    from ragtrace.evaluate.models import embedding, external

    if settings is not None:
        external.warm(settings)
        with contextlib.suppress(Exception):
            if settings.model("embedding"):
                embedding.get_embedder(settings.model("embedding"))
    for name in names:
        if name in plugins.BUILT_IN:
            with contextlib.suppress(Exception):
                check = plugins.load(name, settings)
                if not check.asks_judge:  # the judge costs money
                    run(check, [_EXAMPLE])


def _receive_all(connection: Connection, messages: queue.SimpleQueue[Message]) -> None:
    """Queue the parent's messages. Ends the process when the parent is gone, even while an evaluator hangs."""
    try:
        while True:
            messages.put(receive(connection))
    except ProtocolError as error:
        print(f"ragtrace: the evaluating process ends, because it received {error}", file=sys.stderr, flush=True)
    except (EOFError, OSError):
        pass
    os._exit(0)


def _evaluate(request: EvaluationRequest, traces: Sequence[Trace], settings: Settings | None) -> Message:
    try:
        check = replace(plugins.load(request.name, settings), **request.options)
        return Scores(scores=run(check, [traces[i] for i in request.indexes]))
    except BaseException as error:  # noqa: BLE001 also sys.exit() in an evaluator; the parent makes scores of it
        return Failure(description=f"{type(error).__name__}: {error}"[:MAX_CHARS])


def _send(connection: Connection, message: Message) -> None:
    try:
        send(connection, message)
    except OSError:
        os._exit(0)  # the parent is gone
    except Exception as error:  # noqa: BLE001 an evaluator may put values into a score that cannot be sent
        send(connection, Failure(description=f"the scores cannot be sent: {type(error).__name__}: {error}"[:MAX_CHARS]))


if __name__ == "__main__":
    main(int(sys.argv[1]))
