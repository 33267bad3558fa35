"""The settings, and the loader that reads them.

Arguments (of `ragtrace.init` or of the command line) win over environment variables (RAGTRACE_<NAME>), these over
ragtrace.toml, and that over the defaults. The console, the review policy and the webhooks have tables of their own in
the same file: each is a `Section`."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ragtrace.settings.section import PREFIX, Section
from ragtrace.settings.value_forms import (
    FRAMEWORKS,
    check_address,
    check_endpoint,
    check_frameworks,
    check_ledger,
    check_models,
    check_regions,
    evaluator_shares,
    prices,
)

__all__ = [
    "PHONE_REGIONS", "PREFIX", "Settings", "describe", "evaluator_settings", "evaluator_shares", "for_evaluators",
    "is_enabled", "load", "only", "prices",
]  # fmt: skip
PHONE_REGIONS = tuple("US GB DE FR ES IT NL BE AT CH PT PL SE IE AU BR MX IN CN JP".split())  # noqa: SIM905 read at once
"""The default of `phone_regions`."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be set. Durations are in seconds, sizes in bytes."""

    enabled: bool = True
    """Whether ragtrace runs. With false nothing is instrumented, evaluated or sent, and every call still works."""
    app: str = ""
    """Name of the application: `service.name` and the label `app`. Empty for the `service.name` of the application's
    TracerProvider, OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES, and `rag` without these."""
    env: str = ""
    """Deployment environment: `deployment.environment.name` and the label `env`. Empty for the one in the same
    resource, and `dev` without it."""

    evaluators: tuple[Any, ...] = ()
    """Names, entry points or `module:attribute`; empty for the default suite. `{name = NAME, sample = SHARE}`, or as
    text `NAME=SHARE`, has an evaluator evaluate this share (above 0, at most 1) of the requests that are evaluated:
    `["toxicity", {name = "faithfulness_judge", sample = 0.01}]` in the file and in code, and in the environment
    `RAGTRACE_EVALUATORS=toxicity,faithfulness_judge=0.01`."""
    sample: float = 1.0
    """Share of the requests that is evaluated, before the rate limit. Requests that ended in an error all are."""
    sample_per_second: float = 1.0
    """Requests evaluated a second on average at most; 0 for no limit."""
    sample_slower_than: float = 0.0
    """Evaluate every request that took this long; 0 for none."""
    head_sample: float = 1.0
    """Share of the requests whose spans reach ragtrace, where it reads the spans of others (`source`, the worker) or
    publishes spans (`transport`), and a sampler before it leaves requests out: the ratio of `TraceIdRatioBased`.
    Scores are weighted by it. A sampler that states its threshold in the tracestate (`ot=th`) is read from there. See
    [statistics.md](statistics.md#behind-a-head-sampler)."""

    capture_content: str = ""
    """Queries, chunks and answers on exported spans: true, false, or a mode of
    OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT, which is asked when this is empty."""
    capture_tags: tuple[str, ...] = ()
    """Keys of the application's metadata that go out as `ragtrace.tag.<key>`."""
    explanations: bool = False
    """Explanations of scores on spans and events; they may quote the answer."""
    redact: str = ""
    """How every text that leaves the process is redacted: content, exceptions, explanations, ids, tags, metadata and
    names. `off`, `pii`, `names`, `hash`, `metadata_only`, or `module:attribute` of a function from text to text; see
    [privacy.md](privacy.md). Evaluators read the unmasked texts, the judge does not (`judge_redact`)."""
    redact_others: bool = False
    """Treat other libraries' spans in the application's own provider as in one that `init` makes, too."""
    redact_key: str = ""
    """Name of the environment variable, or of the file, that holds a key of 16 characters or more. With it the ids of
    users and sessions leave as keyed hashes in every mode; `hash` needs it."""
    openinference: bool = False
    """OpenInference's attributes beside OpenTelemetry's, on spans and for scores. With `phoenix_url` it is true."""

    source: str = "auto"
    """Where requests come from: `callbacks` of the frameworks; `spans` that OpenInference, OpenLLMetry, OpenTelemetry's
    own instrumentation, Langfuse or the application itself records; `auto` for callbacks, and for the spans of other
    libraries where ragtrace does not trace itself. See [other-tracers.md](other-tracers.md)."""
    frameworks: tuple[str, ...] = FRAMEWORKS
    """The frameworks whose callbacks are instrumented, where they are installed: `langchain`, `llama_index`."""

    otlp_endpoint: str = ""
    """Where spans and events go. Empty for the application's TracerProvider, and without one for what
    [OpenTelemetry's environment variables](opentelemetry.md) say."""
    transport: str = ""
    """Address of a broker, e.g. `nats://localhost:4222/ragtrace`: sampled requests are published there, and workers
    evaluate them instead of this process. See [transports.md](transports.md)."""
    transport_privacy: str = "inline"
    """How traces are in the broker: as they are (`inline`), encrypted with AES-256-GCM (`sealed`), which needs
    `transport_keys`, or by their ids alone (`claim_check`), with their texts in `store`."""
    transport_keys: str = ""
    """Name of the file, or of the environment variable, with the keys of sealed traces, one for each day, as
    `ragtrace transport-keys` makes them: for applications that seal and for workers that read."""
    spans_file: str = ""
    """A file that gets every span as a line of JSON, beside an endpoint or without one."""
    phoenix_url: str = ""
    """A Phoenix server that gets the scores as annotations of the spans, e.g. `http://localhost:6006`; `env` for
    PHOENIX_COLLECTOR_ENDPOINT. Its key is read from PHOENIX_API_KEY or PHOENIX_CLIENT_HEADERS. See
    [backends.md](backends.md)."""
    mlflow_url: str = ""
    """An MLflow server that gets the scores as assessments of the traces that it received over OTLP, e.g.
    `http://localhost:5000`; `env` for MLFLOW_TRACKING_URI. Its credentials are read from MLFLOW_TRACKING_TOKEN, or
    MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD."""
    langfuse_url: str = ""
    """A Langfuse server that gets the scores as scores of the traces, e.g. `https://cloud.langfuse.com`; `env` for
    LANGFUSE_BASE_URL or LANGFUSE_HOST. Its keys are read from LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY."""
    report_file: str = ""
    """A file that gets one line of JSON for each evaluation, for `ragtrace report`: time, app, env, model, prompt
    version, trace id, and of each score name, value, label, error, version, method, cost, failures and sampling
    probability; no texts. With the file before it, `<name>.1`, it takes 64 MiB at most."""
    calibration_file: str = ""
    """A file with thresholds that people's verdicts have set, as `ragtrace calibrate` writes it; it is looked at every
    few seconds, and need not be there yet. Scores under it have a version like `3+c2`."""
    prometheus_port: int = -1
    """Port of /metrics; 0 for any free one, -1 for none."""
    prometheus_host: str = "127.0.0.1"
    """Address that /metrics listens on."""
    model_prices: tuple[str, ...] = ()
    """What models cost in US dollars for a million tokens: items `model=INPUT/OUTPUT`, or with cached tokens
    `model=INPUT/OUTPUT/CACHE_READ/CACHE_WRITE`, e.g. `gpt-4o-mini=0.15/0.60/0.075/0.15`. Other models have litellm's
    prices, where it is installed. The judge's model must have one; `0/0` says that it is free."""

    hold_seconds: float = 20.0
    """How long a sampled request's root span is held back for its scores, counted from when the evaluators have loaded
    their models."""

    queue_items: int = 2_000
    """Requests that wait for evaluation at most; a further one is dropped and counted."""
    workers: int = 1
    """Threads that evaluate. Each has a child process for the evaluators with an importable name (built in, entry
    point, `module:attribute`), so that the application neither waits for them nor ends with one that crashes.
    Evaluators given as objects run in the thread. With 0 all run in one thread of the application."""
    exit_seconds: float = 5.0
    """How long a process that ends may still evaluate what waits, counted from when the evaluators have loaded their
    models. After a SIGTERM it counts at once."""

    models: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Models in place of the embedded ones, by kind, each by name or folder: `embedding`, `toxicity`, `entailment`,
    `similarity`, `pii`, `likelihood`. See [models/named.md](models/named.md)."""
    phone_regions: tuple[str, ...] = PHONE_REGIONS
    """Regions (ISO 3166, e.g. `DE`) whose national phone numbers `pii_leakage` and `contact_information` recognise by
    their form. Numbers beside a word like "phone", and international ones, are recognised in any case."""
    public_contacts: tuple[str, ...] = ()
    """Domains (`acme.com`, with all its addresses), e-mail addresses, phone numbers and postal addresses that anybody
    may know: `pii_leakage` and `contact_information` never fail for them. Numbers may be written in any way."""
    leaks_from_context: tuple[str, ...] = ()
    """Kinds of data that an answer may repeat from its chunks, e.g. `email`, `phone`; `personal` for all personal data,
    `secret` for all secrets. What is not in the chunks comes from the model and always fails."""

    judge_model: str = ""
    """The LLM that judges, as litellm names it, e.g. `openai/gpt-4o-mini`; empty for none."""
    judge_api_base: str = ""
    """Where an OpenAI-compatible server of your own answers, e.g. `http://localhost:8000/v1`."""
    judge_timeout: float = 30.0
    """How long one request to the judge may take."""
    judge_concurrency: int = 8
    """Requests to the judge at the same time."""
    judge_max_tokens: int = 1_024
    """Tokens that the judge may answer with."""
    judge_redact: str = ""
    """How the texts that the judge reads are redacted: a mode of `redact`, `module:attribute`, or `off` for a server
    of your own; empty for the same as `redact`."""
    judge_budget_hour: float = 1.0
    """US dollars that the judge may spend in an hour, by the clock; it is never exceeded."""
    judge_budget_day: float = 10.0
    """US dollars that the judge may spend in a day (UTC)."""
    judge_store: str = ""
    """A file (SQLite) with the judge's answers and spending, for all processes that name it; empty to keep answers in
    each process that evaluates."""
    judge_ledger: str = ""
    """Where the judge's spending alone is counted, for all processes that name it: a file (SQLite), or for many
    machines a Redis server, `redis://USER:PASSWORD@HOST:PORT/DATABASE#BUDGET`. While the server does not answer, the
    judge is not asked. Empty for judge_store, or without it for a file of `init`'s own, which is removed at the end.
    See [judge.md](judge.md#one-budget-for-many-machines)."""
    judge_prompt: str = ""
    """The prompt of the evaluator `judge`, with {question} {expected_answer} {context} {actual_answer}, answered with
    true or false."""
    g_eval_criteria: str = "Is the answer correct, complete, coherent and to the point?"
    """What the evaluator `g_eval` looks at."""

    store: str = ""
    """Where sampled evaluations are kept with their texts, for people to review: a file (SQLite) or
    `postgresql://USER:PASSWORD@HOST/NAME`; empty for nowhere. See [chatlogs.md](chatlogs.md)."""
    store_key: str = ""
    """Name of the environment variable, or of the file, that holds the key with which the store's content is encrypted:
    32 bytes in base64, of several keys the newest first; empty for a store that is not encrypted."""
    store_days: float = 90.0
    """Requests older than this are removed from the store; 0 for none."""
    store_bytes: int = 0
    """Bytes that the store may take: above them its oldest requests are removed; 0 for as many as there come."""

    def model(self, kind: str) -> str:
        """The model of this kind that `models` names; empty for the embedded one."""
        return self.models.get(kind, "")


_CHOICES: Mapping[str, tuple[str, ...]] = {
    "source": ("auto", "callbacks", "spans"),
    "transport_privacy": ("inline", "sealed", "claim_check"),
}
_BOUNDS: Mapping[str, tuple[float, float]] = {
    "sample": (0.0, 1.0), "sample_per_second": (0.0, float("inf")), "head_sample": (1e-9, 1.0),
    "sample_slower_than": (0.0, float("inf")), "prometheus_port": (-1, 65_535), "hold_seconds": (0.0, 3_600.0),
    "queue_items": (1, 10_000_000), "workers": (0, 64), "exit_seconds": (0.0, 600.0), "judge_timeout": (0.1, 3_600.0),
    "judge_concurrency": (1, 1_000), "judge_max_tokens": (1, 1_000_000), "judge_budget_hour": (0.0, float("inf")),
    "judge_budget_day": (0.0, float("inf")), "store_days": (0.0, 36_500.0), "store_bytes": (0, float("inf")),
}  # fmt: skip


_SECTION = Section(
    Settings, table="", prefix=PREFIX, choices=_CHOICES, bounds=_BOUNDS,
    checks={
        "evaluators": evaluator_shares, "models": check_models, "model_prices": prices, "phone_regions": check_regions,
        "frameworks": check_frameworks, "judge_ledger": check_ledger, "judge_api_base": check_address,
        "otlp_endpoint": check_endpoint, "transport": check_address,
    },
    foreign=("RAGTRACE_CONSOLE_", "RAGTRACE_WORKER_", "RAGTRACE_CONFIG"),
)  # fmt: skip


def load(
    arguments: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    file: str | os.PathLike[str] | None = None,
) -> Settings:
    """The settings of evaluation; see `Section.load`."""
    settings = _SECTION.load(arguments, environ, file)
    return replace(settings, openinference=True) if settings.phoenix_url else settings


_OF_EVALUATORS = (
    "models", "phone_regions", "public_contacts", "leaks_from_context",
    "judge_", "model_prices", "redact", "g_eval_",
)  # fmt: skip


def only(settings: Settings, beginnings: str | tuple[str, ...]) -> Settings:
    """The settings whose names begin so; the others have their defaults."""
    return Settings(**{f.name: getattr(settings, f.name) for f in fields(Settings) if f.name.startswith(beginnings)})


def evaluator_settings(settings: Settings) -> Settings:
    """The settings that evaluators use; the others have their defaults."""
    return only(settings, _OF_EVALUATORS)


def for_evaluators(settings: Settings) -> dict[str, str]:
    """The settings that evaluators use, as environment variables: a process that evaluates gets them so."""
    names = (f.name for f in fields(Settings) if f.name.startswith(_OF_EVALUATORS))
    return {PREFIX + name.upper(): _as_text(getattr(settings, name)) for name in names}


def _as_text(value: Any) -> str:
    if isinstance(value, Mapping):
        return json.dumps(dict(value))
    return ",".join(value) if isinstance(value, tuple) else str(value)


def describe() -> list[tuple[str, Any]]:
    """Every setting with its default."""
    return [(f.name, getattr(Settings(), f.name)) for f in fields(Settings)]


def is_enabled() -> bool:
    """Whether RAGTRACE_ENABLED lets ragtrace run, for what starts without `ragtrace.init`. Never raises."""
    return os.environ.get(PREFIX + "ENABLED", "true").strip().lower() not in ("false", "0", "no", "off")
