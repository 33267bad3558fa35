"""The texts that the toxicity head is trained on, with what each set says of each label.

FOLDER/train holds davidson.csv.gz, toxigen_statements.jsonl.gz and ragtruth_train.jsonl.gz; FOLDER/train/other the sets
named below (gzipped JSON lines). A set tells only some labels: the others are unknown, and are not trained on there.
"""

import csv
import gzip
import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sets import rows_of

from ragtrace.text.sentences import split

LABELS = ("toxicity", "severe", "obscene", "threat", "insult", "identity_attack", "bias")
OWN = Path(__file__).with_name("toxicity_sentences.txt")
CASES = Path(__file__).parent / "reader" / "cases"
_WORD = re.compile(r"[\w'*@$!]+")
_MAX_CHARS = 220
_OF_CASES = 3_000
_EXPANSIONS = 12
_WRITTEN_OUT = 3.0
"""Weight of a line without alternatives: it is there once."""
_SHARES = {
    "bold": 0.27, "coconot": 0.7, "davidson": 0.7, "diasafety": 0.45, "edos": 0.45, "faker": 0.4, "hatemoji": 0.7,
    "meddocan": 0.3, "orbench": 0.5, "paradetox": 0.27, "rag": 0.3, "spans": 0.25, "stormfront": 0.5,
    "templates": 0.1, "wikitalk": 0.3, "xquad": 0.4, "germeval2018 de": 0.5, "kocohub_korean_hate_speech ko": 0.1,
    "mlma ar": 0.1, "mlma en": 0.2, "mlma fr": 0.5, "told_br pt": 0.3,
}  # fmt: skip
"""Share of a set's rows that are drawn; all where it is not named."""


@dataclass(frozen=True, slots=True)
class Text:
    """A training text: with 1, 0 or nothing for each label."""

    of_set: str
    text: str
    labels: dict[str, int]
    weight: float = 1.0


HARMLESS = dict.fromkeys(LABELS, 0)


class Profanity:
    """Whether a text has a strong word of the list; which words may be disguised."""

    def __init__(self, folder: Path) -> None:
        listed = [r for r in rows_of(folder / "lex_profanity.jsonl.gz") if r["dataset"] == "surge_profanity"]
        self.strong = {r["text"].lower() for r in listed if r["label"] != "Mild" and len(r["text"]) > 3}

    def __call__(self, text: str) -> int:
        return int(any(word in self.strong for word in _WORD.findall(text.lower())))


_LOOKS_LIKE = {"a": "@4*", "e": "3*", "i": "1!*", "o": "0*", "s": "$5", "u": "*v"}


def disguised(text: str, profane: Profanity, chance: random.Random) -> str:
    """The text, its strong words with one letter replaced by a sign."""

    def disguise(match: re.Match[str]) -> str:
        word = match.group()
        places = [k for k in range(1, len(word) - 1) if word[k].lower() in _LOOKS_LIKE]
        if word.lower() not in profane.strong or not places or chance.random() > 0.8:
            return word
        k = chance.choice(places)
        return word[:k] + chance.choice(_LOOKS_LIKE[word[k].lower()]) + word[k + 1 :]

    return re.sub(r"[A-Za-z]+", disguise, text)


def own_sentences(chance: random.Random) -> Iterator[Text]:
    """The sentences of toxicity_sentences.txt, with their alternatives drawn by lot."""
    alternatives = re.compile(r"\{([^{}]*)\}")
    labels: dict[str, int] = {}
    for line in OWN.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            names = line[1:-1].split(": ")[1].split()
            # A toxic line may have further labels that its section does not name. Only `threat` is then 0, unless the
            # section has `?threat`.
            unknown = {name for name in names if name.startswith("?")}
            labels = {} if "?threat" in unknown else {"threat": 0}
            labels = HARMLESS if names == ["harmless"] else labels | dict.fromkeys(set(names) - unknown, 1)
        elif line and not line.startswith("#"):
            drawn = set()
            for _ in range(_EXPANSIONS):
                text = line
                while match := alternatives.search(text):
                    text = text[: match.start()] + chance.choice(match.group(1).split("|")) + text[match.end() :]
                drawn.add(" ".join(text.split()))
            weight = 1.0 if len(drawn) > 1 else _WRITTEN_OUT
            yield from (Text("own", text, labels, weight) for text in sorted(drawn))


