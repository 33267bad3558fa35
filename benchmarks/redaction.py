"""Measure what `redact = "pii"` leaves of personal data and secrets, by class and by what stands beside a value.

    python benchmarks/redaction.py --data FOLDER [--rows 200] [--names]

FOLDER holds train/other/pii_faker_multilocale.jsonl.gz and sec_examples_redrawn.jsonl.gz (labelled spans), and
dev/ragtruth_dev.jsonl.gz, whose texts hold none. A value is missed when all its letters and digits are still in the
text. Prints a table for docs/privacy.md, the share of clean texts that change, milliseconds for 1,000 characters, and
the same for private_values.jsonl, whose rows were written blind: with values, or with what only looks like one.
"""

import argparse
import json
import random
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

from labelled import rows

from ragtrace.evaluate.privacy_modes import redact_texts
from ragtrace.settings import load

DRESSES: dict[str, Callable[[str], str]] = {
    "as it is": lambda value: value, "beside Chinese": lambda value: f"请{value}谢谢",
    "in underscores": lambda value: f"_{value}_", "no-break spaces": lambda value: value.replace(" ", "\u00a0"),
    "en dashes": lambda value: value.replace("-", "\u2013"), "in a URL": lambda value: quote(value, safe=""),
    "JSON escapes": lambda value: re.sub(r"[^A-Za-z0-9]", lambda match: f"\\u{ord(match[0]):04x}", value),
    "zero-width spaces": lambda value: f"{value[:5]}\u200b{value[5:]}",
}  # fmt: skip


def letters(text: str) -> str:
    return re.sub(r"[\W_]", "", text).lower()


def planted(data: Path, most: int) -> Iterator[tuple[str, str, str, str]]:
    """Class, text before a value, value, text after it: at most `most` of each class."""
    counts: defaultdict[str, int] = defaultdict(int)
    chance = random.Random(1)
    for name, secret in (("pii_faker_multilocale", False), ("sec_examples_redrawn", True)):
        labelled = [row for row in rows(data / "train/other", name) if row["label"] == 1]
        chance.shuffle(labelled)
        for row in labelled:
            for span in row["spans"]:
                kind = "SECRET" if secret else span["type"]
                counts[kind] += 1
                if counts[kind] <= most * (5 if secret else 1):
                    text = row["text"]
                    yield kind, text[: span["start"]], text[span["start"] : span["end"]], text[span["end"] :]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=200, help="values of each class")
    parser.add_argument("--names", action="store_true", help='measure redact = "names" (slow)')
    options = parser.parse_args()
    mask = redact_texts(load({"redact": "names" if options.names else "pii"}))[1].redact
    assert mask is not None
    missed: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
    counts: defaultdict[str, int] = defaultdict(int)
    for kind, before, value, after in planted(options.data, options.rows):
        counts[kind] += 1
        for name, dress in DRESSES.items():
            masked = letters(mask(f"{before}{dress(value)}{after}"))
            missed[kind][name] += letters(value) in masked or letters(dress(value)) in masked
    print(f"| class | values | {' | '.join(DRESSES)} |\n|---|---|{'---|' * len(DRESSES)}")
    for kind in sorted(counts):
        shares = " | ".join(f"{missed[kind][name] / counts[kind]:.1%}" for name in DRESSES)
        print(f"| {kind.lower().replace('_', ' ')} | {counts[kind]} | {shares} |")
    texts = [str(row["answer"]) for row in rows(options.data / "dev", "ragtruth_dev")][: 5 * options.rows]
    started = time.process_time()
    changed = sum(mask(text) != text for text in texts)
    cost = 1e6 * (time.process_time() - started) / sum(map(len, texts))
    print(f"{changed} of {len(texts)} texts without such data changed; {cost:.2f} ms for 1,000 characters")
    blind = Path(__file__).with_name("private_values.jsonl").read_text("utf-8").splitlines()
    masked = [(mask(row["text"]), row["text"], row["values"]) for row in map(json.loads, blind)]
    hidden = [letters(value) not in letters(new) for new, _, values in masked for _, value in values]
    spared = [new == text for new, text, values in masked if not values]
    print(f"blind rows: {sum(hidden)} of {len(hidden)} values hidden, {sum(spared)} of {len(spared)} others unchanged")
    return 0


if __name__ == "__main__":
    sys.exit(main())
