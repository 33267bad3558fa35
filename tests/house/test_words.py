"""The words of pages, code and command line are plain ones, and the sentences of pages have verbs."""

import argparse
from collections.abc import Iterator
from pathlib import Path

import plain_words
import pytest

from ragtrace import cli
from tests.house import ROOT
from tests.row_files import rows


@pytest.mark.parametrize("page", plain_words.PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_page_has_plain_words(page: Path) -> None:
    """No page has a word that `tools/plain_words.py` replaces by a plainer one, or a sentence without a verb."""
    assert plain_words.findings(page) == []


def test_code_has_plain_words() -> None:
    """No docstring, comment, error, log line or text of the product has such a word."""
    assert len(plain_words.MODULES) > 400
    findings = {str(path.relative_to(ROOT)): plain_words.module_findings(path) for path in plain_words.MODULES}
    assert {path: words for path, words in findings.items() if words} == {}


def test_words_of_a_module_are_read(tmp_path: Path) -> None:
    """Docstrings, comments of several lines and messages are read; code and regular expressions are not."""
    module = tmp_path / "module.py"
    module.write_text(
        '"""Whoever reads."""\n# one\n# and told\ndear = 1\nraise ValueError(f"{dear} is none")\nX = r"\\b(?:told) x"\n'
    )
    assert [finding.split(": write")[0] for finding in plain_words.module_findings(module)] == [
        "1: 'Whoever'", "3: 'told'", "5: 'is none'",
    ]  # fmt: skip


def _helps(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if action.help and action.help != argparse.SUPPRESS:
            yield action.help
        if isinstance(action, argparse._SubParsersAction):
            yield from (choice.help or "" for choice in action._choices_actions)
            for command in action.choices.values():
                yield from _helps(command)


def test_command_line_has_plain_words() -> None:
    helps = list(_helps(cli._parser()))
    assert len(helps) > 100
    assert [words for text in helps for words in plain_words.banned(text)] == []


@pytest.mark.parametrize(("text", "sentences"), rows(__file__, "sentences_without_a_verb_are_seen"))
def test_sentences_without_a_verb_are_seen(text: str, sentences: list[str]) -> None:
    """A sentence without a word that can be a verb is reported; titles, tables, code and short lines are not read."""
    assert list(plain_words.verbless(text)) == sentences
