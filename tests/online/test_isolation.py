"""Which evaluators run in the child process: every one that it can load by name."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragtrace import plugins


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a module of the application's, on its sys.path alone."""
    monkeypatch.syspath_prepend(tmp_path)
    name = f"checks_{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(
        """
import ctypes, os, sys
from ragtrace.evaluation import evaluator

@evaluator(threshold=0.5)
def short(trace):
    return float(len(trace.answer) < 100)

def bare(trace):
    return True

@evaluator(timeout=60)
def exits(trace):
    if trace.answer == "bad":
        os._exit(3)
    return True

@evaluator(timeout=60)
def crashes(trace):
    if trace.answer == "bad":
        ctypes.string_at(0)
    return True

@evaluator(timeout=60)
def leaves(trace):
    sys.exit("for the test")

@evaluator(timeout=60)
def prints(trace):
    print("noise " * 10_000, flush=True)
    os.write(1, b"noise" * 10_000)
    return sys.stdin.read() == ""
""",
        encoding="utf-8",
    )
    yield name
    sys.modules.pop(name, None)


def test_an_evaluator_knows_the_name_that_it_was_loaded_by(module: str) -> None:
    """Built in, by `module:attribute`, as an evaluator or as a bare function: `load` notes the name."""
    for name in ("toxicity", f"{module}:short", f"{module}:bare"):
        assert plugins.load(name).origin == name
