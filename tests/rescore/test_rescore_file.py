"""`ragtrace rescore FILE`: spans of ragtrace, of OpenTelemetry, and as Phoenix's and MLflow's clients export them."""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext, TraceState

import ragtrace
from ragtrace import semconv
from ragtrace.batch.rescore.file_logs import FileLogs, read_file_logs
from ragtrace.batch.rescore.span_formats import records_in
from ragtrace.batch.rescore.stored_logs import LogSelection
from ragtrace.capture import seen_context
from ragtrace.capture.spans.span_record import SpanRecord
from ragtrace.cli import main
from ragtrace.console.chatlogs.store import open_store
from ragtrace.records import Trace
from ragtrace_otlp.jsonl import span_as_dict
from tests.row_files import rows
from tests.spans.golden_spans import golden_spans, traces_of
from tests.spans.otlp_messages import message_of

GOLDEN = Path(__file__).parent / "golden"
BRIEF, SLOW, FRAGILE = (f"tests.rescore.checks:{name}" for name in ("brief", "slow", "fragile"))
OWN = "039dcf5b468487444bc5342a68a33050"
"""The request that MLflow's own tracing recorded."""


def _spans() -> list[SpanRecord]:
    cases = golden_spans("langchain-openinference")
    return [*cases["chain"], *cases["agent"]]


def _read(path: Path) -> FileLogs:
    return read_file_logs(path, LogSelection())


def _facts(trace: Trace) -> tuple[Any, ...]:
    facts = trace.facts
    known = (facts.model, facts.provider, facts.input_tokens, facts.output_tokens, facts.session_id, facts.user_id)
    documents = [(d.id, d.content, d.score) for d in trace.documents]
    return (trace.trace_id, trace.query, trace.answer, documents, facts.tags, trace.steps, trace.error, *known)


def _otlp(records: list[SpanRecord]) -> dict[str, Any]:
    """OTLP in JSON, whose ids are hexadecimal digits."""
    message = json_format.MessageToDict(message_of(records, "shop"))
    for scope in message["resourceSpans"][0]["scopeSpans"]:
        for span, record in zip(scope["spans"], [r for r in records if r.scope == scope["scope"]["name"]], strict=True):
            span["traceId"], span["spanId"] = f"{record.trace_id:032x}", f"{record.span_id:016x}"
            if record.parent_id:
                span["parentSpanId"] = f"{record.parent_id:016x}"
    return message


@pytest.mark.parametrize("name", ["phoenix-spans.json", "phoenix-dataframe.jsonl", "mlflow-traces.jsonl"])
def test_exports_give_the_same_requests(name: str) -> None:
    """What the clients of real servers export gives the requests that the same spans give in the process."""
    expected = [_facts(trace) for trace in traces_of(_spans())]
    seen_context._chunks.clear()
    logs = _read(GOLDEN / name)
    assert [_facts(row.trace) for row in logs.rows if not row.id.startswith(OWN)] == expected
    assert logs.errors == []


@pytest.mark.parametrize("name", ["mlflow-traces.jsonl", "mlflow-dataframe.jsonl"])
def test_mlflows_own_spans_are_requests(name: str) -> None:
    """A request that MLflow's decorators traced has its question, its chunks and its answer."""
    [row] = [row for row in _read(GOLDEN / name).rows if row.id.startswith(OWN)]
    assert row.trace.query == "How long is the pump covered?"
    assert row.trace.answer == "The pump is covered for 24 months."
    [document] = row.trace.documents
    assert (document.id, document.content) == ("d0", "The pump is covered for 24 months from delivery.")


@pytest.mark.parametrize("form", ["one object", "indented", "lines", "array", "gzip"])
def test_otlp_in_json(form: str, tmp_path: Path) -> None:
    """Each form gives the same requests; the Collector's file exporter writes lines, each with a part of a request."""
    spans = _spans()
    expected = [_facts(trace) for trace in traces_of(spans)]
    seen_context._chunks.clear()
    whole = json.dumps(_otlp(spans))
    parts = [_otlp(spans[i : i + 4]) for i in range(0, len(spans), 4)]
    lines = "".join(json.dumps(part) + "\n" for part in parts)
    texts = {"indented": json.dumps(_otlp(spans), indent=1), "lines": lines, "array": json.dumps(parts, indent=1)}
    path = tmp_path / "spans.json"
    path.write_bytes(gzip.compress(lines.encode()) if form == "gzip" else texts.get(form, whole).encode())
    rows = _read(path).rows
    assert [_facts(row.trace) for row in rows] == expected
    assert {row.trace.facts.app for row in rows} == {"shop"}


