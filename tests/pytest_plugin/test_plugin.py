"""pytest's plugin in runs of pytest of their own: cases from reviewed logs, the table, the report, other processes."""

import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from ragtrace.batch.reporting.files import read_run
from ragtrace.cli import main
from ragtrace.console.chatlogs.store import open_store
from ragtrace.console.chatlogs.store_types import Review, Verdict
from ragtrace.console.review.queue import submit
from tests.review.review_data import NOW, evaluation, good, people, scored
from tests.row_files import rows

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
SHORT = """
    from ragtrace.evaluation import evaluator

    @evaluator(needs={"answer"}, direction="lower", range=(0.0, 100.0))
    def words(trace):
        return float(len(trace.answer.split()))
"""
LOGS = """
    from ragtrace.pytest import ReviewedCase, assert_scores

    def test_log(ragtrace_log):
        assert isinstance(ragtrace_log, ReviewedCase)
        print("LOG", ragtrace_log.id, ragtrace_log.query, [d.content for d in ragtrace_log.contexts],
              ragtrace_log.reference, dict(ragtrace_log.verdicts), ragtrace_log.model)
"""
SCORES = """
    import pytest
    from ragtrace.pytest import assert_scores

    @pytest.mark.parametrize("count", [1, 2, 3, 4])
    def test_words(count):
        assert_scores("a " * count, **{"checks:words": 3}, looping_compression_ratio=True)
"""


def run_pytest(folder: Path, *arguments: str) -> str:
    """The output of a run with this plugin alone, without colours."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("RAGTRACE_", "PYTEST_"))}
    environment |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "RAGTRACE_ENABLED": "false", "PY_COLORS": "0"}
    plugins = ["-p", "ragtrace.pytest", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *plugins, "-W", "error", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)
    return done.stdout + done.stderr


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(text))
    return folder


@pytest.fixture(scope="module")
def reviewed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store of three reviewed logs, one of them corrected, and its export."""
    folder = tmp_path_factory.mktemp("reviewed")
    store = open_store(str(folder / "chatlogs.db"))
    logs = [evaluation(number, scored(good, 0.2)) for number in range(4)]
    store.write(logs, [good], now=NOW)
    (ann,) = people(store, "ann")
    for number, label in enumerate(("fail", "pass", "unsure")):
        trace_id = f"{logs[number].trace.trace_id:032x}"
        corrected = "24 months." if number == 0 else None
        submit(store, trace_id, Review(trace_id, (Verdict("good", label),), corrected=corrected), ann, NOW)
    store.close()
    assert main(["export", "--store", str(folder / "chatlogs.db"), "--out", str(folder / "reviewed.jsonl")]) == 0
    return folder


def cases(output: str) -> list[str]:
    return sorted(line.lstrip(".") for line in output.splitlines() if "LOG " in line)


def test_reviewed_logs_are_cases(reviewed: Path, tmp_path: Path) -> None:
    """A store, by option, and its export, by the configuration, give the same cases."""
    write(tmp_path, test_logs=LOGS)
    of_store = run_pytest(tmp_path, "-s", "--ragtrace-logs", str(reviewed / "chatlogs.db"))
    (tmp_path / "pytest.ini").write_text(f"[pytest]\nragtrace_logs = {reviewed / 'reviewed.jsonl'}\n")
    of_export = run_pytest(tmp_path, "-s")
    assert cases(of_store) == cases(of_export)
    lines = cases(of_store)
    assert len(lines) == 3
    (corrected,) = [line for line in lines if "question 0" in line]
    assert re.search(r"LOG [0-9a-f]{32} question 0 \['The pump is covered", corrected)
    assert corrected.endswith("24 months. {'good': 'fail'} m")
    ids = [json.loads(line)["id"] for line in (reviewed / "reviewed.jsonl").read_text().splitlines()]
    collected = run_pytest(tmp_path, "--collect-only", "-q")
    assert [id for id in ids if f"test_log[{id}]" in collected] == ids


