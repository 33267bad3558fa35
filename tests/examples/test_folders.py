"""The folders of examples/: all are listed, their settings and requirements are valid, the links are files."""

import re
import sys
import tomllib

import nbformat
import pytest
from packaging.requirements import Requirement

from ragtrace.settings import load
from tests.examples.example_folder import EXAMPLES

ROOT = EXAMPLES.parent
sys.path.insert(0, str(ROOT / "tools"))

import plain_words  # noqa: E402

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_each_example_is_listed() -> None:
    links = set(re.findall(r"\]\(([^)]+)\)", (EXAMPLES / "README.md").read_text("utf-8")))
    names = {path.name for path in EXAMPLES.iterdir() if not path.name.startswith((".", "__"))}
    assert links == names - {"README.md"}


@pytest.mark.parametrize("file", sorted(EXAMPLES.rglob("requirements.txt")), ids=lambda path: path.parent.name)
def test_requirements_name_what_exists(file: object) -> None:
    lines = (EXAMPLES / str(file)).read_text("utf-8").splitlines()
    requirements = [Requirement(line) for line in lines if line and not line.startswith("#")]
    (own,) = [each for each in requirements if each.name.startswith("ragtrace")]
    assert own.name == PROJECT["name"]
    assert own.extras <= PROJECT["optional-dependencies"].keys()


@pytest.mark.parametrize("file", sorted(EXAMPLES.rglob("ragtrace.toml")), ids=lambda path: path.parent.name)
def test_settings_are_ones_that_ragtrace_has(file: object) -> None:
    assert load({}, file=EXAMPLES / str(file)).store == "chatlogs.db"


def test_the_notebook_has_plain_words_and_links_that_lead_somewhere() -> None:
    notebook = nbformat.read(EXAMPLES / "review_and_calibrate.ipynb", as_version=4)
    text = "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    assert [*plain_words.banned(text), *plain_words.verbless(text)] == []
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    assert links
    assert all((EXAMPLES / link).exists() for link in links)
