"""Questions get topics, and topics stay."""

import time
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pytest
from sqlalchemy import select

from ragtrace.console.chatlogs.key_change import rekey
from ragtrace.console.chatlogs.reader import QUESTION_LENGTH
from ragtrace.console.chatlogs.retention import Retention, delete_user, prune
from ragtrace.console.chatlogs.schema import topics, trace_topics, traces
from ragtrace.console.chatlogs.store import Store, open_store
from ragtrace.console.topics.grouper import MOST_TOPICS, Grouper, GroupingProgress, load_names, load_topics, progress
from ragtrace.records import Evaluation, Facts
from ragtrace.testing import make_trace
from tests.databases import count
from tests.row_files import table
from tests.topics.questions import CHECK, DAY, NOW, SUBJECTS, WordEmbedder, asked, fill, question
from tests.waiting import until

EVEN = dict.fromkeys(SUBJECTS, (20, 0))


def _grouper(store: Store) -> Grouper:
    return Grouper(store, embedder=WordEmbedder())


def _topic_of(store: Store) -> dict[int, int | None]:
    """The topic of each trace, by the number in its trace id."""
    query = select(traces.c.trace_id, trace_topics.c.topic).join(trace_topics, trace_topics.c.trace == traces.c.id)
    return {int(trace, 16) - 1: topic for trace, topic in store.rows(query)}


def test_each_subject_is_a_topic(store: Store) -> None:
    """Twenty questions of each of four subjects make four topics, named by their words."""
    fill(store, EVEN)
    assert progress(store, NOW) == GroupingProgress(0, 80)
    assert _grouper(store).update(NOW) == 80
    assert progress(store, NOW) == GroupingProgress(80, 0)
    of = _topic_of(store)
    groups = [{of[n] for n in range(start, start + 20)} for start in range(0, 80, 20)]
    assert ([len(group) for group in groups], len(set.union(*groups))) == ([1] * 4, 4)
    names = load_names(store)
    for subject, group in zip(SUBJECTS, groups, strict=True):
        (topic,) = group
        assert set(names[topic].split(", ")) <= set(SUBJECTS[subject].split())


def test_topics_stay_from_day_to_day(store: Store) -> None:
    """Later questions go to yesterday's topics, also in a new process; each question is embedded once."""
    first = fill(store, EVEN)
    _grouper(store).update(NOW)
    names, before = load_names(store), _topic_of(store)
    fill(store, EVEN, first, started=NOW + DAY)
    later = _grouper(store)
    assert (later.update(NOW + DAY + 60), load_names(store)) == (80, names)
    of = _topic_of(store)
    assert {n: of[n] for n in before} == before
    assert all(of[n] == of[n - first] for n in range(first, first + 80))
    assert later._embedder.embedded == 80  # type: ignore[union-attr]


def test_a_new_subject_becomes_a_topic(store: Store) -> None:
    """What fits no topic becomes one as soon as there is enough of it, and only that."""
    first = fill(store, {name: EVEN[name] for name in ("refund", "parcel", "password")})
    grouper = _grouper(store)
    grouper.update(NOW)
    names = load_names(store)
    assert len(names) == 3
    first = fill(store, {"warranty": (3, 0)}, first)
    grouper.update(NOW)
    assert load_names(store) == names
    fill(store, {"warranty": (9, 0)}, first)
    grouper.update(NOW)
    fresh = {topic: name for topic, name in load_names(store).items() if topic not in names}
    assert len(fresh) == 1
    assert {_topic_of(store)[n] for n in range(60, 72)} == set(fresh)
    assert load_names(store) == names | fresh


def test_a_centre_settles(store: Store) -> None:
    first = fill(store, {"parcel": (20, 0)})
    grouper, found = _grouper(store), []
    for size in (150, 60, 60):
        first = fill(store, {"refund": (size, 0)}, first)
        grouper.update(NOW)
        found.append(max(load_topics(store, "words"), key=lambda topic: topic.size))
    assert [topic.size for topic in found] == [150, 210, 210]
    assert found[1].centre.tolist() == found[2].centre.tolist()


def test_topics_are_bounded(store: Store) -> None:
    evaluations = [asked(n, f"subject{n % 70} matter{n % 70} thing{n % 70} no{n}", False) for n in range(70 * 6)]
    store.write(evaluations, [CHECK])
    grouper = _grouper(store)
    grouper.update(NOW)
    grouper.update(NOW)
    assert 40 <= len(load_names(store)) <= MOST_TOPICS


CUT = f"refund money {' '.join(['of'] * QUESTION_LENGTH)}"[: QUESTION_LENGTH - 9] + " janedoe@example.org"


@pytest.mark.parametrize("text", ["refund money jane.doe@example.org DE89 3704 0044 0532 0130 00 no", CUT])
def test_names_are_masked(store: Store, text: str) -> None:
    """Personal data is no word of a name; an address that is cut where reading ends is left out, too."""
    store.write([asked(n, f"{text}{'' if text == CUT else n}", False) for n in range(10)], [CHECK])
    _grouper(store).update(NOW)
    assert [set(name.split(", ")) for name in load_names(store).values()] == [{"refund", "money"}]


