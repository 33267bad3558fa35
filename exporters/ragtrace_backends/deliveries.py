"""The tools that get the scores beside the traces: Phoenix, MLflow and Langfuse, as the settings name them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragtrace.settings import Settings
    from ragtrace.text.sanitizer import Sanitizer
    from ragtrace_backends.person_labels import PersonLabel, StoredRequest
    from ragtrace_backends.score_delivery import Backend, ScoreDelivery

_BACKENDS: Mapping[str, tuple[str, str]] = {
    "phoenix_url": ("ragtrace_backends.phoenix", "PhoenixAnnotations"),
    "mlflow_url": ("ragtrace_backends.mlflow", "MlflowAssessments"),
    "langfuse_url": ("ragtrace_backends.langfuse", "LangfuseScores"),
}
"""Module and class by setting."""


def open_deliveries(settings: Settings, sanitizer: Sanitizer) -> tuple[ScoreDelivery, ...]:
    """A delivery to each backend that the settings name. Each is a sink, and has its own thread and queue.

    Raises SettingError for an invalid URL, and MissingExtraError without the package `requests`."""
    return tuple(_open(setting, settings, sanitizer) for setting in _BACKENDS if getattr(settings, setting))


def _open(setting: str, settings: Settings, sanitizer: Sanitizer) -> ScoreDelivery:
    from ragtrace.errors import require

    require("requests", "otlp", setting)
    from ragtrace_backends.annotations import AnnotationForm
    from ragtrace_backends.score_delivery import ScoreDelivery

    module, name = _BACKENDS[setting]
    backend: Callable[[str], Backend] = getattr(import_module(module), name)
    form = AnnotationForm(sanitizer, settings.explanations)
    return ScoreDelivery(backend(getattr(settings, setting)), form)


def read_labels(tool: str, requests: Sequence[StoredRequest]) -> Iterator[PersonLabel]:
    """What people said of these requests in `phoenix`, `mlflow` or `langfuse`: in the server that the setting names, or
    without it in the one that the environment of the tool's own client names.

    Raises SettingError without a server, and BackendError where it does not answer."""
    from ragtrace.errors import require
    from ragtrace.settings import load

    setting = f"{tool}_url"
    require("requests", "otlp", setting)
    module = import_module(_BACKENDS[setting][0])
    labels: Iterator[PersonLabel] = module.read_labels(module.make_client(getattr(load(), setting) or "env"), requests)
    return labels
