"""`ragtrace rescore --store`: further scores of stored logs."""

import argparse
import base64
import os
import random
import re
import signal
import subprocess
import sys
import time
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from ragtrace.base.rows import Row
from ragtrace.batch.batches import ScoredRow
from ragtrace.batch.rescore.cli import require_shared
from ragtrace.batch.rescore.job import load_suite
from ragtrace.batch.rescore.stored_logs import LogSelection, StoredLogs
from ragtrace.calibrations import Calibrated, save
from ragtrace.cli import main
from ragtrace.console.chatlogs.overview import overview
from ragtrace.console.chatlogs.retention import delete_user
from ragtrace.console.chatlogs.schema import contents, details, scores, traces
from ragtrace.console.chatlogs.store import Store, open_store
from ragtrace.errors import DataError, SettingError
from ragtrace.plugins import load
from ragtrace.records import Facts, Score
from ragtrace.settings import load as load_settings
from tests.chatlogs.evaluations import NOW, fill, made
from tests.reporting.terminal_sessions import in_terminal, ragtrace
from tests.row_files import rows
from tests.waiting import until

BRIEF, SLOW, FRAGILE, COMPARED = (f"tests.rescore.checks:{name}" for name in ("brief", "slow", "fragile", "compared"))


def _rows(url: str) -> list[tuple[Any, ...]]:
    """All scores: trace, evaluator, version, value, label, error, probability."""
    names = ("evaluator", "version", "value", "label", "error", "probability")
    columns = [scores.c[name] for name in names]
    query = select(traces.c.trace_id, *columns).join(scores, scores.c.trace == traces.c.id)
    with closing(open_store(url)) as store:
        return sorted(map(tuple, store.rows(query)))


def rescore(url: str, evaluators: str, *more: str) -> int:
    """The exit code of the command, in this process."""
    return main(["rescore", "--store", url, "--evaluators", evaluators, "--jobs", "1", *more])


