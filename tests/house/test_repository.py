"""Tests the files that a repository has around its code: workflows, forms, hooks."""

import tomllib
from pathlib import Path
from typing import Any

import check_release
import compat
import pytest
import yaml

from tests.house import ROOT

FILES = sorted((ROOT / ".github").rglob("*.yml"))
PYTHON = "Programming Language :: Python :: 3."


def read(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text("utf-8"))


def test_the_workflow_tests_each_python_that_the_package_names() -> None:
    """Every Python of the classifiers is in the matrix, and must pass; a newer one may fail."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    versions = {name.rpartition(" ")[2] for name in project["classifiers"] if name.startswith(PYTHON)}
    job = read(".github/workflows/tests.yml")["jobs"]["tests"]
    may_fail = {v for v in job["strategy"]["matrix"]["python"] if f"'{v}'" in job["continue-on-error"]}
    assert set(job["strategy"]["matrix"]["python"]) - may_fail == versions
    assert job["steps"][-1]["run"] == ".ci/run"
    assert (ROOT / ".ci/run").is_file()


def test_a_release_is_published_without_a_token() -> None:
    """Only the job that publishes may ask for an identity, and no workflow names a secret."""
    jobs = read(".github/workflows/publish.yml")["jobs"]
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert "permissions" not in jobs["build"]
    assert all("{{ secrets" not in path.read_text("utf-8") for path in FILES)


@pytest.mark.parametrize("form", ["bug", "wrong_verdict"])
def test_a_form_asks_for_what_is_needed(form: str) -> None:
    """Each question has a label and an id of its own, and must be answered."""
    questions = read(f".github/ISSUE_TEMPLATE/{form}.yml")["body"]
    assert len({each["id"] for each in questions}) == len(questions) == 3
    assert all(each["attributes"]["label"] and each["validations"]["required"] for each in questions)


def test_notice_names_all_data() -> None:
    """NOTICE says of every weight, vocabulary and recorded text of the package where it comes from."""
    notice = (ROOT / "NOTICE").read_text("utf-8")
    paths = [path for path in (ROOT / "ragtrace").rglob("*") if path.suffix in check_release.WEIGHTS]
    assert len(paths) > 10
    assert [path.name for path in paths if path.name not in notice and path.parent.name != "licenses"] == []


def test_each_extra_is_used_before_a_release() -> None:
    """`make release` has a program for the package without extras, and for each extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert set(check_release.PARTS) == {"", *project["optional-dependencies"]}


def test_the_combinations_run_tests_that_exist() -> None:
    """`make compat` names files and folders of tests, of which one may have been renamed."""
    assert [path for each in compat.COMBINATIONS for path in each.tests if not (ROOT / path).exists()] == []


def test_hooks_run_what_exists() -> None:
    """The programs of the hooks are those of the environment that `make test` sets up."""
    [local] = read(".pre-commit-config.yaml")["repos"]
    entries = [hook["entry"].split() for hook in local["hooks"]]
    assert {Path(entry[0]).parent.as_posix() for entry in entries} == {".venv/bin"}
    assert [entry[1] for entry in entries if entry[0].endswith("python")] == ["tools/plain_words.py"]
    assert (ROOT / "tools/plain_words.py").is_file()
