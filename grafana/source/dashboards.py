"""The dashboards, written by one program: python grafana/source/dashboards.py [--check]

Four questions: is it answering well, does it find the right chunks, is it safe, and can the first three be trusted. Each
panel says what it shows, by which metric, and leads on: to the answers behind it, to their traces, to what to do.
"""

from __future__ import annotations

import json
import sys

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from health import health
from overview import overview
from retrieval import retrieval
from safety import safety
from writing import write


def files() -> dict[str, str]:
    """Every file's path below grafana/, and its text."""
    found = {}
    for page in (overview(), retrieval(), safety(), health()):
        text = json.dumps(json.loads(JSONEncoder(sort_keys=True).encode(page.made.build())), indent=2, sort_keys=True)
        found[f"dashboards/{page.uid}.json"] = text + "\n"
    return found


if __name__ == "__main__":
    sys.exit(write("dashboards", files()))
