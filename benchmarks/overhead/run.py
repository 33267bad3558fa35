"""What tracing adds to a request, for ragtrace and its peers; prints the tables of docs/performance.md.

    python benchmarks/overhead/run.py [--minutes 9] [--application langchain] [--library ragtrace] [--requests 200]

Each library runs in a process of its own. All applications and libraries take turns in rounds, and rounds are repeated
while the minutes last. Within a round the untraced application is taken off; the tables have the median of these
differences and, in brackets, the lowest and the highest. Peers are installed into virtual environments below the folder
`--peers` when they are not there yet, which the minutes do not include.

`ragtrace` exports as it sets itself up: its own batches and encoder. `ragtrace, SDK's processor` exports through the
SDK's batch processor and encoder, as all others do. `ragtrace with evaluation` samples and evaluates, too. `none,
beside a busy process` is the untraced application while another process computes, as the one that evaluates does.
"""

import argparse
import platform
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path

from libraries import OURS, PEERS, UNTRACED
from processes import python_of, run_app

from applications import APPLICATIONS

Figures = Mapping[str, float]
Rounds = list[dict[str, Figures]]
"""The figures of each library, by round."""


def libraries_of(application: str, chosen: Sequence[str]) -> list[str]:
    """The libraries that can trace an application, beginning with none."""
    missing = set()
    if application.startswith("llama"):
        missing.add("langfuse")  # it has no instrumentation of its own for LlamaIndex
    if application.endswith("tasks"):
        missing.add("by hand")
    return ["none", *(name for name in chosen if name not in missing and name != "none")]


def measure(options: argparse.Namespace, pythons: Mapping[str, str]) -> dict[str, Rounds]:
    """Runs rounds until the next one would not end in time; at least one."""
    results: dict[str, Rounds] = {application: [] for application in options.application}
    began = time.monotonic()
    longest = 0.0
    while not longest or time.monotonic() - began + longest < options.minutes * 60:
        start = time.monotonic()
        for application, rounds in results.items():
            arguments = {
                library: (application, library, str(options.requests), "--content", options.content)
                for library in libraries_of(application, options.library)
            }
            rounds.append({library: run_app(pythons[library], each) for library, each in arguments.items()})
        longest = max(longest, time.monotonic() - start)
    return results


def report(application: str, rounds: Rounds) -> None:
    """Prints the table of an application."""
    base = _median(each["none"]["cpu_us"] for each in rounds)
    print(f"\n### {application}\n\nUntraced: {base:,.0f} µs of CPU a request.\n")
    print("| traced by | spans | added CPU, µs | / OpenInference | / OpenTelemetry | p50, µs | p99, µs "
          "| memory, MiB | bytes | start, ms |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|---|")
    for library in rounds[0]:
        print(f"| {library} | {' | '.join(_cells(rounds, library))} |")


def _cells(rounds: Rounds, library: str) -> list[str]:
    def middle(name: str) -> str:
        return f"{_median(each[library][name] for each in rounds):,.0f}"

    added = [each[library]["cpu_us"] - each["none"]["cpu_us"] for each in rounds]
    ratios = [
        f"{statistics.median(added) / _median(r[peer]['cpu_us'] - r['none']['cpu_us'] for r in rounds):.2f}"
        if peer in rounds[0] and library not in UNTRACED
        else ""
        for peer in ("openinference", "opentelemetry")
    ]
    growth = f"{_median(each[library]['memory_mib'] - each['none']['memory_mib'] for each in rounds):+,.0f}"
    cost = "" if library in UNTRACED else f"{statistics.median(added):,.0f} ({min(added):,.0f} to {max(added):,.0f})"
    ends = (middle("memory_mib") if library == "none" else growth, middle("bytes"), middle("start_ms"))
    return [f"{rounds[0][library]['spans']:g}", cost, *ratios, middle("p50_us"), middle("p99_us"), *ends]


def _median(values: Iterable[float]) -> float:
    return statistics.median(values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=9)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--application", "--framework", choices=sorted(APPLICATIONS), action="append")
    parser.add_argument("--library", choices=(*OURS, *PEERS), action="append")
    parser.add_argument("--content", choices=("full", "none"), default="full")
    parser.add_argument("--peers", type=Path, default=Path(".bench"))
    options = parser.parse_args()
    options.application = options.application or list(APPLICATIONS)
    options.library = options.library or [*OURS, *PEERS]
    pythons = {library: python_of(library, options.peers) for library in {"none", *options.library}}
    results = measure(options, pythons)
    count = len(next(iter(results.values())))
    print(
        f"{date.today():%d %B %Y}, {platform.machine()}, Python {platform.python_version()}, content "
        f"{options.content}: {count} rounds of {options.requests} requests. Memory is the growth of the peak, "
        "start the CPU time of importing the library and switching it on."
    )
    for application, rounds in results.items():
        report(application, rounds)


if __name__ == "__main__":
    main()
