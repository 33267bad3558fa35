"""The dashboards, written by one program: python grafana/source/dashboards.py [--check]

They answer four questions: Are the answers good? Are the right chunks found? Is it safe? Can the first three be trusted?
Each panel says what it shows and names its metric; it links to the answers, to their traces and to the runbook.
"""

import json
import sys

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from health import health
from output import write
from overview import overview
from retrieval import retrieval
from safety import safety

PANELS = ("heatmap", "stat", "table", "timeseries")
NEEDS = (("grafana", "grafana", "11.0.0"), ("datasource", "prometheus", ""), *(("panel", kind, "") for kind in PANELS))
"""What the form of grafana.com asks a dashboard for: kind, id and least version. The data source is a variable."""


def files() -> dict[str, str]:
    """Returns the text of each file, by its path below grafana/."""
    needs = [{"type": kind, "id": name, "name": name.title(), "version": least} for kind, name, least in NEEDS]
    texts = {}
    for page in (overview(), retrieval(), safety(), health()):
        board = json.loads(JSONEncoder(sort_keys=True).encode(page.builder.build()))
        text = json.dumps({**board, "__requires": needs}, indent=2, sort_keys=True)
        texts[f"dashboards/{page.uid}.json"] = text + "\n"
    return texts


if __name__ == "__main__":
    sys.exit(write("dashboards", files()))
