"""Models that read a pair of texts: sentence-transformers' cross-encoders, and Vectara's HHEM."""

import re
from collections.abc import Sequence

from ragtrace.base.lazy import Lazy
from ragtrace.errors import ModelError, package
from ragtrace.evaluate.models.external.libraries import RUN, clean, is_local, load_errors
from ragtrace.evaluate.models.model_folders import folder_problem, headless

_SUPPORTS = re.compile(r"entail(?:ment|ed|s)?|support(?:ed|s)?|consistent|grounded|factual|yes|true")


class CrossEncoder:
    """A sentence-transformers CrossEncoder: one number in [0, 1] for a pair of texts."""

    _TOKENS = 2_048
    """Tokens of a pair at most, also where the model takes more: attention over them costs their square."""
    _SPECIAL = 8

    def __init__(self, name: str, purpose: str) -> None:
        """Raises MissingExtraError without the library, ModelError if there is no such model here or on the hub."""
        sentence_transformers = package("sentence_transformers", "sentence-transformers", purpose)
        if problem := folder_problem(name):
            raise ModelError(f"the cross-encoder {name!r} {problem}")
        with load_errors(f"the cross-encoder {name!r}"):
            self._model = sentence_transformers.CrossEncoder(name, local_files_only=is_local(name))
        self._config = getattr(self._model, "config", None) or self._model.model.config
        if problem := headless(getattr(self._config, "architectures", None) or ()):
            raise ModelError(f"the cross-encoder {name!r} {problem}")
        self.labels = int(self._config.num_labels)
        # The second name is that of releases before 6.
        longest = getattr(self._model, "max_seq_length", None) or getattr(self._model, "max_length", None)
        longest = longest or self._model.tokenizer.model_max_length
        self.room = min(int(longest), self._TOKENS) - self._SPECIAL
        """Tokens that both texts of a pair may have together."""

    def tokens(self, text: str) -> int:
        """Tokens of a text."""
        return len(self._model.tokenizer(text, add_special_tokens=False, truncation=False, verbose=False)["input_ids"])

    def entails(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Per pair the probability that the first text supports the second."""
        if self.labels == 1:
            return self.scores(pairs)
        rows = self._model.predict(list(pairs), batch_size=RUN, show_progress_bar=False, apply_softmax=True)
        column = self._entailment()
        return [float(row[column]) for row in rows]

    def scores(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Per pair the model's one score, put into [0, 1] by the logistic function."""
        if self.labels != 1:
            raise ModelError(f"the cross-encoder gives {self.labels} numbers for a pair; one that gives one is needed")
        torch = package("torch", "sentence-transformers", "a cross-encoder")
        sigmoid = torch.nn.Sigmoid()
        scores = self._model.predict(list(pairs), batch_size=RUN, show_progress_bar=False, activation_fn=sigmoid)
        return [float(score) for score in scores]

    def _entailment(self) -> int:
        """The number of the label that says that the first text supports the second."""
        labels = {int(i): str(label).lower() for i, label in self._config.id2label.items()}
        matches = [i for i, label in labels.items() if _SUPPORTS.fullmatch(label)]
        if len(matches) == 1:
            return matches[0]
        if self.labels == 2 and all(label.startswith("label_") for label in labels.values()):
            return 1  # of two labels without names, 1 says yes by convention
        raise ModelError(f"none of the cross-encoder's labels {sorted(labels.values())} says entailment")


class Hhem:
    """Vectara's hallucination evaluation model, by the code that comes with its weights."""

    room = 2_048

    def __init__(self, name: str) -> None:
        """Raises MissingExtraError without transformers, ModelError if the model cannot be had."""
        transformers = package("transformers", "sentence-transformers", f"models.entailment {name!r}")
        with load_errors(f"the model {name!r}"):
            self._model = transformers.AutoModelForSequenceClassification.from_pretrained(
                name, trust_remote_code=True, local_files_only=is_local(name)
            )

    def tokens(self, text: str) -> int:
        """Tokens of a text, about: this model cuts nothing off, so it need not be exact."""
        return len(text) // 4 + 1

    def entails(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Per pair how consistent the second text is with the first."""
        runs = [list(pairs[start : start + RUN]) for start in range(0, len(pairs), RUN)]
        return [float(score) for run in runs for score in self._model.predict(run)]


similarity_models: Lazy[CrossEncoder] = Lazy(lambda name: CrossEncoder(name, f"models.similarity {name!r}"))


def similarity(pairs: Sequence[tuple[str, str]], name: str) -> list[float]:
    """Per pair of texts how similar they are, or how much the second is on the first, in [0, 1], by the model `name`, a
    value of the setting `models.similarity`. The model cuts off what is too long for it."""
    model = similarity_models.get(name)
    return model.scores([(clean(a), clean(b)) for a, b in pairs]) if pairs else []
