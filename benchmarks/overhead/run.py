"""What tracing adds to a request, for ragtrace and its peers.

    python benchmarks/overhead/run.py [--rounds 5] [--requests 600] [--framework langchain] [--peers .bench]

Each library runs in a process of its own, in turn, for several rounds; within a round the untraced application is
taken off, and the median of these differences is printed with its ratio to the peers. Peers are installed into
virtual environments below the folder `--peers` when they are not there yet. `ragtrace` exports as it sets itself up, in
batches whose encoding steps aside now and then; `ragtrace, stock` through the SDK's own batch processor, as all others
do.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

APP = Path(__file__).with_name("app.py")
OURS = ("none", "by hand", "ragtrace", "ragtrace, stock", "ragtrace+evaluation")
PEERS = {
    ("langchain", "openinference"): ["openinference-instrumentation-langchain"],
    ("langchain", "opentelemetry"): ["opentelemetry-instrumentation-genai-langchain", "langchain<2"],
    ("llama_index", "openinference"): ["openinference-instrumentation-llama-index"],
    ("llama_index", "opentelemetry"): ["opentelemetry-instrumentation-genai-llama-index"],
}
FRAMEWORK = {"langchain": "langchain-core", "llama_index": "llama-index-core"}


def peer_python(folder: Path, framework: str, library: str) -> str:
    """The interpreter that has a peer, with the same release of the framework as this one."""
    from importlib.metadata import version

    home = folder / f"{framework}-{library}"
    python = home / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        pinned = f"{FRAMEWORK[framework]}=={version(FRAMEWORK[framework])}"
        packages = [pinned, "opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-common"]
        packages += PEERS[framework, library]
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *packages], check=True)
    return str(python)


def measure(python: str, framework: str, library: str, requests: int) -> dict[str, float]:
    done = subprocess.run(
        [python, "-W", "ignore", str(APP), framework, library, str(requests)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=600)
    parser.add_argument("--framework", choices=sorted(FRAMEWORK), action="append")
    parser.add_argument("--peers", type=Path, default=Path(".bench"))
    options = parser.parse_args()
    for framework in options.framework or sorted(FRAMEWORK):
        pythons = dict.fromkeys(OURS, sys.executable)
        for of, library in PEERS:
            if of == framework:
                pythons[library] = peer_python(options.peers.resolve(), framework, library)
        report(framework, pythons, options.rounds, options.requests)


def report(framework: str, pythons: dict[str, str], rounds: int, requests: int) -> None:
    runs = [
        {library: measure(python, framework, library, requests) for library, python in pythons.items()}
        for _ in range(rounds)
    ]
    base = statistics.median(run["none"]["cpu_us"] for run in runs)
    added = {
        library: statistics.median(run[library]["cpu_us"] - run["none"]["cpu_us"] for run in runs)
        for library in pythons
    }
    print(f"\n{framework}, {rounds} rounds of {requests} requests; untraced: {base:.0f} us of CPU a request\n")
    print("| traced by | spans | added CPU, us | / by hand | / OpenInference | / OpenTelemetry | p50, us | p99, us |")
    print("|---|---|---|---|---|---|---|---|")
    for library in pythons:
        last = [run[library] for run in runs]
        ratios = [
            f"{added[library] / added[peer]:.2f}" if peer in added and library != "none" else ""
            for peer in ("by hand", "openinference", "opentelemetry")
        ]
        p50, p99 = (statistics.median(r[key] for r in last) for key in ("p50_us", "p99_us"))
        cells = [library, f"{last[0]['spans']:g}", f"{added[library]:.0f}", *ratios, f"{p50:.0f}", f"{p99:.0f}"]
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