def tweets_and_statements(train: Path, profane: Profanity, chance: random.Random) -> Iterator[Text]:
    """Davidson's tweets (hate, offensive, neither), and ToxiGen's statements on groups."""
    with gzip.open(train / "davidson.csv.gz", "rt", encoding="utf-8") as lines:
        tweets = list(csv.DictReader(lines))
    chance.shuffle(tweets)
    count: Counter[str] = Counter()
    for tweet in tweets:
        kind = tweet["class"]
        count[kind] += 1
        if count[kind] > 1_500:
            continue
        text = " ".join(w for w in tweet["tweet"].split() if not w.startswith(("@", "http", "&#", "RT")))
        if kind == "0":
            labels = {"toxicity": 1, "insult": 1, "identity_attack": 1, "obscene": profane(text)}
            yield Text("davidson", text, labels)
        elif kind == "1":
            yield Text("davidson", text, {"toxicity": 1, "obscene": 1, "identity_attack": 0}, 0.5)
        else:
            yield Text("davidson", text, HARMLESS)
    for row in rows_of(train / "toxigen_statements.jsonl.gz"):
        hate = {"toxicity": 1, "identity_attack": 1, "bias": 1, "obscene": 0}
        yield Text("toxigen", row["answer"], hate if row["label"] else HARMLESS)


def dialogue_and_advice(folder: Path, profane: Profanity) -> Iterator[Text]:
    """Replies that are unsafe in a dialogue, without those that only give advice that needs a professional; and
    dangerous advice."""
    for row in rows_of(folder / "tox_diasafety.jsonl.gz"):
        text, kind = row["answer"], row["category"]
        if not row["label"]:
            yield Text("diasafety", text, HARMLESS, 0.7)
        elif kind == "Offending User":
            yield Text("diasafety", text, {"toxicity": 1, "insult": 1})
        elif kind == "Biased Opinion":
            yield Text("diasafety", text, {"toxicity": 1, "bias": 1}, 0.7)
        elif kind == "Risk Ignorance" and profane(text):
            yield Text("diasafety", text, {"toxicity": 1, "obscene": 1}, 0.5)
    for row in rows_of(folder / "tox_safetext_advice.jsonl.gz"):
        yield Text("safetext", row["text"], {**HARMLESS, "toxicity": row["label"]})


def hate(folder: Path, profane: Profanity) -> Iterator[Text]:
    """Hate with its harmless neighbours: emoji pairs, sexism, a forum, templates with groups."""
    for row in rows_of(folder / "tox_hatemoji_build.jsonl.gz"):
        y, kind = row["label"], row["hate_type"]
        labels = {"toxicity": y, "identity_attack": y, "bias": y}
        labels |= {"threat": int("threat" in kind)} if y else {"severe": 0}
        yield Text("hatemoji", row["text"], labels | ({"severe": 1} if kind.startswith(("threat", "dehum")) else {}))
    for row in rows_of(folder / "tox_edos.jsonl.gz"):
        strong = profane(row["text"])
        if not row["label"]:  # not sexist, which is not to say harmless
            yield Text("edos", row["text"], {"bias": 0, "obscene": strong} | ({} if strong else {"toxicity": 0}), 0.6)
            continue
        threat = int(row["category"].startswith("1"))
        labels = {"toxicity": 1, "bias": 1, "threat": threat, "obscene": strong}
        labels |= {"identity_attack": 1} if row["category"][0] in "12" else {}
        yield Text("edos", row["text"], labels | ({"severe": 1} if threat else {}))
    for row in rows_of(folder / "tox_stormfront_vicomtech.jsonl.gz"):
        if row["label_name"] == "hate":
            yield Text("stormfront", row["text"], {"toxicity": 1, "identity_attack": 1, "bias": 1})
        elif row["label_name"] == "noHate":
            yield Text("stormfront", row["text"], HARMLESS, 0.7)
    for row in rows_of(folder / "tox_identity_templates.jsonl.gz"):
        if row["lang"] in ("en", "de", "nl"):
            yield Text("templates", row["text"], {"toxicity": 1} if row["label"] else HARMLESS)


