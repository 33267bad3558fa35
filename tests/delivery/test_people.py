"""What people say: verdicts of the console in the backends, and labels of the backends in the store."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from ragtrace import cli
from ragtrace.console.chatlogs import schema
from ragtrace.console.chatlogs.schema import traces
from ragtrace.console.chatlogs.store import Store, open_store
from ragtrace.console.chatlogs.store_types import Review, Verdict
from ragtrace.console.review import verdicts
from ragtrace.console.review.agreement import agreement
from ragtrace.console.verdict_delivery import deliver_verdicts
from ragtrace.records import Evaluation, Score, Trace
from tests.delivery.langfuse_api import LangfuseApi, langfuse_keys, score  # noqa: F401 a fixture
from tests.delivery.mlflow_api import MlflowApi
from tests.delivery.phoenix_api import PhoenixApi
from tests.delivery.servers import serving


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store with four requests, of which faithfulness passes the first two."""
    opened = open_store(str(tmp_path / "logs.db"), create=True)
    for number in range(1, 5):
        trace = Trace(number, number, "How long?", (), "Two years.", started=1_700_000_000.0 + number)
        score = Score("faithfulness", 0.9 if number < 3 else 0.1, "pass" if number < 3 else "fail")
        opened.write([Evaluation(trace, (score,))], ())
    yield opened
    opened.close()


pytestmark = pytest.mark.usefixtures("langfuse_keys")


def review(store: Store, number: int, label: str, comment: str | None = None) -> None:
    said = Review(f"{number:032x}", (Verdict("faithfulness", label),), comment)
    verdicts.submit(store, f"{number:032x}", said, None)


