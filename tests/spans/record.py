"""Records the golden spans: each library's current release traces the applications of `applications.py`.

    python -m tests.spans.record [--environments FOLDER] [--library NAME]

writes `tests/spans/golden/<framework>-<library>.json`. Each library has an environment below FOLDER, as several
of them use one module path; one that is there is used as it is.
"""

import argparse
import contextvars
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tests.row_files import table

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "golden"
FRAMEWORKS: dict[str, list[str]] = table(__file__, "frameworks")
PACKAGES: dict[str, list[str]] = table(__file__, "packages")
INSTRUMENTORS: dict[str, dict[str, str]] = table(__file__, "instrumentors")
"""By library and framework."""
SWITCHES: dict[str, str] = table(__file__, "switches")
"""Texts are switched on wherever a library has a switch."""
_SDK = ("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-common")
_CUT = 6_000
"""Characters of an attribute that are kept: golden files are read by people."""


def wishes_of(library: str) -> Any:
    """How a library is told who asks."""
    from tests.spans.applications import SESSION, TAG, USER, Wishes

    who = {"session_id": SESSION, "user_id": USER}
    config: dict[str, Any] = {"metadata": who, "tags": [TAG]}
    if library == "openinference":
        from openinference.instrumentation import using_attributes

        return Wishes(config, lambda: using_attributes(**who, tags=[TAG]))
    if library == "langfuse":
        from langfuse import propagate_attributes
        from langfuse.langchain import CallbackHandler
        from langfuse.openai import OpenAI

        context = lambda: propagate_attributes(**who, tags=[TAG])  # noqa: E731
        return Wishes({**config, "callbacks": [CallbackHandler()]}, context, OpenAI)
    if library == "mlflow":
        from mlflow.tracing import context as mlflow_context

        return Wishes(config, lambda: mlflow_context(session_id=SESSION, user=USER))
    if library == "traceloop":
        return Wishes(config, lambda: _association(who))
    return Wishes(config)


@contextmanager
def _association(values: dict[str, str]) -> Iterator[None]:
    """As `Traceloop.set_association_properties` of its SDK does."""
    from opentelemetry import context

    token = context.attach(context.set_value("association_properties", values))
    yield
    context.detach(token)


def record(framework: str, library: str) -> dict[str, Any]:
    """The spans of all cases, by case. Runs in the library's environment."""
    from tests.spans import model_server
    from tests.spans.applications import CASES

    os.environ.update(SWITCHES)
    base, cases = model_server.start(), {}
    with (_mlflow if library == "mlflow" else _provider)(framework, library) as spans:
        wishes = wishes_of(library)
        for name, case in CASES[framework].items():
            with suppress(Exception):  # the case `error` raises
                contextvars.copy_context().run(case, base, wishes)  # a context that a library leaves behind ends here
            time.sleep(0.5)  # some libraries end spans on a thread of theirs
            cases[name] = spans_of_message(spans(), base)
    return {"versions": versions(*PACKAGES[library], *FRAMEWORKS[framework]), "cases": cases}


@contextmanager
def _provider(framework: str, library: str) -> Iterator[Callable[[], Any]]:
    """Gives the spans since the last call, as an OTLP message."""
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

    from tests.otlp.receivers import recording

    provider, exporter = recording()
    trace.set_tracer_provider(provider)
    if library == "langfuse":
        from langfuse import Langfuse

        # Port 9 discards: its own exporter must reach nobody.
        Langfuse(public_key="pk", secret_key="sk", host="http://127.0.0.1:9", tracer_provider=provider)
    else:
        module, _, name = INSTRUMENTORS[library][framework].partition(":")
        getattr(importlib.import_module(module), name)().instrument(tracer_provider=provider)

    def spans() -> Any:
        message = encode_spans(exporter.get_finished_spans())
        exporter.clear()
        return message

    yield spans


