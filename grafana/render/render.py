"""Draws the dashboards with @grafana/ui over a simulated day: python grafana/render/render.py OUT [--theme dark light]

Needs node and npm, Chromium, Debian's prometheus. The first run installs Grafana's packages here (half a gigabyte).
Panels, units, thresholds, legends and colours are Grafana's own components; heatmaps and tables are drawn here. No
Grafana server runs. Fails when a panel has no data or the page reports an error. If Pillow is installed, it reduces the
size of the pictures.
"""

import argparse
import importlib
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).resolve().parent
END = 1_772_467_200 - 8 * 60
"""15:52, so that no label of the time axis is cut off at the edge."""


def simulation() -> ModuleType:
    sys.path.append(str(HERE.parent))
    return importlib.import_module("simulate")


def smaller(path: Path) -> None:
    """Reduces a picture to 256 colours, which saves two thirds of its bytes."""
    from PIL import Image

    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    small.save(path, optimize=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder for the pictures")
    parser.add_argument("--theme", nargs="+", choices=("dark", "light"), default=["dark", "light"])
    parser.add_argument("--hours", type=float, default=6, help="the length of the time that is shown")
    parser.add_argument("--docs", action="store_true", help="also put the dark pictures into docs/pictures")
    parser.add_argument("--data", type=Path, help="use this data directory of simulate.py instead of a new one")
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    options = parser.parse_args()
    began = time.monotonic()
    if not (HERE / "node_modules").is_dir():
        # Not `npm ci`, which misses other systems' binaries in a lock file of npm's own.
        command = ["npm", "install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund"]
        subprocess.run(command, cwd=HERE, check=True)
    subprocess.run(["npm", "run", "--silent", "build"], cwd=HERE, check=True)
    print(f"built after {time.monotonic() - began:.0f} s")
    options.out.mkdir(parents=True, exist_ok=True)
    simulate = simulation()
    with tempfile.TemporaryDirectory() as folder:
        data = options.data or simulate.load(Path(folder) / "day", end=END, step=120)
        print(f"loaded after {time.monotonic() - began:.0f} s")
        with simulate.serving(data) as url:
            job = {
                "prometheus": url,
                "pages": [str(p) for p in sorted((HERE.parent / "dashboards").glob("*.json"))],
                "themes": options.theme,
                "from": int((END - options.hours * 3_600) * 1_000),
                "to": END * 1_000,
                "chromium": options.chromium,
                "out": str(options.out.resolve()),
            }
            done = subprocess.run(["node", str(HERE / "shoot.mjs"), json.dumps(job)], check=False)
    for path in options.out.glob("ragtrace-*.png"):
        if importlib.util.find_spec("PIL") is not None:
            smaller(path)
        if options.docs and path.name.endswith("-dark.png"):
            name = path.name.removeprefix("ragtrace-").removesuffix("-dark.png")
            shutil.copy(path, HERE.parents[1] / "docs" / "pictures" / f"dashboard-{name}.png")
    if options.docs and not done.returncode:
        sys.path.append(str(HERE.parents[1] / "docs"))
        importlib.import_module("picture_sources").write_digest("dashboards")
    print(f"done after {time.monotonic() - began:.0f} s")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