def test_verdicts_arrive_in_every_backend(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is an annotation of kind HUMAN; another one of the same person replaces it; comments stay by default."""
    apis: tuple[Any, ...] = (PhoenixApi(), MlflowApi(), LangfuseApi())
    with serving(apis[0]) as phoenix, serving(apis[1]) as mlflow, serving(apis[2]) as langfuse:
        for name, server in (("PHOENIX", phoenix), ("MLFLOW", mlflow), ("LANGFUSE", langfuse)):
            monkeypatch.setenv(f"RAGTRACE_{name}_URL", server.url)
        with deliver_verdicts(store) as deliveries:
            review(store, 1, "fail", "The year is wrong.")
            review(store, 2, "pass")
        assert [delivery.stats().delivered for delivery in deliveries] == [2, 2, 2]
        with deliver_verdicts(store):
            review(store, 1, "pass")
        bodies = str([asked.body for server in (phoenix, mlflow, langfuse) for asked in server.requests])
    assert "The year" not in bodies
    annotations, assessments, scores = (list(api.rows.values()) for api in apis)
    assert {row["span_id"]: (row["annotator_kind"], row["result"]) for row in annotations} == {
        f"{number:016x}": ("HUMAN", {"score": 1.0, "label": "pass"}) for number in (1, 2)
    }
    assert {(row["source"]["source_type"], row["feedback"]["value"]) for row in assessments} == {("HUMAN", "pass")}
    assert {(row["metadata"]["annotator_kind"], row["value"]) for row in scores} == {("HUMAN", "pass")}
    assert len(annotations) == len(assessments) == len(scores) == 2


def test_comments_leave_with_explanations(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    api = PhoenixApi()
    monkeypatch.setenv("RAGTRACE_EXPLANATIONS", "true")
    monkeypatch.setenv("RAGTRACE_REDACT", "pii")
    with serving(api) as server:
        monkeypatch.setenv("RAGTRACE_PHOENIX_URL", server.url)
        with deliver_verdicts(store):
            review(store, 1, "fail", "Ask ada@example.org.")
    (row,) = api.rows.values()
    assert row["result"]["explanation"].startswith("Ask ")
    assert "ada@" not in str(row)


def test_console_without_backends_listens_to_nothing(store: Store) -> None:
    with deliver_verdicts(store) as deliveries:
        review(store, 1, "pass")
    assert deliveries == ()


def test_losses_are_reported(store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    api = PhoenixApi()
    api.key = "another"
    with serving(api) as server:
        monkeypatch.setenv("RAGTRACE_PHOENIX_URL", server.url)
        with deliver_verdicts(store):
            review(store, 1, "pass")
            review(store, 2, "pass")
    assert "2 verdicts did not reach phoenix: {'unauthorized': 2}" in caplog.text


def person(api: str, number: int, value: Any) -> dict[str, Any]:
    """What Ada said of a request in Phoenix or MLflow."""
    if api == "phoenix":
        result = {"label": value} if isinstance(value, str) else {"score": value}
        kind = {"annotator_kind": "HUMAN", "user_id": "ada", "identifier": "px-app:1", "source": "APP"}
        return {"span_id": f"{number:016x}", "name": "faithfulness", "result": result, "metadata": {}, **kind}
    source = {"source_type": "HUMAN", "source_id": "ada"}
    feedback = {"assessment_name": "faithfulness", "feedback": {"value": value}, "source": source}
    return {"trace_id": f"tr-{number:032x}", **feedback}


SAID = (True, False, "fail", "perhaps")


def backend(tool: str) -> Any:
    """A tool in which a person has labelled the four requests."""
    if tool == "langfuse":
        langfuse = LangfuseApi()
        for number, value in enumerate(SAID, start=1):
            kind = {"dataType": "CATEGORICAL" if isinstance(value, str) else "BOOLEAN", "value": value}
            langfuse.people.append(score(number, comment=None, **kind))
        return langfuse
    api: Any = PhoenixApi() if tool == "phoenix" else MlflowApi()
    for number, value in enumerate(SAID, start=1):
        plain = float(value) if tool == "phoenix" and isinstance(value, bool) else value
        api.rows[f"{number}", "", ""] = person(tool, number, plain)
    return api


@pytest.mark.parametrize("tool", ["phoenix", "mlflow", "langfuse"])
def test_labels_are_imported_once(
    tool: str, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """For agreement and calibration. A word that is no label is reported, and `--word` says what it means."""
    arguments = ["import-labels", "--store", str(tmp_path / "logs.db"), "--from", tool, "--probability", "1"]
    with serving(backend(tool)) as server:
        monkeypatch.setenv(f"RAGTRACE_{tool.upper()}_URL", server.url)
        for _ in range(2):
            assert cli.main(arguments) == 1
            assert "3 labels of 3 logs, 1 labels left out" in (output := capsys.readouterr().err)
            assert "perhaps" in output
            with store.reading() as connection:
                labels = select(traces.c.trace_id, schema.verdicts.c.label).select_from(traces)
                labels = labels.join(schema.reviews).join(schema.verdicts)
                found = {f"{number:032x}": "pass" if number == 1 else "fail" for number in (1, 2, 3)}
                assert dict(row for row in connection.execute(labels)) == found
                assert connection.scalars(select(schema.users.c.name)).all() == [f"{tool}:ada"]
        assert cli.main([*arguments, "--word", "perhaps=unsure"]) == 0
    (measured,) = agreement(store).evaluators
    assert (measured.evaluator, measured.logs) == ("faithfulness", 3)


def test_numbers_and_names_of_a_tool(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--pass-at` reads numbers as labels, `--name` a name of the tool as an evaluator's."""
    api = PhoenixApi()
    for number, value in ((1, 4.0), (2, 2.0)):
        api.rows[f"{number}", "", ""] = {**person("phoenix", number, value), "name": "stars"}
    with serving(api) as server:
        monkeypatch.setenv("PHOENIX_COLLECTOR_ENDPOINT", server.url)
        arguments = ["import-labels", "--store", str(tmp_path / "logs.db"), "--from", "phoenix"]
        assert cli.main([*arguments, "--pass-at", "3", "--name", "stars=faithfulness"]) == 0
    with store.reading() as connection:
        rows = connection.execute(select(schema.verdicts.c.evaluator, schema.verdicts.c.label)).all()
    assert sorted(tuple(row) for row in rows) == [("faithfulness", "fail"), ("faithfulness", "pass")]


def test_server_that_does_not_answer(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["import-labels", "--store", str(tmp_path / "logs.db"), "--from", "phoenix"]
    monkeypatch.setenv("RAGTRACE_PHOENIX_URL", "http://127.0.0.1:9")
    assert cli.main(arguments) == 2
    assert "Phoenix at http://127.0.0.1:9 does not answer" in capsys.readouterr().err
    assert cli.main(arguments[:-2]) == 2
    assert "--from" in capsys.readouterr().err
