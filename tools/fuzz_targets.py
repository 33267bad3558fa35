"""What `fuzz.py` feeds: the parts of ragtrace that read what others wrote."""

from __future__ import annotations

import dataclasses
import json
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

from fuzz_values import JSON, SCALARS, TEXT, Plain, file_contents, framework_objects
from hypothesis import strategies as st

from ragtrace.errors import RagtraceError

Target = tuple[st.SearchStrategy[Any], Callable[[Any], object], tuple[type[BaseException], ...]]
"""What is generated, what takes it, and the errors that it documents."""


# --- files, settings, replies ----------------------------------------------------------------------


def file_targets(folder: Path) -> Iterator[tuple[str, Target]]:
    """Every reader of a file."""
    from ragtrace import calibrations
    from ragtrace.base import rows
    from ragtrace.batch.reporting.files import read_run
    from ragtrace.batch.reporting.live import live_report
    from ragtrace.console.chatlogs.store import open_store
    from ragtrace.console.review.label_import import import_labels
    from ragtrace.live import journal

    store = open_store(str(folder / "labels.db"))

    def reader(suffixes: tuple[str, ...], read: Callable[[Path], object]) -> Target:
        def use(example: tuple[str, bytes]) -> None:
            path = folder / f"file{example[0]}"
            path.write_bytes(example[1])
            read(path)

        return st.tuples(st.sampled_from(suffixes), file_contents()), use, (RagtraceError,)

    def results(path: Path) -> object:
        run = folder / "run"
        run.mkdir(exist_ok=True)
        for name in ("results.jsonl", "errors.jsonl", "run.json"):
            (run / name).write_bytes(path.read_bytes())
        return read_run(run)

    tables = (".jsonl", ".json", ".csv", ".tsv", ".jsonl.gz", ".parquet")
    yield "file: rows", reader(tables, lambda path: list(rows.read(path)))
    yield "file: labels", reader(tables[:4], lambda path: import_labels(store, path))
    yield "file: journal", reader((".jsonl",), lambda path: list(journal.read(path)))
    yield "file: live report", reader((".jsonl",), lambda path: live_report(path, 0.0, 1e12))
    yield "file: calibration", reader((".json",), calibrations.load)
    yield "file: results", reader((".json",), results)


def setting_targets(folder: Path) -> Iterator[tuple[str, Target]]:
    """Settings from code, from the environment and from a file."""
    from ragtrace import settings

    names = st.one_of(st.sampled_from([name for name, _ in settings.describe()]), st.text(max_size=10))
    valid = st.sampled_from([value for _, value in settings.describe()])
    values = st.one_of(JSON, valid, valid.map(str))

    def from_file(text: str) -> None:
        path = folder / "ragtrace.toml"
        path.write_text(text, encoding="utf-8", errors="surrogatepass")
        settings.load(environ={}, file=path)

    def toml(fields: dict[str, Any]) -> str:
        return "\n".join(f"{name} = {json.dumps(value, default=str)}" for name, value in fields.items())

    fields = st.dictionaries(names, values, max_size=4)
    texts = st.dictionaries(names.map(lambda n: "RAGTRACE_" + n.upper()), values.map(str), max_size=4)
    yield "settings: arguments", (fields, lambda v: settings.load(v, environ={}), (RagtraceError,))
    yield "settings: environment", (texts, lambda v: settings.load(environ=v), (RagtraceError,))
    yield "settings: file", (st.one_of(TEXT, fields.map(toml)), from_file, (RagtraceError,))


def judge_targets(_folder: Path) -> Iterator[tuple[str, Target]]:
    """Replies of a judge: the text, and what the client returns around it."""
    from ragtrace.evaluate.judge import completions, replies

    kinds = ("string", "number", "boolean", "integer")
    schema = st.dictionaries(
        st.sampled_from(["verdict", "reason", "score", "items"]), st.sampled_from(kinds), min_size=1
    )
    schemas = schema.map(
        lambda fields: {
            "type": "object",
            "properties": {name: {"type": kind} for name, kind in fields.items()},
            "required": list(fields),
            "additionalProperties": False,
        }
    )
    dumped = JSON.map(lambda value: json.dumps(value, default=str))
    wrapped = st.tuples(st.sampled_from(["", "```json\n", "<think>", "Sure: ", "yes"]), dumped | TEXT, TEXT).map(
        "".join
    )

    def read(example: tuple[str, Any]) -> None:
        replies.read(example[0], example[1], [example[0][:50]])

    yield "judge: text", (st.tuples(wrapped, schemas), read, (replies.UnreadableError,))
    yield "judge: response", (JSON, completions.read_reply, (completions.NoReplyError, RagtraceError))


# --- spans -----------------------------------------------------------------------------------------


def recording_targets(_folder: Path) -> Iterator[tuple[str, Target]]:
    """Odd objects in a framework's callbacks, in components, and in requests recorded by hand."""
    from opentelemetry.sdk.trace import TracerProvider

    import ragtrace
    from ragtrace.capture import manual
    from ragtrace.capture.recorder import Recorder, open_recorder
    from ragtrace_langchain import RagtraceCallbackHandler

    def failed(self: Recorder, where: str, key: object = None) -> None:
        error = sys.exc_info()[1]
        raise AssertionError(f"{where} was only counted") from error

    Recorder.failed = failed  # type: ignore[method-assign]
    provider = TracerProvider(shutdown_on_exit=False)
    handler = RagtraceCallbackHandler(provider, capture_content=True)
    objects = framework_objects()
    manual.set_recorder(open_recorder("fuzz", tracer_provider=provider, capture_content=True))

    def chain(values: list[Any]) -> None:
        root, child = uuid4(), uuid4()
        odd: dict[str, Any] = {"tags": [values[4]], "metadata": values[5] if isinstance(values[5], dict) else {}}
        handler.on_chain_start({}, values[0], run_id=root, parent_run_id=None, name="fuzz", **odd)
        handler.on_retriever_start({}, values[1], run_id=child, parent_run_id=root)
        handler.on_retriever_end(values[2:], run_id=child)
        handler.on_tool_start({}, values[1], run_id=child, parent_run_id=root, inputs=values[2])
        handler.on_tool_end(values[3], run_id=child)
        handler.on_chain_start({}, values[1], run_id=child, parent_run_id=root)
        handler.on_chain_end(values[2], run_id=child)
        handler.on_chain_end(values[3], run_id=root)

    def model(values: list[Any]) -> None:
        run = uuid4()
        fields = dict.copy(values[2]) if isinstance(values[2], dict) else {}
        extra = {"invocation_params": {**fields, "stop": values[3], "tools": values[3]}, "options": {"stop": values[3]}}
        message = values[5] if type(values[5]).__module__.startswith("langchain") else Plain(content=values[5])
        generation = SimpleNamespace(message=message, text=values[1], generation_info=fields)
        reply = SimpleNamespace(generations=[[generation]], llm_output=values[4])
        handler.on_chat_model_start({}, [values], run_id=run, **extra)
        handler.on_llm_new_token(values[1], run_id=run, chunk=values[4])
        handler.on_llm_end(reply, run_id=run)
        handler.on_llm_start({}, [repr(list(fields))[:100]], run_id=run, **extra)
        handler.on_llm_error(ValueError(values[1] if isinstance(values[1], str) else "x"), run_id=run, response=reply)

    def by_hand(values: list[Any]) -> None:
        options = {"session_id": values[0], "user_id": values[1], "tags": values[2], "metadata": values[3]}
        with ragtrace.request(values[0], **options) as request:
            request.asked(values[1])
            request.retrieved(values[2])
            ragtrace.retriever(lambda query: values[4])(values[5])
            ragtrace.generation(lambda messages: values[5])(values[0])
            ragtrace.tool(lambda first: values[1])(values[2])
            request.answered(values[5], usage=values[3], model=values[4])

    several = st.lists(objects, min_size=6, max_size=6)
    yield "callbacks: chains", (several, chain, ())
    yield "callbacks: models", (several, model, ())
    yield "by hand", (several, by_hand, ())


