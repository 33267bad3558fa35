"""Dashboards, alerts and the programs beside them, which are imported from grafana/."""

import importlib
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "grafana"))
check, simulate = importlib.import_module("check"), importlib.import_module("simulate")


def mutated(page: dict[str, Any], place: list[Any], value: Any) -> dict[str, Any]:
    """A copy of a dashboard with another value at a place, or without it for None. A place is a path of keys; a kind of
    panels stands for the first panel of this kind."""
    part: Any = json.loads(json.dumps(page))
    copy, (*path, last) = part, place
    for key in path:
        is_there = isinstance(key, int) or key in part
        part = part[key] if is_there else next(panel for panel in check.panels(part) if panel["type"] == key)
    part[last] = value
    if value is None:
        del part[last]
    return dict(copy)
