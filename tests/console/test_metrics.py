"""What Prometheus reads of the store: the queue, and how far evaluators agree with people."""

import re
import time
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import select

from ragtrace.console.chatlogs.schema import items, traces, users
from ragtrace.console.chatlogs.store_types import Review, Task, Verdict
from ragtrace.console.metrics import MOST_TOPICS, ReviewCollector
from ragtrace.console.review import queue
from ragtrace.console.review.anchors import score_again
from ragtrace.console.topics.grouper import Grouper
from ragtrace.settings import load
from ragtrace.testing import Clock, make_trace
from tests.console.conftest import Console
from tests.topics.questions import CHECK, WordEmbedder, asked

NOW, ANSWER = time.time(), make_trace().answer


def fill(console: Console) -> None:
    """Forty logs, all of them drawn for review: the evaluator fails twenty, people fifteen of these and five more."""
    logs = [asked(n, f"Question {n}?", n < 20, app=None, answer=ANSWER, started=NOW - 7200 + n) for n in range(40)]
    console.store.write(logs, [CHECK], now=NOW - 3600)
    queue.fill(console.store, queue.Policy(quota=100, shares={"random": 1.0}, double=0.0), NOW)
    for n in range(40):
        say(console, n, n < 15 or n >= 35, None)


def say(console: Console, number: int, fails: bool, person: int | None) -> None:
    review = Review(f"{number + 1:032x}", (Verdict("faithfulness", "fail" if fails else "pass"),))
    trace = console.store.scalar(select(traces.c.id).where(traces.c.trace_id == review.trace_id))
    item = console.store.scalar(select(items.c.id).where(items.c.trace == trace)) or 0
    queue.submit(console.store, Task(item, trace, review.trace_id, "random", NOW), review, person, NOW)


def topics_of(console: Console) -> None:
    """Thirty topics of ten questions, of which the first five topics fail; one question in ten is a gap."""
    evaluations = []
    for n in range(300):
        more = {"started": NOW - 3_600 + n, "p": 0.5, "cause": "irrelevant_context" if n < 30 else "none"}
        query = f"subject{n % 30} matter{n % 30} thing{n % 30} no{n}"
        evaluations.append(asked(1_000 + n, query, n % 30 < 5, **more))
    console.store.write(evaluations, [CHECK])
    Grouper(console.store, embedder=WordEmbedder()).update(NOW)


def scraped(text: str) -> dict[tuple[str, ...], float]:
    """Name and label values in the order of their names, to value."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_agreement_with_people(console: Console) -> None:
    """Precision 15 of 20, recall 15 of 20, kappa from the table, all with bounds around them."""
    fill(console)
    answer = console.signed_in("vera").get("/api/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    found = scraped(answer.text)
    name, bounds = "ragtrace_review_agreement", ("lower", "estimate", "upper")
    for figure, value in (("precision", 0.75), ("recall", 0.75), ("kappa", 0.5)):
        low, share, high = (found[name, bound, "faithfulness", figure] for bound in bounds)
        assert share == pytest.approx(value, abs=0.005)
        assert low < share < high
    assert found["ragtrace_review_logs", "faithfulness"] == 40
    assert found["ragtrace_reviews",] == 40
    low, share, high = (found["ragtrace_true_failure_ratio", "rag", bound, "faithfulness"] for bound in bounds)
    assert share == pytest.approx(0.5, abs=0.01)
    assert low < share < high
    assert found["ragtrace_true_failure_verdicts", "rag", "faithfulness"] == 40
    assert found["ragtrace_last_review_timestamp_seconds",] == pytest.approx(NOW, abs=1)


def test_what_waits(console: Console) -> None:
    """Items by state and reason, and the age of the oldest open one; figures are kept for a minute."""
    clock = Clock(NOW)
    collector = ReviewCollector(console.store, clock)
    empty = {family.name: family for family in collector.collect()}
    assert not empty["ragtrace_review_items"].samples
    assert empty["ragtrace_review_oldest_open_seconds"].samples[0].value == 0
    console.store.write([asked(0, "Question?", True, started=NOW - 7200)], [CHECK])
    assert queue.fill(console.store, queue.Policy(), NOW)
    assert {family.name: family for family in collector.collect()} == empty
    clock.tick(90)
    fresh = {family.name: family for family in collector.collect()}
    assert sum(sample.value for sample in fresh["ragtrace_review_items"].samples if sample.labels["state"] == "open")
    assert fresh["ragtrace_review_oldest_open_seconds"].samples[0].value == pytest.approx(90, abs=5)


def test_the_page_of_metrics_tells_what_is_served(console: Console) -> None:
    """docs/metrics.md and a scrape agree in names, types and labels, both ways."""
    fill(console)
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
    documented = {}
    for line in page.partition("\n## Review\n")[2].splitlines():
        if line.startswith("| `ragtrace_"):
            name, kind, labels, _ = (cell.strip() for cell in line.strip("|").split(" | "))
            documented[name.strip("`")] = (kind, frozenset(re.findall(r"`([a-z_]+)`", labels)))
    served = {}
    for number in range(2):  # two who agree on a log, and the alpha has something to say
        console.add(f"reviewer{number}", "reviewer")
    for (person,) in console.store.rows(select(users.c.id).where(users.c.name.startswith("reviewer"))):
        say(console, 1, True, person)
        say(console, 30, False, person)
    topics_of(console)
    assert score_again(console.store, load(environ={})) == 40
    for family in ReviewCollector(console.store).collect():
        assert family.samples, family.name
        labels = {frozenset(sample.labels) for sample in family.samples}
        assert len(labels) == 1
        served[family.name] = (family.type, *labels)
    assert served == documented


def test_topics_are_bounded(console: Console) -> None:
    """The twenty largest topics have their names, all others are `other`; without topics there are no such metrics."""
    assert not any("topic" in family.name for family in ReviewCollector(console.store).collect())
    topics_of(console)
    found = scraped(console.signed_in("vera").get("/api/metrics").text)
    requests = {key[1]: value for key, value in found.items() if key[0] == "ragtrace_topic_requests"}
    assert (len(requests), sum(requests.values())) == (MOST_TOPICS + 1, 600)
    assert sum(value for key, value in found.items() if key[0] == "ragtrace_topic_gaps") == 60
    shares = {(key[1], key[3]): value for key, value in found.items() if key[0] == "ragtrace_topic_failure_ratio"}
    assert set(shares) == {(bound, topic) for topic in requests for bound in ("estimate", "lower", "upper")}
    for topic in requests:
        assert shares["lower", topic] <= shares["estimate", topic] <= shares["upper", topic]
    assert {shares["estimate", topic] for topic in requests if topic != "other"} <= {0.0, 1.0}
