"""Sentences that decline and sentences that only look like it, written for training the refusal head.

Their templates are in refusal_declines.txt and refusal_answers.txt, by language: `{t}` stands for a topic of the
language (refusal_topics.json), `{n}` for a number. No data set's text is among them.
"""

import itertools
import json
import random
import re
from pathlib import Path

TOPICS = json.loads(Path(__file__).with_name("refusal_topics.json").read_text(encoding="utf-8"))


def sentences(seed: int = 14, copies: int = 4) -> list[tuple[str, int, str]]:
    """Sentences with label (1 declines) and template, by which they must not be split."""
    chance = random.Random(seed)
    rows: list[tuple[str, int, str]] = []
    for label, name in ((1, "refusal_declines.txt"), (0, "refusal_answers.txt")):
        for language, template in _templates(name):
            for _ in itertools.repeat(None, copies if "{" in template else 2):
                text = template.replace("{t}", chance.choice(TOPICS[language])).replace(
                    "{n}", str(chance.randint(2, 90))
                )
                rows.append((text[0].upper() + text[1:], label, template))
    return rows


def _templates(name: str) -> list[tuple[str, str]]:
    """The templates of a file, each with its language, which a line such as [de] names."""
    language, templates = "", []
    for line in Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines():
        if heading := re.fullmatch(r"\[(\w\w)\]", line):
            language = heading[1]
        else:
            templates.append((language, line))
    return templates
