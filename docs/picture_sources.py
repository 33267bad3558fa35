"""Which command draws which pictures, and whether what they show has changed since: python docs/picture_sources.py

A command that draws pictures writes the digest of what they show into docs/pictures/sources.json. A test compares it
with the files of today. `--drawn NAME` writes it where only words of comments changed: the pictures are still right.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "docs" / "pictures" / "sources.json"


@dataclass(frozen=True)
class Pictures:
    """Pictures that one command draws."""

    files: str
    """A pattern, relative to docs/."""
    command: str
    sources: tuple[str, ...]
    """Files and folders whose contents they show."""


DRAWN = {
    "console": Pictures(
        "pictures/console-*.png",
        "python docs/console_pictures.py",
        ("ragtrace/console/templates", "ragtrace/console/static"),
    ),
    "dashboards": Pictures(
        "pictures/dashboard-*.png",
        "python grafana/render/render.py FOLDER --docs",
        ("grafana/dashboards", "grafana/simulated_traffic.py"),
    ),
    "backends": Pictures(
        "pictures/backend-*.png",
        "python docs/backend_pictures.py",
        ("exporters/ragtrace_backends/phoenix.py", "exporters/ragtrace_backends/mlflow.py"),
    ),
    "demo": Pictures("demo.svg", "python docs/demo_picture.py", ("ragtrace/batch/demo",)),
}
BY_HAND = ("pictures/path.svg",)


def digest(name: str) -> str:
    """Returns the SHA-256 of what the pictures of this name show."""
    total = hashlib.sha256()
    for path in _files(DRAWN[name].sources):
        total.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()


def _files(sources: tuple[str, ...]) -> Iterator[Path]:
    for source in sources:
        path = ROOT / source
        inside = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (each for each in inside if each.is_file() and "__pycache__" not in each.parts)


def write_digest(name: str) -> None:
    """Says that the pictures of this name have just been drawn."""
    digests = _digests() | {name: digest(name)}
    RECORD.write_text(json.dumps(digests, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def outdated() -> list[str]:
    """Returns a line for each kind of pictures that shows what has changed since they were drawn."""
    digests = _digests()
    return [
        f"{each.files} show an earlier state of {', '.join(each.sources)}: {each.command}"
        for name, each in DRAWN.items()
        if digests.get(name) != digest(name)
    ]


def _digests() -> dict[str, str]:
    digests: dict[str, str] = json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {}
    return digests


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--drawn", choices=DRAWN, action="append", default=[])
    for name in parser.parse_args().drawn:
        write_digest(name)
    print(*outdated(), sep="\n")
    return int(bool(outdated()))


if __name__ == "__main__":
    sys.exit(main())
