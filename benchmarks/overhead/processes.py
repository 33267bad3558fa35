"""Runs `app.py` in processes of its own, for peers in virtual environments of their own."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from libraries import PEERS

APP = Path(__file__).with_name("app.py")
REPOSITORY = APP.parents[2]
_FRAMEWORKS = ("langchain", "langchain-core", "langgraph", "llama-index-core", "opentelemetry-sdk")
_EXPORTER = "opentelemetry-exporter-otlp-proto-common"


def python_of(library: str, folder: Path) -> str:
    """Returns the interpreter that has a library, with the same releases of the frameworks as this one. Makes the
    virtual environment of a peer below `folder` where it is missing."""
    if library not in PEERS:
        return sys.executable
    python = folder.resolve() / library / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(python.parents[1])], check=True)
        pinned = [f"{name}=={version(name)}" for name in _FRAMEWORKS]
        packages = [*pinned, _EXPORTER, *PEERS[library]]
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *packages], check=True)
    return str(python)


def run_app(
    python: str, arguments: Sequence[str], source: Path = REPOSITORY, before: Sequence[str] = ()
) -> dict[str, float]:
    """Runs `app.py` with ragtrace from the working tree `source`, and returns its figures. `before` is a command that
    runs the interpreter, e.g. valgrind. Raises RuntimeError with the output of a run that failed."""
    folders = (source, source / "integrations", source / "exporters")
    # Hashes decide how often the same dictionaries collide: without a fixed seed no two runs are the same.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, folders)), "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        [*before, python, "-W", "ignore", str(APP), *arguments], env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    if done.returncode or not done.stdout:
        raise RuntimeError(f"{' '.join(arguments)} failed in {python}:\n{done.stderr[-2000:]}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures
