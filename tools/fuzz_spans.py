"""What `fuzz.py` feeds to readers of recorded spans: files of several tools, tables, a broker's messages, batches."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fuzz_targets import Target, span_attributes
from fuzz_values import JSON, SCALARS, TEXT, file_contents
from hypothesis import strategies as st

from ragtrace.errors import RagtraceError

_FIELDS = {
    "own": {"trace_id": "a" * 32, "span_id": "b" * 16, "parent_id": None, "name": "x", "scope": "s", "kind": "INTERNAL",
            "start_time": 1, "end_time": 2, "status": {"code": "OK"}, "events": [], "resource": {}},
    "phoenix": {"context": {"trace_id": "a" * 32, "span_id": "b" * 16}, "span_kind": "CHAIN", "parent_id": None,
                "name": "x", "start_time": "2026-01-01T00:00:00+00:00", "end_time": 1_700_000_000_000, "events": []},
    "mlflow": {"trace_id": "tr-" + "a" * 32, "span_id": "b" * 16, "name": "x", "start_time_unix_nano": 1,
               "end_time_unix_nano": 2, "status": {"code": "OK"}, "events": []},
}  # fmt: skip
"""A span of each form, of which some fields are replaced."""
_DRAIN = 30.0


def _spans() -> st.SearchStrategy[Any]:
    """Spans as JSON, alone and as the files of their tools wrap them."""
    odd = st.dictionaries(
        st.sampled_from(sorted({name for form in _FIELDS.values() for name in form})), JSON, max_size=3
    )
    forms = st.sampled_from(list(_FIELDS.values()))
    events = st.lists(st.fixed_dictionaries({"name": TEXT, "time": SCALARS, "timestamp": SCALARS}), max_size=2)
    more = st.fixed_dictionaries({"attributes": span_attributes()}, optional={"events": events})
    spans = st.builds(lambda form, more, odd: {**form, **more, **odd}, forms, more, odd)
    otlp = st.builds(
        lambda span, attributes: {
            "resourceSpans": [{"scopeSpans": [{"spans": [{**span, "attributes": attributes}]}]}]
        },
        st.dictionaries(st.sampled_from(["traceId", "spanId", "startTimeUnixNano", "name", "events"]), JSON,
                        max_size=5),
        st.lists(st.fixed_dictionaries({"key": TEXT, "value": st.dictionaries(
            st.sampled_from(["stringValue", "intValue", "kvlistValue", "arrayValue", "doubleValue"]), JSON, max_size=1
        )}), max_size=3),
    )  # fmt: skip
    wrapped = st.sampled_from([
        lambda span: {"data": [span]}, lambda span: {"spans": [span]}, lambda span: span,
        lambda span: {"trace": json.dumps({"spans": [span]}, default=str)},
        lambda span: {"data": {"spans": [span]}, "info": {"trace_metadata": span}},
    ])  # fmt: skip
    return st.one_of(otlp, spans, st.builds(lambda wrap, span: wrap(span), wrapped, spans))


def span_file_targets(folder: Path) -> Iterator[tuple[str, Target]]:
    """Files of spans, tables with broken bytes, replies of a provider's batches."""
    import pyarrow
    import pyarrow.parquet

    from ragtrace.base import rows
    from ragtrace.batch.rescore.file_logs import read_file_logs
    from ragtrace.batch.rescore.stored_logs import LogSelection
    from ragtrace.evaluate.judge import batch_api

    lines = st.lists(_spans().map(lambda span: json.dumps(span, default=str)), min_size=1, max_size=4)
    text = st.one_of(lines.map("\n".join), lines.map(lambda each: f"[{','.join(each)}]"))
    contents = st.one_of(text.map(lambda value: value.encode("utf-8", "surrogatepass")), file_contents())

    def spans(content: bytes) -> None:
        path = folder / "spans.jsonl"
        path.write_bytes(content)
        read_file_logs(path, LogSelection())

    path = folder / "table.parquet"
    columns = {
        "query": ["q", None, "é" * 50], "answer": ["a", "b", "c"], "context": [["x"], [], None],
        "score": [1.0, float("nan"), None], "time": pyarrow.array([0, 2**62, -(2**62)], pyarrow.timestamp("ns")),
        "far": pyarrow.array([2**40, -(2**40), 0], pyarrow.timestamp("s")), "raw": [b"\xff", b"", None],
    }  # fmt: skip
    names = st.lists(st.sampled_from(list(columns)), min_size=1, max_size=4, unique=True)
    edits = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=4)

    def table(example: tuple[list[str], list[tuple[float, int]], str]) -> None:
        chosen, changes, compression = example
        pyarrow.parquet.write_table(
            pyarrow.table({name: columns[name] for name in chosen}), path, compression=compression
        )
        content = bytearray(path.read_bytes())
        for place, value in changes:
            content[int(place * (len(content) - 1))] = value
        path.write_bytes(content)
        list(rows.read(path))

    def replies(content: bytes) -> None:
        api = batch_api.BatchApi.__new__(batch_api.BatchApi)
        api._litellm = SimpleNamespace(file_content=lambda **_: SimpleNamespace(content=content))
        api._where, api._more = "here", {}
        api.replies("file")

    yield "file: spans", (contents, spans, (RagtraceError,))
    yield "file: parquet", (st.tuples(names, edits, st.sampled_from(["none", "snappy"])), table, (RagtraceError,))
    yield "judge: batch", (file_contents(), replies, (RagtraceError,))


