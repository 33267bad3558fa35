"""Writes the files of a source, or checks them."""

import sys
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]


def write(source: str, files: Mapping[str, str]) -> int:
    """Writes each text to its path below grafana/, or with --check reports the files that differ; returns the exit code.

    `source` is the name of the script that generates the files."""
    differing = []
    for name, text in files.items():
        path = HERE / name
        if "--check" in sys.argv:
            if not path.is_file() or path.read_text(encoding="utf-8") != text:
                differing.append(name)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for name in differing:
        print(f"{name} is not what grafana/source/{source}.py writes: run it", file=sys.stderr)
    return 1 if differing else 0
