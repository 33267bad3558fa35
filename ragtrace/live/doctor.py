"""Examines this environment: frameworks, models, exporters, settings, and whether the OTLP endpoint and the
server of the judge's shared budget answer."""

import importlib.metadata
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from ragtrace import calibrations
from ragtrace.errors import RagtraceError, SettingError, is_installed
from ragtrace.evaluate.privacy_modes import redact_texts
from ragtrace.live import requirements
from ragtrace.live.start_line import without_secrets
from ragtrace.live.telemetry_setup import DEFAULT_NAMES
from ragtrace.settings import Settings, evaluator_shares, load
from ragtrace.settings.value_forms import is_server
from ragtrace.text.sanitizer import Sanitizer
from ragtrace_backends.deliveries import open_deliveries


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. `state` is `ok`, `absent` (optional and not installed) or `wrong` (must be fixed)."""

    what: str
    state: str
    detail: str


_PACKAGES = (
    ("langchain-core", "langchain_core", "langchain"), ("llama-index-core", "llama_index", "llama-index"),
    ("opentelemetry-sdk", "opentelemetry.sdk", "otlp"),
    ("opentelemetry-exporter-otlp-proto-http", "opentelemetry.exporter.otlp.proto.http", "otlp"),
    ("opentelemetry-exporter-otlp-proto-grpc", "opentelemetry.exporter.otlp.proto.grpc", "otlp"),
    ("prometheus-client", "prometheus_client", "otlp"), ("onnxruntime", "onnxruntime", "models"),
    ("sentence-transformers", "sentence_transformers", "sentence-transformers"), ("litellm", "litellm", "judge"),
    ("sqlalchemy", "sqlalchemy", "store"), ("psycopg", "psycopg", "store"), ("redis", "redis", "brokers"),
    ("fastapi", "fastapi", "serve"), ("nats-py", "nats", "brokers"), ("confluent-kafka", "confluent_kafka", "brokers"),
)  # fmt: skip
_OTHERS = (
    "openinference-instrumentation-langchain", "openinference-instrumentation-llama-index",
    "opentelemetry-instrumentation-langchain", "opentelemetry-instrumentation-llamaindex",
    "opentelemetry-instrumentation-genai-langchain", "opentelemetry-instrumentation-genai-llama-index",
)  # fmt: skip


_DEAD_LETTERS = 100


def examine() -> list[Finding]:
    """Returns the results of all checks. Sends no data; connects to the OTLP endpoint, to the server of
    judge_ledger, and to the broker."""
    return [*_packages(), *_other_tracers(), *_models(), *_settings()]


def _packages() -> Iterator[Finding]:
    for distribution, module, extra in _PACKAGES:
        if is_installed(module):
            yield Finding(distribution, "ok", _version(distribution))
        else:
            yield Finding(
                distribution, "absent", f"is not installed; install it with: pip install 'ragtrace-otel[{extra}]'"
            )


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "is installed, version unknown"


def _other_tracers() -> Iterator[Finding]:
    for distribution in _OTHERS:
        try:
            version = importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
        detail = f"{version} is installed; while it is active, ragtrace evaluates its spans and records none itself"
        yield Finding(distribution, "ok", detail)


def _models() -> Iterator[Finding]:
    from ragtrace.evaluate.models import inventory

    for name, problem in inventory():
        if problem is None:
            yield Finding(f"model {name}", "ok", "is installed, with the expected checksum")
        else:
            state = "absent" if isinstance(problem, ImportError) else "wrong"
            yield Finding(f"model {name}", state, str(problem))


def _settings() -> Iterator[Finding]:
    from ragtrace import plugins

    try:
        settings = load()
    except SettingError as error:
        yield Finding("settings", "wrong", str(error))
        return
    app = settings.app or os.environ.get("OTEL_SERVICE_NAME") or DEFAULT_NAMES[0]
    env = settings.env or DEFAULT_NAMES[1]
    yield Finding("settings", "ok", f"app {app}, env {env}, sample {settings.sample:g}")
    checks = []
    for name, _ in evaluator_shares(settings.evaluators or plugins.DEFAULT_SUITE):
        try:
            checks.append(plugins.load(name))
        except RagtraceError as error:
            yield Finding(f"evaluator {name}", "wrong", str(error))
    # Those of the default suite step back.
    if settings.evaluators and (absent := requirements.missing(checks, settings)):
        yield Finding("evaluators", "wrong", requirements.explain(absent))
    yield from _refusals(settings)
    yield _endpoint(settings)
    if is_server(settings.judge_ledger) and not settings.judge_ledger.startswith("unix:"):
        yield _answers("judge_ledger", settings.judge_ledger, 6379, "until it does, the judge is not asked")
    # The worker's settings are above this folder; its variable is the one that its container has.
    if address := settings.transport or os.environ.get("RAGTRACE_WORKER_SOURCE", ""):
        yield _broker(address)
    if settings.transport_keys or settings.transport_privacy != "inline":
        yield _transport_keys(settings)


def _refusals(settings: Settings) -> Iterator[Finding]:
    """What `init` would refuse. Makes no file: it would belong to the user who asks."""
    for name in ("spans_file", "report_file", "judge_store", "store"):
        place = getattr(settings, name).removeprefix("sqlite:///")
        path = Path(place)
        if place and "://" not in place and not os.access(path if path.exists() else path.parent, os.W_OK):
            yield Finding(name, "wrong", f"{path} cannot be written; its folder must be there")
    checks: dict[str, Callable[[], object]] = {
        "redact": lambda: redact_texts(settings, None), "backends": lambda: open_deliveries(settings, Sanitizer()),
        "calibration_file": lambda: settings.calibration_file and calibrations.File(settings.calibration_file),
    }  # fmt: skip
    for name, check in checks.items():
        try:
            check()
        except RagtraceError as error:
            yield Finding(name, "wrong", str(error))


def _broker(address: str) -> Finding:
    """Whether the broker answers, and what no worker could evaluate. Makes the stream where it does not exist."""
    from ragtrace_brokers.address import parse_address
    from ragtrace_brokers.broker_adapters import open_transport
    from ragtrace_brokers.message import HEADER_REASON

    try:
        transport = open_transport(parse_address(address, "the broker's address"))
        try:
            letters = transport.dead_letters(_DEAD_LETTERS)
        finally:
            transport.close()
    except RagtraceError as error:
        return Finding("broker", "wrong", f"{error}; start the broker, or correct the address and its credentials")
    if not letters:
        return Finding("broker", "ok", f"{parse_address(address)} answers and has no dead letters")
    reasons = sorted({each.headers.get(HEADER_REASON, "").partition(":")[0] for each in letters})
    count = f"{len(letters)} or more" if len(letters) == _DEAD_LETTERS else str(len(letters))
    text = f"{parse_address(address)} has {count} dead letters ({', '.join(reasons)}); see `ragtrace dead-letters`"
    return Finding("broker", "wrong", text)


def _transport_keys(settings: Settings) -> Finding:
    """Whether there is a key to seal with today, and until when."""
    from ragtrace_brokers.key_file import COMMAND, today
    from ragtrace_brokers.seal import keys_to_publish, keys_to_read

    try:
        keys = keys_to_publish(settings) or keys_to_read(settings)
    except RagtraceError as error:
        return Finding("transport_keys", "wrong", str(error))
    days = keys.days if keys is not None else []
    text = f"has keys from {days[0]} to {days[-1]}"
    if today().isoformat() in days:
        return Finding("transport_keys", "ok", text)
    return Finding("transport_keys", "wrong", f"{text}, and none of today; run `{COMMAND}` every day")


def _endpoint(settings: Settings) -> Finding:
    variables = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    endpoint = settings.otlp_endpoint or next(filter(None, map(os.environ.get, variables)), "")
    if not endpoint:
        return Finding("OTLP endpoint", "absent", "is not configured; set otlp_endpoint or OTEL_EXPORTER_OTLP_ENDPOINT")
    protocols = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    is_grpc = next(filter(None, map(os.environ.get, protocols)), "") == "grpc"
    if "//" not in endpoint and not is_grpc:
        place = without_secrets(f"//{endpoint}").removeprefix("//")
        return Finding("OTLP endpoint", "wrong", f"{place} does not begin with http://")
    url, port = endpoint if "//" in endpoint else f"//{endpoint}", 4317 if is_grpc else 4318
    return _answers("OTLP endpoint", url, port, "start the collector or correct the endpoint")


def _answers(what: str, url: str, port: int, advice: str) -> Finding:
    """Whether a server accepts connections, at `port` where its address has none. Its password is not shown."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "localhost", parts.port or {"https": 443}.get(parts.scheme, port)
        with socket.create_connection((host, port), timeout=2.0):
            return Finding(what, "ok", f"{host}:{port} accepts connections")
    except (OSError, ValueError) as error:
        place = without_secrets(url).removeprefix("//")
        why = "it is no valid address" if isinstance(error, ValueError) and "@" in url else error
        return Finding(what, "wrong", f"{place} does not answer ({why}); {advice}")
