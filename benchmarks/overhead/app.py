"""One process, one application, one way of tracing: what a request costs. Run by `run.py` and `instructions.py`.

    python app.py APPLICATION LIBRARY REQUESTS [--content full|none] [--warm 100] [--callgrind]

Prints one JSON line. `cpu_us` is the CPU time of the whole process for a request, the encoding of what is exported to
OTLP included; `p50_us` and `p99_us` are the request's own durations, `bytes` what is exported for it. `start_ms` is the
CPU time that importing the library and switching it on takes, `memory_mib` the process's peak.

`--callgrind` has valgrind count from the end of the warm-up, and marks the requests for it: they are between calls of
`getsid` and of `getpgid`.
"""

import argparse
import gc
import json
import os
import resource
import subprocess
import sys
import threading
import time
from functools import partial
from typing import Any

from libraries import BUSY, Encoded, by_hand, drain, instrument, make_provider, set_environment

from applications import APPLICATIONS, Ask


def _count_from_here() -> None:
    """Has callgrind count from now on."""
    with subprocess.Popen(["callgrind_control", "-i", "on", str(os.getpid())], stdout=subprocess.DEVNULL) as control:
        while control.poll() is None:  # valgrind answers only while the program runs
            time.sleep(0.05)


def measure(options: argparse.Namespace) -> dict[str, float]:
    """Serves the requests and returns what they cost."""
    framework = "llama_index" if options.application.startswith("llama") else "langchain"
    _import_framework(framework)
    exporter, start = Encoded(options.library), time.process_time()
    provider: Any = make_provider(options.library, exporter)
    instrument(framework, options.library, provider, options.content, exporter)
    background = threading.active_count() - 1
    neighbour = subprocess.Popen([sys.executable, "-c", _BUSY]) if options.library == BUSY else None
    started = time.process_time() - start
    serve = APPLICATIONS[options.application](partial(by_hand, provider) if options.library == "by hand" else _as_is)
    serve(options.warm)
    drain(provider)
    gc.collect()
    exporter.spans = exporter.bytes = 0
    if options.callgrind:
        gc.freeze()  # whether a collection of all that was imported falls into these few requests is chance
        _count_from_here()
    os.getsid(0)
    start = time.process_time()
    durations = serve(options.requests)
    drain(provider)
    cpu = (time.process_time() - start) / options.requests * 1e6
    os.getpgid(0)
    if neighbour is not None:
        neighbour.kill()
    durations.sort()
    return {
        "cpu_us": round(cpu, 1), "p50_us": round(durations[len(durations) // 2], 1),
        "p99_us": round(durations[int(len(durations) * 0.99)], 1), "spans": round(exporter.spans / options.requests, 1),
        "bytes": round(exporter.bytes / options.requests),
        "memory_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "background_threads": background, "start_ms": round(started * 1000, 1),
    }  # fmt: skip


_BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"


def _as_is(ask: Ask) -> Ask:
    return ask


def _import_framework(framework: str) -> None:
    """Imports what the application needs anyway, so that it is not counted as the library's start."""
    if framework == "langchain":
        import langchain_core.language_models
        import langchain_core.runnables  # noqa: F401
    else:
        import llama_index.core  # noqa: F401


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("application", choices=sorted(APPLICATIONS))
    parser.add_argument("library")
    parser.add_argument("requests", type=int)
    parser.add_argument("--content", choices=("full", "none"), default="full")
    parser.add_argument("--warm", type=int, default=100)
    parser.add_argument("--callgrind", action="store_true")
    options = parser.parse_args()
    set_environment(options.content)
    print(json.dumps(measure(options)))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
