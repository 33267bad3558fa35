"""The contract of each folder (`tool.ragtrace.rooms` in pyproject.toml) holds in its imports and in sys.modules."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from import_graph import PRODUCT, dependencies_of, external_package, imports_between, product_modules, room  # noqa: E402

CONTRACTS: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ragtrace"]["rooms"]
MODULES = product_modules(ROOT)
ROOT_MODULES = {name for name, module in MODULES.items() if name.startswith("ragtrace.") and room(name) == name}
ROOT_WORDS = {name for name in ROOT_MODULES if not MODULES[name].is_package} | {"ragtrace.settings"}  # has two files
ENTRIES = {"ragtrace.__main__", "ragtrace.cli", "ragtrace.testing"}  # these lie in the root and start the rest
# Every third-party package that some contract names: what those packages load themselves is their own business.
WATCHED = {package for contract in CONTRACTS.values() for key in ("packages", "late") for package in contract[key]}


def test_every_folder_has_a_contract() -> None:
    """Every folder of ragtrace, every adapter and every exporter has exactly one contract."""
    folders = {room(name) for name in MODULES} - ROOT_WORDS - {"ragtrace"}
    assert set(CONTRACTS) == folders


@pytest.mark.parametrize("name", sorted({room(name) for name in MODULES}))
def test_import_statements_keep_the_contract(name: str) -> None:
    """A folder imports only the third-party packages that its contract names, and late ones only in functions."""
    contract = CONTRACTS.get(name, {"packages": ["rich"] if name in ENTRIES else [], "late": []})
    allowed = {False: set(contract["packages"]), True: {*contract["packages"], *contract["late"]}}
    if name in ENTRIES:
        allowed[False] = set()
    breaches = [
        f"{one.module}:{one.line} imports {one.package}"
        for module in MODULES.values()
        if room(module.name) == name
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
    allowed = [*rooms, *(ROOT_WORDS - ENTRIES), *({name} & set(CONTRACTS))]

    def is_allowed(module: str) -> bool:
        inside = any(module == entry or module.startswith(entry + ".") for entry in allowed)
        return inside or any(entry.startswith(module + ".") for entry in allowed)

    ours = [module for module in loaded if module.split(".")[0] in PRODUCT and not is_allowed(module)]
    theirs = {external_package(module) for module in loaded} & WATCHED - set(contract["packages"])
    return sorted([*ours, *theirs])


@pytest.mark.parametrize("name", sorted(CONTRACTS))
def test_importing_a_folder_loads_only_what_its_contract_allows(name: str) -> None:
    """Importing all modules of a folder in a fresh interpreter leaves nothing forbidden in sys.modules."""
    modules = [module for module in MODULES if room(module) == name and ".migrations" not in module]
    assert not _breaches(name, _loaded(modules))


def test_importing_the_root_loads_no_folder() -> None:
    """All modules in the root together, except the entry points, load no folder and no third-party package."""
    assert not _breaches("ragtrace", _loaded(sorted(ROOT_WORDS - ENTRIES)) - {"ragtrace"})


def test_a_forbidden_module_is_noticed() -> None:
    """A pipeline loaded by the chat logs, and a package that no contract of theirs names, are breaches."""
    loaded = {"ragtrace.chatlogs.store", "ragtrace.online.pipeline", "ragtrace.statistics.burn", "fastapi.routing"}
    assert _breaches("ragtrace.chatlogs", loaded) == ["fastapi", "ragtrace.online.pipeline"]


def test_the_root_imports_folders_only_where_it_starts_them() -> None:
    """Import statements of the root's modules name other modules of the root, except in the door and entry points."""
    breaches = [
        f"{one.importer}:{one.line} -> {one.imported}"
        for one in imports_between(MODULES)
        if one.importer in ROOT_WORDS - ENTRIES and room(one.imported) not in ROOT_WORDS and not one.for_types_only
    ]
    assert not breaches
