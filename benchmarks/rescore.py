"""What `ragtrace rescore` repeats after a kill, and what a second worker brings: with local processes and with Ray.

    python benchmarks/rescore.py --logs 50000                  # local processes
    python benchmarks/rescore.py --logs 50000 --ray            # Ray, started on this machine for each run
    python benchmarks/rescore.py --logs 2000 --wait 0.02 --no-kill --ray

A run without interruption is compared with one that is killed (SIGKILL) at a random point and started again. The
evaluator waits `--wait` seconds for each log, as one that asks a server does, so two workers can be compared where the
cores are busy. Seconds are those that the command prints: of the evaluation, Ray's start left out.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sqlalchemy import select

from ragtrace.console.chatlogs.schema import scores, traces
from ragtrace.console.chatlogs.store import open_store
from ragtrace.evaluation import evaluator
from ragtrace.records import Document, Evaluation, Facts, Trace


@evaluator(needs={"answer"})
def waiting(trace: Trace) -> float:
    """Waits, and leaves a line for each evaluation."""
    time.sleep(float(os.environ["BENCHMARK_WAIT"]))
    with open(os.environ["BENCHMARK_CALLS"], "a", encoding="utf-8") as file:
        file.write(f"{trace.trace_id:032x}\n")
    return len(trace.answer) % 100 / 100


def main() -> None:
    """Run the benchmark and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=50_000)
    parser.add_argument("--wait", type=float, default=0.0, help="seconds that the evaluator waits for each log")
    parser.add_argument("--ray", action="store_true")
    parser.add_argument("--no-kill", action="store_true", help="compare one worker with two instead of killing a run")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.no_kill:
            _compare_workers(folder, options)
        else:
            _kill(folder, options)


def _compare_workers(folder: Path, options: argparse.Namespace) -> None:
    seconds = []
    for workers in (1, 2):
        _fill(folder / f"{workers}.db", options.logs)
        log = folder / f"{workers}.log"
        _start(folder, f"{workers}.db", workers, options, log).wait()
        seconds.append(_seconds(log))
    print(
        f"{options.logs:,} logs: one worker {seconds[0]:.1f} s, two {seconds[1]:.1f} s, {seconds[0] / seconds[1]:.2f} x"
    )


def _kill(folder: Path, options: argparse.Namespace) -> None:
    for name in ("once.db", "killed.db"):
        _fill(folder / name, options.logs)
    _start(folder, "once.db", 2, options, folder / "once.log").wait()
    whole = _seconds(folder / "once.log")
    calls = folder / "calls"
    calls.write_text("")
    at = int(options.logs * random.uniform(0.1, 0.9))
    process = _start(folder, "killed.db", 2, options, folder / "killed.log")
    while calls.stat().st_size < at * 33:
        time.sleep(0.005)
        if process.poll() is not None:
            raise SystemExit((folder / "killed.log").read_text())
    process.send_signal(signal.SIGKILL)
    process.wait()
    time.sleep(5.0)  # workers end with their parent, each after the log that it evaluates
    _start(folder, "killed.db", 2, options, folder / "again.log").wait()
    repeated = calls.stat().st_size // 33 - options.logs - 2 * 2 * 8  # each run evaluates 8 logs twice for its estimate
    equal = _scores(folder / "once.db") == _scores(folder / "killed.db")
    rate = options.logs / whole
    print(
        f"{options.logs:,} logs in {whole:.1f} s ({rate:,.0f} a second) with two workers; killed after {at:,}, gone on"
    )
    print(f"repeated {repeated:,} ({repeated / options.logs:.2%}); results {'equal' if equal else 'NOT EQUAL'}")


def _start(folder: Path, store: str, workers: int, options: argparse.Namespace, log: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "ragtrace", "rescore", "--store", store, "--jobs", str(workers)]
    command += ["--evaluators", "benchmarks.rescore:waiting", *(["--ray"] if options.ray else [])]
    paths = [str(Path(__file__).parents[1]), *sys.path]
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("RAGTRACE_")},
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "BENCHMARK_WAIT": str(options.wait),
        "BENCHMARK_CALLS": str(folder / "calls"),
    }
    with log.open("wb") as stream:
        return subprocess.Popen(command, cwd=folder, env=environment, stdout=stream, stderr=stream)


def _seconds(log: Path) -> float:
    text = log.read_text()
    match = re.search(r"in ([0-9.]+) s$", text, re.MULTILINE)
    if match is None:
        raise SystemExit(text)
    return float(match[1])


def _fill(path: Path, count: int) -> None:
    store = open_store(str(path))
    for first in range(0, count, 1_000):
        store.write([_log(n) for n in range(first, min(count, first + 1_000))])
    store.close()


def _log(number: int) -> Evaluation:
    document = Document("d0", "The warranty covers the pump for two years. " * 20, 0.5)
    trace = Trace(
        number + 1,
        number + 1,
        f"question {number}",
        (document,),
        f"answer {number}",
        started=1.7e9 + number,
        facts=Facts(app="shop"),
    )
    return Evaluation(trace, ())


def _scores(path: Path) -> list[tuple[object, ...]]:
    store = open_store(str(path))
    query = select(traces.c.trace_id, scores.c.evaluator, scores.c.version, scores.c.value)
    with store.reading() as connection:
        rows = sorted(map(tuple, connection.execute(query.join(scores, scores.c.trace == traces.c.id))))
    store.close()
    return rows


if __name__ == "__main__":
    main()
