"""Dashboards, alerts and the programs beside them, which are imported from grafana/."""

import importlib
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "grafana"))
check, simulate = importlib.import_module("check"), importlib.import_module("simulate")
