"""ragtrace without extras, in an environment of its own: it evaluates, and its errors name the extra to install."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.house import ROOT
from tests.row_files import table

ENVIRONMENT = ROOT / ".venv-minimal"
"""Made once for each pyproject.toml and interpreter. The installation is editable: it runs the code of this tree."""
EVALUATES = """
import json, sys
import ragtrace
from ragtrace.evaluation import evaluator, run
from ragtrace.testing import Capture, make_trace

@evaluator(needs={"answer"}, threshold=0.5)
def short(trace):
    return 1.0 if len(trace.answer) < 100 else 0.0

trace = make_trace()
((score,),) = run(short, [trace])
capture = Capture()
runtime = ragtrace.init(evaluators=[short, "looping_compression_ratio"], sinks=[capture])
runtime.pipeline.submit(trace)
(evaluation,) = capture.wait(1, 60)
runtime.close()
online = {s.name: [s.value, s.label, s.error] for s in evaluation.scores}
print(json.dumps({"offline": [score.value, score.label], "online": online}))
"""
MISSING: dict[str, tuple[dict[str, Any], str]] = table(__file__, "missing")
"""Settings of ragtrace.init that need an extra, and the extra."""
TRIES = """
import json, sys
import ragtrace
from ragtrace.errors import RagtraceError

messages = {}
for name, settings in json.loads(sys.argv[1]).items():
    try:
        ragtrace.init(**{"evaluators": ["looping_compression_ratio"], **settings})
        messages[name] = "no error"
    except RagtraceError as error:
        messages[name] = str(error)
print(json.dumps(messages))
"""

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def python() -> Path:
    """The interpreter of an environment with ragtrace's own dependencies and nothing else."""
    programs = ENVIRONMENT / ("Scripts" if os.name == "nt" else "bin")
    key = hashlib.sha256((ROOT / "pyproject.toml").read_bytes() + sys.version.encode() + bytes(ROOT)).hexdigest()
    key_file = ENVIRONMENT / "key"
    if not key_file.exists() or key_file.read_text() != key:
        shutil.rmtree(ENVIRONMENT, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True)
        install = [str(programs / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        result = subprocess.run([*install, "--editable", str(ROOT)], check=False, capture_output=True, text=True)
        if result.returncode and not os.environ.get("CI"):
            pytest.skip(f"pip cannot install ragtrace into {ENVIRONMENT.name}: {result.stderr.strip()[-300:]}")
        assert result.returncode == 0, result.stderr
        key_file.write_text(key)
    return programs / "python"


def _result(python: Path, folder: Path, program: str, *arguments: str) -> Any:
    """Returns what a program printed as JSON. It sees no PYTHONPATH and no settings of ours."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("RAGTRACE_", "OTEL_"))}
    command = [str(python), "-I", "-c", program, *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_core_without_extras_evaluates(python: Path, tmp_path: Path) -> None:
    """Without any extra, an evaluator of one's own and a built-in one score a trace offline and in the pipeline."""
    scores = _result(python, tmp_path, EVALUATES)
    assert scores["offline"] == [1.0, "pass"]
    assert scores["online"] == {"short": [1.0, "pass", None], "looping_compression_ratio": [1.0, "pass", None]}


def test_errors_name_the_missing_extra(python: Path, tmp_path: Path) -> None:
    """A setting that needs an extra fails at the start with the command that installs this extra."""
    messages = _result(python, tmp_path, TRIES, json.dumps({name: settings for name, (settings, _) in MISSING.items()}))
    assert list(messages) == list(MISSING)
    for name, (_, extra) in MISSING.items():
        assert f"pip install 'ragtrace-otel[{extra}]'" in messages[name], name
