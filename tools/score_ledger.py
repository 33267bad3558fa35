"""What every local evaluator says about a fixed set of answers, and what a change alters in it.

python tools/score_ledger.py --out FILE             writes one row for each evaluator and answer (about 10 minutes)
python tools/score_ledger.py --compare OLD NEW      prints a table of the evaluators whose scores differ

The answers are those of `benchmarks/*.jsonl` and answers made from them by rule: cut in the middle, with a secret, with
a phone number, in capitals. Evaluators that need a judge or a language model are left out.
"""

import argparse
import json
import random
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]
PER_SET = 40
"""Answers of each file: every evaluator sees all of them."""
_SAME = 0.01


def answers() -> Iterator[tuple[str, Any]]:
    """Yields the answers, each with a name."""
    from labelled import trace

    chance = random.Random(11)
    for path in sorted((ROOT / "benchmarks").glob("*.jsonl")):
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for number in sorted(chance.sample(range(len(rows)), min(PER_SET, len(rows)))):
            row = rows[number]
            item = row["items"][number % len(row["items"])] if "items" in row else row
            given = {"query": item.get("q", row.get("query")), "answer": item.get("a", row.get("answer"))}
            given |= {"contexts": row.get("contexts", []), "reference": row.get("reference")}
            seen = trace(given)
            yield f"{path.stem} {number}", seen
            if number % 4 == 0:
                yield from _made(f"{path.stem} {number}", seen)


def _made(name: str, seen: Any) -> Iterator[tuple[str, Any]]:
    answer = seen.answer
    yield f"{name} cut", replace(seen, answer=answer[: len(answer) // 2])
    yield f"{name} secret", replace(seen, answer=f"{answer} Your key is AKIA{'Q3EGRT5WLP7XK2MN'}.")
    yield f"{name} phone", replace(seen, answer=f"{answer} Call Maria Gonzalez at +1 212 555 0187.")
    yield f"{name} capitals", replace(seen, answer=answer.upper())


def scores() -> Iterator[dict[str, Any]]:
    """Yields one row for each evaluator and answer."""
    from ragtrace import plugins
    from ragtrace.evaluation import run

    everything = list(answers())
    for name in plugins.builtin_names():
        check = plugins.load(name)
        if check.asks_judge or name in plugins.LANGUAGE_MODEL or name.endswith("_cascade"):
            continue
        for of_answer, seen in everything:
            score = run(check, [seen])[0][0]
            value = None if score.value is None else round(float(score.value), 4)
            yield {"evaluator": name, "answer": of_answer, "value": value, "label": score.label}


def compare(before: Path, after: Path) -> str:
    """A table: for each evaluator that differs the answers, changed values and labels, and the first of them."""
    old, new = _read(before), _read(after)
    differences: dict[str, list[tuple[str, Any, Any]]] = defaultdict(list)
    for key in sorted(old.keys() | new.keys()):
        one, two = old.get(key, {}), new.get(key, {})
        a, b = one.get("value"), two.get("value")
        far = (a is None) != (b is None) or (a is not None and b is not None and abs(a - b) > _SAME)
        if far or one.get("label") != two.get("label"):
            differences[key[0]].append((key[1], one, two))
    lines = ["| evaluator | values that differ | labels | for example |", "|---|---|---|---|"]
    for name, found in sorted(differences.items()):
        labels = [(o.get("label"), n.get("label")) for _, o, n in found if o.get("label") != n.get("label")]
        answer, one, two = found[0]
        example = f"{answer}: {one.get('value')} {one.get('label')} -> {two.get('value')} {two.get('label')}"
        lines.append(f"| {name} | {len(found)} | {len(labels)} | {example} |")
    return "\n".join(
        [*lines, f"{len(old)} scores before, {len(new)} now; {sum(map(len, differences.values()))} differ"]
    )


def _read(path: Path) -> dict[tuple[str, str], dict[str, Any]]:
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {(row["evaluator"], row["answer"]): row for row in rows}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--compare", nargs=2, type=Path)
    given = parser.parse_args()
    if given.compare:
        print(compare(*given.compare))
    elif given.out:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        with given.out.open("w", encoding="utf-8") as out:
            for row in scores():
                out.write(json.dumps(row) + "\n")
    else:
        parser.print_help()
    return 0


if __name__ == "__main__":
    sys.exit(main())