def test_a_new_version_joins_the_older_one(store_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A score of the new version has its log's probability; the older one stays; there is nothing more to do."""
    fill(store_url, 20, Score("brief", 1.0, "pass", version="1"), sampling_probability=0.5)
    assert rescore(store_url, BRIEF) == 0
    messages = capsys.readouterr().err
    assert "20 logs; evaluators with their versions: brief 2; 20 evaluations of 20 logs are to be done" in messages
    assert "ragtrace rescore: about 1 s in one process, measured on 1 of the logs" in messages
    with closing(open_store(store_url)) as store:
        log = store.get(made(3).trace.trace_id.to_bytes(16, "big").hex())
    assert {(s.value, s.label) for _, s in log.history} == {(1.0, "pass")}
    assert [(s.version, s.sampling_probability) for _, s in log.history] == [("1", 0.5), ("2", 0.5)]
    before = _rows(store_url)
    assert rescore(store_url, BRIEF) == 0
    assert "all scores are there, nothing is to be done" in capsys.readouterr().err
    assert _rows(store_url) == before


def test_only_what_is_missing_is_evaluated(store_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each log gets the evaluators that it lacks; one without an evaluator's input is stored as not applicable."""
    fill(store_url, 4)
    assert rescore(store_url, BRIEF) == 0
    assert rescore(store_url, f"{BRIEF},{COMPARED}") == 1
    messages = capsys.readouterr().err
    assert "4 evaluations of 4 logs are to be done, 4 are there" in messages
    assert "compared has no value: 4 rows not applicable" in messages
    assert "brief has no value" not in messages
    assert rescore(store_url, f"{BRIEF},{COMPARED}") == 0
    assert {(row[1], row[4]) for row in _rows(store_url)} == {("brief", "pass"), ("compared", "not_applicable")}


def test_the_overview_counts_each_request_once(store: Store) -> None:
    """A second version adds no second verdict to the overview; a verdict after an error of its version counts."""
    first = [Score("brief", 1.0, "pass", version="1"), Score("fragile", error="timeout", version="1")]
    store.write([made(n, *first) for n in range(10)])
    logs = StoredLogs(store, [load(BRIEF), load(FRAGILE)], LogSelection())
    rows = [item for item in logs.rows() if isinstance(item, Row)]
    verdicts = {
        s.name: s for s in (Score("brief", 0.0, "fail", version="2"), Score("fragile", 1.0, "pass", version="1"))
    }
    logs.write([ScoredRow(row, verdicts) for row in rows])
    passes = {check.evaluator: check.passes for check in overview(store, NOW - 1, NOW + 100).checks}
    assert (passes["brief"].count, passes["brief"].value, passes["fragile"].count) == (10, 1.0, 10)


def test_failed_evaluations_are_tried_again(
    store_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What failed is counted and not stored, so the same command evaluates it once the cause is away."""
    fill(store_url, 20)
    monkeypatch.setenv("RESCORE_BROKEN", "yes")
    assert rescore(store_url, FRAGILE) == 0
    assert "2 evaluations failed; the same command tries them again" in capsys.readouterr().err
    assert len(_rows(store_url)) == 18
    monkeypatch.delenv("RESCORE_BROKEN")
    assert rescore(store_url, FRAGILE) == 0
    assert "2 evaluations of 2 logs are to be done, 18 are there" in capsys.readouterr().err
    assert [row[5] for row in _rows(store_url)] == [None] * 20


def test_the_logs_of_a_period_and_an_application(store_url: str) -> None:
    """--since, --until and --app choose logs; a period that ends before it begins is an error."""
    with closing(open_store(store_url)) as store:
        store.write([made(n, started=NOW + 3_600 * n, facts=Facts(app="shop" if n % 2 else "help")) for n in range(10)])
    period = ("--since", "2025-10-09T10:00", "--until", "2025-10-09T14:00")
    assert rescore(store_url, BRIEF, *period, "--app", "shop") == 0
    assert [int(row[0], 16) - 1 for row in _rows(store_url)] == [3, 5]
    assert rescore(store_url, BRIEF, "--since", "2025-10-10", "--until", "2025-10-09") == 2


def test_calibrated_thresholds_apply(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thresholds of the calibration file give the labels, and the version of the scores."""
    fill(store_url, 3, answer="a long answer to the question")
    save(tmp_path / "c.json", [Calibrated("brief", "2", 1, 0.2, "higher", NOW)])
    monkeypatch.setenv("RAGTRACE_CALIBRATION_FILE", str(tmp_path / "c.json"))
    assert rescore(store_url, BRIEF) == 0
    assert {row[1:5] for row in _rows(store_url)} == {("brief", "2+c1", 0.25, "pass")}


def test_a_log_that_is_deleted_meanwhile_stays_deleted(store: Store) -> None:
    """Scores of a log that its user had deleted are not stored, and bring nothing of it back."""
    store.write([made(n, facts=Facts(app="shop", user_id=f"u{n}")) for n in range(3)])
    logs = StoredLogs(store, [load(BRIEF)], LogSelection())
    rows = [item for item in logs.rows() if isinstance(item, Row)]
    delete_user(store, "u1", rewrite=False)
    logs.write([ScoredRow(row, {"brief": Score("brief", 1.0, "pass", version="2")}) for row in rows])
    assert (logs.count().logs, logs.count().unfinished) == (2, 0)


def test_a_damaged_log_is_left_out(store: Store) -> None:
    """A log whose content cannot be read is an error with its id; the others are evaluated."""
    store.write([made(n) for n in range(3)])
    first = select(traces.c.id).where(traces.c.trace_id == f"{2:032x}").scalar_subquery()
    store.execute(update(contents).where(contents.c.trace == first).values(documents="[{"))
    items = list(StoredLogs(store, [load(BRIEF)], LogSelection()).rows())
    assert [type(item) for item in items] == [Row, DataError, Row]
    assert str(items[1]) == f"the log {2:032x} is damaged: JSONDecodeError"


@pytest.mark.process
def test_a_terminal_has_a_progress_bar(tmp_path: Path) -> None:
    """A terminal has a bar with count and rate, and messages that fit; a pipe has no bar."""
    pytest.importorskip("rich", reason="rich is not installed: pip install 'ragtrace-otel[eval]'")
    fill(str(tmp_path / "s.db"), 30)
    command = ragtrace("rescore", "--store", "s.db", "--evaluators", BRIEF, "--jobs", "1")
    environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
    code, printed = in_terminal(command, tmp_path, 70, environment)
    assert code == 0, printed
    assert "30/30" in printed
    assert "logs/s" in printed
    assert max(len(line) for line in printed.splitlines() if line.startswith("ragtrace rescore:")) <= 70
    command[command.index(BRIEF)] = FRAGILE
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, **environment}, capture_output=True, check=True)
    assert b"logs/s" not in done.stderr


@pytest.mark.parametrize(("arguments", "message"), rows(__file__, "bad_input_is_one_line"))
def test_bad_input_is_one_line(
    arguments: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What cannot be done is said in one line, with the exit code 2, before anything is evaluated."""
    pytest.importorskip("litellm", reason="litellm is not installed: pip install 'ragtrace-otel[judge]'")
    fill("s.db", 2)
    assert main(["rescore", "--store", "s.db", "--evaluators", BRIEF, *arguments]) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]
    assert _rows("s.db") == []


def test_packages_that_are_not_installed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Evaluators without their models, and --ray without Ray, are named before anything is evaluated."""
    fill("s.db", 2)
    monkeypatch.setattr("ragtrace.live.requirements.is_installed", lambda module: module != "onnxruntime")
    assert rescore("s.db", "faithfulness") == 2
    assert "names faithfulness, for which these packages are not installed: onnxruntime" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "ray", None)
    assert rescore("s.db", BRIEF, "--ray") == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "--ray needs the package 'ray[data]>=2.50,<2.64', which is not installed" in line
    assert _rows("s.db") == []


def test_an_encrypted_store_stays_encrypted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the key logs are evaluated and explanations sealed; without it nothing is."""
    pytest.importorskip("cryptography", reason="cryptography is not installed: pip install 'ragtrace-otel[store]'")
    url, key = str(tmp_path / "s.db"), base64.b64encode(bytes(range(32))).decode()
    with closing(open_store(url, key=key)) as store:
        store.write([made(n, answer="Mail jo@acme.io about it.") for n in range(3)])
    assert rescore(url, "pii_leakage") == 2
    assert "no key is set" in capsys.readouterr().err
    monkeypatch.setenv("KEY_OF_THE_TEST", key)
    monkeypatch.setenv("RAGTRACE_STORE_KEY", "KEY_OF_THE_TEST")
    assert rescore(url, "pii_leakage") == 0
    with closing(open_store(url, key=key)) as store:
        log = store.get(f"{1:032x}")
        assert set(store.rows(select(details.c.explanation, details.c.sealed.is_(None)))) == {(None, False)}
    assert [(score.label, bool(score.explanation)) for _, score in log.history] == [("fail", True)]


@pytest.mark.parametrize(("store", "evaluators", "message"), rows(__file__, "what_several_machines_share"))
def test_what_several_machines_share(
    store: str, evaluators: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster of several machines needs a store that all of them reach, and one budget for the judge."""
    pytest.importorskip("litellm", reason="litellm is not installed: pip install 'ragtrace-otel[judge]'")
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'ragtrace-otel[store]'")
    monkeypatch.setenv("RAGTRACE_JUDGE_MODEL", "openai/gpt-4o-mini")
    monkeypatch.setenv("RAGTRACE_STORE", store)
    options = argparse.Namespace(store="", file=None, ray="head:6379")
    with pytest.raises(SettingError, match=re.escape(message)) if message else nullcontext():
        require_shared(options, load_suite(evaluators, load_settings()), 3)


def test_an_empty_store_has_nothing_to_do(store_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    fill(store_url, 0)
    assert rescore(store_url, BRIEF) == 0
    assert "0 logs" in capsys.readouterr().err
    assert rescore(store_url, BRIEF, "--app", "nix") == 2


def _descendants(pid: int) -> set[int]:
    try:
        children = {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}
    except FileNotFoundError:
        return set()
    return children.union(*(_descendants(child) for child in children))


def _is_working(pid: int) -> bool:
    """Whether a process lives that may evaluate: Ray's own agents end within two minutes."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return bool(command) and b"Agent" not in command


def kill_and_go_on(folder: Path, count: int, environment: dict[str, str], *more: str) -> None:
    """The store is that of a run that was not killed, each kill repeats less than 2 %, and no process lives on."""
    kills = 2
    calls = folder / "calls.txt"
    calls.touch()
    for name in ("once.db", "killed.db"):
        fill(str(folder / name), count)
    own, quiet = {**environment, "RESCORE_CALLS": str(calls)}, subprocess.DEVNULL

    def start(name: str, *more: str) -> subprocess.Popen[bytes]:
        command = ragtrace("rescore", "--store", name, "--evaluators", SLOW, "--jobs", "2", *more)
        return subprocess.Popen(command, cwd=folder, env=own, stdout=quiet, stderr=quiet)

    assert start("once.db").wait(100) == 0
    calls.write_text("")
    chance = random.Random(7)
    processes: set[int] = set()
    for i in range(kills):
        process = start("killed.db", *more)
        enough = (i + 1) * count // (kills + 1)
        while len(set(calls.read_text().split())) < enough and process.poll() is None:
            time.sleep(0.02)
        time.sleep(chance.random() * 0.1)
        processes |= _descendants(process.pid)
        process.kill()
        assert process.wait(60) == -signal.SIGKILL
    until(lambda: not any(map(_is_working, processes)))
    assert start("killed.db", *more).wait(250) == 0
    assert _rows(str(folder / "killed.db")) == _rows(str(folder / "once.db"))
    assert len(_rows(str(folder / "killed.db"))) == count
    samples = (kills + 1) * 2 * 8  # each run evaluates up to 8 logs twice for its estimate
    assert len(calls.read_text().split()) - count - samples <= kills * 0.02 * count


@pytest.mark.process
def test_a_run_that_is_killed_goes_on(tmp_path: Path) -> None:
    """In local processes; tests/rescore/test_ray.py has it on a cluster."""
    kill_and_go_on(tmp_path, 400, {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
