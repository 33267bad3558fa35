"""The journal and `ragtrace report`: what live requests scored, from a file alone."""

import json
import logging
import math
import random
import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

import ragtrace
from ragtrace.batch.reporting.live import live_report, parse_time
from ragtrace.batch.reporting.live_text import verdict
from ragtrace.cli import main
from ragtrace.errors import SettingError
from ragtrace.evaluation import evaluator
from ragtrace.live.journal import Journal, Reading, before, read
from ragtrace.live.pipeline import Limits, Pipeline
from ragtrace.records import Evaluation, Facts, Score, Trace
from ragtrace.testing import make_trace
from tests.reporting.page import Page
from tests.row_files import rows
from tests.waiting import in_fork

HOUR, DAY = 3_600.0, 86_400.0
NOW = 1_700_000_000.0
ATTACK = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'\x1b[31m\u202e</title>"


@evaluator(needs={"answer"}, threshold=0.5)
def length(trace: Trace) -> float:
    """Share of 100 characters."""
    return min(1.0, len(trace.answer) / 100)


@evaluator(direction="lower")
def raises(trace: Trace) -> float:
    """It cannot."""
    raise TimeoutError


def evaluation(moment: float, *scores: Score, app: str | None = None, **fields: Any) -> Evaluation:
    fields.setdefault("trace_id", random.getrandbits(128))
    facts = Facts(app=app, model="m", prompt_version="v1")
    return Evaluation(make_trace(started=moment, facts=facts, **fields), scores)


def judged(passed: bool, p: float = 1.0, value: float | None = None) -> Score:
    value = value if value is not None else 0.9 if passed else 0.1
    return Score("faithfulness", value, "pass" if passed else "fail", sampling_probability=p, method="model")


def written(path: Path, evaluations: Sequence[Evaluation], **options: Any) -> Path:
    journal = Journal(path, **options)
    for each in evaluations:
        journal(each)
    journal.close()
    return path


def days(path: Path, fails: Sequence[float], hourly: int = 60, versions: Sequence[str] = ()) -> Path:
    """A journal that ends at NOW, with a failure rate for each day, and the evaluator's version on each."""
    chance = random.Random(2)
    rows = []
    for i, rate in enumerate(fails):
        start = NOW - (len(fails) - i) * DAY
        for _ in range(24 * hourly):
            rows.append((start + chance.random() * DAY, chance.random() >= rate, versions[i] if versions else "1"))
    scores = [(moment, replace(judged(passed), version=version)) for moment, passed, version in sorted(rows)]
    return written(path, [evaluation(moment, score) for moment, score in scores])


def test_a_pipeline_writes_its_evaluations_without_texts(tmp_path: Path) -> None:
    """Each evaluated request is a line with ids, names and scores; its texts stand nowhere in the file."""
    path = tmp_path / "deep" / "journal.jsonl"
    runtime = ragtrace.init(
        evaluators=[length, raises], report_file=str(path), app="desk", env="test", sample_per_second=0, workers=0
    )
    secret = "SECRET " * 20
    for i in range(5):
        facts = Facts(model="gpt", prompt_version="v2")
        runtime.pipeline.submit(make_trace(secret, [secret], secret, trace_id=i + 1, facts=facts))
    assert runtime.flush()
    assert len(path.read_text().splitlines()) == 5, "readable while it is written"
    runtime.close()
    assert b"SECRET" not in path.read_bytes()
    entries = list(read(path))
    assert [entry.trace_id for entry in entries] == [f"{i + 1:032x}" for i in range(5)]
    assert {(e.app, e.env, e.model, e.prompt_version) for e in entries} == {("desk", "test", "gpt", "v2")}
    scores = {score.name: score for score in entries[0].scores}
    assert (scores["length"].value, scores["length"].label) == (1.0, "pass")
    assert (scores["raises"].error, scores["raises"].value) == ("TimeoutError", None)
    assert entries[0].lower_is_better == {"raises"}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    score = Score("judge", 0.0, "fail", cost=0.25, version="3", method="judge", sampling_probability=0.125)
    score = replace(score, failures=("retrieval", "generation"))
    (entry,) = read(written(tmp_path / "j", [evaluation(NOW, score, Score("other", label="not_applicable"))]))
    assert entry.scores == (score, Score("other", label="not_applicable"))
    assert (entry.time, entry.probability) == (NOW, 1.0)


def test_two_files_hold_a_bounded_amount(tmp_path: Path) -> None:
    """The files never exceed the bound together; the newest lines are there, in order, none of them cut."""
    path = tmp_path / "j"
    journal = Journal(path, size=20_000)
    for i in range(1_000):
        journal(evaluation(NOW + i, judged(True)))
        assert path.stat().st_size + (before(path).stat().st_size if before(path).exists() else 0) <= 20_000
    journal.close()
    reading = Reading()
    times = [entry.time for entry in read(path, reading)]
    assert times == [NOW + i for i in range(1_000 - len(times), 1_000)]
    assert len(times) > 30
    assert reading.damaged == journal.lost == 0


def test_threads_and_processes_share_a_file(tmp_path: Path) -> None:
    """Two journals on one file, used by several threads and rotating under each other, lose and cut no line."""
    path = tmp_path / "j"
    journals = [Journal(path, size=200_000), Journal(path, size=200_000)]

    def write(journal: Journal, start: int) -> None:
        for i in range(200):
            journal(evaluation(NOW + start + i, judged(True), trace_id=start + i + 1))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, journals * 2, range(0, 800, 200)))
    for journal in journals:
        journal.close()
    reading = Reading()
    entries = list(read(path, reading))
    assert reading.damaged == 0
    assert len({entry.trace_id for entry in entries}) == len(entries)
    assert len(entries) > 300


def test_dropped_requests_are_counted_with_the_next_line(tmp_path: Path) -> None:
    """A flood of dropped requests is one count; the rest is written at the end."""
    dropped = Evaluation(make_trace(), (), "dropped", reason="queue_full")
    path = written(tmp_path / "j", [dropped] * 1_000 + [evaluation(time.time(), judged(True))] + [dropped])
    assert [entry.dropped for entry in read(path)] == [{"queue_full": 1_000}, {"queue_full": 1}]
    (app,) = live_report(path, time.time() - HOUR, time.time() + 1).apps
    assert (app.evaluated, app.dropped, app.requests) == (1, {"queue_full": 1_001}, 1_002)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is full")
def test_a_full_disk_harms_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A disk that takes nothing raises nothing; losses are counted and logged once, other sinks get everything."""
    path = tmp_path / "j"
    path.symlink_to("/dev/full")
    journal = Journal(path)
    others: list[Evaluation] = []
    with caplog.at_level(logging.WARNING):
        pipeline = Pipeline([length], [journal, others.append], limits=Limits(wait=0.01))
        for _ in range(5):
            pipeline.submit(make_trace())
        pipeline.flush()
        pipeline.close()
    assert journal.lost == len(others) == 5
    assert sum("was lost" in record.getMessage() for record in caplog.records) == 1
    assert pipeline.stats().sink_errors == {}


def test_half_a_line_is_left_out_and_not_continued(tmp_path: Path) -> None:
    """An unfinished last line is no error; what a restart appends is on a line of its own."""
    path = written(tmp_path / "j", [evaluation(NOW, judged(True))])
    with path.open("a") as file:
        file.write('{"time": 17')
    reading = Reading()
    assert len(list(read(path, reading))) == 1
    assert reading.damaged == 0
    written(path, [evaluation(NOW + 1, judged(True))])
    assert [entry.time for entry in read(path, reading)] == [NOW, NOW + 1]
    assert reading.damaged == 1


def test_a_closed_journal_takes_no_more(tmp_path: Path) -> None:
    """Closing twice is fine; a later evaluation is counted as lost. A folder in its place is an error at the start."""
    with pytest.raises(SettingError, match="report_file"):
        ragtrace.init(evaluators=[length], report_file=str(tmp_path))
    journal = Journal(tmp_path / "j")
    journal.close()
    journal.close()
    journal(evaluation(NOW, judged(True)))
    assert journal.lost == 1


def test_figures_are_weighted(tmp_path: Path) -> None:
    """Pass rate, mean, requests and coverage are those of the whole traffic, not of the sample."""
    many = [evaluation(NOW - i, judged(False), sampling_probability=1.0) for i in range(1, 41)]
    few = [evaluation(NOW - i, judged(True, 0.1), sampling_probability=0.1) for i in range(1, 37)]
    (app,) = live_report(written(tmp_path / "j", many + few), NOW - HOUR, NOW).apps
    (row,) = app.rows
    assert row.now.passes.value == pytest.approx(0.9)
    assert row.now.score.value == pytest.approx(0.9 * 0.9 + 0.1 * 0.1)
    assert row.now.passes.effective == pytest.approx(400**2 / (40 + 3_600))
    assert (app.evaluated, app.requests, row.coverage) == (76, pytest.approx(400), pytest.approx(1.0))
    assert row.before.passes is None


def test_a_rise_of_failures_is_detected(tmp_path: Path) -> None:
    """More failures than the day before are a rise; a steady rate is not, nor are too few data."""
    path = days(tmp_path / "j", [0.04, 0.04, 0.15])
    (row,) = live_report(path, NOW - DAY, NOW).apps[0].rows
    assert row.change == "rise"
    assert [share.value for share in row.shares or ()] == pytest.approx([0.04, 0.15], abs=0.03)
    assert live_report(path, NOW - 2 * DAY, NOW - DAY).apps[0].rows[0].change == "steady"
    assert live_report(path, NOW - 3 * DAY, NOW - 3 * DAY + HOUR).apps[0].rows[0].change == "learning"


def test_the_first_line_is_a_verdict(tmp_path: Path) -> None:
    """What became worse, from what to what and with n; or that nothing did, or that it is too early."""
    worse = verdict(live_report(days(tmp_path / "worse", [0.08, 0.08, 0.3]), NOW - DAY, NOW))
    assert re.match(r"WORSE: rag: faithfulness, failures \d\.\d % to \d\d\.\d % \(n = 1,\d{3}\)$", worse), worse
    same = verdict(live_report(days(tmp_path / "same", [0.08, 0.08, 0.08]), NOW - DAY, NOW))
    assert same.startswith("Not worse: no rise of failures in 1 of 1 evaluators (1,4")
    young = verdict(live_report(days(tmp_path / "young", [0.08], hourly=5), NOW - DAY, NOW))
    assert young.startswith("No verdict yet: fewer than 300 effective evaluations")
    few = live_report(days(tmp_path / "few", [0.08, 0.08]), NOW - DAY, NOW - DAY + 900)
    assert verdict(few).startswith("No verdict yet")
    gone = [evaluation(NOW - DAY - 1 - n, Score("a", 1.0, "pass")) for n in range(400)]
    gone += [evaluation(NOW - 60 - n, Score("a", error="timeout")) for n in range(400)]
    assert "a gives no verdict" in verdict(live_report(written(tmp_path / "gone", gone), NOW - DAY, NOW))
    plain = [evaluation(NOW - 60 - n, Score("length", 0.4)) for n in range(9)]
    none = verdict(live_report(written(tmp_path / "plain", plain), NOW - DAY, NOW))
    assert none.startswith("No verdict: no evaluator")


def test_intervals_stay_in_their_range(tmp_path: Path) -> None:
    """A mean of values in [0, 1] has an interval within it; one of other values need not."""
    values = [1.0] * 30 + [0.4]
    rows = [evaluation(NOW - 60 - n, Score("a", value), Score("b", 10 * value)) for n, value in enumerate(values)]
    report = live_report(written(tmp_path / "j", rows), NOW - DAY, NOW)
    a, b = (row.now.score.interval[1] for row in report.apps[0].rows)
    assert a == 1.0
    assert b > 10.0


def test_another_threshold_is_no_rise(tmp_path: Path) -> None:
    """A calibrated threshold is a new version, compared with itself alone; a rise under it is detected."""
    calibrated = days(tmp_path / "a", (0.04, 0.04, 0.15), versions=("2", "2", "2+c1"))
    (row,) = live_report(calibrated, NOW - DAY, NOW).apps[0].rows
    assert (row.change, row.versions) == ("learning", ("2+c1",))
    worse = days(tmp_path / "b", (0.04, 0.04, 0.04, 0.15), versions=("2", "2+c1", "2+c1", "2+c1"))
    (row,) = live_report(worse, NOW - DAY, NOW).apps[0].rows
    assert row.change == "rise"


def test_the_time_line(tmp_path: Path) -> None:
    """A point for each hour; longer times have longer steps; hours without verdicts are gaps."""
    path = days(tmp_path / "j", [0.04, 0.04])
    (row,) = live_report(path, NOW - DAY, NOW).apps[0].rows
    assert len(row.line) in (24, 25)
    verdicts = row.now.verdicts["pass"] + row.now.verdicts["fail"]
    assert sum(step.passes.count for step in row.line if step.passes) == verdicts
    (row,) = live_report(path, NOW - 30 * DAY, NOW).apps[0].rows
    assert len(row.line) <= 170
    assert row.line[0].passes is None


def test_the_worst_answers(tmp_path: Path) -> None:
    """Twenty at most: those that fail most checks first, then those that score lowest."""
    lots = [evaluation(NOW - 1, judged(False, value=i / 100), trace_id=i + 1) for i in range(40)]
    double = evaluation(NOW - 1, judged(False, value=0.4), Score("pii", 1.0, "fail"), trace_id=99)
    (app,) = live_report(written(tmp_path / "j", [*lots, double]), NOW - HOUR, NOW).apps
    assert [int(answer.trace_id, 16) for answer in app.worst] == [99, *range(1, 20)]
    assert {score.name for score in app.worst[0].scores} == {"pii", "faithfulness"}


def test_numbers_that_are_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A NaN in a line is an error of that check, and is reported; the rest of the line counts."""
    path = written(tmp_path / "j", [evaluation(round(time.time()) - 60, judged(True)) for _ in range(3)])
    lines = path.read_text().splitlines()
    lines[0] = lines[0].replace("0.9", "NaN")
    path.write_text("\n".join(lines) + "\n")
    assert main(["report", "--file", str(path)]) == 0
    out = capsys.readouterr().out
    assert "1 values were no finite numbers" in out
    assert "not_a_number 1" in out


