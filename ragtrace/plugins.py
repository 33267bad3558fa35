"""From a name to the evaluator (built in, by entry point, or `module:attribute`), and the products that plug in."""

import difflib
import importlib.metadata
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ragtrace.errors import SettingError
from ragtrace.evaluation import Evaluator, Origin, configure, evaluator
from ragtrace.settings import Settings

_PARTS = "ragtrace.parts"


@dataclass(frozen=True, slots=True)
class Keeper:
    """What a part runs beside the pipeline to keep what happens."""

    sink: Any
    """Is called with every evaluation; has `flush(seconds)`, `close(seconds)`, `wait_for_spill(seconds)`, `undelivered`
    and `update_evaluators(checks)`."""
    feedback: Any
    """Is called with every `Feedback`; has `flush`, `close` and `undelivered`."""


@dataclass(frozen=True, slots=True)
class Part:
    """A product, as the entry point gives it. Importing it loads nothing heavy."""

    add_commands: Callable[[Any], None]
    """Adds its commands to the subparsers of `ragtrace`."""
    keep: Callable[[Settings, Sequence[Evaluator]], Keeper | None] = lambda _settings, _checks: None
    """Opens its keeper for these evaluators; None where the settings ask for none."""


def parts() -> list[Part]:
    """The parts that are installed, in the order of their names."""
    points = sorted(importlib.metadata.entry_points(group=_PARTS), key=lambda point: point.name)
    return [point.load() for point in points]


GROUP = "ragtrace.evaluators"
"""Entry point group for evaluators of other distributions."""

DEFAULT_SUITE = (
    "answer_relevance", "context_relevancy_recall", "context_relevancy_precision", "groundedness", "faithfulness",
    "refusal", "no_answer", "pii_leakage", "sensitive_data_leakage", "toxicity", "looping_unique_sentences",
    "looping_repeated_ngrams", "language_mismatch",
)  # fmt: skip
"""The evaluators that run when the settings name none: all run locally and need no reference answer."""

_BY_MODULE: Mapping[str, str] = {
    # Of evaluators whose local form says how sure it is, and that have a judge's form.
    "cascade": """answer_correctness_cascade context_contradiction_cascade context_entities_recall_cascade
        context_precision_cascade context_precision_statements_cascade context_recall_cascade
        context_relevancy_cascade fairness_bias_cascade faithfulness_cascade hallucination_cascade
        noise_sensitivity_cascade noise_sensitivity_irrelevant_cascade noise_sensitivity_relevant_cascade""",
    "composite": """answer_similarity context_precision_statements context_relevancy ragas ragas_judge
        summary_completeness summary_faithfulness_conv summary_faithfulness_zs""",
    "critics": """contact_information_judge critic_bias critic_harmful critic_hateful critic_insensitive
        critic_malicious critic_manipulative critic_self_harm critic_sexual critic_toxic critic_violent
        fairness_bias_judge judge language_mismatch_judge sexism stereotypes summary_judge""",
    "similarity": """answer_relevance_cosine answer_relevance_max context_relevancy_precision
        context_relevancy_recall groundedness_cosine""",
    "entities": "context_entities_recall",
    "g_eval": "g_eval",
    "groundedness": """answer_relevance context_contradiction context_recall faithfulness groundedness hallucination
        hallucination_cross_encoder""",
    "judge_ratios": """answer_correctness_judge answer_relevancy_questions answer_relevancy_statements
        context_contradiction_judge context_entities_recall_judge context_precision_judge
        context_precision_statements_judge context_recall_judge context_relevancy_judge faithfulness_judge
        hallucination_judge noise_sensitivity_irrelevant_judge noise_sensitivity_judge
        noise_sensitivity_relevant_judge""",
    "language_match": "language_mismatch",
    "lexical": "groundedness_lexical",
    "likelihood": """gptscore_qa_correctness gptscore_qa_engagement gptscore_qa_fluency gptscore_qa_interest
        gptscore_qa_relevance gptscore_qa_semantically_appropriate gptscore_qa_specific
        gptscore_qa_understandability gptscore_summary_coherence gptscore_summary_consistency
        gptscore_summary_factuality gptscore_summary_fluency gptscore_summary_informativeness
        gptscore_summary_ref_coherence gptscore_summary_ref_factuality gptscore_summary_ref_fluency
        gptscore_summary_ref_informativeness gptscore_summary_ref_relevance gptscore_summary_ref_semantic_coverage
        gptscore_summary_relevance gptscore_summary_semantic_coverage gptscore_translation_accuracy
        gptscore_translation_fluency gptscore_translation_mqm perplexity""",
    "overlap": "bleu_1 bleu_2 bleu_3 bleu_4 classification rouge_1 rouge_2 rouge_l",
    "privacy": "contact_information pii_leakage sensitive_data_leakage",
    "references": """answer_correctness context_precision noise_sensitivity noise_sensitivity_irrelevant
        noise_sensitivity_relevant""",
    "safety": """fairness_bias refusal toxicity toxicity_identity_attack toxicity_insult toxicity_obscene
        toxicity_severe toxicity_threat""",
    "steps": "looping_tool_calls",
    "text_checks": """looping_compression_ratio looping_repeated_ngrams looping_repeated_substring no_answer
        looping_unique_sentences tokens_presence""",
}
"""Evaluators by their module in `ragtrace.evaluate`, separated by white space."""
BUILT_IN: Mapping[str, str] = {
    name: f"ragtrace.evaluate.{module}:{name}" for module, names in _BY_MODULE.items() for name in names.split()
}
LANGUAGE_MODEL = frozenset(_BY_MODULE["likelihood"].split())
"""The evaluators that need a causal language model."""


