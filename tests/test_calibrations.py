"""Thresholds from the calibration file: in force without a restart, visible as a new version, never half applied."""

import json
import logging
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ragtrace
from ragtrace import plugins
from ragtrace.calibrations import Calibrated, File, load, own_version, save
from ragtrace.errors import DataError, SettingError
from ragtrace.evaluation import Evaluator, evaluator
from ragtrace.live.pipeline import Limits, Pipeline
from ragtrace.records import Score, Trace
from ragtrace.testing import Capture, Clock, make_trace
from tests.row_files import rows


@evaluator(needs={"answer"}, threshold=0.5, version="3")
def length(trace: Trace) -> Score:
    """Share of 100 characters."""
    value = min(1.0, len(trace.answer) / 100)
    return Score("length", value, cause=None if value >= 0.5 else "unsupported", failures=("generation",))


def entry(check: Evaluator, threshold: float, number: int = 1, **changed: Any) -> Calibrated:
    made = Calibrated(check.name, check.version, number, threshold, check.direction, 1_000_000.0)
    return replace(made, **changed)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "calibration.json"


class Running:
    """A pipeline over a file whose clock is ours."""

    def __init__(self, path: Path, checks: Sequence[Evaluator], **options: Any) -> None:
        self.clock, self.capture = Clock(), Capture()
        self.file = File(path, clock=self.clock)
        self.pipeline = Pipeline(checks, [self.capture], limits=Limits(wait=0.01), adjust=self.file, **options)

    def score(self, answer: str, name: str = "length") -> Score:
        self.clock.tick(60)
        before = len(self.capture.evaluations)
        assert self.pipeline.submit(make_trace(answer=answer))
        scores = self.capture.wait(before + 1, 90)[-1].scores
        return next(score for score in scores if score.name == name)


@pytest.fixture
def opened() -> Iterator[list[Running]]:
    found: list[Running] = []
    yield found
    for running in found:
        running.pipeline.close(1.0)


def test_a_changed_file_is_in_force_with_the_next_batch(path: Path, opened: list[Running]) -> None:
    """Label and version follow the file while the pipeline runs; a score that passes now has no cause of failure."""
    opened.append(running := Running(path, [length]))
    first = running.score("x" * 40)
    assert (first.label, first.version, first.cause) == ("fail", "3", "unsupported")
    save(path, [entry(length, 0.3)])
    second = running.score("x" * 40)
    assert (second.label, second.version, second.cause, second.failures) == ("pass", "3+c1", None, ())
    save(path, [entry(length, 0.45, number=2)])
    third = running.score("x" * 40)
    assert (third.label, third.version) == ("fail", "3+c2")
    assert [(c.version, c.threshold) for c in running.pipeline.evaluators] == [("3+c2", 0.45)]


@pytest.mark.process
def test_evaluators_in_a_child_process_are_labelled_by_it_too(path: Path, opened: list[Running]) -> None:
    """What runs isolated keeps its own threshold there; the label that comes out is the file's."""
    check = plugins.load("looping_compression_ratio")
    opened.append(running := Running(path, [check], isolated_names=[check.name]))
    before = running.score("The pump is covered for 24 months.", check.name)
    assert before.value is not None
    moved = before.value + (0.01 if before.label == "pass" else -0.01) * (1 if check.direction == "higher" else -1)
    save(path, [entry(check, moved)])
    after = running.score("The pump is covered for 24 months.", check.name)
    assert after.value == before.value
    assert {before.label, after.label} == {"pass", "fail"}
    assert after.version == f"{check.version}+c1"


