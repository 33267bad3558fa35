"""The tables of docs/metrics.md."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def documented(*, with_review: bool = False) -> dict[str, tuple[str, frozenset[str]]]:
    """Type and labels of each metric of an application, and of the console's reviews where they are asked for."""
    page = PAGE.read_text(encoding="utf-8")
    rows = {}
    for line in (page if with_review else page.partition("\n## Review\n")[0]).splitlines():
        if line.startswith("| `ragtrace_"):
            name, kind, labels, _ = (cell.strip() for cell in line.strip("|").split(" | "))
            rows[name.strip("`")] = (kind, frozenset(re.findall(r"`([a-z_]+)`", labels)))
    return rows
