"""What odd answers cost, beside an ordinary one of the same length: python benchmarks/odd_answers.py [--chars N]

For each kind of answer (numbers, one word, emoji, code, a table, other scripts, NUL ...): processor milliseconds and
the growth of the largest memory, each in a process of its own, of reading its claims, the refusal classifier and
`faithfulness` over five chunks; the ratio of the time to the ordinary answer's; and the label that it gets.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import time

from ragtrace import plugins
from ragtrace.evaluation import run
from ragtrace.records import Document, Trace

ORDINARY = "The refund period is ninety days after delivery, and the service desk sends the form on request. "


def answers(chars: int) -> dict[str, str]:
    """Answers of `chars` characters by their kind."""
    chance = random.Random(7)
    hexadecimal = " ".join(f"{chance.randrange(16**6):06x}" for _ in range(chars // 7 + 1))
    words = [chance.choice(ORDINARY.replace(".", "").replace(",", "").split()) for _ in range(chars // 4)]
    ordinary = "".join(" ".join(words[i : i + 14]) + ". " for i in range(0, len(words), 14))
    lines = {
        "ordinary": ordinary,  # no sentence twice: what recurs is encoded once
        "digits": "0123456789",
        "numbers": "4711 0815 31415 ",
        "one word": "a",
        "hexadecimal": hexadecimal,
        "words without an end": "alpha, beta, gamma, ",
        "emoji": "\U0001f600",
        "code": "value = call(1, [2], {'key': 3})\n",
        "code on one line": "f(x)=[1];g(y)={2};",
        "table": "| customer | 30 | blue |\n",
        "Chinese": "\u4fdd\u4fee\u671f\u4e3a\u4e8c\u5341\u56db\u4e2a\u6708\u3002",
        "Greek": "\u03b7 \u03b5\u03b3\u03b3\u03cd\u03b7\u03c3\u03b7 \u03b9\u03c3\u03c7\u03cd\u03b5\u03b9. ",
        "NUL": "\0",
        "JSON without an end": '{"a":',
        "brackets": "[",
        "one letter words": "a b ",
        "lone surrogates": "\ud800",
        "digits with signs": "1.2 3,4-",
    }
    return {kind: (text * (chars // len(text) + 1))[:chars] for kind, text in lines.items()}


def measure(kind: str, chars: int) -> dict[str, object]:
    """Milliseconds, mebibytes and the label of one kind; the models are warm."""
    documents = tuple(Document(str(i), f"{ORDINARY} Section {i} is about valve {i}.") for i in range(5))
    checks = [plugins.load(name) for name in ("faithfulness", "refusal")]

    def labels(answer: str) -> list[str | None]:
        trace = Trace(1, 1, "How long is the refund period?", documents, answer)
        return [run(check, [trace])[0][0].label for check in checks]

    labels("The refund period is sixty days.")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    label, _ = labels(answers(chars)[kind])
    spent = (time.process_time() - started) * 1000
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return {"kind": kind, "ms": spent, "mib": grown, "label": label}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chars", type=int, default=20_000)
    parser.add_argument("--kind", help="measure this kind alone, in this process, and print JSON")
    options = parser.parse_args()
    if options.kind:
        print(json.dumps(measure(options.kind, options.chars)))
        return
    ordinary = None
    for kind in answers(options.chars):
        command = [sys.executable, __file__, "--chars", str(options.chars), "--kind", kind]
        report = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        ordinary = ordinary or report
        ratio = report["ms"] / ordinary["ms"]
        print(f"{kind:22} {report['ms']:8.0f} ms {ratio:6.2f}x {report['mib']:7.0f} MiB  {report['label']}", flush=True)


if __name__ == "__main__":
    main()
