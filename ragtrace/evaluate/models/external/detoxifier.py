"""Detoxify, named by the setting `models.toxicity`."""

from collections.abc import Sequence

from ragtrace.base.lazy import Lazy
from ragtrace.errors import package
from ragtrace.evaluate.models.external.libraries import RUN, clean, load_errors

_DETOXIFY = "detoxify:"
_TOXIC_CHARS = 1_000
"""Characters that Detoxify reads at once; a longer text is cut into such pieces, and its worst piece counts."""
_LABELS = {"toxicity": "toxicity", "severe": "severe_toxicity"} | {
    label: label for label in ("obscene", "threat", "insult", "identity_attack")
}


class Detoxifier:
    """Detoxify: probabilities of six labels."""

    def __init__(self, name: str) -> None:
        """Raises MissingExtraError without the package, ModelError where its weights cannot be had."""
        detoxify = package("detoxify", "", f"models.toxicity {name!r}")
        with load_errors(f"the toxicity model {name!r}"):
            self._model = detoxify.Detoxify(name.removeprefix(_DETOXIFY))

    def probabilities(self, texts: Sequence[str]) -> list[dict[str, float]]:
        """Per text the probability of each label, under the names of `ragtrace.evaluate.models.toxicity`."""
        pieces = [(i, t[at : at + _TOXIC_CHARS]) for i, t in enumerate(texts) for at in range(0, len(t), _TOXIC_CHARS)]
        highest: list[dict[str, float]] = [dict.fromkeys(_LABELS, 0.0) for _ in texts]
        for start in range(0, len(pieces), RUN):
            run = pieces[start : start + RUN]
            results = self._model.predict([text for _, text in run])
            for label, name in _LABELS.items():
                values = results[name] if isinstance(results[name], list) else [results[name]]  # of one text: a number
                for (i, _), value in zip(run, values, strict=True):
                    highest[i][label] = max(highest[i][label], float(value))
        return highest


toxicity_models: Lazy[Detoxifier] = Lazy(Detoxifier)


def toxicity(texts: Sequence[str], name: str) -> list[dict[str, float]]:
    """Per text the probability in [0, 1] of `toxicity`, `severe`, `obscene`, `threat`, `insult`, `identity_attack`, by
    the model `name`, a value of the setting `models.toxicity`."""
    return toxicity_models.get(name).probabilities([clean(text) for text in texts])
