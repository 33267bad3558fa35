"""`ragtrace demo`: traces, samples and scores two real assistants over a real corpus, and sums up the results."""

import argparse
import itertools
import os
import socket
import time
import urllib.request
from collections.abc import Callable, Sequence
from typing import Any

from ragtrace.batch.demo import board as boards
from ragtrace.batch.demo import traffic
from ragtrace.batch.demo.language_models import RECORDED
from ragtrace.batch.reporting.progress import progress_bar
from ragtrace.errors import MissingExtraError, ModelError, SettingError, is_installed

Answer = Callable[[traffic.Call, bool], str]
"""Sends a request to its assistant, streamed or not, and returns the answer."""

_ASSISTANTS = {"langchain": "langchain_core", "llama_index": "llama_index.core"}
"""With the package that each needs."""
_GIVE_UP = 3
"""Consecutive failures at the start of a run after which the model counts as unreachable."""


def main(argv: Sequence[str]) -> int:
    """Run the demo and return the exit code. Raises RagtraceError for invalid options."""
    options = _parser().parse_args(argv)
    if options.requests < 0:
        raise SettingError("--requests must be at least 0")
    # Without either, `answerer` says what is missing.
    assistants = [name for name, package in _ASSISTANTS.items() if is_installed(package)] or [*_ASSISTANTS]
    calls = traffic.questions_for(assistants, options.requests)
    print(f"{len(calls)} questions for {' and '.join(assistants)}", flush=True)
    from ragtrace.batch.demo import corpus

    index = corpus.build()
    board = boards.DemoBoard(labels=traffic.labels())
    runtime = _start(options, board)
    try:
        answer = answerer(assistants, index)
        _run(board, runtime, calls, answer)
        _summarise(options, board, runtime)
        if options.serve:
            _serve(board, calls, answer)
    except KeyboardInterrupt:
        runtime.flush(5.0)
        _summarise(options, board, runtime)
    finally:
        runtime.close()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ragtrace demo", description=__doc__)
    parser.add_argument(
        "--requests", type=int, default=0, help="number of requests; 0 asks each assistant every question once"
    )
    parser.add_argument("--store", metavar="FILE", help="store the scored requests for `ragtrace serve --store FILE`")
    parser.add_argument("--serve", action="store_true", help="continue with one request every two seconds until Ctrl-C")
    return parser


def _start(options: argparse.Namespace, board: boards.DemoBoard) -> Any:
    from ragtrace.live.init import init
    from ragtrace.settings import Settings, load

    current, default = load(), Settings()
    settings: dict[str, Any] = {
        "app": "ragtrace-demo",
        "env": "demo",
        "sample_per_second": 0,
        "workers": min(2, os.cpu_count() or 1),  # the demo may use the whole machine
        "hold_seconds": 60.0,  # even a slow machine can put the scores on the root spans
        "capture_content": "true",  # the texts are public; elsewhere the default is off
        "explanations": True,
        "sinks": [board],
        "store": options.store or "",
    }
    settings |= {} if current.otlp_endpoint else {"spans_file": spans_file(current)}
    port = 9464 if current.prometheus_port == default.prometheus_port else current.prometheus_port
    if not _is_free(port):
        print(f"port {port} is taken; /metrics uses a free port")
        port = 0
    return init(**settings, prometheus_port=port)


def spans_file(current: Any = None) -> str:
    """Where the demo writes its spans, unless they go to a collector."""
    from ragtrace.settings import load

    current = current or load()
    return current.otlp_endpoint or current.spans_file or "ragtrace-spans.jsonl"


def _is_free(port: int) -> bool:
    try:
        with socket.create_server(("127.0.0.1", port)):
            return True
    except OSError:
        return False


def answerer(assistants: Sequence[str], index: Any) -> Answer:
    """Builds the assistants by name (`langchain`, `llama_index`), over a `ragtrace.batch.demo.corpus.Index`.

    Raises MissingExtraError if a framework is not installed."""
    answers: dict[str, Answer] = {}
    try:
        if "langchain" in assistants:
            from ragtrace.batch.demo import langchain_assistant

            chain = langchain_assistant.chain(index, RECORDED["langchain"])
            answers["langchain"] = lambda call, streamed: langchain_assistant.answer(chain, call, streamed)
        if "llama_index" in assistants:
            from ragtrace.batch.demo import llama_index_assistant

            engines = llama_index_assistant.engines(index, RECORDED["llama_index"])
            answers["llama_index"] = lambda call, streamed: llama_index_assistant.answer(engines, call, streamed)
    except ModuleNotFoundError as error:
        extra = "langchain" if "langchain" in str(error.name) else "llama-index"
        raise MissingExtraError(str(error.name), extra, "The demo") from error

    def answer(call: traffic.Call, streamed: bool) -> str:
        token = traffic.current.set(call)
        try:
            return answers[call.assistant](call, streamed)
        finally:
            traffic.current.reset(token)

    return answer


def _ask(board: boards.DemoBoard, call: traffic.Call, streamed: bool, answer: Answer) -> None:
    """Send one request. A single failure is normal; if all requests from the start fail, the run ends."""
    try:
        answer(call, streamed)
    except Exception as error:
        board.failures += 1
        if board.failures == board.requests + 1 >= _GIVE_UP:
            raise ModelError(f"the model does not answer: {type(error).__name__}: {error}") from error
    board.requests += 1


def _run(board: boards.DemoBoard, runtime: Any, calls: Sequence[traffic.Call], answer: Answer) -> None:
    with progress_bar(lambda: len(calls), "requests") as progress:
        for i, call in enumerate(calls):
            _ask(board, call, i % 3 == 0, answer)
            if progress is not None:
                progress(1)
        while runtime.pipeline.stats().queued:
            time.sleep(0.1)
        runtime.flush(60.0)


def _serve(board: boards.DemoBoard, calls: Sequence[traffic.Call], answer: Answer) -> None:
    print("\ncontinuing with a request every two seconds; Ctrl-C ends the demo", flush=True)
    for i, call in enumerate(itertools.cycle(calls)):
        _ask(board, call, i % 3 == 0, answer)
        time.sleep(2.0)


def _summarise(options: argparse.Namespace, board: boards.DemoBoard, runtime: Any) -> None:
    lines = boards.summary(board, runtime, spans_file(), _sample_line(runtime.metrics_url))
    if options.store:
        lines.append(f"to read the requests: ragtrace serve --store {options.store}")
    print("\n".join([*lines, *boards.agreement_lines(board)]), flush=True)


def _sample_line(url: str | None) -> str | None:
    """One line of /metrics, or None if it does not answer."""
    if url is None:
        return None
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy cannot reach this machine
    try:
        with direct.open(url, timeout=5.0) as response:
            lines = response.read().decode().splitlines()
    except OSError:
        return None
    metric = "ragtrace_evaluations_total{"
    fails = [line for line in lines if line.startswith(metric) and '"groundedness"' in line and '"fail"' in line]
    # The largest one: the series without a model is 0 from the start.
    return max(fails, key=lambda line: float(line.rpartition(" ")[2]), default=None)
