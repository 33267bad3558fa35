"""Calibration: better where it can be, honest about it, refused where little is known, versioned in its file."""

import json
import math
import random
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, select

import ragtrace
from ragtrace import calibrations
from ragtrace.cli import main
from ragtrace.console.chatlogs import schema
from ragtrace.console.chatlogs.store import Store, open_store
from ragtrace.console.chatlogs.store_types import ScoredVerdict
from ragtrace.console.review import curves
from ragtrace.console.review.calibration import LEAST, fit, save
from ragtrace.console.review.queue import fill
from ragtrace.console.review.threshold_effects import measure_thresholds
from ragtrace.errors import DataError
from ragtrace.live.pipeline import Limits, Pipeline
from ragtrace.testing import Capture, make_trace
from tests.review.review_data import NOW, bad, fill_store, good, judge_all, people, verdict
from tests.review.test_queue import ONLY_RANDOM


def made(count: int, truth: Callable[[float], float], seed: int = 0, **changed: Any) -> list[ScoredVerdict]:
    """Verdicts on uniform scores, bad with a probability that is known."""
    chance = random.Random(seed)
    rows = []
    for i in range(count):
        value = chance.random()
        said = "fail" if chance.random() < truth(value) else "pass"
        rows.append(replace(verdict(i, value, "pass" if value >= 0.5 else "fail", said), **changed))
    return rows


def steep(value: float) -> float:
    return 1 / (1 + math.exp(-14 * (0.7 - value)))


def test_held_out_figures_get_better_where_the_threshold_was_wrong() -> None:
    """0.5 should be 0.7: the figures are clearly better on logs that had no part in it, about as good on new ones."""
    found = fit(made(600, steep), 0.5, "higher")
    assert found.threshold == pytest.approx(0.7, abs=0.06)
    assert (found.previous, found.count, found.version, found.evaluator) == (0.5, 600, "2", "good")
    before, after = found.before, found.after
    assert after.balanced_accuracy.value > before.balanced_accuracy.value + 0.05
    assert after.brier.value < before.brier.value - 0.02
    assert after.ece.value < before.ece.value / 2
    fresh = made(10_000, steep, seed=1)
    assert true_accuracy(fresh, found.threshold) == pytest.approx(after.balanced_accuracy.value, abs=0.04)
    said = found.curve([row.value or 0.0 for row in fresh])
    assert abs(sum(p - (row.verdict == "fail") for p, row in zip(said, fresh, strict=True)) / len(fresh)) < 0.03


def true_accuracy(rows: list[ScoredVerdict], threshold: float) -> float:
    bad = [row for row in rows if row.verdict == "fail"]
    fine = [row for row in rows if row.verdict == "pass"]
    recall = sum((row.value or 0) < threshold for row in bad) / len(bad)
    return (recall + sum((row.value or 0) >= threshold for row in fine) / len(fine)) / 2


@pytest.mark.long
def test_held_out_figures_are_not_flattered_by_noise() -> None:
    """Of scores that say nothing no accuracy is promised, where the best threshold in hindsight beats chance."""
    held, hindsight = [], []
    for seed in range(20):
        rows = made(80, lambda _: 0.5, seed=seed)
        held.append(fit(rows, 0.5, "higher", seed=seed).after.balanced_accuracy.value)
        hindsight.append(max(true_accuracy(rows, t / 100) for t in range(101)))
    assert sum(held) / 20 == pytest.approx(0.5, abs=0.03)
    assert sum(hindsight) / 20 > 0.56


