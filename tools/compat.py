"""Runs the tests with the oldest and the newest supported release of each framework and backend: `make compat`.

Each combination has an environment of its own under build/compat. A framework's environment has the project and the
releases of the combination; all other packages have the releases of the environment that runs this program, and the
capture tests run there. A backend's environment has the server alone; the tests run in the environment of this program
and start that server. The table of results goes to standard output and, with --write, to docs/compatibility.md.
"""

import argparse
import importlib.metadata
import os
import re
import subprocess
import sys
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "compat"
PAGE = ROOT / "docs" / "compatibility.md"
BEGIN = "<!-- table: begin -->\n"
END = "<!-- table: end -->"
TOOLS = ("pytest", "pytest-asyncio", "pytest-timeout", "hypothesis", "jsonschema", "numpy", "opentelemetry-util-genai")
"""What the capture tests need beside the project and a framework."""
VARIED = re.compile(
    "langchain|langgraph|langsmith|llama|workflows|opentelemetry|protobuf|grpcio|packaging|tenacity|wrapt|zipp|typing"
    "|importlib|anthropic|openai|cohere|litellm|ragtrace|pip$|setuptools$",
    re.IGNORECASE,
)
"""Packages of which an older framework may need another release than this environment has."""


@dataclass(frozen=True)
class Combination:
    """Releases that are tested together."""

    name: str
    releases: tuple[str, ...]
    tests: tuple[str, ...]
    shown: tuple[str, ...]
    """Distributions whose releases the table shows."""
    server: str = ""
    """Of a backend: the program of its server, which the tests start. They find it by `COMPAT_<SERVER>`."""


def _modules(folder: str, names: str) -> tuple[str, ...]:
    return tuple(f"tests/{folder}/test_{name}.py" for name in names.split())


_LANGCHAIN = ("langchain-core", "langgraph")
_LLAMA_INDEX = ("llama-index-core", "llama-index-instrumentation", "llama-index-workflows")
_OPENTELEMETRY = ("opentelemetry-sdk", "opentelemetry-instrumentation")
_EXPORT_TESTS = _modules("otlp", "hold otlp_wire")
# The capture matrices are not among the tests: they start a process for each case, and `make test` runs them.
COMBINATIONS = (
    Combination(
        "langchain-oldest",
        ("langchain-core==0.3.0", "langgraph==0.2.28", "langgraph-checkpoint==1.0.12", "langsmith==0.1.147"),
        _modules("langchain", "handler requests usage"),
        _LANGCHAIN,
    ),
    Combination(
        "langchain-newest",
        ("langchain-core<2", "langgraph", "langchain", "langchain-classic"),
        _modules("langchain", "documents graphs handler messages requests usage"),
        _LANGCHAIN,
    ),
    Combination(
        "llama-index-oldest",
        ("llama-index-core==0.12.45",),
        _modules("llama_index", "traps spans overrides replies"),
        _LLAMA_INDEX,
    ),
    Combination(
        "llama-index-newest",
        ("llama-index-core<0.15",),
        _modules("llama_index", "indexing messages overrides replies spans traps workflows"),
        _LLAMA_INDEX,
    ),
    Combination(
        "opentelemetry-oldest",
        ("opentelemetry-sdk==1.39.0", "opentelemetry-instrumentation==0.60b0", "langchain-core<2", "langgraph"),
        _EXPORT_TESTS,
        _OPENTELEMETRY,
    ),
    Combination(
        "opentelemetry-newest", (*_OPENTELEMETRY, "langchain-core<2", "langgraph"), _EXPORT_TESTS, _OPENTELEMETRY
    ),
    # Older releases of Phoenix do not start with today's packages below them; MLflow 3.12 reads no cached tokens.
    Combination("phoenix-oldest", ("arize-phoenix==18.0.0",), ("tests/backends",), ("arize-phoenix",), "phoenix"),
    Combination("phoenix-newest", ("arize-phoenix",), ("tests/backends",), ("arize-phoenix",), "phoenix"),
    Combination("mlflow-oldest", ("mlflow==3.17.0",), ("tests/backends",), ("mlflow",), "mlflow"),
    Combination("mlflow-newest", ("mlflow",), ("tests/backends",), ("mlflow",), "mlflow"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 if the tests of all chosen combinations passed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"combinations (all): {', '.join(c.name for c in COMBINATIONS)}")
    parser.add_argument("--write", action="store_true", help=f"write the table to {PAGE.relative_to(ROOT)}")
    options = parser.parse_args(arguments)
    chosen = [c for c in COMBINATIONS if not options.names or c.name in options.names]
    rows = ["| combination | releases | result |", "|---|---|---|"]
    for combination in chosen:
        rows.append(_run(combination))
        print(rows[-1], file=sys.stderr, flush=True)
    table = "\n".join(rows)
    print(table)
    if options.write:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}{datetime.now(UTC):%Y-%m-%d}\n\n{table}\n\n{END}{rest.partition(END)[2]}")
    return int(any("failed" in row for row in rows))


def _run(combination: Combination) -> str:
    print(f"{combination.name}: installing", file=sys.stderr, flush=True)
    folder = BUILD / combination.name
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    if error := _install(combination, python):
        return f"| {combination.name} | {', '.join(combination.releases)} | failed to install: {error} |"
    freeze = [python, "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check"]
    releases = subprocess.run(freeze, capture_output=True, text=True, check=True).stdout.splitlines()
    shown = ", ".join(line.replace("==", " ") for line in releases if line.split("==")[0] in combination.shown)
    print(f"{combination.name}: testing {shown}", file=sys.stderr, flush=True)
    # Old frameworks warn of new libraries below them, which is no failure here.
    command = ["-m", "pytest", "-q", "-W", "default", "-p", "no:cacheprovider", *combination.tests]
    environment = dict(os.environ)
    if server := combination.server:
        python, command = Path(sys.executable), [*command, "-k", server]
        environment[f"COMPAT_{server.upper()}"] = str(folder / "bin" / server)
        environment.setdefault("RAGTRACE_SCORES", "10000" if server == "phoenix" else "1000")
    tests = subprocess.run([python, *command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    (folder / "tests.log").write_text(tests.stdout + tests.stderr)
    return f"| {combination.name} | {shown} | {_summary(tests.stdout, folder)} |"


def _install(combination: Combination, python: Path) -> str:
    """Install the releases, and beside a framework the project; the last line of an error, or an empty text."""
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if combination.server:
        command += combination.releases
    else:
        constraints = python.parent.parent / "constraints.txt"
        installed = importlib.metadata.distributions()
        pins = [f"{d.name}=={d.version}\n" for d in installed if d.name and not VARIED.match(d.name)]
        constraints.write_text("".join(pins))
        project = f"{ROOT}[otlp,prometheus]"
        command += ["--constraint", constraints, "--editable", project, *combination.releases, *TOOLS]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PIP_NO_INPUT": "1"})
    return done.stderr.strip().splitlines()[-1] if done.returncode else ""


def _summary(output: str, folder: Path) -> str:
    last = next((line for line in reversed(output.splitlines()) if re.search(r"\d+ (passed|failed|error)", line)), "")
    counts = ", ".join(re.findall(r"\d+ (?:passed|failed|errors?|skipped)", last))
    return counts if counts and "error" not in counts else f"failed ({folder.relative_to(ROOT) / 'tests.log'})"


if __name__ == "__main__":
    sys.exit(main())
