"""The pages of the documentation, and the code blocks in them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "grafana" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("README.md")),
]  # fmt: skip
_BLOCK = re.compile(
    r"(?P<before>[^\n]*\n?)\n(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^(?P=indent)```$", re.M | re.S
)
_REASON = re.compile(r"<!-- (not run: .+|run by tests/\S+) -->")
"""The line before a block that the tests of this folder do not run: why not, or which test does it."""


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    """Number of the first line of its text in the page."""
    language: str
    text: str
    not_run: str
    """Why the tests of this folder do not run it; empty for a block that they run."""

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path, *languages: str) -> Iterator[Block]:
    """Yields the blocks of a page that are in one of these languages."""
    text = page.read_text(encoding="utf-8")
    for match in _BLOCK.finditer(text):
        if match["language"] in languages:
            reason = _REASON.search(match["before"])
            line = text.count("\n", 0, match.start("text")) + 1
            yield Block(page, line, match["language"], match["text"], reason[1] if reason else "")


def pages_with(*languages: str) -> list[Path]:
    """Returns the pages with a block in one of these languages that is run."""
    return [page for page in PAGES if any(not block.not_run for block in blocks(page, *languages))]


def name(page: Path) -> str:
    """Returns the name of a page in the names of tests."""
    return page.relative_to(ROOT).as_posix()