@pytest.mark.long
def test_weights_move_the_threshold() -> None:
    """Weighted worst-first verdicts give about the F1 threshold of all verdicts; without weights it is far below."""
    off, naive = [], []
    for seed in range(3):
        chance = random.Random(seed)
        whole = made(4_000, lambda v: 0.5 * (1 - v), seed=seed)
        picked = [
            replace(row, weight=1.0 if (row.value or 0) < 0.15 else 10.0)
            for row in whole
            if (row.value or 0) < 0.15 or chance.random() < 0.1
        ]
        honest = fit(whole, 0.5, "higher", aim="f1").threshold
        off.append(fit(picked, 0.5, "higher", aim="f1").threshold - honest)
        naive.append(fit(picked, 0.5, "higher", aim="f1", weighted=False).threshold - honest)
    assert abs(sum(off) / 3) < 0.05
    assert sum(naive) / 3 < -0.08


def test_lower_is_better_is_the_mirror_image() -> None:
    """The same verdicts on 1 - value give 1 - threshold and the same figures."""
    rows = made(300, steep)
    mirrored = [replace(row, value=1 - (row.value or 0.0)) for row in rows]
    one, other = fit(rows, 0.5, "higher", now=1.0), fit(mirrored, 0.5, "lower", now=1.0)
    assert other.threshold == pytest.approx(1 - one.threshold, abs=0.02)
    assert other.after.balanced_accuracy.value == pytest.approx(one.after.balanced_accuracy.value, abs=0.02)
    assert other.curve([0.2])[0] == pytest.approx(one.curve([0.8])[0], abs=0.02)
    assert one.curve([0.1])[0] > one.curve([0.9])[0]


@pytest.mark.parametrize(("rows", "said"), [
    ([], f"needs {LEAST} reviewed logs"), (made(12, steep), "people reviewed 12 logs"),
    (made(100, lambda _: 0.0), "0 as bad and 100 as good; .* about 200 more"),
    (made(100, steep, weight=0.0), "100 more have an unknown weight"),
    ([replace(row, value=None) for row in made(100, steep)], "no score"),
    ([replace(row, verdict="unsure") for row in made(100, steep)], "people reviewed 0 logs"),
])  # fmt: skip
def test_too_few_reviews_are_refused(rows: list[ScoredVerdict], said: str) -> None:
    with pytest.raises(DataError, match=said):
        fit(rows, 0.5, "higher")


def test_the_verdicts_of_a_log_are_one_log() -> None:
    """Twenty people on ten logs are ten logs; older versions are left out, calibrations of this one are not."""
    rows = [replace(row, trace=row.trace % 10, reviewer=str(row.trace)) for row in made(200, steep)]
    with pytest.raises(DataError, match="people reviewed 10 logs"):
        fit(rows, 0.5, "higher")
    old = made(60, steep, version="1")
    new = [replace(row, trace=100 + row.trace, created=500.0 + row.trace) for row in made(60, steep, seed=2)]
    new = [replace(row, version="2+c1") if row.trace % 2 else row for row in new]
    found = fit([*old, *new], 0.5, "higher")
    assert (found.version, found.count) == ("2", 60)


def test_constant_and_perfect_scores_do_no_harm() -> None:
    """One value for all, or a perfect division: a result, finite probabilities, no warning."""
    same = [replace(row, value=0.4) for row in made(100, lambda _: 0.4)]
    assert fit(same, 0.5, "higher").after.balanced_accuracy.value == pytest.approx(0.5, abs=1e-9)
    perfect = fit(made(100, lambda v: float(v < 0.6)), 0.5, "higher")
    assert perfect.threshold == pytest.approx(0.6, abs=0.05)
    assert perfect.after.balanced_accuracy.value > 0.93
    assert all(0 < p < 1 for p in perfect.curve([0.0, 0.5, 1.0]))
    wide = fit([replace(row, value=100 * (row.value or 0.0)) for row in made(100, steep)], 50.0, "higher")
    assert wide.before.brier is None, "scores up to 100 are no probabilities"
    assert wide.threshold == pytest.approx(70, abs=10)


