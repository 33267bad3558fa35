"""The tools that get the scores beside the traces: Phoenix, MLflow and Langfuse, as the settings name them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from ragtrace.settings import Settings
from ragtrace.startup.requirements import require
from ragtrace.text.sanitizer import Sanitizer

if TYPE_CHECKING:
    from ragtrace.delivery.score_delivery import Backend, ScoreDelivery

_BACKENDS: Mapping[str, tuple[str, str]] = {
    "phoenix_url": ("ragtrace_phoenix", "PhoenixAnnotations"),
}
"""Module and class by setting."""


def open_deliveries(settings: Settings, sanitizer: Sanitizer) -> tuple[ScoreDelivery, ...]:
    """A delivery to each backend that the settings name. Each is a sink, and has its own thread and queue.

    Raises SettingError for an invalid URL, and MissingExtraError without the package `requests`.
    """
    return tuple(_open(setting, settings, sanitizer) for setting in _BACKENDS if getattr(settings, setting))


def _open(setting: str, settings: Settings, sanitizer: Sanitizer) -> ScoreDelivery:
    require("requests", "otlp", setting)
    from ragtrace.delivery.score_delivery import ScoreDelivery

    module, name = _BACKENDS[setting]
    backend: Callable[[str], Backend] = getattr(import_module(module), name)
    return ScoreDelivery(backend(getattr(settings, setting)), sanitizer=sanitizer, explanations=settings.explanations)
