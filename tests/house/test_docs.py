"""The generated pages are those that the code makes, and the README's programs run."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from ragtrace import calibrations
from ragtrace._version import __version__
from ragtrace.chatlogs import schema_upgrade
from ragtrace.transport import message

ROOT = Path(__file__).parents[2]
_spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
assert _spec is not None
assert _spec.loader is not None
generate = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(generate)


@pytest.mark.parametrize("page", sorted(generate.PAGES))
def test_generated_pages_are_up_to_date(page: str) -> None:
    """`make docs` was run after the last change."""
    assert (ROOT / "docs" / page).read_text(encoding="utf-8") == generate.PAGES[page]()


def test_links_lead_somewhere() -> None:
    """Every relative link in README, CHANGELOG, CONTRIBUTING, docs and examples is a file."""
    below = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("README.md")]
    for page in [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *below]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.process
@pytest.mark.parametrize("example", ["langchain_app.py", "llama_index_app.py"])
def test_examples_run(example: str, tmp_path: Path) -> None:
    """The examples run as they stand, offline, and leave scored spans."""
    command = [sys.executable, str(ROOT / "examples" / example)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    spans = (tmp_path / "ragtrace-spans.jsonl").read_text(encoding="utf-8")
    assert "gen_ai.evaluation.groundedness.score" in spans


@pytest.mark.parametrize(("page", "least"), [("architecture.md", 30), ("stability.md", 10)])
def test_pages_name_real_places(page: str, least: int) -> None:
    """Every file and folder of the code that these pages name exists."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    names = re.findall(r"`((?:ragtrace|integrations|exporters|tests|tools|training|benchmarks|grafana)/[\w/.]*)`", text)
    missing = [name for name in names if not (ROOT / name).exists()]
    assert len(names) > least
    assert not missing


def test_stability_page_has_the_numbers_of_the_code() -> None:
    """docs/stability.md has the release, its store's migration, the numbers of its file forms, and the supported
    Pythons."""
    text = (ROOT / "docs" / "stability.md").read_text(encoding="utf-8")
    minor = ".".join(__version__.split(".")[:2])
    assert f"ragtrace-otel>={minor}," in text
    assert f"a migration, {schema_upgrade.HEAD} in release {minor}" in text
    assert f'`"schema": {calibrations.SCHEMA}`' in text
    assert f"`ragtrace-schema`, `{message.SCHEMA}`" in text
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    prefix = "Programming Language :: Python :: 3."
    pythons = [name.rpartition(" ")[2] for name in project["classifiers"] if name.startswith(prefix)]
    assert f"| Python | {', '.join(pythons)};" in text


def test_changelog_has_the_release() -> None:
    """The changelog begins with a part for what is not released, and then the release that the code names, dated."""
    titles = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert titles[0] == "Unreleased"
    assert re.fullmatch(rf"{re.escape(__version__)} \(\d{{4}}-\d\d-\d\d\)", titles[1])


def test_architecture_lists_the_layers_in_order() -> None:
    """The table of folders in docs/architecture.md has the order of the import contract."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").partition("## Folders")[2]
    table = re.findall(r"^\| `ragtrace/(\w+)(?:/|\.py)` \|", text.partition("## One place")[0], re.MULTILINE)
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    order = [name for layer in layers for name in re.findall(r"ragtrace\.(\w+)", layer) if name in table]
    assert table == order
