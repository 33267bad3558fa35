"""`ragtrace rescore --ray`: the same scores on a cluster of Ray. `make scale` runs these tests."""

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chatlogs.evaluations import fill
from tests.ports import free_port
from tests.reporting.terminal_sessions import ragtrace
from tests.rescore.test_rescore_store import BRIEF, FRAGILE, _rows, kill_and_go_on
from tests.row_files import rows
from tests.waiting import until

GOLDEN = Path(__file__).parent / "golden"
DEADLY = "tests.rescore.checks:deadly"
_RAY = Path(sys.executable).with_name("ray")
pytestmark = pytest.mark.timeout(600)
_TOKEN = secrets.token_hex(32)


def _environment(**more: str) -> dict[str, str]:
    names = {name: value for name, value in os.environ.items() if not name.startswith(("RAGTRACE_", "RAY_"))}
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": _TOKEN}
    return {**names, "PYTHONPATH": os.pathsep.join(sys.path), **token, **more}


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a cluster with two CPUs, whose processes this fixture started and ends."""
    port = free_port()
    command = [_RAY, "start", "--head", "--block", "--num-cpus=2", f"--port={port}", "--node-ip-address=127.0.0.1"]
    command += ["--include-dashboard=false", "--disable-usage-stats"]
    head = subprocess.Popen(command, env=_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        check = [_RAY, "health-check", "--address", f"127.0.0.1:{port}"]
        until(lambda: not subprocess.run(check, env=_environment(), capture_output=True, check=False).returncode)
        yield f"127.0.0.1:{port}"
    finally:
        head.send_signal(signal.SIGTERM)
        head.wait(60)


def _rescore(folder: Path, *arguments: str, code: int = 0, **environment: str) -> str:
    """What the command writes on standard error; it ends with this code."""
    options: dict[str, Any] = {"cwd": folder, "env": _environment(**environment), "timeout": 250}
    run = subprocess.run(ragtrace("rescore", *arguments), **options, capture_output=True, text=True, check=False)
    assert run.returncode == code, run.stderr
    return run.stderr


def test_a_store_has_the_scores_of_local_processes(cluster: str, store_url: str, tmp_path: Path) -> None:
    """Logs get on Ray what local processes give them, from those evaluators alone that have not scored them."""
    fill(store_url, 60)
    _rescore(tmp_path, "--store", store_url, "--evaluators", BRIEF, "--jobs", "1", "--until", "2025-10-09T08:53:50")
    command = ["--store", store_url, "--evaluators", f"{BRIEF},{FRAGILE}", "--ray", cluster]
    messages = _rescore(tmp_path, *command, "--out", "scores.jsonl")
    assert "Ray: 2 workers on 1 machines" in messages
    assert "90 evaluations of 60 logs are to be done, 30 are there" in messages
    fill(str(tmp_path / "local.db"), 60)
    _rescore(tmp_path, "--store", "local.db", "--evaluators", f"{BRIEF},{FRAGILE}", "--out", "local.jsonl")
    assert _rows(store_url) == _rows(str(tmp_path / "local.db"))
    lines = [sorted((tmp_path / name).read_text().splitlines()) for name in ("scores.jsonl", "local.jsonl")]
    assert lines[0] == lines[1]


def test_a_file_has_the_scores_of_local_processes(cluster: str, tmp_path: Path) -> None:
    """The requests of a file get on Ray what local processes give them: as Parquet and in a store."""
    parquet = pytest.importorskip("pyarrow.parquet", reason="pip install 'ragtrace-otel[eval]'")
    command = [str(GOLDEN / "mlflow-traces.jsonl"), "--evaluators", f"{BRIEF},{FRAGILE}"]
    for name, more in (("local", ["--jobs", "1"]), ("ray", ["--ray", cluster])):
        _rescore(tmp_path, *command, *more, "--out", f"{name}.parquet")
        _rescore(tmp_path, *command, *more, "--store", f"{name}.db")
    tables = [parquet.read_table(tmp_path / f"{name}.parquet") for name in ("ray", "local")]
    assert tables[0].equals(tables[1])
    assert _rows(str(tmp_path / "ray.db")) == _rows(str(tmp_path / "local.db"))


def test_a_run_that_is_killed_goes_on(tmp_path: Path) -> None:
    kill_and_go_on(tmp_path, 1_000, _environment(), "--ray")


def test_a_log_that_ends_its_process_ends_the_run(cluster: str, tmp_path: Path) -> None:
    """A log that kills its worker is tried four times; then the run ends in one line with the exit code 2."""
    fill(str(tmp_path / "s.db"), 30)
    command = ["--store", "s.db", "--evaluators", DEADLY, "--since", "2025-10-09", "--ray", cluster]
    assert "Ray's workers failed" in _rescore(tmp_path, *command, code=2).splitlines()[-1]


@pytest.mark.parametrize(("address", "message"), rows(__file__, "an_address_without_a_cluster"))
def test_an_address_without_a_cluster_is_one_line(address: str, message: str, tmp_path: Path) -> None:
    """An invalid address, or one at which nothing listens, gives one line that says what to do."""
    fill(str(tmp_path / "s.db"), 3)
    [line] = _rescore(tmp_path, "--store", "s.db", "--evaluators", BRIEF, "--ray", address, code=2).splitlines()
    assert message in line
    assert _rows(str(tmp_path / "s.db")) == []


def test_a_cluster_that_wants_another_token_is_one_line(cluster: str, tmp_path: Path) -> None:
    """A cluster that refuses the token gives one line that says what to do."""
    fill(str(tmp_path / "s.db"), 3)
    command = ["--store", "s.db", "--evaluators", BRIEF, "--ray", cluster]
    messages = _rescore(tmp_path, *command, code=2, RAY_AUTH_TOKEN=secrets.token_hex(32))
    assert "RAY_AUTH_TOKEN" in messages.splitlines()[-1]
