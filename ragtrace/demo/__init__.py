"""`ragtrace demo`: two real assistants over a real corpus, traced, sampled, scored and shown."""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from typing import Any

from ragtrace.demo import board as boards
from ragtrace.demo import traffic
from ragtrace.demo.live import SMOLLM2, Model, open_model
from ragtrace.errors import MissingExtraError, ModelError, SettingError

Answer = Callable[[traffic.Call, bool], str]
"""Puts a request to its assistant, streamed or not, and returns the answer."""

_ASSISTANTS = {"both": ("langchain", "llama_index"), "langchain": ("langchain",), "llama-index": ("llama_index",)}
_GIVE_UP = 3
"""Failures at the start of a run after which the model is taken to be out of reach."""


def main(argv: Sequence[str]) -> int:
    """Run the demo; the exit code. Raises RagtraceError for options that cannot be."""
    options = _parser().parse_args(argv)
    assistants = _ASSISTANTS[options.framework]
    calls = _calls(options, assistants)
    model = _model(options)
    print(f"{len(calls)} questions for {' and '.join(assistants)}", flush=True)
    index = None
    if options.replay is None:
        from ragtrace.demo import corpus

        index = corpus.build()
    board = boards.Board(len(calls))
    runtime = _start(options, board)
    try:
        answer = answerer(assistants, index, model)
        _run(options, board, runtime, calls, answer)
        _summarise(options, board, runtime)
        if options.picture:
            boards.draw(board, options.picture)
        if options.serve:
            _serve(options, board, calls, answer)
    except KeyboardInterrupt:
        runtime.flush(5.0)
        _summarise(options, board, runtime)
    finally:
        runtime.close()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ragtrace demo", description=__doc__)
    parser.add_argument("--framework", choices=sorted(_ASSISTANTS), default="both")
    parser.add_argument("--requests", type=int, default=0, help="how many; 0 for each question once per assistant")
    parser.add_argument("--rate", type=float, default=8.0, help="requests a second at most; 0 for no limit")
    parser.add_argument("--sample", type=float, default=0.5, help="share of the requests that is evaluated")
    parser.add_argument(
        "--capture-content",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="texts on the spans; on here, since they are public, and off by default elsewhere",
    )
    parser.add_argument("--otlp", metavar="ENDPOINT", help="where spans and events go, e.g. http://localhost:4318")
    parser.add_argument("--spans", metavar="FILE", default="ragtrace-spans.jsonl", help="where spans go otherwise")
    parser.add_argument("--store", metavar="FILE", help="keep the scored requests, for `ragtrace serve --store FILE`")
    parser.add_argument("--metrics-port", type=int, default=9464, help="port of /metrics; 0 for any free one")
    parser.add_argument(
        "--live",
        nargs="?",
        const="smollm2",
        metavar="MODEL",
        help="ask a model now: a litellm name, or SmolLM2 on this machine",
    )
    parser.add_argument("--replay", metavar="FILE", help="JSON lines: id, query, contexts, answer, reference")
    parser.add_argument("--serve", action="store_true", help="go on slowly afterwards, until Ctrl-C")
    parser.add_argument("--picture", metavar="FILE", help="draw the table at the end of the run as an SVG")
    parser.add_argument("--plain", action="store_true", help="lines instead of a moving table")
    return parser


def _calls(options: argparse.Namespace, assistants: Sequence[str]) -> list[traffic.Call]:
    if options.requests < 0 or options.rate < 0:
        raise SettingError("--requests and --rate are numbers of at least 0")
    if options.replay is not None:
        if options.live:
            raise SettingError("--replay has the answers already; leave --live out")
        return traffic.replayed(options.replay, assistants, options.requests)
    return traffic.questions_for(assistants, options.requests, bool(options.live))


def _start(options: argparse.Namespace, board: boards.Board) -> Any:
    import ragtrace

    settings: dict[str, Any] = {
        "app": "ragtrace-demo",
        "env": "demo",
        "sample": options.sample,
        "sample_per_second": 0,
        "workers": min(2, os.cpu_count() or 1),  # the demo has the machine to itself
        "batch": 8,  # small ones, so that the table moves
        "hold_seconds": 60.0,  # a slow machine still gets its scores onto the roots, which is what is shown here
        "capture_content": "true" if options.capture_content else "false",
        "explanations": options.capture_content,
        "sinks": [board],
        "store": options.store or "",
    }
    settings |= {"otlp_endpoint": options.otlp} if options.otlp else {"spans_file": options.spans}
    try:
        return ragtrace.init(**settings, prometheus_port=options.metrics_port)
    except SettingError as error:
        if "prometheus_port" not in str(error) or not options.metrics_port:
            raise
        print(f"port {options.metrics_port} is taken; /metrics goes to a free one")
        return ragtrace.init(**settings, prometheus_port=0)


