"""The model that the setting `models.entailment` names: its kind by its configuration, and what it says."""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ragtrace.base.lazy import Lazy
from ragtrace.errors import package
from ragtrace.evaluate.models.external.consistency import Consistency, by_pairs, by_sentences
from ragtrace.evaluate.models.external.libraries import EXTRA, clean, is_local
from ragtrace.evaluate.models.external.minicheck import CausalMiniCheck, Seq2SeqMiniCheck
from ragtrace.evaluate.models.external.pair_models import CrossEncoder, Hhem
from ragtrace.evaluate.models.external.token_models import TokenClassifier
from ragtrace.evaluate.models.model_folders import architectures, read_config

HHEM = "vectara/hallucination_evaluation_model"
_OWN_CODE = frozenset({"internlm2"})
"""Architectures of Bespoke-MiniCheck that transformers does not have: their code comes with the weights."""

EntailmentModel = CrossEncoder | Hhem | Seq2SeqMiniCheck | CausalMiniCheck | TokenClassifier


def _load(name: str) -> EntailmentModel:
    config = {"model_type": "HHEM"} if name == HHEM else _config(name)
    kind, classes = str(config.get("model_type")), architectures(config)
    if kind.startswith("HHEM"):
        return Hhem(name)
    if any(c.endswith("ForTokenClassification") for c in classes):
        return TokenClassifier(name)
    if config.get("is_encoder_decoder"):
        return Seq2SeqMiniCheck(name)
    if any(c.endswith("ForCausalLM") for c in classes):
        return CausalMiniCheck(name, trust=kind in _OWN_CODE)
    return CrossEncoder(name, f"models.entailment {name!r}")


def _config(name: str) -> dict[str, Any]:
    """Reads the model's configuration without running its code; {} if it has none."""
    if is_local(name):
        return read_config(Path(name))
    transformers = package("transformers", EXTRA, f"models.entailment {name!r}")
    with contextlib.suppress(Exception):  # the code that loads it reports a failure
        return dict(transformers.PretrainedConfig.get_config_dict(name)[0])
    return {}


entailment_models: Lazy[EntailmentModel] = Lazy(_load)


def consistency(question: str, documents: Sequence[str], answer: str, name: str) -> Consistency:
    """How consistent an answer is with its documents by the model `name`, a value of the setting `models.entailment`.

    Cross-encoders and HHEM judge the whole answer, MiniCheck each sentence, token classifiers each token. What is too
    long for the model is read in windows."""
    model = entailment_models.get(name)
    documents, answer = [clean(document) for document in documents], clean(answer)
    if isinstance(model, TokenClassifier):
        return model.consistency(clean(question), documents, answer)
    context = "\n\n".join(documents)
    if isinstance(model, (Seq2SeqMiniCheck, CausalMiniCheck)):
        return by_sentences(model, context, answer)
    return by_pairs(model, context, answer)
