"""What the parts of answers do, on sentences that were written blind: python benchmarks/speech_acts.py

`speech_acts.jsonl` beside this file has 150 answers, 20 of them in German, French, Spanish and Italian, with what each
of their 462 sentences does. Prints how `ragtrace.text.claims` takes them.
"""

import json
from collections import Counter
from pathlib import Path

from ragtrace.text.claims import AnswerParts, read

KINDS = ("claim", "abstention", "courtesy", "lead_in", "question", "source", "code")
_SHARE = 0.3
"""Of a sentence's characters, those in claims that make the sentence a claim."""


def taken(parts: AnswerParts, start: int, end: int) -> str:
    """The kind of a sentence: claim, where enough of it claims something, or else the kind of most of it."""
    counts: Counter[str] = Counter()
    for statement in parts.statements:
        counts[statement.kind] += max(0, min(end, statement.end) - max(start, statement.start))
    if counts["claim"] and counts["claim"] >= _SHARE * counts.total():
        return "claim"
    return counts.most_common(1)[0][0] if counts.total() else "courtesy"


def main() -> None:
    """Count, and print."""
    table: Counter[tuple[str, str]] = Counter()
    for line in Path(__file__).with_suffix(".jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        parts, at = read(row["answer"]), 0
        for text, kind in row["sentences"]:
            start = row["answer"].index(text, at)
            at = start + len(text)
            table[kind, taken(parts, start, at)] += 1
    print("| written as | sentences | right | taken for a claim |\n|---|---|---|---|")
    for kind in KINDS:
        count = sum(n for (written, _), n in table.items() if written == kind)
        print(f"| {kind} | {count} | {table[kind, kind] / count:.2f} | {table[kind, 'claim'] / count:.2f} |")


if __name__ == "__main__":
    main()