def _model(options: argparse.Namespace) -> Model:
    if options.live:
        return open_model(options.live)
    return Model("recorded", "ragtrace-demo") if options.replay else Model(SMOLLM2, "llama_cpp")


def answerer(assistants: Sequence[str], index: Any, model: Model) -> Answer:
    """The assistants by name (`langchain`, `llama_index`), over `ragtrace.demo.corpus.Index` and a model.

    Raises MissingExtraError where a framework is not installed.
    """
    made: dict[str, Answer] = {}
    try:
        if "langchain" in assistants:
            from ragtrace.demo import langchain_assistant

            chain = langchain_assistant.chain(index, model)
            made["langchain"] = lambda call, streamed: langchain_assistant.answer(chain, call, streamed)
        if "llama_index" in assistants:
            from ragtrace.demo import llama_index_assistant

            engines = llama_index_assistant.engines(index, model)
            made["llama_index"] = lambda call, streamed: llama_index_assistant.answer(engines, call, streamed)
    except ModuleNotFoundError as error:
        extra = "langchain" if "langchain" in str(error.name) else "llama-index"
        raise MissingExtraError(str(error.name), extra, "The demo") from error

    def answer(call: traffic.Call, streamed: bool) -> str:
        token = traffic.current.set(call)
        try:
            return made[call.assistant](call, streamed)
        finally:
            traffic.current.reset(token)

    return answer


def _ask(board: boards.Board, call: traffic.Call, streamed: bool, answer: Answer) -> None:
    """One request. A model that fails one is what ragtrace watches; one that fails all from the start ends the run."""
    try:
        answer(call, streamed)
    except Exception as error:
        board.failed += 1
        if board.failed == board.asked + 1 >= _GIVE_UP:
            raise ModelError(f"the model does not answer: {type(error).__name__}: {error}") from error
    board.asked += 1


def _run(
    options: argparse.Namespace, board: boards.Board, runtime: Any, calls: Sequence[traffic.Call], answer: Answer
) -> None:
    show, stop = _display(options, board, runtime.metrics_url)
    begun = time.monotonic()
    try:
        for i, call in enumerate(calls):
            _ask(board, call, i % 3 == 0, answer)
            show()
            due = begun + board.asked / options.rate if options.rate else 0.0
            time.sleep(max(0.0, due - time.monotonic()))
        while runtime.pipeline.stats().queued:
            show()
            time.sleep(0.1)
        runtime.flush(60.0)
        show()
    finally:
        stop()


def _display(
    options: argparse.Namespace, board: boards.Board, url: str | None
) -> tuple[Callable[[], None], Callable[[], None]]:
    """How the run is shown, and how that ends: a moving table where there is a terminal and `rich`, else lines."""
    if not options.plain and sys.stdout.isatty():
        try:
            from rich.live import Live

            live = Live(boards.live_view(board, url), refresh_per_second=8, transient=False)
            live.start()
            return lambda: live.update(boards.live_view(board, url)), live.stop
        except ModuleNotFoundError:
            print("for a moving table: pip install 'ragtrace-otel[console]'")
    last = [0.0]

    def line() -> None:
        if time.monotonic() - last[0] >= 5.0:
            last[0] = time.monotonic()
            print(boards.progress_line(board), flush=True)

    return line, line


def _serve(options: argparse.Namespace, board: boards.Board, calls: Sequence[traffic.Call], answer: Answer) -> None:
    print("\ngoing on with a request every two seconds; Ctrl-C ends it", flush=True)
    for i, call in enumerate(itertools.cycle(calls)):
        _ask(board, call, i % 3 == 0, answer)
        time.sleep(2.0)


def _summarise(options: argparse.Namespace, board: boards.Board, runtime: Any) -> None:
    lines = boards.summary(board, runtime, options.otlp or options.spans, _sample_line(runtime.metrics_url))
    if options.store:
        lines.append(f"to read them: ragtrace serve --store {options.store}")
    print("\n".join(lines), flush=True)


def _sample_line(url: str | None) -> str | None:
    """A line of what /metrics serves, or None where it does not answer."""
    if url is None:
        return None
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy knows nothing of this machine
    try:
        with direct.open(url, timeout=5.0) as response:
            lines = response.read().decode().splitlines()
    except OSError:
        return None
    wanted = "ragtrace_evaluations_total{"
    found = [line for line in lines if line.startswith(wanted) and '"groundedness"' in line]
    failed = [line for line in found if '"fail"' in line]
    # Not the first: one without a model stands at 0 from the start.
    return max(failed, key=lambda line: float(line.rpartition(" ")[2]), default=None)