def builtin_names() -> list[str]:
    """The names of the evaluators that ragtrace brings, sorted."""
    return sorted(BUILT_IN)


def load(name: str, settings: Settings | None = None) -> Evaluator:
    """The evaluator of that name, with these settings if it has none of its own; see `Evaluator.settings`.

    Raises SettingError if there is no such evaluator, or if the name is that of something else.
    """
    check = _load(name)
    return check if settings is None else configure(check, settings)


def load_all(items: Iterable[str | Evaluator], settings: Settings | None = None) -> list[Evaluator]:
    """The evaluators of these names; those that are evaluators already stay as they are.

    Raises one SettingError that names every item that cannot be loaded, or every name that occurs twice.
    """
    checks, problems = [], []
    for item in items:
        try:
            checks.append(load(item, settings) if isinstance(item, str) else item)
        except SettingError as error:
            problems.append(str(error))
    if problems:
        raise SettingError("; ".join(dict.fromkeys(problems)))
    names = [check.name for check in checks]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise SettingError(f"evaluators names {', '.join(twice)} more than once; name each evaluator once")
    return checks


def _load(name: str) -> Evaluator:
    target = BUILT_IN.get(name) or (name if ":" in name else None)
    if target is not None:
        return _as_evaluator(resolve(target, "evaluators"), name)
    points = {p.name: p for p in importlib.metadata.entry_points(group=GROUP)}
    if name in points:
        try:
            value = points[name].load()
        except (Exception, SystemExit) as error:  # as in `resolve`
            raise SettingError(f"the evaluator {name!r} ({points[name].value}) cannot be imported: {error}") from error
        return _as_evaluator(value, name)
    matches = similar_names(name, [*BUILT_IN, *points])
    listing = "`ragtrace evaluators` lists them; or give module:attribute"
    raise SettingError(
        f"there is no evaluator {name!r}; " + (f"did you mean {' or '.join(matches)}?" if matches else listing)
    )


def similar_names(name: str, names: Iterable[str]) -> list[str]:
    """At most three of the names, those that resemble `name` most."""
    return difflib.get_close_matches(name.lower(), sorted(set(names)), n=3)


def resolve(target: str, setting: str) -> Any:
    """What `module:attribute` names. Raises SettingError that names the setting, the module or the attribute."""
    module_name, _, attribute = target.partition(":")
    try:
        value: Any = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # the module's own code runs
        raise SettingError(f"{setting}: {target!r}: the module {module_name!r} cannot be imported: {error}") from error
    for part in attribute.split("."):
        if not part or not hasattr(value, part):
            raise SettingError(f"{setting}: {target!r}: {module_name!r} has no {attribute!r}; give module:attribute")
        value = getattr(value, part)
    return value


def _as_evaluator(value: Any, name: str) -> Evaluator:
    if isinstance(value, Evaluator) or callable(value):
        check = value if isinstance(value, Evaluator) else evaluator(value)
        return replace(check, origin=Origin(name, check.fn))
    raise SettingError(f"evaluators: {name!r} is a {type(value).__name__}, neither an evaluator nor a function")


def describe(check: Evaluator) -> dict[str, Any]:
    """The description of an evaluator, as plain values."""
    return {
        "name": check.name, "needs": sorted(check.needs), "method": check.method,
        "range": [_finite(bound) for bound in check.range], "direction": check.direction,
        "threshold": _finite(check.threshold), "version": check.version, "description": check.description,
        "source": check.source,
    }  # fmt: skip


def _finite(bound: float | None) -> float | None:
    """JSON knows no infinity: what has no bound is null."""
    return bound if bound is not None and math.isfinite(bound) else None
