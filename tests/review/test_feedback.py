"""What users say: kept once, with its trace or before it, never in the way of the application."""

import threading
import urllib.request
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

import ragtrace
from ragtrace.console.chatlogs.schema import feedback, traces
from ragtrace.console.chatlogs.store import Store, open_store
from ragtrace.console.review.feedback import FeedbackSink, add_feedback
from ragtrace.console.review.policy import Policy
from ragtrace.console.review.queue import fill
from ragtrace.errors import DataError
from ragtrace.records import Feedback
from ragtrace.testing import make_trace
from tests.review.review_data import NOW, evaluation, fill_store, good, queued, scored
from tests.row_files import rows
from tests.waiting import until

POLICY = Policy(quota=20, shares={"feedback": 0.2}, double=0)


def said(store: Store) -> list[tuple[str, int | None, str | None]]:
    rows = store.rows(select(feedback).order_by(feedback.c.id))
    return [(r.trace_id, r.thumbs, store.unseal(r.trace_id, r._mapping, ("comment",))["comment"]) for r in rows]


def thumbs(store: Store, trace_id: str) -> int | None:
    (row,) = store.rows(select(traces.c.thumbs).where(traces.c.trace_id == trace_id))
    return row.thumbs


def test_bad_feedback_brings_a_log_to_review(store: Store) -> None:
    """At once, first in the queue, as many a day as there is room for, the others later; the last thumbs count."""
    known = list(fill_store(store, [0.9] * 12))
    noon = NOW - NOW % 86_400 + 43_200
    for trace in known[:6]:
        assert add_feedback(store, Feedback(trace, -1, "wrong"), noon, POLICY) is True
    add_feedback(store, Feedback(known[7], 1), noon, POLICY)
    rows = queued(store)
    assert {row.trace_id for row in rows} == set(known[:3])
    assert {row.reason for row in rows} == {"feedback"}
    assert (thumbs(store, known[0]), thumbs(store, known[7]), thumbs(store, known[8])) == (-1, 1, None)
    add_feedback(store, Feedback(known[3], 1), noon, POLICY)
    fill(store, POLICY, noon + 86_400)
    assert {row.trace_id for row in queued(store)} == {*known[:3], known[4], known[5]}


def test_feedback_before_its_trace(store: Store) -> None:
    """It waits for the trace, and brings it to review when it comes; the last thumbs count."""
    made = evaluation(0, scored(good, 0.9))
    trace = f"{made.trace.trace_id:032x}"
    assert add_feedback(store, Feedback(trace, 1, "yes"), NOW - 1, POLICY) is False
    assert add_feedback(store, Feedback(trace.upper(), -1, "no"), NOW, POLICY) is False
    store.write([made], [good], now=NOW)
    assert thumbs(store, trace) == -1
    assert fill(store, POLICY, NOW + 1) == 1
    assert [(f.thumbs, f.comment) for f in store.get(trace).feedback] == [(1, "yes"), (-1, "no")]


@pytest.mark.parametrize("fields", rows(__file__, "feedback_that_says_nothing"))
def test_feedback_that_says_nothing_is_refused(store: Store, fields: list[Any]) -> None:
    with pytest.raises(DataError, match="feedback"):
        add_feedback(store, Feedback(*fields), NOW)
    assert said(store) == []


def test_a_long_comment_is_cut(store: Store) -> None:
    """At ten thousand characters; NUL and quotes do no harm."""
    add_feedback(store, Feedback("1" * 32, 1, "'\"\0" + "x" * 20_000, "widget"), NOW)
    assert [len(comment) for _, _, comment in said(store)] == [10_000]


@pytest.mark.server
def test_the_applications_function(tmp_path: Path) -> None:
    """`ragtrace.feedback` reaches the store and the metrics; whatever it is given, it never raises."""
    url = str(tmp_path / "store.db")
    assert ragtrace.feedback("1" * 32, thumbs=1) is False, "nothing runs"
    with closing(
        ragtrace.init(store=url, prometheus_port=0, frameworks=(), evaluators=[good], sample_per_second=0)
    ) as runtime:
        assert ragtrace.feedback(7, thumbs="down", comment="wrong", source="widget")
        assert ragtrace.feedback(f"{8:032x}", thumbs=True)
        assert ragtrace.feedback(f"{8:032x}", thumbs=0, comment="so so")
        for odd in (None, object(), "'; DROP TABLE feedback", 2**200, b"x"):
            ragtrace.feedback(odd, thumbs=odd, comment=odd)  # type: ignore[arg-type]
        runtime.pipeline.submit(make_trace(trace_id=7))
        assert runtime.flush(60)
        with urllib.request.urlopen(str(runtime.metrics_url), timeout=60) as answer:
            lines = answer.read().decode()
        assert 'ragtrace_feedback_total{app="rag",env="dev",value="down"} 1.0' in lines
        assert 'value="up"} 1.0' in lines
        with closing(open_store(url)) as store:
            assert said(store)[:3] == [(f"{7:032x}", -1, "wrong"), (f"{8:032x}", 1, None), (f"{8:032x}", 0, "so so")]
            assert thumbs(store, f"{7:032x}") == -1
    assert ragtrace.feedback("1" * 32, thumbs=1) is False, "it has stopped"
    with closing(ragtrace.init(frameworks=(), evaluators=[good])) as runtime:
        assert ragtrace.feedback("1" * 32, thumbs=1) is True, "it is a score"


def waiting(folder: Path, count: int) -> FeedbackSink:
    """What users say while a file stands where the database's folder should be."""
    folder.touch()
    sink = FeedbackSink(str(folder / "store.db"))
    for i in range(count):
        sink(Feedback(f"{i:032x}", 1))
    return sink


def test_a_database_that_is_away_keeps_nobody_waiting(tmp_path: Path) -> None:
    """What users say meanwhile waits, and is stored when the database comes back."""
    before = threading.active_count()
    sink = waiting(folder := tmp_path / "absent", 100)
    assert threading.active_count() <= before + 1
    assert sink.flush(0.2) is False
    folder.unlink()
    folder.mkdir()
    until(lambda: sink.flush(0.1))
    sink.close()
    with closing(open_store(str(folder / "store.db"))) as store:
        assert len(said(store)) == 100
    assert sink.lost == 0


def test_closing_while_the_database_is_away_counts_the_loss(tmp_path: Path) -> None:
    """It does not keep the process from ending."""
    sink = waiting(tmp_path / "absent", 3)
    sink.close(10)
    assert sink.lost == 3
    sink.close()