@contextmanager
def _mlflow(framework: str, library: str) -> Iterator[Callable[[], Any]]:
    """The same as MLflow sends them: it adds its tags on the way out."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    from tests.otlp.receivers import http_server

    with http_server() as (url, received):
        os.environ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] = f"{url}/v1/traces"
        os.environ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"] = "http/protobuf"
        from mlflow.tracing.provider import provider

        importlib.import_module(INSTRUMENTORS[library][framework]).autolog()

        def spans() -> Any:
            provider.get().force_flush()
            message, received.traces = received.traces, ExportTraceServiceRequest()
            return message

        yield spans


def spans_of_message(message: Any, base: str) -> list[dict[str, Any]]:
    """The spans of an OTLP message as plain values."""
    from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

    def values(attributes: Any) -> dict[str, Any]:
        return {a.key: _plain(_value(a.value), base) for a in attributes}

    return [
        {
            "name": span.name, "trace_id": span.trace_id.hex(), "span_id": span.span_id.hex(),
            "parent_id": span.parent_span_id.hex() or None, "scope": scope.scope.name,
            "kind": Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
            "start": span.start_time_unix_nano, "end": span.end_time_unix_nano,
            "status": Status.StatusCode.Name(span.status.code).removeprefix("STATUS_CODE_"),
            "attributes": values(span.attributes),
            "events": [
                {"name": e.name, "time": e.time_unix_nano, "attributes": values(e.attributes)} for e in span.events
            ],
        }
        for resource in message.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]  # fmt: skip


def _value(value: Any) -> Any:
    """The value of an attribute on the wire."""
    if value.WhichOneof("value") == "array_value":
        return [_value(item) for item in value.array_value.values]
    return getattr(value, value.WhichOneof("value") or "string_value")


def _plain(value: Any, base: str) -> Any:
    """A value without the server's port, which is another one each time."""
    port = base.rpartition(":")[2].removesuffix("/v1")
    if isinstance(value, str):
        return value[:_CUT].replace(f":{port}", ":80")
    if isinstance(value, (list, tuple)):
        return [_plain(item, base) for item in value][:20]
    return 80 if str(value) == port else value


def versions(*names: str) -> dict[str, str]:
    """Releases of what took part."""
    releases = {}
    for name in (each.partition("<")[0] for each in names):
        with suppress(PackageNotFoundError):
            releases[name] = version(name)
    return releases


def interpreter(home: Path, *packages: str) -> str:
    """The interpreter of an environment, which is made where it is not there."""
    python = home / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *_SDK, *packages], check=False)
    return str(python)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environments", type=Path, default=Path(tempfile.gettempdir()) / "ragtrace-golden")
    parser.add_argument("--library", choices=sorted(PACKAGES))
    parser.add_argument("--inside", help=argparse.SUPPRESS)  # the framework, in the library's own environment
    options = parser.parse_args()
    if options.inside:
        print("golden:" + json.dumps(record(options.inside, options.library)))
        return
    for library, framework in ((library, each) for library, some in INSTRUMENTORS.items() for each in some):
        if options.library in (None, library):
            frameworks = [package for packages in FRAMEWORKS.values() for package in packages]
            python = interpreter(options.environments / library, *frameworks, *PACKAGES[library])
            command = [python, "-W", "ignore", "-m", "tests.spans.record", "--library", library]
            done = subprocess.run(
                [*command, "--inside", framework], cwd=ROOT, capture_output=True, text=True, check=False
            )
            lines = [line for line in done.stdout.splitlines() if line.startswith("golden:")]
            if not lines:
                sys.exit(f"{library} on {framework} does not run:\n{done.stderr[-3000:]}")
            golden = json.loads(lines[-1].removeprefix("golden:"))
            path = GOLDEN / f"{framework}-{library}.json"
            path.write_text(json.dumps(golden, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            print(path.name, {case: len(spans) for case, spans in golden["cases"].items()})


if __name__ == "__main__":
    main()
