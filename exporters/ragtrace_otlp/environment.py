"""Reads OpenTelemetry's environment variables as the SDK reads them: docs/opentelemetry.md lists them.

The SDK's own classes read most of them: `Resource`, `TracerProvider`, the batch processors and the exporters do so
where an argument is None. Only the choice of exporters, of samplers and of id generators is in a private module of the
SDK, and is made here from the same entry points. A wrong value in the environment is logged and never raised, because
it may be meant for another library."""

import logging
import os
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any, Literal
from urllib.parse import urlsplit

from opentelemetry.sdk.resources import Resource

from ragtrace.errors import MissingExtraError
from ragtrace_otlp.span_encoder import use_encoder

Signal = Literal["traces", "logs"]
DEFAULTSERVICE, DEFAULT_ENV = "rag", "dev"
_log = logging.getLogger(__name__)
SERVICE, _ENV, _PROJECT = "service.name", "deployment.environment.name", "openinference.project.name"
_OLD_ENV = "deployment.environment"
"""The name that semantic conventions before 1.27 have for `_ENV`."""
_GRPC, _HTTP = "otlp_proto_grpc", "otlp_proto_http"
_PROTOCOLS = {"grpc": _GRPC, "http/protobuf": _HTTP}
_GRPC_PORT = 4317
_SAMPLERS = frozenset(
    f"{parent}{name}" for parent in ("", "parentbased_") for name in ("always_on", "always_off", "traceidratio")
)
"""Samplers that `TracerProvider` itself takes from the environment."""


def names_of(resource: Any) -> tuple[str, str]:
    """The service's name and its environment in a resource; empty where it has none, or the SDK's `unknown_service`."""
    attributes: Mapping[str, Any] = getattr(resource, "attributes", None) or {}
    app, env = str(attributes.get(SERVICE) or ""), attributes.get(_ENV) or attributes.get(_OLD_ENV)
    return "" if app.startswith("unknown_service") else app, str(env or "")


def make_resource(app: str, env: str) -> Resource:
    """The resource of ragtrace's own providers: `app` and `env` where they are not empty, else what
    OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say, else the defaults."""
    settings = {SERVICE: app, _PROJECT: app, _ENV: env}
    resource = Resource.create({name: value for name, value in settings.items() if value})
    app, env = names_of(resource)
    missing = {SERVICE: app or DEFAULTSERVICE, _ENV: env or DEFAULT_ENV}
    missing[_PROJECT] = str(resource.attributes.get(_PROJECT) or missing[SERVICE])
    return resource.merge(Resource(missing))


def make_sampler() -> Any:
    """The sampler of OTEL_TRACES_SAMPLER if a package provides it; None lets the provider read the variable."""
    if _value("OTEL_TRACES_SAMPLER").lower() in _SAMPLERS:
        return None
    return _component("OTEL_TRACES_SAMPLER", "opentelemetry_traces_sampler", os.environ.get("OTEL_TRACES_SAMPLER_ARG"))


def make_id_generator() -> Any:
    """The generator of OTEL_PYTHON_ID_GENERATOR; None lets the provider make its own."""
    return _component("OTEL_PYTHON_ID_GENERATOR", "opentelemetry_id_generator")


def make_exporters(signal: Signal, endpoint: str = "") -> list[Any]:
    """The exporters of a signal: one to the endpoint, or without one those that the environment names.

    Raises MissingExtraError where the package of the endpoint's exporter is not installed."""
    if _value("OTEL_SDK_DISABLED").lower() == "true":  # the SDK's providers record nothing
        return []
    exporters = []
    for name in ["otlp"] if endpoint else _exporter_names(signal):
        try:
            exporters.append(
                _otlp(signal, endpoint) if name == "otlp" else _load(f"opentelemetry_{signal}_exporter", name)()
            )
        except Exception as error:
            if endpoint and isinstance(error, MissingExtraError):
                raise
            _log.warning(
                "ragtrace: %s are not exported by %r, which OpenTelemetry's environment variables ask for: %s; correct "
                "OTEL_%s_EXPORTER or OTEL_EXPORTER_OTLP_*", {"traces": "spans", "logs": "events"}[signal], name,
                error, signal.upper(),
            )  # fmt: skip
    return exporters


def _exporter_names(signal: Signal) -> list[str]:
    """The names in OTEL_<SIGNAL>_EXPORTER. Where it is unset, `otlp` if there is an endpoint: without this library's
    exporters nobody would ask for one."""
    names = _value(f"OTEL_{signal.upper()}_EXPORTER")
    if not names:
        return ["otlp"] if _of_otlp("ENDPOINT", signal) else []
    return [name for part in names.split(",") if (name := part.strip()) and name.lower() != "none"]


def asks_for_logs() -> bool:
    """Whether a variable for logs asks for them; the endpoint for all signals does not."""
    return not is_off("logs") and bool(_value("OTEL_LOGS_EXPORTER") or _value("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT"))


