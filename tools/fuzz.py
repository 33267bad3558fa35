"""Feeds odd values to everything that reads what others wrote, for a while:  python tools/fuzz.py [--minutes 60]

Targets: readers of files (rows, Parquet, spans of several tools, labels, journals, calibrations, results), settings
(arguments, environment, files, addresses, keys), replies of a judge and of its batches, callbacks of LangChain and
components of LlamaIndex with odd objects, requests recorded by hand, spans of other libraries, evaluators, redaction,
the store, the console's API (schemathesis), and what a worker receives (`--only worker`), also from a broker. Every
target has its share of the time. An exception that is not one of the errors that the target documents is a crash, and
so is a failure that ragtrace only counts, because the request would lose data, and an example that takes 20 s of
processor time or 500 MB. Prints the number of examples of each target, and each crash once, with its place and an
example; the exit code is 1 if there is one. `--only WORD` runs some targets alone.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import logging
import random
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import hypothesis

sys.path.insert(0, str(Path(__file__).parent.parent))

from fuzz_spans import SPAN_GROUPS
from fuzz_targets import GROUPS, Target
from fuzz_worker import worker_targets

_SLOW = 20.0
"""Processor seconds of one example that count as a crash. Sixteen evaluators read up to 50,000 characters in one."""


_GROWTH = 500_000_000
"""Bytes by which the process may grow in one example."""


class _TimeOverError(KeyboardInterrupt):
    """Ends the examples of a target: Hypothesis takes every other exception for a failure of the example."""


@dataclasses.dataclass
class Findings:
    """Examples by target, and crashes by place."""

    examples: Counter[str] = dataclasses.field(default_factory=Counter)
    crashes: dict[tuple[str, str], tuple[int, str]] = dataclasses.field(default_factory=dict)

    def note(self, name: str, error: BaseException, example: Any) -> None:
        """Count a crash; print it the first time."""
        root = error.__cause__ or error
        frames = traceback.extract_tb(root.__traceback__)
        own = [frame for frame in frames if "ragtrace" in frame.filename] or frames[-1:]
        place = type(root).__name__
        if own:
            place += f" at {own[-1].filename.rpartition('/ragtrace')[2]}:{own[-1].lineno}"
        if error is root and (isinstance(error, AssertionError) or not own):
            place += f" {str(error)[:80]}"
        count, shown = self.crashes.get((name, place), (0, ""))
        if not count:
            with contextlib.suppress(Exception):
                shown = repr(example)[:600]
            print(
                f"CRASH in {name}: {place}\n  {''.join(traceback.format_exception(root))[-1_500:]}\n  {shown}",
                flush=True,
            )
        self.crashes[name, place] = (count + 1, shown)


def _memory() -> int:
    """The most bytes that this process has had in memory."""
    return 1_024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def attack(name: str, target: Target, seconds: float, findings: Findings) -> None:
    """Feed one target for so long."""
    strategy, use, allowed = target
    until = time.monotonic() + seconds

    @hypothesis.seed(random.getrandbits(64))
    @hypothesis.settings(
        max_examples=200,
        database=None,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=[hypothesis.Phase.generate],
    )
    @hypothesis.given(strategy)
    def examples(example: Any) -> None:
        if time.monotonic() > until:
            raise _TimeOverError
        findings.examples[name] += 1
        started, memory = time.process_time(), _memory()
        try:
            use(example)
        except allowed:
            pass
        except Exception as error:  # noqa: BLE001 what is looked for
            findings.note(name, error, example)
        if time.process_time() - started > _SLOW:
            findings.note(name, TimeoutError(f"more than {_SLOW:g} s"), example)
        if _memory() > memory + _GROWTH:
            findings.note(name, MemoryError(f"more than {_GROWTH} bytes"), example)

    with contextlib.suppress(_TimeOverError):
        while True:
            examples()


def main() -> None:
    """Feed all targets in turn, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--only", default="", help="targets whose name holds this word")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable()
    findings = Findings()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        targets = [
            pair
            for group in (*GROUPS, *SPAN_GROUPS, worker_targets)
            for pair in group(Path(folder))
            if options.only in pair[0]
        ]
        rounds = max(1, int(options.minutes / (len(targets) * 0.25)))
        share = options.minutes * 60 / len(targets) / rounds
        for _ in range(rounds):
            for name, target in targets:
                attack(name, target, share, findings)
                megabytes = _memory() // 1_000_000
                print(f"{findings.examples[name]:9} examples of {name}, {megabytes} MB", file=sys.stderr, flush=True)
    print(f"\n{(time.monotonic() - started) / 60:.1f} minutes, {sum(findings.examples.values())} examples")
    for name, count in findings.examples.items():
        crashes = [shown for (where, _), shown in findings.crashes.items() if where == name]
        print(f"{name:24} {count:9} examples  {len(crashes)} kinds of crashes, {sum(n for n, _ in crashes)} crashes")
    sys.exit(bool(findings.crashes))


if __name__ == "__main__":
    main()
