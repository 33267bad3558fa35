"""Agreement: the published figures, sklearn's figures, and what they say of the whole traffic."""

import random

import pytest

from ragtrace.console.review.agreement import alpha, cohen, measure_agreement, measure_evaluator
from ragtrace.console.review.consensus import ReviewedLog, group_by_log
from ragtrace.console.review.quality_measures import measure_labels
from tests.review.review_data import verdict
from tests.row_files import rows

FIGURES = ("kappa", "f1", "precision", "recall", "balanced_accuracy")


def test_alpha_is_the_published_one() -> None:
    """K. Krippendorff, Computing Krippendorff's Alpha-Reliability (2011): .743 for twelve units of which observers left
    some out (part C), .095 for two observers (part A)."""
    assert alpha(rows(__file__, "units")).value == pytest.approx(0.743, abs=0.0005)
    meg, owen = "0100000010", "1110010000"
    assert alpha([[a, b] for a, b in zip(meg, owen, strict=True)]).value == pytest.approx(0.095, abs=0.0005)


@pytest.mark.external
def test_kappa_is_that_of_sklearn() -> None:
    """On random labels of two and three kinds; the weighted one between evaluator and people, too."""
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    chance = random.Random(1)
    for kinds in (["pass", "fail"], ["pass", "fail", "not_applicable"]):
        for n in (5, 40, 300):
            one = [chance.choice(kinds) for _ in range(n)]
            two = [a if chance.random() < 0.6 else chance.choice(kinds) for a in one]
            assert cohen(list(zip(one, two, strict=True))) == pytest.approx(metrics.cohen_kappa_score(one, two))
    found = [ReviewedLog(i, chance.choice((1.0, 7.0)), float(chance.random() < 0.4), 0.5, chance.random() < 0.5)
             for i in range(200)]  # fmt: skip
    ours = measure_labels(found, [bool(log.flagged) for log in found]).kappa
    flagged, bad, weights = zip(*((log.flagged, bool(log.bad), log.weight) for log in found), strict=True)
    assert ours.value == pytest.approx(metrics.cohen_kappa_score(flagged, bad, sample_weight=weights))


def test_precision_recall_and_f1_are_those_of_sklearn() -> None:
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    chance = random.Random(2)
    rows = []
    for i in range(300):
        said, flag = chance.random() < 0.3, chance.random() < 0.5
        rows.append(verdict(i, 0.5, "fail" if flag else "pass", "fail" if said else "pass", chance.choice((1.0, 9.0))))
    truth, flags = [r.verdict == "fail" for r in rows], [r.label == "fail" for r in rows]
    weights = [r.weight for r in rows]
    theirs = metrics.precision_recall_fscore_support(truth, flags, average="binary", sample_weight=weights)[:3]
    found = measure_evaluator(rows)
    assert (found.precision.value, found.recall.value, found.f1.value) == pytest.approx(theirs)
    balanced = metrics.balanced_accuracy_score(truth, flags, sample_weight=weights)
    assert measure_labels(group_by_log(rows), flags).balanced_accuracy.value == pytest.approx(balanced)


def test_two_reviewers_of_a_log_are_no_two_logs() -> None:
    """A log that two people judged weighs as much as any other, half of it for each."""
    twice = [verdict(1, 0.1, "fail", "fail"), verdict(1, 0.1, "fail", "pass", reviewer="b")]
    found = measure_evaluator([*twice, verdict(2, 0.1, "fail", "fail")])
    assert (found.logs, found.seen.hits, found.seen.false_alarms) == (2, 1.5, 0.5)
    assert (found.precision.value, found.precision.count) == (pytest.approx(0.75), 2)


@pytest.mark.long
def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """In 10 % of 300 samples at most a figure's 95 % interval misses the whole traffic's value; three evaluators."""
    chance = random.Random(3)
    for hit, alarm in ((0.9, 0.05), (0.6, 0.2), (1.0, 0.0)):
        whole = []
        for i in range(20_000):
            is_bad = chance.random() < 0.25
            whole.append(ReviewedLog(i, 1.0, float(is_bad), 0.5, chance.random() < (hit if is_bad else alarm)))
        true = measure_labels(whole, [bool(log.flagged) for log in whole])
        missed = [0] * len(FIGURES)
        for _ in range(300):
            drawn = []
            while len(drawn) < 120:
                log = chance.choice(whole)
                if log.flagged or chance.random() < 0.2:
                    drawn.append(ReviewedLog(log.trace, 1.0 if log.flagged else 5.0, log.bad, 0.5, log.flagged))
            found = measure_labels(drawn, [bool(log.flagged) for log in drawn], draws=400)
            for k, name in enumerate(FIGURES):
                estimate = getattr(found, name)
                low, high = estimate.interval
                missed[k] += not low - 1e-9 <= getattr(true, name).value <= high + 1e-9
        assert max(missed) <= 30, (hit, alarm, missed)


def test_a_failed_check_is_left_out_and_counted() -> None:
    """Agreement is of those logs of which both say something; `unsure` says nothing."""
    unsure, refused = verdict(2, 0.9, "pass", "unsure"), verdict(3, 0.9, "refusal", "pass")
    found = measure_evaluator([verdict(1, 0.1, "fail", "fail"), unsure, refused])
    assert (found.logs, found.left_out) == (1, 1)


def test_verdicts_without_weight_count_for_themselves_alone() -> None:
    """They are in the table of what was seen, in no estimate."""
    rows = [verdict(1, 0.1, "fail", "pass", weight=0.0), verdict(2, 0.1, "fail", "fail")]
    found = measure_evaluator(rows)
    assert (found.logs, found.counted, found.seen.false_alarms, found.precision.value) == (2, 1, 1.0, 1.0)
    assert measure_evaluator(rows, weighted=False).precision.value == 0.5
    assert measure_evaluator([verdict(3, 0.1, "fail", "pass", weight=3.0), *rows]).bad.value == 0.25
    nobody = measure_evaluator(rows[:1])
    assert (nobody.precision, nobody.whole, nobody.kappa) == (None, None, None)


def test_reviewers_are_compared_in_pairs_and_together() -> None:
    """Kappa of each pair on what both judged; alpha for each evaluator and all."""
    rows = []
    for i in range(40):
        said = "fail" if i % 3 == 0 else "pass"
        rows += [verdict(i, 0.5, "fail", said, reviewer="ann"), verdict(i, 0.5, "fail", said, reviewer="bob")]
        if i < 10:
            rows.append(verdict(i, 0.5, "fail", "pass", reviewer="cid"))
    found = measure_agreement(rows)
    by_pair = {(pair.first, pair.second): pair for pair in found.pairs}
    assert (by_pair["ann", "bob"].kappa, by_pair["ann", "bob"].count) == (1.0, 40)
    assert (by_pair["ann", "cid"].kappa, by_pair["ann", "cid"].count) == (pytest.approx(0.0), 10)
    whole = found.alphas[""]
    assert (found.alphas["good"], whole.units) == (whole, 40)
    assert 0.5 < whole.interval[0] <= whole.value <= whole.interval[1] <= 1.0
    assert alpha([["pass", "pass"]] * 9).value is None, "who never vary cannot be measured"