def test_an_empty_question_has_no_topic(store: Store) -> None:
    store.write([asked(n, " ", False) for n in range(8)], [CHECK])
    grouper = _grouper(store)
    assert (grouper.update(NOW), grouper.update(NOW), load_names(store)) == (8, 0, {})


def _of(number: int, text: str, user: str) -> Evaluation:
    facts = Facts(user_id=user)
    return Evaluation(make_trace(text, trace_id=number + 1, span_id=1, started=NOW - number, facts=facts), ())


def test_what_is_deleted_leaves_no_name(store: Store) -> None:
    """A topic ends with its last question: by age, and when its user is forgotten."""
    store.write([_of(n, question("refund", n), "ann") for n in range(10)])
    fill(store, {"parcel": (10, 0)}, 20, started=NOW - 20 * DAY)
    fill(store, {"password": (10, 0)}, 40)
    _grouper(store).update(NOW)
    assert len(load_names(store)) == 3
    delete_user(store, "ann", rewrite=False)
    assert len(load_names(store)) == 2
    prune(store, Retention(days=10), NOW)
    (name,) = load_names(store).values()
    assert "password" in name


@pytest.mark.parametrize("key", [None, "0a" * 32])
def test_a_name_has_no_word_of_a_forgotten_user(store_url: str, key: str | None) -> None:
    """A topic with a word that only they used ends, and the new one is named by others' words; the rest stay."""
    with closing(open_store(store_url, key=key)) as store:
        store.write(_of(n, f"refund money xerxes no{n}", "ann") for n in range(10))
        store.write(_of(n, f"refund money no{n}", "bo") for n in range(10, 16))
        fill(store, {"password": (10, 0)}, 40)
        _grouper(store).update(NOW)
        before = load_names(store)
        assert sorted("xerxes" in name for name in before.values()) == [False, True]
        delete_user(store, "ann", rewrite=False)
        assert [name for name in before.values() if "xerxes" not in name] == list(load_names(store).values())
        _grouper(store).update(NOW)
        names = load_names(store).values()
        assert sorted("refund" in name for name in names) == [False, True]
        assert not any("xerxes" in name for name in names)


def test_a_topic_that_nobody_asks_for_ends(store: Store) -> None:
    """After ninety days without a question there is room for another one."""
    fill(store, {"refund": (10, 0)})
    grouper = _grouper(store)
    grouper.update(NOW)
    assert len(load_names(store)) == 1
    fill(store, {"parcel": (10, 0)}, 20, started=NOW + 91 * DAY)
    grouper.update(NOW + 91 * DAY + 60)
    (name,) = load_names(store).values()
    assert "parcel" in name
    assert count(store, trace_topics) == 20


def test_an_encrypted_store_has_encrypted_topics(store_url: str) -> None:
    """Neither name nor centre is readable in the tables; a new key reads them, the old one does not matter any more."""
    keys = ["0a" * 32, "0b" * 32]
    with closing(open_store(store_url, key=keys[0])) as store:
        fill(store, {"refund": (10, 0)})
        _grouper(store).update(NOW)
        names = load_names(store)
        (row,) = store.rows(select(topics))
    assert (len(names), row.name, row.centre) == (1, None, None)
    assert b"refund" not in bytes(row.sealed)
    rekey(store_url, f"{keys[1]},{keys[0]}", rewrite=False)
    with closing(open_store(store_url, key=keys[1])) as store:
        assert load_names(store) == names


class _Fragile(WordEmbedder):
    """Fails as long as it is broken."""

    broken = True

    def embed(self, texts: Sequence[str]) -> Any:
        if self.broken:
            raise RuntimeError("broken")
        return super().embed(texts)


def test_each_new_failure_is_logged_once(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """The thread goes on after a failure, logs the first one after each success, and ends when it is told to."""
    fill(store, {"refund": (10, 0)}, started=time.time() - 60)
    embedder = _Fragile()
    with caplog.at_level("WARNING"), Grouper(store, every=0.01, embedder=embedder) as grouper:
        until(lambda: caplog.records)
        embedder.broken = False
        until(lambda: load_names(store))
        embedder.broken = True
        fill(store, {"parcel": (10, 0)}, 20, started=time.time() - 60)
        until(lambda: len(caplog.records) == 2)
        time.sleep(0.1)
    assert load_names(store)
    assert not grouper._thread.is_alive()
    assert [record.getMessage() for record in caplog.records] == [
        "ragtrace: questions were not grouped by topic (RuntimeError). It is tried every minute."
    ] * 2


def test_the_embedded_model_tells_subjects_apart(store: Store) -> None:
    """With real vectors: six questions about a refund are of one topic, six about a password of another."""
    pytest.importorskip("onnxruntime")
    store.write([asked(n, text, False) for n, text in enumerate(table(__file__, "real_questions"))], [CHECK])
    Grouper(store).update(NOW)
    of = _topic_of(store)
    assert len({of[n] for n in range(6)}) == len({of[n] for n in range(6, 12)}) == 1
    assert of[0] != of[6]
    names = load_names(store)
    assert "refund" in names[of[0]]  # type: ignore[index]
    assert "password" in names[of[6]]  # type: ignore[index]
