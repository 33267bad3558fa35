"""Evaluations that tests of the store make up."""

import random
from typing import Any

from ragtrace.console.chatlogs.store import open_store
from ragtrace.records import Document, Evaluation, Evidence, Facts, Score, Trace

NOW = 1_760_000_000.0
WORDS = ("pump", "refund", "invoice", "warranty", "battery", "straße", "café", "保証", "delivery", "late")


def made(number: int, *scores: Score, **fields: Any) -> Evaluation:
    """A trace of its own, one second after that of the number before."""
    known: dict[str, Any] = {
        "trace_id": number + 1, "span_id": number + 1, "query": f"question {number}",
        "documents": (Document("d0", "chunk", 0.5, {"source": "a"}),), "answer": f"answer {number}",
        "started": NOW + number, "facts": Facts(app="shop"),
    }  # fmt: skip
    evaluation = {name: fields.pop(name) for name in ("cause", "status") if name in fields}
    return Evaluation(Trace(**known | fields), scores, **evaluation)


def rich(number: int = 7) -> Evaluation:
    """One with everything that a record can have."""
    score = Score(
        "groundedness", 0.25, "fail", "the second sentence is not supported", "hallucination",
        (Evidence(0, 6, "unsupported", 0.1, "d0", 0, 1, 3), Evidence(6, 9, "supported", 0.9, "d1", 1, 0, 2)),
        version="3", method="judge", sampling_probability=0.25, failures=("generation",), model="m1",
        input_tokens=100, output_tokens=20, cost=0.003,
    )  # fmt: skip
    return made(
        number, score, Score("relevance", 1.0, "pass", sampling_probability=0.5),
        Score("toxicity", error="timeout", sampling_probability=0.5),
        query="Wie lange? 保証は?", answer="Zwei Jahre.\nNein.", reference="24 Monate",
        documents=(Document("d0", "two years", 0.8, {"page": 3}), Document("d1", "", None, {})),
        duration=1.5, error="ValueError", sampling_probability=0.5, cause="hallucination",
        facts=Facts(
            app="shop", env="prod", model="m1", prompt_version="v2", session_id="s1", user_id="u1",
            stages={"retrieval": 0.2},
            spans=({"name": "chat", "start": 0.0},), tags=("a",),
        ),
    )  # fmt: skip


def many(count: int, seed: int = 3) -> list[Evaluation]:
    """Traces that differ in everything a filter asks for; times are not in their order."""
    drawn = random.Random(seed)
    return [_drawn(number, drawn) for number in range(count)]


def _drawn(number: int, drawn: random.Random) -> Evaluation:
    facts = {
        "app": drawn.choice(("shop", "shop", "help", "lab")), "env": drawn.choice(("prod", "dev")),
        "model": drawn.choice(("m1", "m2", None)), "prompt_version": drawn.choice(("v1", "v2", "v3")),
        "session_id": f"s{drawn.randrange(20)}", "user_id": f"u{drawn.randrange(10)}",
    }  # fmt: skip
    scores = [_score(drawn, name) for name in ("a", "b", "c") if drawn.random() < 0.9]
    return made(
        number, *scores, started=NOW + drawn.randrange(50_000), duration=drawn.random() * 3,
        query=" ".join(drawn.choices(WORDS, k=3)), answer=" ".join(drawn.choices(WORDS, k=4)),
        documents=(Document("d", " ".join(drawn.choices(WORDS, k=2))),),
        error="TimeoutError" if drawn.random() < 0.1 else None,
        cause=drawn.choice(("retrieval", "hallucination", None)), facts=Facts(**facts),
        sampling_probability=drawn.choice((0.1, 1.0)),
    )  # fmt: skip


def _score(drawn: random.Random, name: str) -> Score:
    if drawn.random() < 0.1:
        return Score(name, error="timeout")
    if drawn.random() < 0.1:
        return Score(name, label="not_applicable")
    value = drawn.choice((0.0, 1.0, round(drawn.random(), 3), round(drawn.random(), 3), drawn.uniform(-3, 40)))
    return Score(name, value, "pass" if value >= 0.5 else "fail")


def fill(url: str, count: int, *stored: Score, **fields: Any) -> None:
    """A store with so many logs of `made`."""
    store = open_store(url)
    store.write([made(n, *stored, **fields) for n in range(count)])
    store.close()
