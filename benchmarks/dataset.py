"""`ragtrace eval` over a file: python benchmarks/dataset.py FILE [--evaluators local] [--rows 2450] [--jobs 0]

Prints rows per second, how busy the cores were, and the memory of all its processes at a quarter of the time, at half
and at the end. Linux only: it reads /proc.
"""

import argparse
import gzip
import os
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

from usage import family, memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--evaluators", default="local")
    parser.add_argument("--rows", type=int, default=2_450)
    parser.add_argument("--jobs", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "rows.jsonl"
        opened = gzip.open if options.file.suffix == ".gz" else open
        with opened(options.file, "rb") as lines:
            rows = list(islice(lines, options.rows))
        data.write_bytes(b"".join(rows))
        command = [sys.executable, "-m", "ragtrace", "eval", str(data), "--evaluators", options.evaluators]
        command += ["--out", str(Path(folder) / "out.jsonl"), "--jobs", str(options.jobs)]
        before, start = os.times(), time.monotonic()
        process = subprocess.Popen(command)
        sizes = []
        while process.poll() is None:
            sizes.append(sum(memory(each, shared=False) for each in family(process.pid)))
            time.sleep(1.0)
        after, seconds = os.times(), time.monotonic() - start
    busy = after.children_user + after.children_system - before.children_user - before.children_system
    cores = options.jobs or os.cpu_count() or 1
    print(f"{len(rows)} rows, {seconds:.0f} s, {len(rows) / seconds:.1f} rows/s, exit code {process.returncode}")
    print(f"cores busy: {busy / seconds / cores:.0%} of {cores}")
    at = [sizes[len(sizes) // 4], sizes[len(sizes) // 2], sizes[-2 if len(sizes) > 1 else -1]]
    print("memory at a quarter, at half, at the end: " + ", ".join(f"{size:.0f} MiB" for size in at))


if __name__ == "__main__":
    main()