def test_odd_names_are_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names, causes and errors are markup nowhere on the page, and do not move a terminal's cursor."""
    pytest.importorskip("jinja2")
    odd = Evaluation(
        make_trace(started=time.time() - 60, facts=Facts(app=ATTACK, model=ATTACK, prompt_version=ATTACK)),
        (Score(ATTACK, 0.1, "fail", failures=(ATTACK,)), Score("b", error=ATTACK), Score("c", label=ATTACK)),
        cause=ATTACK,
    )
    path = written(tmp_path / "j", [odd], env=ATTACK)
    page = tmp_path / "new" / "page.html"
    assert main(["report", "--file", str(path), "--html", str(page), "--app", ATTACK]) == 0
    assert not {"\x1b", "\u202e"} & set(capsys.readouterr().out)
    text = page.read_text(encoding="utf-8")
    parsed = Page(text)
    assert not {"script", "img", "link", "iframe"} & {tag for tag, _ in parsed.tags}
    assert not any(name.startswith("on") or name == "style" for _, attrs in parsed.tags for name in attrs)
    assert "default-src 'none'" in text
    assert "http" not in text.replace("http-equiv", "")
    assert "\x1b" not in text
    assert len(parsed.all("svg")) == 1


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Text, JSON and a page say the same; the file may come from the setting."""
    pytest.importorskip("jinja2")
    now = time.time()
    report = [evaluation(now - i, judged(i % 4 > 0), app=("a", "b")[i % 2]) for i in range(1, 201)]
    monkeypatch.setenv("RAGTRACE_REPORT_FILE", str(written(tmp_path / "j", report)))
    assert main(["report", "--since", "1h", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [app["name"] for app in rows["apps"]] == ["a", "b"]
    assert rows["apps"][0]["rows"][0]["now"]["passes"]["value"] == pytest.approx(0.5)
    assert main(["report", "--since", "1h", "--app", "b", "--html", str(tmp_path / "page.html")]) == 0
    out = capsys.readouterr().out
    assert "b: 100 requests evaluated, of about 100" in out
    assert "100.0 % (96.3 to 100.0)" in out
    assert "100.0 %" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(("arguments", "message"), rows(__file__, "bad_input"))
def test_bad_input_is_reported(
    arguments: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file, a time or an application that gives no report is one clear line and exit code 2."""
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "j", [evaluation(NOW, judged(True))])
    Path("empty").touch()
    Path("other").write_text("[1]\nnot json\n\n")
    assert main(["report", *arguments.split()]) == 2
    assert message in capsys.readouterr().err


