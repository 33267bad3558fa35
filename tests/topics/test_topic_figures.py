"""Which topics fail, why, and how that moved; what the documents do not answer."""

import pytest

from ragtrace.console.chatlogs import overview
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.topics.grouper import Grouper
from ragtrace.console.topics.topic_figures import TopicReport, TopicRow, knowledge_gaps, topic_report
from ragtrace.errors import SettingError
from ragtrace.records import Document, Evaluation, Facts
from ragtrace.statistics import Sums
from ragtrace.testing import make_trace
from tests.topics.questions import CHECK, DAY, NOW, WordEmbedder, asked, fill, question


def _report(store: Store, **more: object) -> TopicReport:
    return topic_report(store, NOW - DAY, NOW, "faithfulness", **more)  # type: ignore[arg-type]


def _named(report: TopicReport, word: str) -> TopicRow:
    (row,) = (row for row in report.topics if word in row.name)
    return row


def _grouped(store: Store) -> None:
    Grouper(store, embedder=WordEmbedder()).update(NOW)


def test_the_topic_that_fails_comes_first(store: Store) -> None:
    """With its share, the interval of that share, its part in all failures, its causes and its worst failures."""
    fill(store, {"parcel": (40, 4), "refund": (40, 30), "password": (40, 0)})
    _grouped(store)
    report = _report(store)
    assert (report.grouped, report.stored) == (120, 120)
    first = report.topics[0]
    assert "refund" in first.name
    expected = Sums()
    for n in range(40):
        expected.add(float(n < 30), 1.0)
    assert (first.failures, (first.questions, first.requests)) == (expected.rate(), (40, 40.0))
    assert (first.part, first.causes, len(first.worst)) == (pytest.approx(30 / 34), (("unsupported", 30.0),), 3)
    assert report.total.value == pytest.approx(34 / 120)


def test_the_topics_add_up_to_the_overview(store: Store) -> None:
    """Requests that are sampled with different probabilities weigh as they do in the overview."""
    number = fill(store, {"parcel": (30, 3), "refund": (30, 20)}, p=0.5)
    fill(store, {"parcel": (30, 20), "refund": (30, 3)}, number, p=0.05)
    _grouped(store)
    report = _report(store)
    whole = overview.pass_rates(store, NOW - DAY, NOW)["faithfulness"]
    assert (report.total.value, report.total.effective) == pytest.approx((1 - whole.value, whole.effective))
    assert sum(row.requests for row in report.topics) == pytest.approx(60 / 0.5 + 60 / 0.05)
    assert _named(report, "parcel").failures.value == pytest.approx((3 / 0.5 + 20 / 0.05) / (30 / 0.5 + 30 / 0.05))


def test_a_topic_that_became_worse(store: Store) -> None:
    """Against as long a time before, in points with their interval; what chance explains is no change."""
    first = fill(store, {"parcel": (40, 4), "refund": (40, 4)}, started=NOW - 1.5 * DAY)
    fill(store, {"parcel": (40, 6), "refund": (40, 30)}, first, started=NOW - 0.5 * DAY)
    _grouped(store)
    report = _report(store)
    refund, parcel = _named(report, "refund"), _named(report, "parcel")
    assert refund.change.value == pytest.approx(26 / 40)
    low, high = refund.change.interval
    assert 0.4 < low < 26 / 40 < high < 0.8
    assert (refund.verdict, parcel.verdict) == ("worse", "")
    assert parcel.change.interval[0] < 0 < parcel.change.interval[1]


def test_the_worst_come_first(store: Store) -> None:
    store.write([asked(n, question("refund", n), True, value=0.4 - n / 100) for n in range(10)], [CHECK])
    _grouped(store)
    (row,) = _report(store, worst=2).topics
    assert [store.get(trace).trace.trace_id for trace in row.worst] == [10, 9]


def test_the_newest_version_counts(store: Store) -> None:
    """A question that two versions of an evaluator judged counts once."""
    fill(store, {"refund": (10, 10)})
    store.write([asked(n, question("refund", n), False, version="2") for n in range(10)])
    _grouped(store)
    (row,) = _report(store).topics
    assert (row.failures.count, row.failures.value) == (10, 0.0)


def test_what_fits_no_topic_is_last(store: Store) -> None:
    """And counts in the total; an application can be chosen."""
    fill(store, {"refund": (10, 2)}, app="shop")
    store.write([asked(100 + n, f"alone{n} strange{n}", True, app="help") for n in range(3)], [CHECK])
    _grouped(store)
    report = _report(store)
    assert ([row.id is None for row in report.topics], report.topics[-1].questions) == ([False, True], 3)
    assert report.total.count == 13
    assert [row.id is None for row in _report(store, app="help").topics] == [True]
    with pytest.raises(SettingError, match="ends before it begins"):
        topic_report(store, NOW, NOW - 1, "faithfulness")


def test_knowledge_gaps(store: Store) -> None:
    """The questions whose retrieval ran and found nothing that answers, the most frequent first, each once."""
    fill(store, {"refund": (10, 2)})
    gap = {"cause": "irrelevant_context"}
    store.write([asked(50 + n, "Refund money CARD Liechtenstein", True, p=0.5, **gap) for n in range(3)], [CHECK])
    store.write([asked(60, "refund money card  liechtenstein", True, started=NOW - 30, **gap)], [CHECK])
    declined = make_trace("Do you sell boats?", [], "I do not know.", trace_id=99, span_id=9, started=NOW - 99,
                          facts=Facts(app="shop", retrievals=1))  # fmt: skip
    nobody_searched = make_trace("Where is parcel 7?", [], "At home.", trace_id=97, span_id=7, started=NOW - 97)
    store.write([Evaluation(nobody_searched, (), cause="answered_without_context")])
    found = make_trace("Why so late?", [Document("doc-7", "x")], trace_id=98, span_id=8, started=NOW - 98,
                       facts=Facts(app="help"))  # fmt: skip
    store.write([Evaluation(declined, (), cause="right_refusal"), Evaluation(found, (), cause="nothing_retrieved")])
    _grouped(store)
    gaps = knowledge_gaps(store, NOW - DAY, NOW)
    assert [gap.question for gap in gaps] == ["refund money card  liechtenstein", "Why so late?", "Do you sell boats?"]
    assert (gaps[0].times, gaps[0].requests, gaps[0].cause) == (4, 7.0, "irrelevant_context")
    assert "refund" in gaps[0].topic
    assert gaps[0].trace_id == f"{61:032x}"
    assert (gaps[1].document, gaps[2].document) == ("doc-7", "")
    assert [gap.question for gap in knowledge_gaps(store, NOW - DAY, NOW, app="help")] == ["Why so late?"]
    (row,) = (row for row in _report(store).topics if row.id is not None)
    assert row.gaps == 4
    assert [gap.times for gap in knowledge_gaps(store, NOW - DAY, NOW, topic=row.id)] == [4]
