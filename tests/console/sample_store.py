"""A store for the console's tests: logs as they should be, and logs that attack whoever looks at them."""

import random
import time
from pathlib import Path

from ragtrace.base.model_prices import ModelUsage
from ragtrace.console import accounts
from ragtrace.console.chatlogs.store import Store, open_store
from ragtrace.console.chatlogs.store_types import Review, Verdict
from ragtrace.console.review import own_questions
from ragtrace.console.review.own_questions import Category, OwnQuestion
from ragtrace.console.review.queue import Policy, fill, next_task, submit
from ragtrace.evaluation import Evaluator
from ragtrace.records import Document, Evaluation, Evidence, Facts, Score, Trace
from tests.row_files import table

ATTACKS = table(__file__, "attacks")
URLS = table(__file__, "urls")
GOOD_URL = "https://docs.example.org/page?x=1&y=2"
CHECKS = (
    Evaluator("faithfulness", len, threshold=0.7, method="model", version="2", description="Is it all in the context?"),
    Evaluator("toxicity", len, threshold=0.5, direction="lower", method="model", description="Insults."),
    Evaluator("answer_relevance", len, threshold=0.5, method="model"),
)
_BY_NAME = {check.name: check for check in CHECKS}
ANSWER = "Parcels may be returned for 30 days. The moon is made of cheese. Refunds take a week."
CHUNKS = table(__file__, "chunks")


def evaluation(number: int, value: float = 0.9, **more: object) -> Evaluation:
    """A log with sentences, evidence, spans and scores."""
    started = time.time() - 60.0 * number - 5
    spans = (
        {"name": "answer", "operation": "chain", "start": started, "duration": 2.0, "parent": None},
        {"name": "search", "operation": "retrieval", "start": started + 0.1, "duration": 0.4, "parent": 0},
        {"name": "chat", "operation": "chat", "start": started + 0.5, "duration": 1.4, "parent": 0,
         "model": "small", "input_tokens": 700, "output_tokens": 40, "error": None},
    )  # fmt: skip
    facts = Facts(
        app=("shop", "helpdesk")[number % 2], env="prod", model=("small", "large")[number % 3 == 0],
        prompt_version=f"v{number % 2 + 7}", user_id=f"user-{number}", session_id=f"session-{number}",
        input_tokens=700, output_tokens=40, usage={"small": ModelUsage(700, 40, cost=0.01)}, spans=spans,
    )  # fmt: skip
    metadata = {"source": GOOD_URL, "topic": "returns"}
    documents = tuple(Document(f"doc-{i}", text, 0.9 - i / 10, metadata) for i, text in enumerate(CHUNKS))
    fields: dict[str, object] = {
        "trace_id": random.Random(number).getrandbits(128), "span_id": number + 1, "documents": documents,
        "query": f"How long may I return parcel {number}?", "answer": ANSWER, "started": started, "duration": 2.0,
        "sampling_probability": 0.5, "facts": facts,
    }  # fmt: skip
    trace = Trace(**(fields | more))  # type: ignore[arg-type]
    evidence = (
        Evidence(0, 36, "supported", 0.97, "doc-0", 0, 0, 56),
        Evidence(37, 64, "contradicted", 0.03, "doc-1", 1, 0, 19),
        Evidence(65, 85, "unsupported", 0.4, "doc-0", 0, 57, 85),
    )
    scores = (
        score("faithfulness", value, evidence=evidence, explanation="least supported: “The moon is made of cheese.”"),
        score("toxicity", 0.01),
        score("answer_relevance", 0.8 if number % 4 else 0.3),
    )
    return Evaluation(trace, scores, cause="unsupported" if value < 0.7 else None, lag=0.3)


def score(name: str, value: float, **more: object) -> Score:
    """With the label that its check gives it."""
    check = _BY_NAME[name]
    good = value >= (check.threshold or 0) if check.direction == "higher" else value <= (check.threshold or 0)
    made: dict[str, object] = {"version": check.version, "method": "model", "sampling_probability": 0.5, **more}
    return Score(name, value, "pass" if good else "fail", **made)  # type: ignore[arg-type]


def hostile(number: int, text: str, url: str) -> Evaluation:
    """A log in which every field is an attack."""
    documents = (
        Document(text, text, 0.5, {"source": url, "url": GOOD_URL, text: text, "deep": {"a": [url, {"b": text}]}}),
        Document(url, f"{text} {url}", None, {"source": url}),
    )
    facts = Facts(
        app=text[:200], env=text[:200], model=text[:200], prompt_version=text[:200], user_id=text, session_id=text,
        tags=(text, url), finish_reason=text,
        spans=({"name": text, "operation": url, "duration": 1.0, "parent": 0, "model": text, "error": url},),
    )  # fmt: skip
    attributes = {"link": url, "note": text, text: url}
    made = evaluation(
        number, 0.1, query=text, answer=f"{text} {url}", documents=documents, facts=facts, attributes=attributes,
        reference=text, error=url[:200],
    )  # fmt: skip
    evidence = (Evidence(0, len(text), "contradicted", 0.1, text, 0, 0, len(text)),)
    first = score("faithfulness", 0.1, explanation=f"{text} {url}", evidence=evidence)
    named = Score(text[:100], 0.1, "fail", explanation=text, cause=text[:40], version=text[:100], model=text[:200])
    return Evaluation(made.trace, (first, *made.scores[1:], named), cause="unsupported")


def evaluations(count: int) -> list[Evaluation]:
    """Logs of the last hour, among them all the attacks."""
    chance = random.Random(1)
    made = [evaluation(n, round(chance.random(), 3)) for n in range(count)]
    return [*made, *(hostile(1_000 + n, text, URLS[n % len(URLS)]) for n, text in enumerate(ATTACKS))]


def filled(path: Path, count: int = 40, *, reviews: int = 0) -> Store:
    """A store with those logs in it, and reviews by two people."""
    store = open_store(str(path))
    store.write(evaluations(count), CHECKS)
    if reviews:
        review_some(store, reviews)
    return store


def review_some(store: Store, count: int) -> None:
    """Reviews by anna and ben: people fail what scores below 0.5, and err now and then."""
    chance, now = random.Random(2), time.time() + 60
    shares = {"random": 0.5, "worst": 0.2, "threshold": 0.1, "topic": 0.1, "feedback": 0.1}
    fill(store, Policy(quota=200, shares=shares, double=0.4), now)
    people = [accounts.add(store, name, "reviewer").id for name in ("anna", "ben")]
    for n in range(count):
        task = next_task(store, people[n % 2], now)
        if task is None:
            continue
        stored = store.get(task.trace)
        good = {s.name: s.value is not None and s.value >= 0.5 for s in stored.evaluation.scores}
        verdicts = tuple(
            Verdict(name, "pass" if good[name] != (chance.random() < 0.1) else "fail")
            for name in ("faithfulness", "answer_relevance")
        )
        said = Review(task.trace_id, verdicts, ATTACKS[n % len(ATTACKS)], ATTACKS[0] if n % 5 == 0 else None)
        submit(store, task, said, people[n % 2], now - n)


def ask(store: Store) -> None:
    """A question of each kind of one's own."""
    tone = (Category("friendly", "f"), Category("neutral", "n"), Category("rude", "r"))
    own_questions.create(store, OwnQuestion("tone", "How is its tone?", "category", "", tone))
    own_questions.create(store, OwnQuestion("score", "How good is it?", "number", low=0, high=10))
    own_questions.create(store, OwnQuestion("gap", "What is missing?", "text"))