@pytest.mark.parametrize(("content", "message"), rows(__file__, "unusable_logs_are_an_error_in_one_line"))
def test_unusable_logs_are_an_error_in_one_line(content: str | None, message: str, tmp_path: Path) -> None:
    """A run that should have cases and has none does not pass: one line says what is wrong."""
    write(tmp_path, test_logs=LOGS)
    if content not in (None, "away"):
        (tmp_path / "logs.jsonl").write_text(content or "")
    output = run_pytest(tmp_path, *(() if content is None else ("--ragtrace-logs", "logs.jsonl")))
    (line,) = [line for line in output.splitlines() if line.startswith("ragtrace_log: ")]
    assert message in line
    assert "1 error" in output
    assert "Traceback" not in output


@pytest.mark.parametrize("processes", [0, 2])
def test_the_scores_of_all_tests(processes: int, tmp_path: Path) -> None:
    """The table, the report and pytest's own XML have each test's scores, in one process and with pytest-xdist."""
    pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'ragtrace-otel[eval]'")
    write(tmp_path, checks=SHORT, test_scores=SCORES)
    parallel = ["-p", "xdist.plugin", "-n", str(processes)] if processes else []
    output = run_pytest(tmp_path, *parallel, "--ragtrace-report", "report", "--junitxml", "tests.xml")
    assert "1 failed, 3 passed" in output
    table = output.partition("= ragtrace scores =")[2]
    rows = [line.split() for line in table.splitlines() if line.startswith(("words", "looping"))]
    assert [row[:5] for row in rows if row[0] == "words"] == [["words", "4", "2.500", "75.0", "%"]]
    run = read_run(tmp_path / "report")
    assert {row.id: row.scores["words"].label for row in run.results} == {
        **{f"test_scores.py::test_words[{count}]": "pass" for count in (1, 2, 3)},
        "test_scores.py::test_words[4]": "fail",
    }
    assert run.metrics["words"].threshold == 3
    assert (tmp_path / "report" / "report.html").exists()
    properties = ElementTree.parse(tmp_path / "tests.xml").getroot().iter("property")
    assert sorted(p.get("value", "") for p in properties if p.get("name") == "ragtrace.words") == [
        "1.0", "2.0", "3.0", "4.0",
    ]  # fmt: skip


def test_a_run_without_scores_shows_nothing(tmp_path: Path) -> None:
    """The plugin is silent where no test uses it, and says so where a report was wanted."""
    write(tmp_path, test_other="def test_other():\n    pass\n")
    assert "ragtrace" not in run_pytest(tmp_path).partition("plugins:")[0].replace(str(tmp_path), "")
    assert "no test called assert_scores, so no report is written" in run_pytest(tmp_path, "--ragtrace-report", "r")


def test_a_report_without_its_packages_is_refused(tmp_path: Path) -> None:
    """One line names the package and the command, before a test runs."""
    write(
        tmp_path, no_pyarrow="import sys\nsys.modules['pyarrow'] = None\n", test_other="def test_other():\n    pass\n"
    )
    output = run_pytest(tmp_path, "-p", "no_pyarrow", "--ragtrace-report", "r")
    assert output.startswith("ERROR: The setting --ragtrace-report needs the package 'pyarrow'")
    assert "passed" not in output