def setting_file_targets(folder: Path) -> Iterator[tuple[str, Target]]:
    """Settings of the worker and the console, addresses, files of keys and of prices."""
    from ragtrace.console.options import ConsoleSettings, Oidc, load_console
    from ragtrace.evaluate.privacy_modes import redact_texts
    from ragtrace.settings import load
    from ragtrace.worker.worker_settings import WorkerSettings, load_worker
    from ragtrace_brokers.address import parse_address
    from ragtrace_brokers.key_file import parse_day_keys

    names = st.one_of(st.sampled_from(sorted(WorkerSettings.__dataclass_fields__)), st.text(max_size=8))
    urls = st.builds(
        lambda scheme, rest: scheme + rest,
        st.sampled_from(["nats://", "kafka://", "redis://", "memory://", "http://", ""]),
        st.one_of(TEXT, st.text(st.sampled_from("[]:/@?&=%.a1"), max_size=20)),
    )
    values = st.one_of(JSON, urls)
    keys = st.one_of(TEXT, st.lists(st.sampled_from(
        ["2026-11-23", "=", "a" * 43 + "=", "\n", "#", "2026-02-31", ":", " "]
    ), max_size=9).map("".join))  # fmt: skip
    lines = st.builds(
        lambda table, name, value: f"[{table}]\n{name} = {json.dumps(value, default=str)}\n",
        st.sampled_from(["console", "console.oidc"]),
        st.sampled_from([*ConsoleSettings.__dataclass_fields__, *Oidc.__dataclass_fields__]), values,
    )  # fmt: skip
    tables = st.one_of(TEXT, st.lists(lines, max_size=3).map("".join))

    def console(text: str) -> None:
        path = folder / "console.toml"
        path.write_text(text, encoding="utf-8", errors="surrogatepass")
        options = load_console({}, {}, path)
        options.names, options.private  # noqa: B018 what they read may not be readable

    def redact(fields: dict[str, Any]) -> None:
        redact_texts(load(fields, environ={}))

    modes = st.one_of(
        st.sampled_from(["pii", "hash", "off", "metadata_only", "os:getcwd", "x:y", "os.path", ":", "json:x"]), TEXT
    )
    privacy = st.fixed_dictionaries({"redact": modes}, optional={"redact_key": TEXT, "redact_seconds": SCALARS})
    yield "settings: worker", (st.dictionaries(names, values, max_size=3), load_worker, (RagtraceError,))
    yield "settings: console", (tables, console, (RagtraceError,))
    yield "settings: addresses", (urls, parse_address, (RagtraceError,))
    yield "settings: keys", (keys, parse_day_keys, (RagtraceError,))
    yield "settings: redaction", (privacy, redact, (RagtraceError,))


def message_targets(folder: Path) -> Iterator[tuple[str, Target]]:
    """Messages of a broker, through a worker: each one is evaluated or a dead letter."""
    from fuzz_worker import otlp_messages, worker_of

    from ragtrace_brokers import message as parts
    from ragtrace_brokers.address import parse_address
    from ragtrace_brokers.memory_transport import MemoryTransport

    url = "memory://here/fuzz?max_length=1000000"
    started: list[Any] = []
    transport = MemoryTransport(parse_address(url), parts.TransportOptions(group="ragtrace"))
    headers = st.dictionaries(
        st.sampled_from([parts.HEADER_SCHEMA, parts.HEADER_PROBABILITY, parts.HEADER_TENANT, parts.HEADER_KEY_ID,
                         parts.HEADER_CONTENT, "x"]),
        st.one_of(st.sampled_from(["1", "0.5", "nan", "store", "2026-11-23"]), TEXT), max_size=3,
    )  # fmt: skip
    payloads = st.one_of(otlp_messages().map(lambda m: bytes(m.SerializeToString())), st.binary(max_size=60))
    names = st.one_of(st.sampled_from(["0" * 32, "a" * 32, ""]), TEXT)

    def publish(example: tuple[str, bytes, dict[str, str]]) -> None:
        if not started:
            started.append(worker_of({"source": url, "visibility_seconds": 5.0}))
        key, payload, more = example
        try:
            key.encode()
        except UnicodeEncodeError:
            return  # no broker carries it
        transport.publish([parts.TraceMessage(key, payload + random.randbytes(2) * (not payload), more)])
        until = time.monotonic() + _DRAIN
        while transport.lag() or transport._group.leases:
            if time.monotonic() > until:
                raise AssertionError(f"a message is neither done nor dead: {transport._group.leases}")
            time.sleep(0.005)

    yield "worker: messages", (st.tuples(names, payloads, headers), publish, ())


SPAN_GROUPS = (span_file_targets, setting_file_targets, message_targets)
