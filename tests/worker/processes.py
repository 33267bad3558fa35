"""A worker in a process of its own, which can be killed."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tests.worker.running import wait_for

_ADDRESS = re.compile(r"OTLP over HTTP at 127\.0\.0\.1:(\d+)")


@contextlib.contextmanager
def worker_process(folder: Path, endpoint: str, **settings: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A worker in a process of its own, and where it receives. `settings` are as in the environment, without prefix."""
    command = [sys.executable, "-m", "ragtrace", "worker", "--http", "127.0.0.1:0", "--to", endpoint]
    environment = {
        **os.environ,
        "RAGTRACE_EVALUATORS": "groundedness_lexical",
        "RAGTRACE_SAMPLE_PER_SECOND": "0",
        "RAGTRACE_WORKER_QUIET_SECONDS": "0.2",
        "RAGTRACE_WORKERS": "0",
        **{f"RAGTRACE_{name.upper()}": value for name, value in settings.items()},
    }
    process = subprocess.Popen(
        [*command, "--buffer", str(folder / "buffer.db")], env=environment, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    reader = threading.Thread(target=process.stderr.read, daemon=True)  # a full pipe would stop the worker
    try:
        port = next(match[1] for line in process.stderr if (match := _ADDRESS.search(line)))
        reader.start()
        url = f"http://127.0.0.1:{port}"
        wait_for(lambda: is_ready(url), bool)
        yield process, f"{url}/v1/traces"
    finally:
        process.kill()
        process.wait()
        reader.join()
        process.stderr.close()


def is_ready(url: str) -> bool:
    """Whether the worker at this address takes requests."""
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
