"""The code blocks of README and of the documentation work as they stand."""

import argparse
import asyncio
import inspect
import json
import shlex
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from ragtrace import cli, testing
from ragtrace.settings import load
from tests.docs import assistant, pages
from tests.docs.pages import Block


@pytest.mark.parametrize("page", pages.pages_with("python"), ids=pages.name)
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python blocks of a page run one after another, as one module, and then the tests in them pass.

    A test's recording is active meanwhile, so that `ragtrace.init` checks its arguments and starts nothing."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "assistant", assistant)
    module = ModuleType(f"blocks_of_{page.stem.replace('-', '_')}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    vars(module).update({key: value for key, value in vars(assistant).items() if not key.startswith("_")})
    if page.name == "review.md":
        vars(module)["user_id"] = assistant.prepare_store()
    with testing.record() as recording:
        for block in pages.blocks(page, "python"):
            if not block.not_run:
                _run(block, module)
        for name, test in list(vars(module).items()):
            if name.startswith("test_"):
                recording.clear()
                _call(test, {"ragtrace_recording": recording, "tmp_path": tmp_path, "monkeypatch": monkeypatch})


def _run(block: Block, module: ModuleType) -> None:
    code = compile("\n" * (block.line - 1) + block.text, str(block.page), "exec", dont_inherit=True)
    exec(code, vars(module))


def _call(test: Any, fixtures: dict[str, Any]) -> None:
    result = test(**{name: fixtures[name] for name in inspect.signature(test).parameters})
    if inspect.isawaitable(result):
        asyncio.run(_awaited(result))


async def _awaited(value: Any) -> Any:
    return await value


@pytest.mark.parametrize("page", pages.pages_with("sh", "console"), ids=pages.name)
def test_commands_are_ones_that_ragtrace_has(page: Path) -> None:
    """Each command `ragtrace …` of a page is accepted by the command line's parser."""
    parser = cli._parser()
    for block in pages.blocks(page, "sh", "console"):
        prompt = "$ " if block.language == "console" else ""
        for line in [] if block.not_run else block.text.replace("\\\n", " ").splitlines():
            if line.startswith(f"{prompt}ragtrace ") and not line.startswith(f"{prompt}ragtrace demo"):
                _parse(parser, shlex.split(line.removeprefix(prompt), comments=True)[1:], f"{block}: {line}")


def _parse(parser: argparse.ArgumentParser, words: list[str], place: str) -> None:
    end = next((i for i, word in enumerate(words) if word in ("<", ">", "|", "&&", "&")), len(words))
    try:
        parser.parse_args(words[:end])
    except SystemExit as error:
        pytest.fail(f"{place}: refused (exit code {error.code})")


@pytest.mark.parametrize("page", pages.pages_with("toml", "json", "yaml"), ids=pages.name)
def test_files_can_be_read(page: Path, tmp_path: Path) -> None:
    """Each TOML, JSON and YAML block can be parsed, and the settings in TOML are ones that ragtrace has."""
    for block in pages.blocks(page, "toml", "json", "yaml"):
        if block.language == "json":
            json.loads(block.text)
        elif block.language == "yaml":
            list(yaml.safe_load_all(block.text))
        elif not block.not_run:
            assert tomllib.loads(block.text)
            (tmp_path / "ragtrace.toml").write_text(block.text, encoding="utf-8")
            load({}, file=tmp_path / "ragtrace.toml")


def test_other_tests_run_the_rest() -> None:
    """A test that a page names as the one that runs a block exists and names the page."""
    python = [block for page in pages.PAGES for block in pages.blocks(page, "python")]
    others = [block for block in python if block.not_run.startswith("run by ")]
    for block in others:
        assert block.page.name in (pages.ROOT / block.not_run.removeprefix("run by ")).read_text(encoding="utf-8")
    assert len(others) < len(python) / 4
