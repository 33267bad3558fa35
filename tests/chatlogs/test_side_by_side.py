"""Two sides of stored requests, compared."""

import pytest

from ragtrace.console.chatlogs.side_by_side import Side, compare_sides, evaluator_versions, names_in_use
from ragtrace.console.chatlogs.store import Store, open_store
from ragtrace.errors import SettingError
from tests.topics.questions import CHECK, DAY, NOW, asked


def _side(name: str, **more: object) -> Side:
    return Side(name, NOW - 10 * DAY, NOW + DAY, **more)  # type: ignore[arg-type]


def _prompts(store: Store, *, shared: bool, p: float = 1.0) -> None:
    """v7 fails 10 of 100, v8 fails 40 of 100: on the same questions, or on others."""
    for offset, prompt, failures in ((0, "v7", 10), (100, "v8", 40)):
        texts = (f"Question {n if shared else offset + n}?" for n in range(100))
        store.write([asked(offset + n, q, n < failures, prompt=prompt, p=p) for n, q in enumerate(texts)], [CHECK])


@pytest.mark.parametrize("key", [None, "22" * 32])
def test_the_same_questions_are_compared_in_pairs(store_url: str, key: str | None) -> None:
    """Both versions answered the same hundred questions, sealed or not: the pairs decide; what changed is named."""
    store = open_store(store_url, key=key)
    _prompts(store, shared=True)
    result = compare_sides(store, _side("v7", prompt_version="v7"), _side("v8", prompt_version="v8"))
    (row,) = result.rows
    assert (result.requests_a, result.requests_b) == (100, 100)
    assert row.by_pairs
    assert (row.pairs.pairs, row.pairs.only_a, row.pairs.only_b, row.pairs.value) == (100, 0, 30, pytest.approx(0.3))
    narrow = row.pairs.interval[1] - row.pairs.interval[0]
    assert narrow < row.all_requests.interval[1] - row.all_requests.interval[0]
    assert row.verdict == "worse"
    assert row.sentence.startswith("v8 fails 30 points more than v7 (")
    assert row.sentence.endswith("n = 100 pairs.")
    assert (len(row.worse), row.better) == (10, ())
    one, other = (store.get(trace) for trace in row.worse[0])
    assert one.trace.query == other.trace.query
    assert (one.trace.facts.prompt_version, other.trace.facts.prompt_version) == ("v7", "v8")
    store.close()


def test_other_questions_are_independent(store: Store) -> None:
    """Without a question in common there are no pairs, and n is that of each side."""
    _prompts(store, shared=False, p=0.5)
    (row,) = compare_sides(store, _side("v7", prompt_version="v7"), _side("v8", prompt_version="v8")).rows
    assert (row.pairs, row.by_pairs) == (None, False)
    assert row.difference is row.all_requests
    assert row.all_requests.value == pytest.approx(0.3)
    assert row.verdict == "worse"
    assert row.sentence.endswith("n = 100 and 100.")
    for offset, prompt in ((500, "v7"), (600, "v8")):
        store.write([asked(offset + n, f"Common {n}?", False, prompt=prompt, p=0.5) for n in range(20)], [CHECK])
    (row,) = compare_sides(store, _side("v7", prompt_version="v7"), _side("v8", prompt_version="v8")).rows
    assert (row.pairs.pairs, row.pairs.value) == (20, 0.0)
    assert not row.by_pairs
    assert row.difference.value == pytest.approx(30 / 120)
    store.write([asked(700, "Question 1?", False, prompt="v8")], [CHECK])
    uneven = compare_sides(
        store, *2 * [_side("v8", prompt_version="v8")]
    ).rows  # the latest of a question is mostly one
    assert not uneven[0].by_pairs  # that is always evaluated


def test_two_versions_of_an_evaluator(store: Store) -> None:
    """Judged the same requests: paired by request, weighted by the probability of the request."""
    for version, failures in (("1", 10), ("2", 25)):
        ps = (1.0 if n < 50 else 0.1 for n in range(100))
        store.write([asked(n, "Same?", n < failures, version=version, p=p) for n, p in enumerate(ps)], [CHECK])
    sides = [_side(f"version {version}", evaluator_version=version) for version in ("1", "2")]
    (row,) = compare_sides(store, *sides, evaluator="faithfulness").rows
    assert (row.same_requests, row.by_pairs) == (True, True)
    assert (row.pairs.pairs, row.pairs.value) == (100, pytest.approx(15 / (50 + 500)))
    with pytest.raises(SettingError, match="needs an evaluator"):
        compare_sides(store, *sides)
    assert not compare_sides(store, _side("a"), _side("b"), evaluator="faithfulness").rows[0].same_requests


def test_two_periods(store: Store) -> None:
    """The days before and the days after; equal shares are no difference."""
    for offset, start in ((0, NOW - 8 * DAY), (100, NOW - DAY)):
        store.write([asked(offset + n, f"Q{offset + n}", n < 20, started=start + n) for n in range(100)], [CHECK])
    before, after = Side("before", NOW - 10 * DAY, NOW - 5 * DAY), Side("after", NOW - 5 * DAY, NOW)
    result = compare_sides(store, before, after)
    (row,) = result.rows
    assert (result.requests_a, result.requests_b, row.verdict) == (100, 100, "")
    assert row.sentence.startswith("No difference is shown. after fails 0.0 points more than before")
    with pytest.raises(SettingError, match="ends before it begins"):
        compare_sides(store, before, Side("none", NOW, NOW))


def test_what_there_is_to_compare(store: Store) -> None:
    """Prompt versions and models in the order in which they came, and versions of an evaluator."""
    for n, prompt in enumerate(("v9", "v10", "v9")):
        store.write([asked(n, "Q", False, prompt=prompt, model="m", started=NOW + n)], [CHECK])
    assert names_in_use(store, "prompt_version", NOW - DAY, NOW + DAY) == {"v9": 2, "v10": 1}
    assert names_in_use(store, "model", NOW - DAY, NOW + DAY, "shop") == {"m": 3}
    assert names_in_use(store, "model", NOW - DAY, NOW + DAY, "other") == {}
    assert evaluator_versions(store, "faithfulness") == ["1"]