@pytest.mark.parametrize(("content", "words"), rows(__file__, "a_broken_file_leaves_the_last_good_one"))
def test_a_broken_file_leaves_the_last_good_one(
    path: Path, opened: list[Running], caplog: pytest.LogCaptureFixture, content: str, words: str
) -> None:
    """It is logged once, with what is wrong; thresholds and versions stay; the next good file is taken."""
    save(path, [entry(length, 0.3)])
    opened.append(running := Running(path, [length]))
    path.write_text(content, encoding="utf-8")
    with caplog.at_level(logging.WARNING, logger="ragtrace.calibrations"):
        labels = [running.score("x" * 40) for _ in range(3)]
    assert [(s.label, s.version) for s in labels] == [("pass", "3+c1")] * 3
    assert len([r for r in caplog.records if r.name == "ragtrace.calibrations"]) == 1
    assert words in caplog.text
    path.unlink()
    assert running.score("x" * 40).version == "3+c1"
    save(path, [entry(length, 0.3, number=5)])
    assert running.score("x" * 40).version == "3+c5"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match="calibration file"):
        load(path)


def test_another_version_of_the_evaluator_keeps_its_own_threshold(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Verdicts on version 3 say nothing of version 4; that is told once."""
    save(path, [entry(length, 0.3)])
    file = File(path)
    newer = replace(length, version="4")
    with caplog.at_level(logging.WARNING, logger="ragtrace.calibrations"):
        for _ in range(3):
            assert file([newer]) == (newer,)
    assert len([r for r in caplog.records if r.name == "ragtrace.calibrations"]) == 1


def test_the_disk_is_looked_at_every_few_seconds_at_most(path: Path) -> None:
    """Batches in between take what was read."""
    clock = Clock()
    file = File(path, clock=clock, every=2.0)
    save(path, [entry(length, 0.3)])
    assert file([length]) == (length,)
    clock.tick(1.9)
    assert file([length]) == (length,)
    clock.tick(0.2)
    assert file([length])[0].version == "3+c1"


def test_what_is_saved_is_loaded(path: Path) -> None:
    given = entry(length, 0.3, curve={"kind": "platt", "a": 1.0, "b": 2.0}, figures={"count": 7})
    save(path, [given])
    assert load(path) == {"length": given}
    content = json.loads(path.read_text(encoding="utf-8"))
    assert (content["format"], content["schema"]) == ("ragtrace-calibration", 1)
    assert content["evaluators"]["length"]["threshold"] == 0.3
    save(path, [])
    assert load(path) == {}
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    with pytest.raises(ValueError, match="threshold"):
        save(path, [entry(length, float("nan"))])


def test_versions() -> None:
    assert [own_version(v) for v in ("3", "3+c2", "1.2+c10", "3+cx", "")] == ["3", "3", "1.2", "3+cx", ""]


def test_a_broken_file_stops_init(path: Path) -> None:
    """At the start there is no last good one: the error names the file."""
    path.write_text("{", encoding="utf-8")
    with pytest.raises(SettingError, match="calibration\\.json"):
        ragtrace.init(calibration_file=str(path), frameworks=(), evaluators=[length])


@pytest.mark.server
def test_the_new_version_is_in_the_metrics(path: Path) -> None:
    """A scrape names the version and the threshold that label now; the score's version goes out with it."""
    save(path, [entry(length, 0.3)])
    capture = Capture()
    runtime = ragtrace.init(
        calibration_file=str(path), frameworks=(), evaluators=[length], sinks=[capture],
        prometheus_port=0, sample_per_second=0,
    )  # fmt: skip

    def info() -> str:
        with urllib.request.urlopen(str(runtime.metrics_url), timeout=60) as answer:
            lines = answer.read().decode().splitlines()
        return next(line for line in lines if line.startswith("ragtrace_evaluator_info"))

    try:
        assert 'version="3+c1"' in info()
        assert 'threshold="0.3"' in info()
        runtime.pipeline._adjust._every = 0.0
        save(path, [entry(length, 0.2, number=2)])
        runtime.pipeline.submit(make_trace(answer="x" * 40))
        (found,) = capture.wait(1)
        assert found.scores[0].version == "3+c2"
        assert 'version="3+c2"' in info()
    finally:
        runtime.close()