@pytest.mark.external
def test_the_curves_are_those_of_sklearn() -> None:
    """Isotonic values before smoothing by half a log, and logistic slopes, are scikit-learn's."""
    isotonic = pytest.importorskip("sklearn.isotonic", reason="scikit-learn is not installed").IsotonicRegression
    linear = pytest.importorskip("sklearn.linear_model").LogisticRegression
    np = pytest.importorskip("numpy")
    chance = np.random.default_rng(0)
    values, weights = chance.random(400), chance.choice([1.0, 3.0], 400)
    bad = (chance.random(400) < 1 / (1 + np.exp(-8 * (0.5 - values)))).astype(float)
    ours = curves.isotonic(values, bad, weights, "higher")(values)
    theirs = isotonic(increasing=False).fit(values, bad, sample_weight=weights).predict(values)
    assert float(np.abs(ours - theirs).mean()) < 0.03
    ours_ = curves._logistic([values], bad, weights)
    flipped = linear(C=1e9, tol=1e-10, max_iter=10_000).fit(values[:, None], 1 - bad, sample_weight=weights)
    assert ours_[0] == 0.0, "a slope that would fall is left out"
    ours_ = curves._logistic([-values], bad, weights)
    assert ours_[0] == pytest.approx(float(flipped.coef_[0][0]), rel=1e-3)


def test_consequences_of_a_threshold() -> None:
    """Share flagged, precision and recall with intervals: stricter flags more and misses less."""
    rows = made(400, steep)
    found = measure_thresholds(rows, [0.2, 0.7, 0.95], "higher")
    for values in ([c.flagged.value for c in found if c.flagged], [c.recall.value for c in found if c.recall]):
        assert values == sorted(values)
    low, high = found[1].precision.interval
    assert low < found[1].precision.value < high
    assert found[1].flagged.value == sum((row.value or 0) < 0.7 for row in rows) / 400
    every = measure_thresholds(rows, None, "higher")
    assert len(every) == 41
    assert (every[0].flagged.value, every[0].precision) == (0.0, None)
    assert measure_thresholds([], None, "higher") == []


def test_numbers_go_on_beside_other_evaluators(tmp_path: Path, store: Store) -> None:
    """Each saving is the evaluator's next number, by the file and by the store's history; others keep their entry."""
    path = tmp_path / "calibration.json"
    first = fit(made(100, steep), 0.5, "higher")
    both = save(path, [first, replace(first, evaluator="bad")], store=store, user="ann")
    assert [e.label for e in both] == ["2+c1", "2+c1"]
    assert [e.label for e in save(path, [first], store=store)] == ["2+c2"]
    path.unlink()
    assert [e.label for e in save(path, [first], store=store)] == ["2+c3"]
    entry = calibrations.load(path)["good"]
    assert entry.threshold == first.threshold
    assert curves.curve_from_json(entry.curve)([0.3]) == first.curve([0.3])
    assert entry.figures["after"]["balanced_accuracy"]["value"] == first.after.balanced_accuracy.value
    rows = store.rows(select(schema.calibrations).order_by(schema.calibrations.c.id))
    assert [(r.evaluator, r.active, r.user) for r in rows] == [
        ("good", False, "ann"), ("bad", True, "ann"), ("good", False, None), ("good", True, None),
    ]  # fmt: skip
    store.execute(delete(schema.calibrations))
    assert [e.label for e in save(path, [first], store=store)] == ["2+c4"], "the file alone is enough"


def test_a_broken_file_is_not_overwritten(tmp_path: Path, store: Store) -> None:
    """Who saves is told; nothing is lost."""
    path = tmp_path / "calibration.json"
    path.write_text("{broken", encoding="utf-8")
    with pytest.raises(DataError, match="cannot be read"):
        save(path, [fit(made(100, steep), 0.5, "higher")], store=store)
    assert path.read_text(encoding="utf-8") == "{broken"
    with pytest.raises(DataError, match="cannot be written"):
        save(tmp_path / "absent" / "file.json", [fit(made(100, steep), 0.5, "higher")], store=store)
    assert store.rows(select(schema.calibrations)) == [], "the history has what the file has"


