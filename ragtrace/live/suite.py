"""The evaluators that the settings name, with their shares; the default suite where they name none."""

import importlib.util
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ragtrace import plugins, sampling
from ragtrace.errors import SettingError
from ragtrace.evaluation import Evaluator
from ragtrace.settings import Settings, evaluator_shares

_log = logging.getLogger(__name__)
_WITHOUT_MODELS = "groundedness_lexical"
"""Replaces the evaluators by models if these are not installed."""


def make_suite(settings: Settings) -> list[Evaluator]:
    """The evaluators of the settings; none where requests are published to a broker.

    Raises SettingError for one that does not exist and for a name that is there twice."""
    if settings.transport:
        return []  # the workers behind the broker evaluate
    pairs = evaluator_shares(settings.evaluators)
    return _with_shares(pairs) if pairs else _default_suite()


def _with_shares(pairs: Sequence[tuple[Any, float]]) -> list[Evaluator]:
    for item, _ in pairs:
        if not isinstance(item, (str, Evaluator)):
            raise SettingError(f"evaluators has {item!r}, a {type(item).__name__}; give a name or an evaluator")
    checks = plugins.load_all(item for item, _ in pairs)
    return list(map(_with_share, checks, (share for _, share in pairs)))


def _with_share(check: Evaluator, share: float) -> Evaluator:
    """The evaluator for this share of the requests that it would evaluate otherwise."""
    if share == 1.0:
        return check
    own = sampling.share(share)
    return replace(check, sampler=own if check.sampler is None else sampling.all_of(check.sampler, own))


def _default_suite() -> list[Evaluator]:
    """The default evaluators that can run here: those by models only if the extra `models` is installed."""
    checks = [plugins.load(name) for name in plugins.DEFAULT_SUITE]
    if importlib.util.find_spec("onnxruntime") is not None:
        return checks
    left_out = [check.name for check in checks if check.method == "model"]
    _log.warning(
        "ragtrace: without the extra `models` these evaluators do not run: %s; %s does in their place. "
        "Install it with: pip install 'ragtrace-otel[models]'", ", ".join(left_out), _WITHOUT_MODELS,
    )  # fmt: skip
    return [*(check for check in checks if check.method != "model"), plugins.load(_WITHOUT_MODELS)]
