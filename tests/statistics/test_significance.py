"""Intervals, tests and the classification's figures, against hand-computed values and other libraries."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragtrace.batch.reporting.classification import classify
from ragtrace.evaluate.overlap import as_label
from ragtrace.statistics import intervals

numbers = st.floats(-1, 1, allow_nan=False).map(lambda x: round(x, 3))


def test_wilson_agrees_with_scipy() -> None:
    """All rates of small samples, as scipy has them; no sample has none."""
    stats = pytest.importorskip("scipy.stats", reason="scipy is the reference")
    for total in (1, 2, 9, 50, 333):
        for passed in range(total + 1):
            ours = intervals.wilson(passed / total, total)
            theirs = stats.binomtest(passed, total).proportion_ci(method="wilson")
            assert ours == pytest.approx((theirs.low, theirs.high), abs=1e-12)
            assert 0 <= ours[0] <= passed / total <= ours[1] <= 1
    with pytest.raises(ValueError, match="rate"):
        intervals.wilson(0, 0)


def test_bootstrap_of_a_mean() -> None:
    """Close to the normal interval where that is right; the same for the same seed; none where nothing is known."""
    values = [i % 10 / 10 for i in range(1000)]
    low, high = intervals.bootstrap_mean(values) or (0.0, 0.0)
    half = 1.96 * 0.28723 / 1000**0.5
    assert (low, high) == pytest.approx((0.45 - half, 0.45 + half), abs=0.003)
    assert intervals.bootstrap_mean(values) == (low, high)
    assert intervals.bootstrap_mean(values, seed=1) != (low, high)
    assert intervals.bootstrap_mean([0.5]) is None
    assert intervals.bootstrap_mean([0.5, 0.5]) == (0.5, 0.5)


def test_bootstrap_of_more_rows_than_are_drawn_at_a_time() -> None:
    low, high = intervals.bootstrap_mean([0.0, 1.0] * 5_000, draws=500) or (0.0, 0.0)
    assert (low, high) == pytest.approx((0.4902, 0.5098), abs=0.002)


def test_permutation_of_few_rows_is_exact() -> None:
    """Three differences of one sign: of 8 flips, 2 are as far from zero."""
    assert intervals.permutation_p([0.1, 0.2, 0.3]) == 0.25
    assert intervals.permutation_p([0.1, 0.2, 0.3, 0.0, 0.0]) == 0.25, "what does not differ says nothing"
    assert intervals.permutation_p([0.0, 0.0]) == 1.0
    assert intervals.permutation_p([]) == 1.0


def test_permutation_agrees_with_scipy() -> None:
    """The exact test, where ties abound."""
    stats = pytest.importorskip("scipy.stats", reason="scipy is the reference")
    for differences_ in ([0.1, -0.1, 0.3, 0.2, 0.2, -0.4, 0.5], [1.0, 1.0, -1.0, 1.0, 1.0, 1.0], [0.3, 0.1]):
        result = stats.permutation_test((differences_,), sum, permutation_type="samples", n_resamples=10_000)
        assert intervals.permutation_p(differences_) == pytest.approx(result.pvalue)


@settings(deadline=None)  # the first call loads numpy
@given(st.lists(numbers, max_size=40))
def test_permutation_knows_no_side(differences: list[float]) -> None:
    """A against B is B against A; p is above 0 and at most 1."""
    p = intervals.permutation_p(differences, draws=500)
    assert p == intervals.permutation_p([-d for d in differences], draws=500)
    assert 0 < p <= 1


def test_permutation_of_many_rows() -> None:
    assert intervals.permutation_p([0.1, -0.05] * 100) < 0.001
    assert intervals.permutation_p([0.1, -0.1] * 100) == 1.0


def test_mcnemar() -> None:
    """Two-sided binomial tails by hand: of 10 coins at most one, twice, is 22 / 1024."""
    assert intervals.mcnemar_p(1, 9) == intervals.mcnemar_p(9, 1) == 22 / 1024
    assert intervals.mcnemar_p(0, 0) == intervals.mcnemar_p(3, 3) == 1.0
    assert 0 <= intervals.mcnemar_p(0, 5_000) < 1e-300, "no overflow"


@settings(deadline=None)
@given(st.integers(0, 12), st.integers(0, 12))
def test_mcnemar_is_the_permutation_test_of_verdicts(only_first: int, only_second: int) -> None:
    """Values 0 and 1 are verdicts: both tests ask the same. (Exact up to 13 differences.)"""
    if only_first + only_second <= 13:
        p = intervals.permutation_p([-1.0] * only_first + [1.0] * only_second)
        assert p == pytest.approx(intervals.mcnemar_p(only_first, only_second))


def test_holm() -> None:
    """By hand: 0.01 * 3, 0.03 * 2, and 0.04 raised to the one before it."""
    assert intervals.holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert intervals.holm([]) == []
    assert intervals.holm([0.6, 0.9]) == [1.0, 1.0]


@given(st.lists(st.floats(0, 1), max_size=20))
def test_holm_never_helps(ps: list[float]) -> None:
    """A corrected p is no less than it was, and keeps the order."""
    adjusted = intervals.holm(ps)
    assert all(p <= q <= 1 for p, q in zip(ps, adjusted, strict=True))
    assert [q for _, q in sorted(zip(ps, adjusted, strict=True))] == sorted(adjusted)


def test_classification_by_hand() -> None:
    """Two classes: 2 of 4 right; yes: precision 1/2, recall 1; no: precision 1/2... each label weighs the same."""
    result = classify(["yes", "no", "no", "no"], ["yes", "yes", "no", "maybe"])
    assert result.accuracy == 0.5
    assert result.labels == ("maybe", "no", "yes")
    assert result.precision == pytest.approx((0 + 1 + 1 / 2) / 3)
    assert result.recall == pytest.approx((0 + 1 / 3 + 1) / 3)
    assert result.f1 == pytest.approx((0 + 1 / 2 + 2 / 3) / 3)
    assert result.confusion == (("no", "maybe", 1), ("no", "no", 1), ("no", "yes", 1), ("yes", "yes", 1))
    with pytest.raises(ValueError, match="no labels"):
        classify([], [])


@pytest.mark.filterwarnings("ignore:A single label was found")
@settings(deadline=None)  # the first call loads scikit-learn
@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abcde")), min_size=1, max_size=40))
def test_classification_agrees_with_scikit_learn(pairs: list[tuple[str, str]]) -> None:
    """Macro averages, with 0 where nothing can be divided."""
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is the reference")
    expected, predicted = [e for e, _ in pairs], [p for _, p in pairs]
    result = classify(expected, predicted)
    assert result.accuracy == pytest.approx(metrics.accuracy_score(expected, predicted))
    precision, recall, f1, _ = metrics.precision_recall_fscore_support(
        expected, predicted, average="macro", zero_division=0
    )
    assert (result.precision, result.recall, result.f1) == pytest.approx((precision, recall, f1))
    assert {(e, p): n for e, p, n in result.confusion} == Counter(pairs)


def test_labels() -> None:
    assert as_label("  Not  Spam.\n") == as_label('**"not spam"**') == as_label("„Not spam“ …") != as_label("spam")
    assert len({as_label(label) for label in ("A", "A+", "A-", "C#", "C", "1", "-1", "?", ".")}) == 9


@settings(deadline=None)  # the first call loads numpy
@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=50), st.floats(0, 1))
def test_quantiles_agree_with_numpy(values: list[float], p: float) -> None:
    """The quantiles are those of numpy, with its default interpolation; no values have none."""
    numpy = pytest.importorskip("numpy", reason="numpy is the reference")
    assert intervals.quantiles(values, [p])[0] == pytest.approx(float(numpy.quantile(values, p)), rel=1e-12, abs=1e-9)
    with pytest.raises(ValueError, match="at least one value"):
        intervals.quantiles([], (p,))


def test_percentile_interval() -> None:
    """The interval cuts 2.5 % off at each end, and is widened to contain the value."""
    draws = [i / 1000 for i in range(1001)]
    assert intervals.percentile_interval(draws) == pytest.approx((0.025, 0.975))
    assert intervals.percentile_interval(draws, 0.99) == pytest.approx((0.025, 0.99))
    assert intervals.percentile_interval(draws, 0.0) == pytest.approx((0.0, 0.975))
    below, above = sum(d < 0.025 for d in draws), sum(d > 0.975 for d in draws)
    assert below == above == 25, "the tails are equal"


def test_effective_size() -> None:
    """Equal weights count fully, one heavy weight hides the others, and no weight is no observation."""
    assert intervals.effective_size([2.0, 2.0, 2.0]) == 3.0
    assert intervals.effective_size([1e9, 1.0, 1.0]) == pytest.approx(1.0)
    assert intervals.effective_size([]) == intervals.effective_size([0.0]) == 0.0
