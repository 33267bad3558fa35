"""Tests the files that a repository has around its code (workflows, forms, hooks), and its site."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import check_release
import compat
import pytest
import yaml
from import_graph import PRODUCT, dependencies_of, external_package, product_modules, room

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


_LOADED = re.compile(
    r"""<(?:script|img|iframe)[^>]*\ssrc=["']?(https?:[^"'\s>]+)|<link[^>]*\shref=["']?(https?:[^"'\s>]+)"""
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built. Unknown links, anchors and API names are warnings, and a warning fails the build."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    result = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return folder


def test_site_needs_no_other_host(site: Path) -> None:
    """No page loads a script, a style or a picture from another host. The search index can be read from a file."""
    pages = list(site.rglob("*.html"))
    loaded = [f"{page.name}: {match[0]}" for page in pages for match in _LOADED.finditer(page.read_text("utf-8"))]
    assert (len(pages) > 50, loaded) == (True, [])
    assert (site / "search" / "search_index.js").read_text("utf-8").startswith("var __index = {")


@pytest.mark.browser
def test_site_is_accessible(site: Path) -> None:
    """On a small dark screen axe-core finds nothing on a page of each kind. No page is too wide or asks a server."""
    playwright = pytest.importorskip("playwright.sync_api")
    axe = ROOT / "tests" / "console" / "node_modules" / "axe-core" / "axe.min.js"
    chromium = shutil.which("chromium")
    if chromium is None or not axe.exists():
        pytest.skip("chromium or axe-core is not installed: CI=true python tests/prepare.py brings both")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 400, "height": 900}, color_scheme="dark")
        requests: list[str] = []
        page.on("request", lambda request: requests.append(request.url))
        for name in ("index", "howto/fastapi", "api", "settings", "alerts"):
            page.goto((site / f"{name}.html").as_uri())
            if page.locator("article table, article pre").count():  # Material's script makes them scroll by keyboard
                page.wait_for_selector(".md-typeset__scrollwrap, pre > code[tabindex]")
            page.evaluate(axe.read_text("utf-8"))
            violations = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
            assert [(name, rule["id"], rule["nodes"][0]["html"]) for rule in violations] == []
            assert page.evaluate("document.documentElement.scrollWidth") <= 400, name
        browser.close()
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []


CONTRACTS: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ragtrace"]["rooms"]
MODULES = product_modules(ROOT)
ENTRIES = {name for name in MODULES if room(name) == "door" and name != "ragtrace"}  # these start the rest
SHARED = {name for name in MODULES if room(name) == "shared"}
UNDER_OTHERS = {"ragtrace.pytest", "ragtrace.base.bounded_protocol"}  # are loaded by pytest and uvicorn alone
# Every third-party package that some contract names: what those packages load themselves is their own business.
WATCHED = {package for contract in CONTRACTS.values() for key in ("packages", "late") for package in contract[key]}


def contract_of(name: str) -> str:
    """Returns the folder whose contract holds for a module; empty for shared words and entries."""
    return max((folder for folder in CONTRACTS if f"{name}.".startswith(f"{folder}.")), key=len, default="")


def test_every_folder_has_a_contract() -> None:
    """Every module of a folder of ragtrace, an adapter or an exporter is under a contract, and each holds for some."""
    without = {name for name in MODULES if not contract_of(name) and room(name) not in ("door", "shared")}
    assert (without, set(CONTRACTS) - set(map(contract_of, MODULES))) == (set(), set())


@pytest.mark.parametrize("name", sorted(set(map(contract_of, MODULES))))
def test_import_statements_keep_the_contract(name: str) -> None:
    """A folder imports only the third-party packages that its contract names, and late ones only in functions."""
    contract = CONTRACTS.get(name, {"packages": [], "late": ["datasets", "pyarrow", "rich"]})
    allowed = {False: set(contract["packages"]), True: {*contract["packages"], *contract["late"]}}
    breaches = [
        f"{one.module}:{one.line} imports {one.package}" for module in MODULES.values()
        if contract_of(module.name) == name and module.name not in UNDER_OTHERS for one in dependencies_of(module)
        if "migrations" not in module.path.parts and one.package not in allowed[one.in_function]
    ]  # fmt: skip
    assert not breaches


def _loaded(names: list[str]) -> set[str]:
    """Returns sys.modules of a fresh interpreter that imported these modules."""
    script = f"import sys\nfor name in {names!r}: __import__(name)\nprint(*sys.modules, sep='\\n')"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=ROOT)
    assert result.returncode == 0, result.stderr
    return set(result.stdout.split())


def _breaches(name: str, loaded: set[str]) -> list[str]:
    contract = CONTRACTS.get(name, {"rooms": [], "packages": []})
    rooms = {entry if entry.startswith("ragtrace") else f"ragtrace.{entry}" for entry in contract["rooms"]}
    allowed = [*rooms, *SHARED, *({name} & set(CONTRACTS))]

    def is_allowed(module: str) -> bool:
        inside = any(module == entry or module.startswith(entry + ".") for entry in allowed)
        return inside or any(entry.startswith(module + ".") for entry in allowed)

    ours = [module for module in loaded if module.split(".")[0] in PRODUCT and not is_allowed(module)]
    theirs = {external_package(module) for module in loaded} & WATCHED - set(contract["packages"])
    return sorted([*ours, *theirs])


@pytest.mark.parametrize("name", sorted(CONTRACTS))
def test_importing_a_folder_loads_only_what_its_contract_allows(name: str) -> None:
    """Importing all modules of a folder in a fresh interpreter leaves nothing forbidden in sys.modules."""
    modules = [module for module in MODULES if contract_of(module) == name and ".migrations" not in module]
    assert not _breaches(name, _loaded(modules))


def test_importing_the_shared_words_loads_no_folder() -> None:
    """All shared words together load no folder and no third-party package."""
    assert not _breaches("shared", _loaded(sorted(SHARED - UNDER_OTHERS)) - {"ragtrace"})


def test_a_forbidden_module_is_noticed() -> None:
    """A pipeline loaded by the chat logs, and a package that no contract of theirs names, are breaches."""
    loaded = {
        "ragtrace.console.chatlogs.store", "ragtrace.live.pipeline", "ragtrace.statistics.change", "fastapi.routing",
    }  # fmt: skip
    assert _breaches("ragtrace.console.chatlogs", loaded) == ["fastapi", "ragtrace.live.pipeline"]
