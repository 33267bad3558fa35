"""Draws the end of a run of `ragtrace demo`: python docs/demo_picture.py"""

import io
import subprocess
import sys
import tempfile
from pathlib import Path

from picture_sources import write_digest
from rich.console import Console


def main() -> None:
    """Runs the demo in an empty folder, and draws what it prints after its questions."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "ragtrace", "demo"]
        said = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
    console = Console(record=True, width=132, file=io.StringIO())
    console.print(said.partition("\n\n")[2].partition("\nspans, with")[0], highlight=False, markup=False)
    console.save_svg(str(Path(__file__).with_name("demo.svg")), title="ragtrace demo")
    write_digest("demo")


if __name__ == "__main__":
    main()
