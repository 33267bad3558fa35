"""The generated pages are those that the code makes, and the README's programs run."""

import fnmatch
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import generate
import picture_sources
import pytest

from benchmarks import scale_model
from ragtrace import calibrations, semconv
from ragtrace._version import __version__
from ragtrace.console.chatlogs import schema_upgrade
from ragtrace_brokers import message
from tests.house import ROOT


@pytest.mark.parametrize("page", sorted(generate.PAGES))
def test_generated_pages_are_up_to_date(page: str) -> None:
    assert (ROOT / "docs" / page).read_text(encoding="utf-8") == generate.PAGES[page]()


def test_pictures_show_what_there_is() -> None:
    """Nothing that a picture shows has changed since it was drawn; its command and its sources exist."""
    assert picture_sources.outdated() == []
    for each in picture_sources.DRAWN.values():
        assert all((ROOT / source).exists() for source in each.sources), each
        assert all((ROOT / word).exists() for word in each.command.split() if word.endswith(".py")), each


def test_every_picture_has_a_command() -> None:
    """Each picture of the documentation is drawn by one command, or by hand, and is shown on a page."""
    docs = ROOT / "docs"
    pictures = {path.relative_to(docs).as_posix() for path in [*docs.glob("*.svg"), *(docs / "pictures").glob("*.*g")]}
    patterns = [*(each.files for each in picture_sources.DRAWN.values()), *picture_sources.BY_HAND]
    assert {path: sum(fnmatch.fnmatch(path, pattern) for pattern in patterns) for path in pictures} == dict.fromkeys(
        pictures, 1
    )
    pages = "".join(page.read_text(encoding="utf-8") for page in [*docs.rglob("*.md"), *ROOT.glob("*/README.md")])
    pages += (ROOT / "README.md").read_text(encoding="utf-8")
    assert [path for path in pictures if Path(path).name not in pages] == []


def test_every_name_on_the_wire_is_described() -> None:
    """docs/attributes.md has each attribute, event and status of `ragtrace/semconv.py`."""
    page = (ROOT / "docs" / "attributes.md").read_text(encoding="utf-8")
    source = (ROOT / "ragtrace" / "semconv.py").read_text(encoding="utf-8")
    names = set(re.findall(r'Final = "([a-z_]+(?:\.[a-z_]+)+)\.?"', source))
    assert len(names) > 100
    ends = {name: ("." + name.split(".", 2)[-1], "." + name.split(".", 1)[-1]) for name in names}
    parts = ("message_content.", "embedding.", "tool_call.")  # fields of lists, by OpenInference's conventions
    missing = [n for n in names if n not in page and not any(f"`{end}`" in page for end in ends[n])]
    assert [name for name in missing if not name.startswith(parts)] == []
    assert [status for status in semconv.STATUSES if f"`{status}`" not in page] == []
    assert [cause for cause in semconv.CAUSES if f"`{cause}`" not in page] == []


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
    patience = {**os.environ, "RAGTRACE_EXIT_SECONDS": "120"}  # a busy machine takes long to load the models
    done = subprocess.run(command, cwd=tmp_path, env=patience, capture_output=True, text=True, check=False)
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
    order = [name for layer in layers for name in re.findall(r"ragtrace\.(\w+)", layer)]
    assert table == sorted(table, key=order.index)


def test_the_scale_page_has_the_tables_of_the_model() -> None:
    """docs/scale.md holds what the script prints today."""
    page = scale_model.PAGE.read_text("utf-8")
    assert scale_model.tables(scale_model.load()) in page


def test_sizes_follow_the_rate_and_the_share() -> None:
    """Cores that evaluate grow with both, cores that take spans with the rate alone."""
    figures = scale_model.load()
    assert scale_model.evaluation_cores(100, 100, 0.1) == pytest.approx(100 * 0.1 * 0.1 / 0.7)
    assert scale_model.intake_cores(figures, 2_000) == pytest.approx(2 * scale_model.intake_cores(figures, 1_000))
    assert scale_model.judge_dollars("gpt-4o-mini", 1e6) == pytest.approx(600)
    assert scale_model.core_dollars(100, 1e5) == pytest.approx(scale_model.core_dollars(100, 1e6) / 10)


@pytest.mark.parametrize("sample", scale_model.SAMPLES)
def test_evaluation_is_full_first(sample: float) -> None:
    """Where one of each runs, evaluation is the first bottleneck at every share that the page shows."""
    capacities = scale_model.capacities(scale_model.load(), sample)
    assert min(capacities, key=capacities.__getitem__) == "evaluating, default suite"