def is_off(signal: Signal) -> bool:
    """Whether OTEL_<SIGNAL>_EXPORTER is `none`."""
    return _value(f"OTEL_{signal.upper()}_EXPORTER").lower() == "none"


def _otlp(signal: Signal, own_endpoint: str) -> Any:
    """The exporter to an endpoint of the application's code, or without one to that of the environment."""
    endpoint = own_endpoint or _of_otlp("ENDPOINT", signal)
    protocol = _protocol(signal, endpoint)
    options: dict[str, Any] = {}
    if endpoint and protocol != "grpc" and "://" not in endpoint:
        raise ValueError(f"the endpoint {endpoint!r} does not begin with http:// or https://")
    if own_endpoint and protocol == "grpc":
        options |= {"endpoint": endpoint, "insecure": _is_insecure(endpoint, signal)}
    elif own_endpoint:
        base = endpoint.rstrip("/").removesuffix("/v1/traces")
        options["endpoint"] = f"{base}/v1/{signal}"
    try:
        kind = _load(f"opentelemetry_{signal}_exporter", _PROTOCOLS[protocol])
        prefix = "OTEL_PYTHON_EXPORTER_OTLP_HTTP"  # variables that name a package which makes the exporter's session
        providers = (f"{prefix}_CREDENTIAL_PROVIDER", f"{prefix}_{signal.upper()}_CREDENTIAL_PROVIDER")
        if protocol != "grpc" and not any(name in os.environ for name in providers):
            from ragtrace_backends.http_session import BoundedSession
            from ragtrace_otlp.batch import note_refused

            options["session"] = session = BoundedSession(only_collectors=True)
            session.note_body = note_refused
        exporter = kind(**options)
    except (ModuleNotFoundError, LookupError) as error:
        raise MissingExtraError(
            f"opentelemetry-exporter-{_PROTOCOLS[protocol].replace('_', '-')}",
            "otlp",
            f"Exporting over OTLP ({protocol})",
        ) from error
    return use_encoder(exporter) if signal == "traces" else exporter


def _protocol(signal: Signal, endpoint: str) -> str:
    """The protocol of the environment, else the one that is usual on the endpoint's port."""
    protocol = _of_otlp("PROTOCOL", signal)
    if protocol and protocol not in _PROTOCOLS:
        _log.warning(
            "ragtrace: OTEL_EXPORTER_OTLP_PROTOCOL is %r, which is ignored; give http/protobuf or grpc", protocol
        )
    if protocol in _PROTOCOLS:
        return protocol
    try:
        return "grpc" if not endpoint or urlsplit(endpoint).port == _GRPC_PORT else "http/protobuf"
    except ValueError:
        return "http/protobuf"


def _is_insecure(endpoint: str, signal: Signal) -> bool | None:
    """False for https and True for http. An endpoint without a scheme is insecure unless the environment decides."""
    if "://" in endpoint:
        return not endpoint.startswith("https://")
    return None if _of_otlp("INSECURE", signal) else True


def _of_otlp(name: str, signal: Signal) -> str:
    """OTEL_EXPORTER_OTLP_<SIGNAL>_<NAME>, or OTEL_EXPORTER_OTLP_<NAME> where it is unset."""
    return _value(f"OTEL_EXPORTER_OTLP_{signal.upper()}_{name}") or _value(f"OTEL_EXPORTER_OTLP_{name}")


def _value(variable: str) -> str:
    return os.environ.get(variable, "").strip()


def _load(group: str, name: str) -> Any:
    """The class behind an entry point. Raises LookupError for a name that no package provides."""
    points = tuple(entry_points(group=group, name=name))
    if not points:
        raise LookupError("no installed package provides it")
    return points[0].load()


def _component(variable: str, group: str, *arguments: Any) -> Any:
    """What a package provides under the name in the variable; None where it is unset and, with a warning, where that
    fails."""
    name = _value(variable)
    try:
        return _load(group, name)(*arguments) if name else None
    except Exception as error:  # noqa: BLE001 as the SDK: a warning and the default
        _log.warning("ragtrace: %s is %r, which cannot be used: %s; the default is used instead", variable, name, error)
        return None


def as_one(exporters: Sequence[Any]) -> Any:
    """One exporter for all of them; there is at least one."""
    return exporters[0] if len(exporters) == 1 else _Several(exporters)


class _Several:
    """Exporters as one. A batch is exported where all of them exported it."""

    def __init__(self, exporters: Sequence[Any]) -> None:
        self._exporters = exporters

    def export(self, batch: Sequence[Any]) -> Any:
        """Export the batch with each; the result of the first one that failed, else of the last."""
        results = [exporter.export(batch) for exporter in self._exporters]
        return next((result for result in results if getattr(result, "name", "SUCCESS") != "SUCCESS"), results[-1])

    def shutdown(self) -> None:
        """Shut all down."""
        for exporter in self._exporters:
            exporter.shutdown()
