"""What odd answers cost, beside an ordinary one of the same length: python benchmarks/odd_answers.py [--chars N]
    [--evaluators all|NAME ...] [--mixtures 20]

For each kind of answer (numbers, one word, emoji, code, a table, other scripts, NUL ...): processor milliseconds and
the growth of the largest memory, each in a process of its own, of reading its claims, the refusal classifier and
`faithfulness` over five chunks; the ratio of the time to the ordinary answer's; and the label that it gets.

With `--evaluators`: these evaluators, or all that need no judge and no language model, each in a process of its own.
They get requests whose answer, then whose five chunks, then whose question are of each kind, and so many random
mixtures of kinds in all of them. Prints of each evaluator the largest memory of its process and the most processor
seconds of one request, with that request's kinds; the exit code is 1 where one takes more than 600 MB or 10 s.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

from ragtrace import plugins
from ragtrace.evaluation import run
from ragtrace.records import Document, Facts, Trace

LARGEST_MB, LONGEST_SECONDS = 600.0, 10.0
"""What a request may take in the evaluating process."""
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


def requests(chars: int, mixtures: int) -> Iterator[tuple[str, Trace]]:
    """Requests with their kinds: answer, chunks or question of one kind, and mixtures."""
    texts, chance = answers(chars), random.Random(11)

    def trace(question: str, chunks: str, answer: str) -> Trace:
        size = max(1, len(chunks) // 5)
        parts = [chunks[i : i + size] for i in range(0, 5 * size, size)]
        documents = tuple(Document(str(i), part) for i, part in enumerate(parts) if part)
        fields = {"reference": texts["ordinary"][:2_000], "attributes": {"constraints": ["refund"]}}
        steps = tuple({"tool": "search", "args": answer[:500], "result": answer[:500]} for _ in range(5))
        return Trace(1, 1, question[:5_000], documents, answer, facts=Facts(steps=steps), **fields)  # type: ignore[arg-type]

    ordinary = texts["ordinary"]
    for kind, text in texts.items():
        yield f"answer: {kind}", trace("How long is the refund period?", ordinary[:4_000], text)
        yield f"chunks: {kind}", trace("How long is the refund period?", text, ORDINARY)
        yield f"question: {kind}", trace(text, ordinary[:4_000], ORDINARY)
    for _ in range(mixtures):
        names = [[chance.choice(list(texts)) for _ in range(chance.choice((1, 2, 3)))] for _ in range(3)]
        places = ["\n".join(texts[name][: chars // len(part)] for name in part)[:chars] for part in names]
        yield f"mixture: {names}", trace(*places)


def measure_evaluator(name: str, chars: int, mixtures: int) -> dict[str, object]:
    """The largest memory, and the request that took the longest."""
    check, seconds, slowest, errors = plugins.load(name), 0.0, "", set()
    run(check, [trace for _, trace in [next(requests(chars, 0))]])  # loads its models
    for kind, trace in requests(chars, mixtures):
        if check.applies(trace):
            started = time.process_time()
            errors |= {score.error for score in run(check, [trace])[0] if score.error}
            if time.process_time() - started > seconds:
                seconds, slowest = time.process_time() - started, kind
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    return {"seconds": seconds, "mb": memory, "slowest": slowest, "errors": sorted(errors)}


def report_evaluators(names: Sequence[str], chars: int, mixtures: int) -> int:
    """Measure and print evaluators; 1 where one takes too much."""
    if list(names) == ["all"]:
        checks = [plugins.load(name) for name in plugins.builtin_names()]
        left_out = set(plugins.LANGUAGE_MODEL)
        names = [check.name for check in checks if not check.asks_judge and check.name not in left_out]
    too_much = 0
    for name in names:
        command = [sys.executable, __file__, "--chars", str(chars), "--mixtures", str(mixtures), "--evaluator", name]
        process = subprocess.run(command, capture_output=True, text=True, check=False)
        if process.returncode:
            print(f"{name:36} failed: {process.stderr.strip().splitlines()[-1:]}", flush=True)
            too_much = 1
            continue
        report = json.loads(process.stdout.splitlines()[-1])
        is_over = report["mb"] > LARGEST_MB or report["seconds"] > LONGEST_SECONDS
        too_much |= is_over
        mark = "TOO MUCH" if is_over else ""
        print(
            f"{name:36} {report['mb']:6.0f} MB {report['seconds']:6.2f} s  {report['slowest'][:90]} "
            f"{report['errors'] or ''} {mark}",
            flush=True,
        )
    return too_much


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chars", type=int, default=20_000)
    parser.add_argument("--kind", help="measure this kind alone, in this process, and print JSON")
    parser.add_argument("--evaluators", nargs="+", help="names, or all")
    parser.add_argument("--mixtures", type=int, default=20)
    parser.add_argument("--evaluator", help="measure this evaluator alone, in this process, and print JSON")
    options = parser.parse_args()
    if options.evaluator:
        print(json.dumps(measure_evaluator(options.evaluator, options.chars, options.mixtures)))
        return
    if options.evaluators:
        sys.exit(report_evaluators(options.evaluators, options.chars, options.mixtures))
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
