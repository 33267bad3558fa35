"""A copy of an example, so that what it writes stays out of the repository; and what its spans say over OTLP."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from ragtrace.console.chatlogs.store import open_store
from ragtrace.console.chatlogs.store_types import StoredTrace
from tests.applications.processes import WAIT, running
from tests.otlp.receivers import Received, http_server, plain

EXAMPLES = Path(__file__).parents[2] / "examples"
VERDICT = "gen_ai.evaluation.{}.label"


def copy_example(name: str, folder: Path) -> Path:
    return Path(shutil.copytree(EXAMPLES / name, folder / name, ignore=shutil.ignore_patterns("__pycache__")))


@contextmanager
def started(name: str, folder: Path, command: tuple[str, ...], **variables: str) -> Iterator[Any]:
    """Runs a command in a copy of `examples/NAME`; gives the copy, what is sent over OTLP, and the process."""
    copy = copy_example(name, folder)
    with http_server() as (endpoint, received):
        variables["RAGTRACE_OTLP_ENDPOINT"] = endpoint
        with running(copy, endpoint, command, **variables) as application:
            yield copy, received, application


def run_script(folder: Path, script: str, **variables: str) -> str:
    """Runs a script of the copy; returns what it prints."""
    options: Any = {"cwd": folder, "env": {**os.environ, **variables}, "timeout": WAIT}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def scored_spans(received: Received, evaluator: str) -> dict[str, dict[str, Any]]:
    """Returns the attributes of the spans with a verdict of the evaluator, by the hexadecimal id of their trace."""
    scopes = [scope for resource in received.traces.resource_spans for scope in resource.scope_spans]
    spans = [(span.trace_id.hex(), plain(span.attributes)) for scope in scopes for span in scope.spans]
    return {trace: attributes for trace, attributes in spans if VERDICT.format(evaluator) in attributes}


def stored_request(store: Path, trace_id: str) -> StoredTrace:
    with closing(open_store(str(store), create=False)) as opened:
        stored = opened.get(trace_id)
    assert stored is not None
    return stored
