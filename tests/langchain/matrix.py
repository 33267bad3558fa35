"""The capture matrix for ragtrace and its peers.

    python -m tests.langchain.matrix --write [--peers .bench/matrix]

runs every case of `tests/langchain/cases.py` and `tests/llama_index/cases.py` under each library, each in a process,
and writes `docs/capture-matrix.md`. A peer that cannot be installed (below `--peers`) or run says so in its column."""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.langchain import observation
from tests.langchain.observation import faults, load, watch
from tests.row_files import table
from tests.spans.record import interpreter, versions

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "capture-matrix.md"
LIBRARIES: dict[str, dict[str, str]] = table(observation.__file__, "libraries")
FRAMEWORKS = {
    # numpy: for its vector store
    "langchain": ("LangChain and LangGraph", ["langchain-core", "langgraph", "langchain-classic", "numpy"]),
    "llama_index": ("LlamaIndex", ["llama-index-core"]),
}
ALSO_NEEDED: dict[str, dict[str, list[str]]] = table(observation.__file__, "also needed")
"""What a library imports without requiring it."""
Results = dict[str, list[str] | None]


@dataclass(frozen=True, slots=True)
class Row:
    """A case as the matrix shows it."""

    title: str
    case: Any
    run: Any
    passages: dict[str, str]
    ambient: bool = False


def rows(framework: str) -> Iterator[Row]:
    """The cases of a framework, and one of them again below a web framework's span."""
    if framework == "langchain":
        from tests.langchain.cases import CASES, PASSAGES

        for case in CASES.values():
            expected = case.documents or ()
            yield Row(case.row, case, case.run, {f"d{i}": t for i, t in enumerate(PASSAGES) if t in expected})
        yield Row("under an ambient span", CASES["invoke"], CASES["invoke"].run, {}, ambient=True)
        return
    from tests.llama_index import cases

    texts = {node.node_id: node.text for node in cases.NODES}
    for entry in cases.CASES.values():
        # Documents that are given to a synthesizer come from no retrieval.
        retrieved = () if entry.name == "retrieve_and_synthesize" else entry.documents
        passages = {i: texts[i] for i in retrieved if i in texts}
        yield Row(entry.name.replace("_", " "), entry, lambda _config, e=entry: e.run(), passages)
    first = cases.CASES["query"]
    yield Row("under an ambient span", first, lambda _config: first.run(), {}, ambient=True)


def judge(row: Row, framework: str, library: str) -> list[str]:
    """What is wrong with one case, found in a process of its own: what one case leaves open is not the next one's."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            found = faults(row.case, row.passages, watch(row.run, framework, library, row.ambient))
        except BaseException as error:  # noqa: BLE001 a peer may raise anything: its cell says so
            found = [f"raises {type(error).__name__}"]
        os.write(writer, json.dumps(found).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return list(json.loads(said) if said else ["does not end"])


def run_all(framework: str, library: str) -> None:
    """Print one JSON object: versions, and the faults of every case."""
    load(framework, library)  # before the forks: one that is not there is told apart from one that breaks a case
    if framework == "langchain":
        import langchain_classic.retrievers  # noqa: F401
    results = {row.title: judge(row, framework, library) for row in rows(framework)}
    releases = versions(LIBRARIES[framework][library], *FRAMEWORKS[framework][1])
    print(json.dumps({"versions": releases, "results": results}))


def python_of(peers: Path, framework: str, library: str) -> str:
    """The interpreter that has a library, with the same release of the framework as this one."""
    if library == "ragtrace":
        return sys.executable
    pinned = [f"{name}=={version(name)}" for name in FRAMEWORKS[framework][1]]
    also = ALSO_NEEDED[framework].get(library, [])
    return interpreter(peers / f"{framework}-{library}", *pinned, LIBRARIES[framework][library], *also)


def ask(peers: Path, framework: str, library: str) -> dict[str, Any] | None:
    """All cases under one library, or None where it does not run."""
    command = [python_of(peers, framework, library), "-W", "ignore", "-m", "tests.langchain.matrix"]
    done = subprocess.run(
        [*command, "--framework", framework, "--library", library], cwd=ROOT, capture_output=True, text=True,
        check=False, timeout=900,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"versions"')]
    if not lines:
        print(f"{framework}/{library} does not run:\n{done.stderr[-2000:]}", file=sys.stderr)
        return None
    return dict(json.loads(lines[-1]))


def _short(fault: str) -> str:
    """A fault without its counts, so that cases with the same faults share a row."""
    if match := re.fullmatch(r"(\d+) traces? for (\d+)", fault):
        return "too few traces" if int(match[1]) < int(match[2]) else "too many traces"
    fault = re.sub(r"^\d+ (?=without parent|never ended)", "", fault)
    return re.sub(r"^(session|user|tags) on \d+ of \d+ spans$", r"\1", fault)


def cell(found: list[str] | None) -> str:
    if found is None:
        return "does not run"
    missing = ", ".join(map(_short, found or []))
    missing = missing.replace("no question on root", "question").replace("no answer on root", "answer")
    return f"✘ {missing}" if found else "✔"


def page(peers: Path) -> str:
    """The page as Markdown: what stands before and after its tables is kept."""
    written = PAGE.read_text(encoding="utf-8")
    lines = [written[: written.index("\n## LangChain")]]
    for framework, (title, _) in FRAMEWORKS.items():
        answers = {library: ask(peers, framework, library) for library in LIBRARIES[framework]}
        seen: dict[str, str] = {}
        for answer in answers.values():
            seen |= answer["versions"] if answer else {}
        lines += [f"## {title}", "", ", ".join(f"{name} {number}" for name, number in seen.items()) + ".", ""]
        lines += [f"| case | {' | '.join(answers)} |", "|---" * (len(answers) + 1) + "|"]
        results = [answer and answer["results"].values() for answer in answers.values()]
        totals = [f"{sum(not each for each in some)} of {len(some)}" if some else "does not run" for some in results]
        cases: dict[str, list[str]] = {}
        for row in rows(framework):
            cells = [cell(answer["results"].get(row.title) if answer else None) for answer in answers.values()]
            cases.setdefault(" | ".join(cells), []).append(row.title)
        lines += [f"| {'; '.join(titles)} | {cells} |" for cells, titles in cases.items()]
        lines += [f"| **as expected** | {' | '.join(totals)} |", ""]
    return "\n".join([*lines, written[written.index("## What is not captured") :]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the page instead of printing it")
    parser.add_argument("--peers", type=Path, default=Path(".bench/matrix"))
    parser.add_argument("--framework", choices=sorted(FRAMEWORKS))
    parser.add_argument("--library")
    options = parser.parse_args()
    if options.library:
        run_all(options.framework or "langchain", options.library)
        return
    made = page(options.peers.resolve())
    if options.write:
        PAGE.write_text(made, encoding="utf-8")
    else:
        print(made)


if __name__ == "__main__":
    main()