def test_the_plugin_loads_nothing_before_its_first_use(tmp_path: Path) -> None:
    """pytest loads `ragtrace.pytest` in every run: that loads what `import ragtrace` does, and no library."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert tomllib.loads(text)["project"]["entry-points"]["pytest11"] == {"ragtrace": "ragtrace.pytest"}
    write(
        tmp_path,
        test_modules="""
            import sys

            def test_modules():
                names = [name for name in sys.modules if name.split(".")[0].startswith("ragtrace")]
                heavy = {"numpy", "onnxruntime", "opentelemetry", "asyncio"} & set(sys.modules)
                print("LOADED", sorted(names), heavy)
        """,
    )
    output = run_pytest(tmp_path, "-s")
    names = " ._version .base .base.model_prices .errors .evaluation .pytest .records .sampling"
    assert f"LOADED {[f'ragtrace{name}' for name in names.split(' ')]} set()" in output


def test_models_are_loaded_once(tmp_path: Path) -> None:
    """Three tests that ask the same evaluator load its models once."""
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'ragtrace-otel[models]'")
    write(
        tmp_path,
        conftest="""
            import onnxruntime

            class Counted(onnxruntime.InferenceSession):
                count = 0

                def __init__(self, *arguments, **options):
                    Counted.count += 1
                    super().__init__(*arguments, **options)

            onnxruntime.InferenceSession = Counted
        """,
        test_models="""
            import onnxruntime
            import pytest
            from ragtrace.pytest import assert_scores

            loaded = []

            @pytest.mark.parametrize("months", [12, 24, 36])
            def test_models(months):
                text = f"The pump is covered for {months} months."
                assert_scores(text, [text], faithfulness=0.5, toxicity=0.5)
                loaded.append(onnxruntime.InferenceSession.count)
                assert loaded[0] > 0
                assert set(loaded) == {loaded[0]}
        """,
    )
    assert "3 passed" in run_pytest(tmp_path)


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", DOCUMENT, re.DOTALL)


def test_the_example_of_a_recording_runs(tmp_path: Path) -> None:
    """The first test in docs/testing.md passes without a change, also where ragtrace is switched off."""
    (tmp_path / "test_example.py").write_text(blocks("python")[0])
    assert "1 passed" in run_pytest(tmp_path)


SHOP = """
    def answer(question):
        chunks = ["The pump is covered for 24 months from delivery."]
        return "The pump is covered for 24 months.", chunks
"""


@pytest.mark.timeout(400)  # four commands that load models, two of them in processes of their own
def test_the_recipe_for_ci_runs(reviewed: Path, tmp_path: Path) -> None:
    """Each command of the workflow in docs/testing.md succeeds on the example in it, and leaves the files that the
    workflow keeps; with a wrong answer the step of the tests and the gate fail."""
    pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'ragtrace-otel[eval]'")
    (tmp_path / "test_answers.py").write_text(blocks("python")[1])
    (tmp_path / "reviewed.jsonl").write_bytes((reviewed / "reviewed.jsonl").read_bytes())
    text = "The pump is covered for 24 months from delivery."
    (tmp_path / "answers.jsonl").write_text(json.dumps({"query": "How long?", "contexts": [text], "answer": text}))
    (workflow,) = (yaml.safe_load(block) for block in blocks("yaml"))
    steps = workflow["jobs"]["answers"]["steps"]
    commands = [step["run"] for step in steps if "run" in step and not step["run"].startswith("pip ")]
    assert len(commands) == 2
    write(tmp_path, shop=SHOP)
    assert [run_step(tmp_path, command) for command in commands] == [0, 0]
    kept = shlex.split(next(step["with"]["path"] for step in steps if "with" in step))
    assert [name for name in kept if not (tmp_path / name).exists()] == []
    write(tmp_path, shop=SHOP.replace("for 24 months.", "for 36 years, even on Mars."))
    (tmp_path / "answers.jsonl").write_text(json.dumps({"contexts": [text], "answer": "It is made on Mars in May."}))
    assert [run_step(tmp_path, command) for command in commands] == [1, 3]


def run_step(folder: Path, command: str) -> int:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    plugins = "-p xdist.plugin -p ragtrace.pytest -p no:cacheprovider"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment |= {"PATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": plugins}
    shell = ["bash", "-c", command]
    done = subprocess.run(shell, capture_output=True, text=True, check=False, cwd=folder, env=environment)
    print(command, done.stdout, done.stderr)
    return done.returncode