def test_damaged_lines_are_left_out_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Lines that do not belong to a journal change the exit code to 1, and nothing else."""
    path = written(tmp_path / "j", [evaluation(time.time() - 60, judged(True))])
    bad = ['{"time": "x", "app": "a"}', '{"time": NaN, "app": "a"}', "{", '{"time": 1, "app": "a", "probability": 0}']
    with path.open("a") as file:
        file.write("\n".join(bad) + "\n")
    assert main(["report", "--file", str(path)]) == 1
    assert f"{len(bad)} lines of the journal could not be read" in capsys.readouterr().out


def test_when() -> None:
    """What --since and --until take; a time without length is none."""
    assert parse_time("90m", NOW, "--since") == NOW - 5_400
    assert parse_time("7d", NOW, "--since") == NOW - 7 * DAY
    assert parse_time("2023-11-14T22:13:20", NOW, "--since") == NOW
    assert parse_time("2023-11-14T23:13:20+01:00", NOW, "--since") == NOW
    for text in ("", "-1h", "1y", "1e999d", "9999999999w", "24h ago"):
        with pytest.raises(SettingError, match="--since"):
            parse_time(text, NOW, "--since")
    for moment in (NOW, math.nan):
        with pytest.raises(SettingError):
            live_report(Path("none"), moment, NOW)


@pytest.mark.process
def test_a_fork_keeps_the_journal(tmp_path: Path) -> None:
    """A forked child writes to the same file, and tells nothing of the parent's drops."""
    journal = Journal(tmp_path / "j")
    journal(Evaluation(make_trace(), (), "dropped", reason="queue_full"))

    def write() -> None:
        journal(evaluation(NOW, judged(True)))
        journal.close()

    in_fork(write)
    journal(evaluation(NOW + 1, judged(True)))
    journal.close()
    assert [(e.time, dict(e.dropped)) for e in read(tmp_path / "j")] == [(NOW, {}), (NOW + 1, {"queue_full": 1})]


def test_objectives_are_suggested(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The rule allows a quarter more failures than the upper bound of what the evaluator shows, here 22 %."""
    path = days(tmp_path / "journal", [0.22] * 4)
    command = ["report", "--suggest-objective", "--until", "2023-11-14T22:13", "--since"]
    assert main([*command, "2023-11-10T22:13", "--file", str(path)]) == 0
    (rule,) = yaml.safe_load(capsys.readouterr().out)
    assert (rule["record"], rule["labels"]["evaluator"]) == ("ragtrace_objective", "faithfulness")
    assert main([*command, "2023-11-13T22:13", "--file", str(days(tmp_path / "few", [0.22], hourly=5))]) == 0
    text = capsys.readouterr().out
    assert "no objective from 12" in text  # fewer than 300 effective evaluations
    assert yaml.safe_load(text) is None
    assert 0.68 <= float(rule["expr"].removeprefix("vector(").removesuffix(")")) <= 0.74