def llama_index_targets(_folder: Path) -> Iterator[tuple[str, Target]]:
    """What components of LlamaIndex may hold."""
    from ragtrace_llama_index import blocks, conversion

    readers: list[Callable[[Any], object]] = [
        conversion.documents_of, conversion.documents_within, conversion.query_of, conversion.answer_of,
        conversion.text_of, conversion.last_question, conversion.sources_of, conversion.origin,
        conversion.embedding_size, blocks.messages_of, blocks.message_of,
    ]  # fmt: skip

    def read(value: Any) -> None:
        for reader in readers:
            reader(value)

    yield "llama_index: values", (framework_objects(), read, ())


def span_attributes() -> st.SearchStrategy[dict[str, Any]]:
    """Attributes of spans: names that the libraries write, with values that they do not."""
    from ragtrace.capture.spans import dialects

    names = sorted({value for value in _strings(vars(dialects)) if "." in value} | {"openinference.span.kind"})
    indexed = st.tuples(
        st.sampled_from(["llm.input_messages", "retrieval.documents", "llm.output_messages", "gen_ai.prompt"]),
        st.sampled_from(["0", "1", "x", "-1", "99999999999"]),
        st.sampled_from(["message.content", "document.content", "document.score", "message.role", "content", "role"]),
    ).map(".".join)
    words = st.sampled_from(["LLM", "CHAIN", "RETRIEVER", "chat", "retrieval", "execute_tool", "TOOL", "AGENT"])
    value = st.one_of(
        words, JSON.map(lambda v: json.dumps(v, default=str)), SCALARS, st.lists(TEXT, max_size=3).map(tuple)
    )
    return st.dictionaries(st.one_of(st.sampled_from(names), indexed, st.text(max_size=5)), value, max_size=10)


SCOPES = st.sampled_from(["openinference.instrumentation.langchain", "opentelemetry.instrumentation.openai", "x", ""])


def span_targets(_folder: Path) -> Iterator[tuple[str, Target]]:
    """Spans of other libraries."""
    from ragtrace.capture.spans import assembly
    from ragtrace.capture.spans.span_record import SpanEvent, SpanRecord

    attributes = span_attributes()
    events = st.lists(st.builds(SpanEvent, TEXT, st.integers(0, 2**62), attributes), max_size=2)
    ids = st.integers(1, 4)
    times = st.integers(0, 5)
    records = st.builds(
        SpanRecord, st.just(1), ids, st.none() | ids, st.text(max_size=8), SCOPES,
        st.sampled_from(["INTERNAL", "CLIENT"]), times, times, st.sampled_from(["OK", "ERROR", "UNSET"]), attributes,
        events,
    )  # fmt: skip

    def read(values: list[SpanRecord]) -> None:
        assembly.traces_of(values)

    yield "spans of others", (st.lists(records, min_size=1, max_size=5), read, ())