def test_ragtraces_own_span_file(tmp_path: Path) -> None:
    """All requests have probability 1; where those not sampled are taken out, the others have their sampling's."""
    path = tmp_path / "spans.jsonl"
    sampling = {"evaluators": [BRIEF], "workers": 0, "sample": 0.5, "sample_per_second": 0.0}
    runtime = ragtrace.init(app="shop", spans_file=str(path), capture_content="true", frameworks=(), **sampling)
    for n in range(20):
        with ragtrace.request(f"question {n}", session_id=f"s{n}") as request:
            request.retrieved([{"id": f"d{n}", "content": f"chunk {n}"}])
            request.answered(f"answer {n}")
    ragtrace.flush(30)
    runtime.close()
    rows = sorted(_read(path).rows, key=lambda row: row.trace.started)
    assert len(rows) == 20
    for n, trace in enumerate(row.trace for row in rows):
        assert (trace.query, trace.answer) == (f"question {n}", f"answer {n}")
        assert [(d.id, d.content) for d in trace.documents] == [(f"d{n}", f"chunk {n}")]
        assert (trace.sampling_probability, trace.facts.app) == (1.0, "shop")

    lines = path.read_text().splitlines()
    left_out = {span["trace_id"] for span in map(json.loads, lines) if span["attributes"].get(semconv.SAMPLED) is False}
    assert 0 < len(left_out) < 20
    path.write_text("".join(line + "\n" for line in lines if json.loads(line)["trace_id"] not in left_out))
    rows = _read(path).rows
    assert [row.trace.sampling_probability for row in rows] == [0.5] * (20 - len(left_out))


def test_the_scores_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line of JSON for each request, with its ids and its scores; without --out on standard output."""
    arguments = ["rescore", str(GOLDEN / "mlflow-traces.jsonl"), "--evaluators", f"{BRIEF},{FRAGILE}", "--jobs", "1"]
    assert main([*arguments, "--out", str(tmp_path / "scores.jsonl")]) == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "mlflow-traces.jsonl: 20 spans, 3 requests" in printed.err
    lines = [json.loads(line) for line in (tmp_path / "scores.jsonl").read_text().splitlines()]
    assert [line["id"] for line in lines] == [f"{line['trace_id']}-{line['span_id']}" for line in lines]
    assert lines[-1]["trace_id"] == OWN
    expected = {"value": 0.25, "label": "fail", "explanation": None, "error": None, "version": "2", "method": "code"}
    assert lines[-1]["scores"]["brief"] == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == ["scores.jsonl"]
    assert main(arguments) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == lines


def test_the_requests_of_a_file_join_a_store(store_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Requests are stored with their scores, not evaluated again, and other evaluators add to them."""
    open_store(store_url).close()
    arguments = ["rescore", str(GOLDEN / "phoenix-spans.json"), "--store", store_url, "--jobs", "1", "--evaluators"]
    assert main([*arguments, BRIEF]) == 0
    assert main([*arguments, BRIEF]) == 0
    assert "all scores are there, nothing is to be done" in capsys.readouterr().err
    assert main([*arguments, f"{BRIEF},{FRAGILE}"]) == 0
    assert "2 evaluations of 2 logs are to be done, 2 are there" in capsys.readouterr().err
    store = open_store(store_url)
    for trace in traces_of(_spans()):
        log = store.get(f"{trace.trace_id:032x}")
        assert _facts(log.trace) == _facts(trace)
        assert [(score.name, score.version) for _, score in log.history] == [("brief", "2"), ("fragile", "1")]
    store.close()


