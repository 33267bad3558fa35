"""Builds the wheel and the sdist, checks what is in them, and uses each extra alone in a clean environment.

python tools/check_release.py [--out build/release] [--extras EXTRA ...] [--no-extras]

Needs the packages build, twine and cyclonedx-bom (`make release` installs them), and a network. Prints a table with the
size of each extra, and writes the packages and, for each extra, what was installed as CycloneDX (sbom-EXTRA.json).
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from release_parts import BEFORE, PARTS

ROOT = Path(__file__).resolve().parents[1]
LARGEST_WHEEL = 25_000_000
"""Bytes. Weights are most of it; more would be a surprise."""
LEFT_OUT = (".github/", ".ci/", ".pre-commit", ".gitignore")
"""What only the repository needs."""
WEIGHTS = (".npz", ".onnx", ".txt", ".jsonl")
PLACES = re.compile(
    b"|".join(
        [re.escape(os.fsencode(path)) for path in (ROOT, Path.home())] + [rb"/home/[a-z]", rb"/data/(?:train|dev)/"]
    )
)
"""Folders that only the machine has on which a release is built, and those of the labelled data."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--extras", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--no-extras", action="store_true", help="only build and look into the packages")
    options = parser.parse_args()
    wheel, sdist = build(options.out)
    problems = [*wheel_problems(wheel), *sdist_problems(sdist)]
    extras = [] if options.no_extras else options.extras
    if extras:
        print(f"\n{sys.platform}, Python {sys.version.split()[0]}\n\n| extra | packages | MB | |\n|---|---|---|---|")
    for extra in extras:
        result, problem = use(extra, wheel, options.out)
        print(f"| {f'`{extra}`' if extra else 'none'} | {result} | {problem or 'works'} |", flush=True)
        problems += [f"{extra}: {problem}"] if problem else []
    print(*problems, sep="\n")
    return int(bool(problems))


def build(folder: Path) -> tuple[Path, Path]:
    """Returns the wheel, built from the sdist, and the sdist. Raises CalledProcessError where one is not valid."""
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)], check=True, capture_output=True)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(sdist)], check=True)
    for package in (wheel, sdist):
        print(f"{package.name}: {package.stat().st_size / 1e6:.1f} MB")
    return wheel, sdist


def wheel_problems(wheel: Path) -> Iterator[str]:
    """Yields what is missing in the wheel, or should not be in it."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (notice,) = (name for name in names if name.endswith("licenses/NOTICE"))
        texts = archive.read(notice).decode()
        yield from (f"{name} names a place of the machine" for name in names if PLACES.search(archive.read(name)))
    packages = {name.split("/")[0] for name in names if name.endswith(".py")}
    yield from (f"{package} has no py.typed" for package in packages if f"{package}/py.typed" not in names)
    yield from (f"{package} is not a package of ours" for package in packages if not package.startswith("ragtrace"))
    data = [
        name for name in names if name.endswith(WEIGHTS) and name.startswith("ragtrace/") and "licenses/" not in name
    ]
    yield from (f"NOTICE does not name {name}" for name in data if Path(name).name not in texts)
    yield from (f"{name} is not part of a release" for name in names if "__pycache__" in name or "/tests/" in name)
    if not any(name.endswith("licenses/LICENSE") for name in names):
        yield "the wheel has no LICENSE"
    if wheel.stat().st_size > LARGEST_WHEEL:
        yield f"the wheel has {wheel.stat().st_size} bytes, more than {LARGEST_WHEEL}"


def sdist_problems(sdist: Path) -> Iterator[str]:
    """Yields what a packager needs and does not find in the sdist: all that git has."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    yield from (f"the sdist lacks {name}" for name in tracked if name not in names and not name.startswith(LEFT_OUT))


def use(extra: str, wheel: Path, folder: Path) -> tuple[str, str]:
    """Returns (packages | megabytes, problem): the wheel with this extra alone, in an environment of its own."""
    environment = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(environment)], check=True)
    python = str(environment / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    try:
        for packages in BEFORE.get(extra, ()):
            subprocess.run([*install, *packages], check=True, capture_output=True, text=True)
        subprocess.run(
            [*install, f"{wheel}[{extra}]" if extra else str(wheel)], check=True, capture_output=True, text=True
        )
        subprocess.run([python, "-m", "pip", "check"], check=True, capture_output=True, text=True)
        figures = _figures(python, folder / f"sbom-{extra or 'none'}.json")
        subprocess.run([python, "-I", "-c", PARTS[extra]], cwd=folder, check=True, capture_output=True, text=True)
        return figures, ""
    except subprocess.CalledProcessError as error:
        return "|", f"{error.stderr or error.stdout}".strip().splitlines()[-1]
    finally:
        shutil.rmtree(environment, ignore_errors=True)


def _figures(python: str, target: Path) -> str:
    """Writes the list of packages, and returns their number and their size on disk."""
    command = [
        sys.executable, "-m", "cyclonedx_py", "environment", "--output-format", "JSON", "--output-file", str(target),
    ]  # fmt: skip
    subprocess.run([*command, python], check=True, capture_output=True, text=True)
    sbom = json.loads(target.read_text("utf-8"))
    for each in sbom["components"]:  # where the wheel was on the machine of the build says nothing to others
        each["externalReferences"] = [
            link for link in each.get("externalReferences", ()) if not link["url"].startswith("file:")
        ]
    target.write_text(json.dumps(sbom, indent=1), encoding="utf-8")
    packages = [each["name"] for each in sbom["components"]]
    site = next((Path(python).parents[1] / "lib").glob("python*/site-packages"))
    folders = [folder for folder in site.iterdir() if not folder.name.startswith(("pip", "setuptools"))]
    files = [path for folder in folders for path in ([folder] if folder.is_file() else folder.rglob("*"))]
    size = sum(path.stat().st_size for path in files if path.is_file())
    return f"{len({*packages} - {'pip', 'setuptools'})} | {size / 1e6:,.0f}"


if __name__ == "__main__":
    sys.exit(main())