def _strings(value: Any, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif depth < 4 and isinstance(value, dict):
        for key, item in value.items():
            yield from _strings(key, depth + 1)
            yield from _strings(item, depth + 1)
    elif depth < 4 and isinstance(value, (list, tuple, frozenset, set)):
        for item in value:
            yield from _strings(item, depth + 1)


# --- evaluation, texts, the store ------------------------------------------------------------------


def evaluation_targets(folder: Path) -> Iterator[tuple[str, Target]]:
    """Evaluators, redaction and the store, with odd texts."""
    from ragtrace import plugins
    from ragtrace.console.chatlogs.store import open_store
    from ragtrace.evaluation import run
    from ragtrace.records import Document, Evaluation, Facts, Score, Trace
    from ragtrace.text.redaction import mask_pii
    from ragtrace.text.sanitizer import Sanitizer

    names = (
        "looping_compression_ratio", "looping_repeated_ngrams", "looping_repeated_substring",
        "looping_unique_sentences",
        "tokens_presence", "rouge_1", "rouge_l", "bleu_4", "contact_information", "sensitive_data_leakage", "refusal",
        "language_mismatch", "groundedness_lexical", "faithfulness", "pii_leakage", "looping_tool_calls",
    )  # fmt: skip
    checks = [plugins.load(name) for name in names]
    text = st.one_of(TEXT, st.lists(TEXT, max_size=6).map(" ".join), st.from_regex(r"(\d[\d .,-]{0,9}){1,9}"))
    documents = st.lists(st.builds(Document, st.text(max_size=5), text.map(lambda t: t[:5_000])), max_size=4).map(tuple)
    traces = st.builds(
        lambda query, docs, answer, reference: Trace(1, 1, query[:5_000], docs, answer[:20_000], reference[:5_000]),
        text, documents, text, text,
    )  # fmt: skip

    def evaluate(trace: Trace) -> None:
        for check in checks:
            for score in run(check, [trace])[0]:
                if score.error is not None and score.error.endswith(("Error", "Exception", "bad_verdict")):
                    raise AssertionError(f"{check.name}: {score.error}")

    sanitizer = Sanitizer(redact=mask_pii)
    store = open_store(str(folder / "fuzz.db"))
    facts = st.builds(Facts, app=text, user_id=text, session_id=text, tags=st.lists(text, max_size=2).map(tuple))
    scores = st.builds(Score, st.just("fuzz"), st.none() | st.floats(), st.none() | text, explanation=st.none() | text)
    evaluations = st.tuples(traces, facts, st.lists(scores, max_size=2))

    def write(example: tuple[Trace, Facts, list[Score]]) -> None:
        trace = dataclasses.replace(example[0], trace_id=random.getrandbits(127) + 1, facts=example[1])
        store.write([Evaluation(trace, tuple(example[2]))], [])

    yield "evaluators", (traces, evaluate, ())
    yield "redaction", (st.one_of(text, JSON), lambda value: sanitizer.text(value, 16_384), ())
    yield "store", (evaluations, write, ())


def api_targets(folder: Path) -> Iterator[tuple[str, Target]]:
    """The console's API, within its description and outside of it: an answer of 5xx is a crash."""
    import schemathesis
    from schemathesis.config import SchemathesisConfig

    from ragtrace.console import accounts, tokens
    from ragtrace.console.app import create_app
    from ragtrace.console.chatlogs.store import open_store
    from ragtrace.console.options import ConsoleSettings
    from ragtrace.records import Evaluation, Score
    from ragtrace.testing import make_trace

    store = open_store(str(folder / "api.db"))
    settings = ConsoleSettings(hosts=("testserver",), calibration_file=str(folder / "api-calibration.json"))
    app = create_app(store, settings)
    accounts.add(store, "ada", "admin", "correct horse battery")
    store.write([Evaluation(make_trace(trace_id=n + 1), (Score("faithfulness", 0.5, "pass"),)) for n in range(5)], [])
    config = SchemathesisConfig.from_dict({"generation": {"database": "none"}})
    api = schemathesis.openapi.from_asgi("/api/openapi.json", app, headers={"host": "127.0.0.1"}, config=config)
    secret = [""]

    def call(case: Any) -> None:
        if tokens.find(store, secret[0]) is None:  # an example may have revoked it
            secret[0] = tokens.add(store, "t", "ada", ["read", "feedback", "review", "admin"])[1]
        answer = case.call(base_url="http://127.0.0.1:8400", headers={"Authorization": f"Bearer {secret[0]}"})
        if answer.status_code >= 500:
            raise AssertionError(f"{answer.status_code} {case.method} {case.path}: {answer.text[:200]}")

    operations: list[Any] = list(api.get_all_operations())
    cases = [
        operation.ok().as_strategy(generation_mode=mode)
        for operation in operations
        for mode in schemathesis.GenerationMode
    ]
    yield "console: API", (st.one_of(cases), call, ())


GROUPS = (
    file_targets, setting_targets, judge_targets, span_targets, llama_index_targets, evaluation_targets,
    api_targets, recording_targets,
)  # fmt: skip