def comments(folder: Path, profane: Profanity) -> Iterator[Text]:
    """Comments: sentences with and without a span that is marked as toxic, sentences and their polite rewrites,
    Wikipedia's talk, and other languages."""
    for row in rows_of(folder / "tox_toxic_spans.jsonl.gz"):
        for span in split(row["text"], 20):
            text = row["text"][span.start : span.end]
            if any(s["start"] < span.end and span.start < s["end"] for s in row["spans"]):
                yield Text("spans", text, {"toxicity": 1, "obscene": profane(text)})
            elif row["has_explicit_span"] and len(text) > 15:
                yield Text("spans", text, {"toxicity": 0, "obscene": 0, "severe": 0}, 0.7)
    for row in rows_of(folder / "tox_paradetox_pairs.jsonl.gz"):
        toxic = {"toxicity": 1, "obscene": profane(row["text"])}
        yield Text("paradetox", row["text"], toxic if row["label"] else HARMLESS, 0.8)
    for row in rows_of(folder / "tox_wikipedia_talk.jsonl.gz"):
        yield Text("wikitalk", row["text"], {"toxicity": 1} if row["label"] else HARMLESS)
    for row in rows_of(folder / "tox_multilingual.jsonl.gz"):
        of_set = f"{row['dataset']} {row['lang']}"
        yield Text(of_set, row["text"], {"toxicity": 1} if row["label"] else HARMLESS, 0.6)


def harmless(folder: Path, chance: random.Random) -> Iterator[Text]:
    """Sentences of answers and passages in many languages, and questions that only look bad."""
    for row in chance.sample(rows_of(folder / "tox_benign_identity_bold.jsonl.gz"), 3_500):
        yield Text("bold", row["text"], HARMLESS)
    answers = [("../ragtruth_train", 900), ("rel_clapnq", 900), ("rel_fetaqa_answers", 700)]
    answers += [("rel_selqa_answer_sentences", 700), ("ref_mtrag_answerability", 500), ("ref_coconot_contrast", 1_500)]
    for name, count in answers:
        of_set = [r for r in rows_of(folder / f"{name}.jsonl.gz") if r.get("answer")]
        for row in chance.sample(of_set, min(count, len(of_set))):
            spans = split(row["answer"], 30)
            for span in chance.sample(spans, min(2, len(spans))):
                yield Text("rag", row["answer"][span.start : span.end], HARMLESS)
            if name == "ref_coconot_contrast":
                yield Text("coconot", row["query"], HARMLESS)
    for row in chance.sample(rows_of(folder / "ref_korean_orbench.jsonl.gz"), 2_500):
        if row.get("query_en"):
            yield Text("orbench", row["query_en"], HARMLESS, 0.7)
    for name, count in (("rel_xquad_12lang", 3_000), ("rel_squad_it", 400)):
        for row in chance.sample(rows_of(folder / f"{name}.jsonl.gz"), count):
            span = chance.choice(split(row["contexts"][0], 20))
            yield Text("xquad", row["contexts"][0][span.start : span.end], HARMLESS)
    for name, of_set, count in (("pii_faker_multilocale", "faker", 1_000), ("pii_meddocan_es", "meddocan", 400)):
        for row in chance.sample(rows_of(folder / f"{name}.jsonl.gz"), count):
            yield Text(of_set, row["text"], HARMLESS, 0.5)


def answers_of_assistants(chance: random.Random) -> Iterator[Text]:
    """Sentences of right answers about tariffs, policies and manuals, from the cases of training/reader: "you" and
    amounts of money are rare in the harmless texts above."""
    sentences = set()
    for path in sorted(CASES.glob("cases_*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            for item in json.loads(line)["items"]:
                if item["ok"]:
                    sentences.update(item["a"][span.start : span.end] for span in split(item["a"], 20))
    drawn = chance.sample(sorted(sentences), min(_OF_CASES, len(sentences)))
    yield from (Text("cases", text, HARMLESS) for text in drawn)


def training_texts(train: Path, seed: int = 20261122) -> list[Text]:
    """All training texts in an order drawn by lot, cut at 220 characters; each seventh toxic one is disguised."""
    chance = random.Random(seed)
    other = train / "other"
    profane = Profanity(other)
    gathered = [
        *tweets_and_statements(train, profane, chance), *dialogue_and_advice(other, profane), *hate(other, profane),
        *comments(other, profane), *harmless(other, chance), *answers_of_assistants(random.Random(seed)),
    ]  # fmt: skip
    texts = [t for t in gathered if len(t.text.strip()) > 2 and chance.random() < _SHARES.get(t.of_set, 1.0)]
    texts += own_sentences(chance)
    chance.shuffle(texts)
    cut = [Text(t.of_set, t.text.strip()[:_MAX_CHARS], t.labels, t.weight) for t in texts]
    return [
        Text(t.of_set, disguised(t.text, profane, chance), t.labels, t.weight)
        if t.labels.get("toxicity") and chance.random() < 1 / 7
        else t
        for t in cut
    ]
