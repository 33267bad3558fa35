"""Questions about drawn records (look up, compare, count), each with a right and a wrong answer.

They teach that a value belongs to its key and its record: the written cases of this (tools_*.jsonl) are few."""

import json
import random
import re
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any, NamedTuple

_DATA = json.loads(Path(__file__).with_name("record_words.json").read_text())
_NAMES, _LAST_NAMES, _CITIES, _WORDS = (_DATA[k].split() for k in ("first names", "last names", "cities", "words"))
_STATES, _FIELDS = _DATA["states"], _DATA["fields"]
"""By noun: the states of a record, and its fields with their kinds; a value with a question mark may be missing."""


class Answer(NamedTuple):
    """An answer to a question; a wrong one with its wrong words, and whether the records say nothing of it."""

    text: str
    wrong: str | None = None
    absent: int = 0


def draw_cases(seed: int, number: int) -> Iterator[tuple[str, str, list[Answer]]]:
    """Yields (records as a tool returned them, a question, answers) so many times."""
    draw = random.Random(seed)
    for _ in range(number):
        yield _Table(draw).question()


class _Table:
    def __init__(self, draw: random.Random) -> None:
        self.draw, self.noun = draw, draw.choice(list(_FIELDS))
        every = [(f.split(":")[0], f.split(":")[-1]) for f in _FIELDS[self.noun].split()]
        fields = [*draw.sample(every, draw.randint(2, 5)), ("status", "state")]
        draw.shuffle(fields)
        self.kinds = dict(fields)
        base = draw.randint(100, 9_000)
        style = draw.choice(("{}-{}", "{}{}", "{}_{}", "#{1}"))
        numbers = draw.sample(range(base, base + draw.choice((6, 40, 900))), draw.randint(1, 4))
        self.records: dict[str, dict[str, Any]] = {
            style.format(self.noun[:2].upper(), n): {k: self.value(kind) for k, kind in fields} for n in numbers
        }

    def value(self, kind: str) -> Any:
        draw = self.draw
        if kind.endswith("?") and draw.random() < 0.35:
            return None
        makes = {
            "name": lambda: f"{draw.choice(_NAMES)} {draw.choice(_LAST_NAMES)}",
            "city": lambda: draw.choice(_CITIES), "word": lambda: draw.choice(_WORDS),
            "state": lambda: draw.choice(_STATES[self.noun].split()),
            "money": lambda: round(draw.choice((9.5, 80, 900, 12_000)) * (0.2 + draw.random()), 2),
            "decimal": lambda: round(draw.uniform(-8, 35), 1), "small": lambda: draw.randint(0, 14),
            "large": lambda: draw.randint(900, 90_000), "percent": lambda: draw.randint(1, 99),
            "bool": lambda: draw.random() < 0.5, "code": lambda: f"{draw.choice('ABCDEF')}{draw.randint(1, 48)}",
            "time": lambda: f"{draw.randint(0, 23):02}:{draw.choice(range(0, 60, 5)):02}",
            "date": lambda: date(2025, 1, 1) + timedelta(days=draw.randrange(500)),
        }  # fmt: skip
        return makes[kind.rstrip("?")]()

    def say(self, value: Any) -> str:
        """A value as an answer says it."""
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, date):
            day = value.day
            return self.draw.choice((f"{day} {value:%B %Y}", f"{value:%B} {day}", f"{day} {value:%B}"))
        if isinstance(value, int) and value > 999 and self.draw.random() < 0.5:
            return f"{value:,}"
        return f"{value:.2f}" if isinstance(value, float) and self.draw.random() < 0.5 else str(value).replace("_", " ")

    def other(self, field: str, value: Any, own: str) -> Any:
        """A wrong value: of another record, of another field of the same kind, or drawn."""
        kind = self.kinds[field]
        there = [r[field] for i, r in self.records.items() if i != own]
        there += [self.records[own][k] for k, other in self.kinds.items() if other.rstrip("?") == kind.rstrip("?")]
        there = [v for v in there if v is not None and v != value]
        if there and self.draw.random() < 0.75:
            return self.draw.choice(there)
        drawn = (self.value(kind.rstrip("?")) for _ in range(50))
        return next((v for v in drawn if v != value), "unknown")

    def question(self) -> tuple[str, str, list[Answer]]:
        kind = self.draw.random()
        first = self._superlative() if kind < 0.12 else self._count() if kind < 0.24 else None
        question, answers = first or self._look_up()
        return self.text(), question, answers

    def _look_up(self) -> tuple[str, list[Answer]]:
        draw = self.draw
        own = draw.choice(list(self.records))
        field = draw.choice(list(self.kinds))
        value = self.records[own][field]
        label, noun = field.removesuffix("_c").replace("_", " "), self.noun
        question = draw.choice((
            f"What is the {label} of {noun} {own}?", f"{label.capitalize()} of {own}?", f"Tell me about {noun} {own}.",
            f"Can you check the {label} for {own}?", f"How is {own} doing?",
        ))  # fmt: skip
        says = draw.choice((
            f"The {label} of {noun} {own} is {{}}.", f"For {own} the {label} is {{}}.", f"{own}: {label} {{}}.",
            f"According to the system, {noun} {own} has {{}} as its {label}.", f"Its {label} is {{}}.",
        ))  # fmt: skip
        wrong = self.say(self.other(field, value, own))
        rest = ""
        other = draw.choice([k for k in self.kinds if k != field])
        if draw.random() < 0.4 and self.records[own][other] is not None:
            rest = f" Its {other.replace('_', ' ')} is {self.say(self.records[own][other])}."
        if value is None:
            none = draw.choice((f"No {label} is recorded for {own}.", f"{own} has no {label} yet."))
            return question, [Answer(none + rest), Answer(says.format(wrong) + rest, wrong, 1)]
        answers = [Answer(says.format(self.say(value)) + rest), Answer(says.format(wrong) + rest, wrong)]
        if draw.random() < 0.15:
            none = f"No {label} is recorded"
            answers.append(Answer(f"{none} for {own}.{rest}", none))
        return question, answers

    def _superlative(self) -> tuple[str, list[Answer]] | None:
        fields = [k for k, kind in self.kinds.items() if kind in {"money", "small", "percent", "large", "date"}]
        if len(self.records) < 2 or not fields:
            return None
        field = self.draw.choice(fields)
        order = sorted(self.records, key=lambda i: self.records[i][field])
        if self.records[order[-1]][field] == self.records[order[-2]][field]:
            return None
        word = "latest" if self.kinds[field] == "date" else "highest"
        label = field.replace("_", " ")
        text = self.draw.choice((f"{{}} has the {word} {label}: {{}}.", f"The {word} {label} is that of {{}}, {{}}."))
        wrong = self.draw.choice(order[:-1])
        values = [self.say(self.records[i][field]) for i in (order[-1], wrong)]
        answers = [Answer(text.format(order[-1], values[0])), Answer(text.format(wrong, values[1]), wrong)]
        return f"Which {self.noun} has the {word} {label}?", answers

    def _count(self) -> tuple[str, list[Answer]] | None:
        state = self.draw.choice([r["status"] for r in self.records.values()])
        names = [i for i, r in self.records.items() if r["status"] == state]
        rest = [i for i in self.records if i not in names]
        word = state.replace("_", " ")
        if not rest:
            return None
        listed = " and ".join(names[-2:]) if len(names) < 3 else f"{', '.join(names[:-1])} and {names[-1]}"
        wrong = self.draw.choice(rest)
        question = f"Which {self.noun}s are {word}?"
        if self.draw.random() < 0.5:
            text = f"{{}} of the {len(self.records)} {self.noun}s has the status {word}."
            false = str(len(names) + self.draw.choice((-1, 1, 2)))
            answers = [Answer(text.format(len(names))), Answer(text.format(false), false)]
            return f"How many {self.noun}s are {word}?", answers
        return question, [Answer(f"{listed}: {word}."), Answer(f"{listed.replace(names[-1], wrong)}: {word}.", wrong)]

    def text(self) -> str:
        """As a tool returns it."""
        draw = self.draw
        key = draw.choice(("id", f"{self.noun}_id", "ref", self.noun))
        upper = draw.random() < 0.5

        def show(value: Any, field: str) -> Any:
            if field == "status" and upper:
                return value.upper()
            return value.isoformat() + draw.choice(("", "", "T09:30:00Z")) if isinstance(value, date) else value

        rows = [{key: i, **{k: show(v, k) for k, v in r.items()}} for i, r in self.records.items()]
        if draw.random() < 0.3:
            rows = [{re.sub("_(.)", lambda m: m[1].upper(), k): v for k, v in r.items()} for r in rows]
        names = list(rows[0])
        texts = [["-" if v is None else str(v) for v in r.values()] for r in rows]
        wide = [max(len(r[i]) for r in (names, *texts)) + 2 for i in range(len(names))]
        forms = (
            lambda: json.dumps(rows, indent=draw.choice((None, 2))),
            lambda: json.dumps({f"{self.noun}s": rows, "total": len(rows)}), lambda: str(rows),
            lambda: "\n".join(",".join(r) for r in (names, *texts)),
            lambda: "\n".join(f"| {' | '.join(r)} |" for r in (names, ["---"] * len(names), *texts)),
            lambda: "\n".join("".join(c.ljust(w) for c, w in zip(r, wide, strict=True)) for r in (names, *texts)),
            lambda: "\n\n".join("\n".join(f"{k}: {v}" for k, v in zip(names, t, strict=True)) for t in texts),
            lambda: "\n".join(
                " ".join(f'{k}="{v}"' if " " in v else f"{k}={v}" for k, v in zip(names, t, strict=True)) for t in texts
            ),
        )  # fmt: skip
        return forms[draw.randrange(8)]()
