"""The contract of each folder (`tool.ragtrace.rooms` in pyproject.toml) holds in its imports and in sys.modules."""

import subprocess
import sys
import tomllib
from typing import Any

import pytest
from import_graph import PRODUCT, dependencies_of, external_package, product_modules, room

from tests.house import ROOT

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
        f"{one.module}:{one.line} imports {one.package}"
        for module in MODULES.values()
        if contract_of(module.name) == name and module.name not in UNDER_OTHERS
        for one in dependencies_of(module)
        if "migrations" not in module.path.parts and one.package not in allowed[one.in_function]
    ]
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