GOOD = json.dumps(_otlp(golden_spans("langchain-openinference")["chain"]))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        *rows(__file__, "files_that_hold_no_request"),
        (json.dumps(_otlp([replace(_spans()[0], attributes={}, parent_id=None)])), "none of its 1 spans belongs to a"),
    ],
)
def test_files_that_hold_no_request(
    content: str, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An empty file, an unknown format, damaged lines and spans of something else are one line and the exit code 2."""
    Path("spans.jsonl").write_text(content)
    assert main(["rescore", "spans.jsonl", "--evaluators", BRIEF]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert message in line


def test_options_that_do_not_fit(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files that cannot be read or written, and options that contradict each other, end with 2."""
    Path("spans.jsonl").write_text(GOOD)
    for arguments, message in rows(__file__, "options_that_do_not_fit"):
        assert main(["rescore", *arguments.split(), "--evaluators", BRIEF, "--jobs", "1"]) == 2
        assert message in capsys.readouterr().err.splitlines()[-1]


def test_lines_that_cannot_be_read_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each is named with its number and the reason, the rest is evaluated, and the exit code is 1."""
    path = tmp_path / "spans.jsonl"
    path.write_bytes(f'{GOOD}\n{{"a": 1}}\n{GOOD[:50]}\n'.encode() + b"\xff\n")
    assert main(["rescore", str(path), "--evaluators", BRIEF, "--jobs", "1"]) == 1
    errors = capsys.readouterr().err
    assert "spans.jsonl, line 2: the object has the fields a; expected" in errors
    assert "spans.jsonl, line 3: " in errors and "spans.jsonl, line 4: " in errors  # noqa: PT018
    assert "1 logs were evaluated and written, 3 unreadable lines were left out" in errors


def test_requests_without_texts_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Requests without content, and those of another application or period, are not evaluated, but counted."""
    kinds = ("openinference.span.kind", "llm.token_count.completion")
    bare = []
    for span in golden_spans("langchain-openinference")["chain"]:
        kept = {key: value for key, value in span.attributes.items() if key in kinds}
        bare.append(replace(span, attributes=kept, events=()))
    path = tmp_path / "spans.jsonl"
    path.write_text(json.dumps(_otlp(bare)))
    assert main(["rescore", str(path), "--evaluators", BRIEF, "--jobs", "1"]) == 1
    assert "there is nothing to evaluate (spans have texts with" in capsys.readouterr().err
    assert main(["rescore", str(path), "--evaluators", BRIEF, "--jobs", "1", "--app", "lab"]) == 0
    assert "1 requests, 1 not selected" in capsys.readouterr().err


def test_a_run_over_a_file_that_was_stopped_goes_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same command evaluates what was not done, and the output is that of an uninterrupted run."""
    count = 100
    chain = golden_spans("langchain-openinference")["chain"]
    with Path("spans.jsonl").open("w") as file:
        for n in range(count):
            file.write(json.dumps(_otlp([replace(span, trace_id=n + 1) for span in chain])) + "\n")
    monkeypatch.setenv("RESCORE_CALLS", "calls.txt")
    command = ["rescore", "spans.jsonl", "--evaluators", SLOW, "--jobs", "1", "--out"]
    assert main([*command, "once.jsonl"]) == 0
    Path("calls.txt").write_text("")
    monkeypatch.setenv("RESCORE_STOPS", str(count // 2))
    assert main([*command, "stopped.jsonl"]) == 130
    assert not Path("stopped.jsonl").exists()
    assert main([*command, "stopped.jsonl"]) == 0
    assert Path("stopped.jsonl").read_text() == Path("once.jsonl").read_text()
    assert len(Path("once.jsonl").read_text().splitlines()) == count
    samples = 2 * (2 * count // 50)
    assert len(Path("calls.txt").read_text().split()) - count - samples <= 16  # the batch under way
    assert {path.name for path in folder.iterdir()} == {"calls.txt", "spans.jsonl", "once.jsonl", "stopped.jsonl"}


@pytest.mark.parametrize(
    ("trace_state", "head_sample", "probability"), rows(__file__, "the_probability_of_a_head_sampler")
)
def test_scores_have_the_probability_of_a_head_sampler(
    trace_state: str, head_sample: str, probability: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the root says of its sampling counts before the tracestate's threshold, and that before head_sample."""
    if head_sample:
        monkeypatch.setenv("RAGTRACE_HEAD_SAMPLE", head_sample)
    highest_r = (1 << 56) - 1
    spans = [replace(s, trace_id=s.trace_id | highest_r) for s in golden_spans("langchain-openinference")["chain"]]
    stated = [replace(s, trace_id=s.trace_id ^ (1 << 100)) for s in spans]
    stated = [s if s.parent_id else replace(s, attributes={**s.attributes, semconv.PROBABILITY: 0.75}) for s in stated]
    messages = [_otlp(each) for each in (spans, stated)]
    for span in [s for m in messages for scope in m["resourceSpans"][0]["scopeSpans"] for s in scope["spans"]]:
        span["traceState"] = trace_state
    path, out = tmp_path / "spans.jsonl", tmp_path / "scores.jsonl"
    path.write_text("".join(json.dumps(message) + "\n" for message in messages))
    assert main(["rescore", str(path), "--evaluators", BRIEF, "--jobs", "1", "--out", str(out)]) == 0
    scores = [json.loads(line)["scores"]["brief"] for line in out.read_text().splitlines()]
    assert [score.get("sampling_probability", 1.0) for score in scores] == pytest.approx([probability, 0.75])


def test_the_tracestate_in_ragtraces_own_span_file() -> None:
    """The spans_file has a span's tracestate, and the head sampler's threshold is read from it."""
    state = TraceState([("vendor", "1"), ("ot", "th:c")])
    span = ReadableSpan("rag", context=SpanContext(1, 2, is_remote=False, trace_state=state), start_time=1, end_time=2)
    [record] = records_in(json.loads(json.dumps(span_as_dict(span))))
    assert record.trace_state == "th:c"


def test_otlp_in_parquet(tmp_path: Path) -> None:
    """A column `otlp` in protobuf or JSON gives the same requests; other bytes are an error with the line's number."""
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'ragtrace-otel[eval]'")
    from pyarrow import parquet

    spans = _spans()
    expected = [_facts(trace) for trace in traces_of(spans)]
    parts = [spans[i : i + 4] for i in range(0, len(spans), 4)]
    protobuf = [message_of(part, "shop").SerializeToString() for part in parts]
    columns = {"bytes": [*protobuf, b"\xff no spans"], "text": [json.dumps(_otlp(part)) for part in parts]}
    for name, column in columns.items():
        seen_context._chunks.clear()
        path = tmp_path / f"{name}.parquet"
        parquet.write_table(pyarrow.table({"day": ["2026-11-23"] * len(column), "otlp": column}), path)
        logs = _read(path)
        assert [_facts(row.trace) for row in logs.rows] == expected
        line = f"{path}, line {len(column)}: the column otlp is no TracesData in protobuf"
        assert [str(error) for error in logs.errors] == ([line] if name == "bytes" else [])
