"""The names that other people's programs use. A change here is a change for every user."""

import importlib
import inspect
from dataclasses import fields

import pytest

import ragtrace
from ragtrace import cli
from ragtrace.settings import Settings
from tests.row_files import table

EXPORTS: dict[str, list[str]] = table(__file__, "exports")
FIELDS: dict[str, list[str]] = table(__file__, "fields")


@pytest.mark.parametrize("package", EXPORTS)
def test_package_exports_exactly_these_names(package: str) -> None:
    """Each package exports the names of this list and no others, and each name can be imported."""
    module = importlib.import_module(package)
    assert sorted(module.__all__) == EXPORTS[package]
    assert all(getattr(module, name) is not None for name in EXPORTS[package])


def test_init_takes_these_parameters() -> None:
    """`ragtrace.init` keeps its parameters and every setting keeps its name."""
    assert list(inspect.signature(ragtrace.init).parameters) == table(__file__, "init")
    assert set(table(__file__, "settings")) <= {field.name for field in fields(Settings)}


@pytest.mark.parametrize("name", FIELDS)
def test_records_have_exactly_these_fields(name: str) -> None:
    """The fields of the records that sinks and evaluators receive keep their names and their order."""
    assert [field.name for field in fields(getattr(ragtrace, name))] == FIELDS[name]


def test_command_line_has_exactly_these_commands(capsys: pytest.CaptureFixture[str]) -> None:
    """`ragtrace` lists the commands that scripts call where it is given another one."""
    with pytest.raises(SystemExit):
        cli.main(["no-such-command"])
    names = capsys.readouterr().err.partition("(choose from ")[2].rstrip(")\n").replace("'", "").split(", ")
    assert sorted(names) == sorted(table(__file__, "commands"))