def judged(store: Store, count: int, seed: int, truth: Callable[[float], float]) -> None:
    """Logs with uniform scores, all drawn and judged, bad with a probability that is known."""
    chance = random.Random(seed)
    values = fill_store(store, [chance.random() for _ in range(count)])
    (user,) = people(store, "ann")
    fill(store, replace(ONLY_RANDOM, quota=count), NOW)
    judge_all(store, user, lambda t: "fail" if chance.random() < truth(values[t]) else "pass")


@pytest.mark.long
def test_the_command(store: Store, store_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`ragtrace calibrate` prints before and after, writes the file, and the pipeline labels by it. Exit codes: 2 where
    nothing can be fitted, 1 where something is left out; nothing is written on a dry run."""
    path = tmp_path / "calibration.json"
    given = ["calibrate", "--store", store_url]
    out = [*given, "--out", str(path)]
    assert main(out) == 2
    assert "nobody has judged" in capsys.readouterr().err
    judged(store, 300, 9, steep)  # the threshold of 0.5 should be 0.7
    assert main(given) == 2
    assert "--out" in capsys.readouterr().err
    assert main([*out, "--evaluator", "nobody"]) == 2
    assert "the store has no score of this evaluator" in capsys.readouterr().err
    assert main([*out, "--evaluator", "bad"]) == 2
    assert main([*given, "--evaluator", "good", "--dry-run"]) == 0
    assert main([*out, "--dry-run", "--evaluator", "good", "--evaluator", "nobody"]) == 1
    assert not path.exists()
    capsys.readouterr()
    assert main(out) == 0
    said, err = capsys.readouterr()
    assert "balanced accuracy" in said
    assert said.count("before") == said.count("after") == 1
    assert "good 2+c1" in err
    threshold = calibrations.load(path)["good"].threshold
    assert threshold == pytest.approx(0.7, abs=0.08)
    capture = Capture()
    checks = [replace(good, fn=lambda _: (0.5 + threshold) / 2)]
    pipeline = Pipeline(checks, [capture], limits=Limits(wait=0.01), adjust=calibrations.File(path))
    pipeline.submit(make_trace())
    score = capture.wait(1)[0].scores[0]
    pipeline.close()
    assert (score.label, score.version) == ("fail", "2+c1"), "0.5 would have passed it"
    kept = path.read_bytes()
    assert main([*out, "--evaluator", "good"]) == 1
    assert "no better" in capsys.readouterr().err
    assert path.read_bytes() == kept
    path.write_text(json.dumps({"format": "other"}), encoding="utf-8")
    assert main(out) == 2


def test_the_store_knows_the_new_version(tmp_path: Path) -> None:
    """Scores of a calibration that comes while the pipeline runs are stored beside its threshold and direction."""
    path, url = tmp_path / "calibration.json", str(tmp_path / "store.db")
    with closing(
        ragtrace.init(store=url, calibration_file=str(path), frameworks=(), evaluators=[bad], sample_per_second=0)
    ) as runtime:
        runtime.pipeline.submit(make_trace(trace_id=1))
        assert runtime.flush(60)
        calibrations.save(path, [calibrations.Calibrated("bad", "1", 1, 0.25, "lower", 1.0)])
        file = runtime.pipeline._adjust.__closure__  # the clock's two seconds are not waited for
        next(c.cell_contents for c in file or () if isinstance(c.cell_contents, calibrations.File))._every = 0.0
        runtime.pipeline.submit(make_trace(trace_id=2))
        assert runtime.flush(60)
    with closing(open_store(url)) as store:
        rows = store.rows(select(schema.evaluators).order_by(schema.evaluators.c.version))
        stored = store.get(f"{2:032x}")
    assert [(r.version, r.threshold, r.direction) for r in rows] == [("1", 0.5, "lower"), ("1+c1", 0.25, "lower")]
    assert [score.version for score in stored.evaluation.scores] == ["1+c1"]
