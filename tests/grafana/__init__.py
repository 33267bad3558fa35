"""Dashboards, alerts and the programs beside them, which are imported from grafana/."""

import importlib
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "grafana"))
check, simulate = importlib.import_module("check"), importlib.import_module("simulate")


def first(page: dict[str, Any], kind: str) -> dict[str, Any]:
    """The first panel of this kind."""
    return next(panel for panel in check.panels(page) if panel["type"] == kind)
