"""How many instructions tracing adds to a request, for ragtrace and its peers.

    python benchmarks/overhead/instructions.py [--application langchain] [--content full] [--requests 50]
        [--library ragtrace] [--source FOLDER] [--peers .bench]

Unlike times, instructions do not depend on what else the machine does: two runs differ by about 1 %. Each library runs
in a process of its own under valgrind's callgrind, which counts the instructions of a fixed number of requests and of
their export, of the application's threads alone and of all threads. Needs valgrind (`apt install valgrind`), and takes
one to two minutes for each library. `--source` measures the ragtrace of another working tree, e.g. of another commit.
Peers are installed below the folder `--peers` when they are not there yet.
"""

from __future__ import annotations

import argparse
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from libraries import ENCODER, OURS, PEERS, SDK
from processes import REPOSITORY, python_of, run_app
from run import libraries_of

from applications import APPLICATIONS

_LIBRARIES = ("none", "by hand", "ragtrace", SDK, ENCODER, *PEERS)


@dataclass(frozen=True, slots=True)
class Count:
    """Instructions of a request."""

    application: float
    """Of the main thread and of the threads that it starts for a request."""
    all: float
    """Of all threads of the process."""
    bytes: float
    """Exported bytes."""

    def minus(self, other: Count) -> Count:
        """Returns what this one has more."""
        return Count(self.application - other.application, self.all - other.all, self.bytes - other.bytes)


def count(library: str, application: str, options: argparse.Namespace) -> Count:
    """Counts the instructions of a request."""
    requests = options.requests
    with tempfile.TemporaryDirectory() as folder:
        valgrind = (
            "valgrind", "--tool=callgrind", "--instr-atstart=no", "--separate-threads=yes", "--zero-before=getsid",
            "--dump-before=getpgid", f"--callgrind-out-file={folder}/out",
        )  # fmt: skip
        arguments = (application, library, str(requests), "--content", options.content, "--warm", "30", "--callgrind")
        python = python_of(library, options.peers)
        figures = run_app(python, arguments, options.source, valgrind)
        # At the marks callgrind sets to zero, and writes, what the main thread did; other threads are idle before.
        main = _total(Path(folder) / "out.1-01")
        others = [_total(file) for file in sorted(Path(folder).glob("out-*"))[1:]]
    exporting = sum(others[: int(figures["background_threads"])])
    own = main + sum(others) - exporting
    return Count(own / requests, (own + exporting) / requests, figures["bytes"])


def _total(file: Path) -> int:
    """Returns the instructions of a thread."""
    total = re.search(r"^totals: (\d+)", file.read_text(errors="replace"), re.M)
    return int(total[1]) if total else 0


def report(application: str, content: str, counts: Mapping[str, Count]) -> None:
    """Prints a table of what each library adds, in thousands of instructions, and its ratios to the peers."""
    base = counts["none"]
    print(
        f"\n{application}, content {content}; untraced: {base.all / 1000:,.0f} thousand instructions a request\n\n"
        "| traced by | application's threads | all threads | / OpenInference | / OpenTelemetry | bytes |\n"
        "|---|---|---|---|---|---|"
    )
    for library, each in counts.items():
        added = each.minus(base)
        ratios = [
            f"{added.all / counts[peer].minus(base).all:.2f}" if peer in counts and library != "none" else ""
            for peer in ("openinference", "opentelemetry")
        ]
        cells = [f"{added.application / 1000:,.0f}", f"{added.all / 1000:,.0f}", *ratios, f"{each.bytes:,.0f}"]
        print(f"| {library} | {' | '.join(cells)} |", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--application", "--framework", choices=sorted(APPLICATIONS), action="append")
    parser.add_argument("--library", choices=(*OURS, *PEERS), action="append", help="all by default")
    parser.add_argument("--content", choices=("full", "none"), default="full")
    parser.add_argument("--requests", type=int, default=50)
    parser.add_argument("--source", type=Path, default=REPOSITORY)
    parser.add_argument("--peers", type=Path, default=Path(".bench"))
    options = parser.parse_args(arguments)
    if shutil.which("valgrind") is None:
        parser.exit(1, "valgrind is not installed: apt install valgrind\n")
    for application in options.application or ("langchain", "langgraph", "llama-index"):
        libraries = libraries_of(application, options.library or _LIBRARIES)
        report(application, options.content, {name: count(name, application, options) for name in libraries})


if __name__ == "__main__":
    main()
