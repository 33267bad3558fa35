"""A worker in a process of its own, which can be killed."""

import contextlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from tests.worker.running import post, wait_for

_ADDRESS = re.compile(r"OTLP over HTTP at 127\.0\.0\.1:(\d+)")


@contextlib.contextmanager
def worker_process(folder: Path, endpoint: str, **settings: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A worker in a process of its own, and where it receives. `settings` are as in the environment, without prefix."""
    command = [sys.executable, "-m", "ragtrace", "worker", "--http", "127.0.0.1:0", "--to", endpoint]
    command += ["--buffer", str(folder / "buffer.db")]
    own = {"evaluators": "groundedness_lexical", "sample_per_second": "0", "workers": "0"}
    own |= {"worker_quiet_seconds": "0.2", **settings}
    environment = os.environ | {f"RAGTRACE_{name.upper()}": value for name, value in own.items()}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    reader = threading.Thread(target=process.stderr.read, daemon=True)  # a full pipe would stop the worker
    try:
        port = next(match[1] for line in process.stderr if (match := _ADDRESS.search(line)))
        reader.start()
        url = f"http://127.0.0.1:{port}"
        wait_for(lambda: _is_ready(url), bool)
        yield process, f"{url}/v1/traces"
    finally:
        process.kill()
        process.wait()
        reader.join()
        process.stderr.close()


def _is_ready(url: str) -> bool:
    with contextlib.suppress(OSError):
        return post(f"{url}/readyz")[0] == 200
    return False
