"""A hundred kills while a store is written, on SQLite and PostgreSQL: nothing acknowledged is lost, the file is whole.

    python benchmarks/store_crash.py [--kills 100]

The test itself is tests/chatlogs/test_crash.py, which does a dozen.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    options = parser.parse_args()
    environment = {**os.environ, "RAGTRACE_KILLS": str(options.kills)}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--timeout",
        "1200",
        "tests/chatlogs/test_crash.py",
        "-k",
        "acknowledged",
    ]
    return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
