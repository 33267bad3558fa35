"""Models that a setting names in place of the embedded ones: Detoxify, HHEM, cross-encoders, LettuceDetect, MiniCheck,
Presidio, GLiNER.

Each is loaded on first use; a package that is missing is named in the error. A name that is a folder is read from the
disk alone; any other name is the library's to resolve, from its cache or from the hub."""

import contextlib

from ragtrace.evaluate.models.external.detoxifier import toxicity, toxicity_models
from ragtrace.evaluate.models.external.entailment import consistency, entailment_models
from ragtrace.evaluate.models.external.pair_models import similarity, similarity_models
from ragtrace.evaluate.models.external.pii_engines import personal, pii_engines
from ragtrace.settings import Settings

__all__ = ["consistency", "personal", "similarity", "toxicity", "warm"]


def warm(settings: Settings) -> None:
    """Load the models that the settings name now, so that the first request need not wait. An evaluator whose model
    cannot be loaded says so in its scores."""
    for models, name in (
        (toxicity_models, settings.model("toxicity")),
        (entailment_models, settings.model("entailment")),
        (similarity_models, settings.model("similarity")),
        (pii_engines, settings.model("pii")),
    ):
        if name:
            with contextlib.suppress(Exception):
                models.get(name)
