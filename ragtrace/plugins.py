"""From a name to the evaluator: built in, by entry point, or `module:attribute`."""

from __future__ import annotations

import difflib
import importlib
import importlib.metadata
from typing import Any

from ragtrace.errors import SettingError
from ragtrace.evaluation import Evaluator, evaluator

GROUP = "ragtrace.evaluators"
"""Entry point group for evaluators of other distributions."""

_HERE = "ragtrace.evaluators"
BUILT_IN: dict[str, str] = {
    "answer_correctness": f"{_HERE}.references:answer_correctness",
    "answer_relevance": f"{_HERE}.embedding:answer_relevance",
    "answer_relevance_max": f"{_HERE}.embedding:answer_relevance_max",
    "contact_information": f"{_HERE}.privacy:contact_information",
    "context_contradiction": f"{_HERE}.grounding:context_contradiction",
    "context_entities_recall": f"{_HERE}.entities:context_entities_recall",
    "context_precision": f"{_HERE}.references:context_precision",
    "context_recall": f"{_HERE}.grounding:context_recall",
    "context_relevancy_precision": f"{_HERE}.embedding:context_relevancy_precision",
    "context_relevancy_recall": f"{_HERE}.embedding:context_relevancy_recall",
    "fairness_bias": f"{_HERE}.safety:fairness_bias",
    "faithfulness": f"{_HERE}.grounding:faithfulness",
    "groundedness": f"{_HERE}.grounding:groundedness",
    "groundedness_cosine": f"{_HERE}.embedding:groundedness_cosine",
    "hallucination": f"{_HERE}.grounding:hallucination",
    "hallucination_cross_encoder": f"{_HERE}.grounding:hallucination_cross_encoder",
    "language_mismatch": f"{_HERE}.language:language_mismatch",
    "looping_compression_ratio": f"{_HERE}.text:looping_compression_ratio",
    "looping_repeated_ngrams": f"{_HERE}.text:looping_repeated_ngrams",
    "looping_repeated_substring": f"{_HERE}.text:looping_repeated_substring",
    "looping_tool_calls": f"{_HERE}.steps:looping_tool_calls",
    "looping_unique_sentences": f"{_HERE}.text:looping_unique_sentences",
    "noise_sensitivity": f"{_HERE}.references:noise_sensitivity",
    "noise_sensitivity_irrelevant": f"{_HERE}.references:noise_sensitivity_irrelevant",
    "noise_sensitivity_relevant": f"{_HERE}.references:noise_sensitivity_relevant",
    "pii_leakage": f"{_HERE}.privacy:pii_leakage",
    "refusal": f"{_HERE}.safety:refusal",
    "sensitive_data_leakage": f"{_HERE}.privacy:sensitive_data_leakage",
    "summary_faithfulness_zs": f"{_HERE}.references:summary_faithfulness_zs",
    "tokens_presence": f"{_HERE}.text:tokens_presence",
    "toxicity": f"{_HERE}.safety:toxicity",
    "toxicity_identity_attack": f"{_HERE}.safety:toxicity_identity_attack",
    "toxicity_insult": f"{_HERE}.safety:toxicity_insult",
    "toxicity_obscene": f"{_HERE}.safety:toxicity_obscene",
    "toxicity_severe": f"{_HERE}.safety:toxicity_severe",
    "toxicity_threat": f"{_HERE}.safety:toxicity_threat",
}


def builtin_names() -> list[str]:
    """The names of the evaluators that ragtrace brings, sorted."""
    return sorted(BUILT_IN)


def load(name: str) -> Evaluator:
    """The evaluator of that name. Raises SettingError if there is none, or if what is there is no evaluator."""
    target = BUILT_IN.get(name) or (name if ":" in name else None)
    if target is not None:
        return _as_evaluator(resolve(target, "evaluators"), name)
    points = {p.name: p for p in importlib.metadata.entry_points(group=GROUP)}
    if name in points:
        try:
            return _as_evaluator(points[name].load(), name)
        except ImportError as error:
            raise SettingError(f"the evaluator {name!r} ({points[name].value}) cannot be imported: {error}") from error
    known = sorted({*BUILT_IN, *points})
    close = difflib.get_close_matches(name, known, n=3)
    hint = f"did you mean {' or '.join(close)}?" if close else f"known are {', '.join(known)}, or module:attribute"
    raise SettingError(f"there is no evaluator {name!r}; {hint}")


def resolve(target: str, setting: str) -> Any:
    """What `module:attribute` names. Raises SettingError that names the setting, the module or the attribute."""
    module_name, _, attribute = target.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
    except ImportError as error:
        raise SettingError(f"{setting}: {target!r}: the module {module_name!r} cannot be imported: {error}") from error
    for part in attribute.split("."):
        if not part or not hasattr(found, part):
            raise SettingError(f"{setting}: {target!r}: {module_name!r} has no {attribute!r}; give module:attribute")
        found = getattr(found, part)
    return found


def _as_evaluator(found: Any, name: str) -> Evaluator:
    if isinstance(found, Evaluator):
        return found
    if callable(found):
        return evaluator(found)
    raise SettingError(f"evaluators: {name!r} is a {type(found).__name__}, neither an evaluator nor a function")


def describe(check: Evaluator) -> dict[str, Any]:
    """What can be told of an evaluator, as plain values."""
    return {
        "name": check.name,
        "needs": sorted(check.needs),
        "method": check.method,
        "range": list(check.range),
        "direction": check.direction,
        "threshold": check.threshold,
        "version": check.version,
        "description": check.description,
        "source": check.source,
    }
