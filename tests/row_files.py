"""Rows of a test module, from the JSON file beside it."""

import json
from pathlib import Path
from typing import Any


def rows(module: str, test: str) -> list[Any]:
    """The rows of a test, by its name without `test_`; in the file they may be grouped by what they show."""
    found: list[Any] | dict[str, list[Any]] = table(module, test)
    return [row for group in found.values() for row in group] if isinstance(found, dict) else found


def table(module: str, name: str) -> Any:
    """What the file has under this name."""
    return json.loads(Path(module).with_suffix(".json").read_text(encoding="utf-8"))[name]
