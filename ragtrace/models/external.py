"""Models that the user names, in place of the embedded ones: Detoxify, HHEM and other cross-encoders, Presidio, GLiNER.

Each is loaded on first use; a package that is missing is named in the error. A name that is a folder is read from the
disk alone; any other name is the library's to resolve, from its cache or from the hub.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ragtrace.errors import MissingExtraError, ModelError, SettingError
from ragtrace.lazy import Lazy
from ragtrace.models.person_names import Named
from ragtrace.settings import Settings

HHEM = "vectara/hallucination_evaluation_model"
_RUN = 8
"""Pairs or texts that a model is given at once."""


def warm(settings: Settings) -> None:
    """Load the models that the settings name now, so that the first request need not wait. An evaluator whose model
    cannot be loaded says so in its scores."""
    for models, name in (
        (_toxicity_models, settings.toxicity_model),
        (_entailment_models, settings.entailment_model),
        (_similarity_models, settings.similarity_model),
        (_pii_engines, settings.pii_engine),
    ):
        if name:
            with contextlib.suppress(Exception):
                models.get(name)


def _package(module: str, extra: str, purpose: str) -> Any:
    """The imported module. Raises MissingExtraError that names the package which brings it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingExtraError(module.partition(".")[0].replace("_", "-"), extra, purpose) from error


def _clean(text: str) -> str:
    """The text without the lone surrogates on which tokenizers raise; as long as before."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _local(name: str) -> bool:
    return Path(name).is_dir()


@contextlib.contextmanager
def _loading(what: str) -> Iterator[None]:
    """Whatever a library raises while it loads a model, as a ModelError that names the model."""
    try:
        yield
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(f"{what} cannot be loaded: {error}") from error


# --- pairs of texts ---------------------------------------------------------------------------------------------------


class CrossEncoder:
    """A sentence-transformers CrossEncoder: one number in [0, 1] for a pair of texts."""

    _TOKENS = 2_048
    """Tokens of a pair at most, also where the model takes more: attention over them costs their square."""
    _SPECIAL = 8

    def __init__(self, name: str, purpose: str) -> None:
        """Raises MissingExtraError without the library, ModelError if there is no such model here or on the hub."""
        sentence_transformers = _package("sentence_transformers", "sentence-transformers", purpose)
        with _loading(f"the cross-encoder {name!r}"):
            self._model = sentence_transformers.CrossEncoder(name, local_files_only=_local(name))
        self._config = getattr(self._model, "config", None) or self._model.model.config
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
        rows = self._model.predict(list(pairs), batch_size=_RUN, show_progress_bar=False, apply_softmax=True)
        column = self._entailment()
        return [float(row[column]) for row in rows]

    def scores(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Per pair the model's one score, put into [0, 1] by the logistic function."""
        if self.labels != 1:
            raise ModelError(f"the cross-encoder gives {self.labels} numbers for a pair; one that gives one is needed")
        torch = _package("torch", "sentence-transformers", "a cross-encoder")
        sigmoid = torch.nn.Sigmoid()
        scores = self._model.predict(list(pairs), batch_size=_RUN, show_progress_bar=False, activation_fn=sigmoid)
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


_SUPPORTS = re.compile(r"entail(?:ment|ed|s)?|support(?:ed|s)?|consistent|grounded|factual|yes|true")


class Hhem:
    """Vectara's hallucination evaluation model, by the code that comes with its weights."""

    room = 2_048

    def __init__(self, name: str) -> None:
        """Raises MissingExtraError without transformers, ModelError if the model cannot be had."""
        transformers = _package("transformers", "sentence-transformers", f"entailment_model {name!r}")
        with _loading(f"the model {name!r}"):
            self._model = transformers.AutoModelForSequenceClassification.from_pretrained(
                name, trust_remote_code=True, local_files_only=_local(name)
            )

    def tokens(self, text: str) -> int:
        """Tokens of a text, about: this model cuts nothing off, so it need not be exact."""
        return len(text) // 4 + 1

    def entails(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Per pair how consistent the second text is with the first."""
        runs = [list(pairs[start : start + _RUN]) for start in range(0, len(pairs), _RUN)]
        return [float(score) for run in runs for score in self._model.predict(run)]


def _entailment_model(name: str) -> CrossEncoder | Hhem:
    return Hhem(name) if name == HHEM or _is_hhem(Path(name)) else CrossEncoder(name, f"entailment_model {name!r}")


def _is_hhem(folder: Path) -> bool:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        kind = json.loads((folder / "config.json").read_text(encoding="utf-8")).get("model_type")
        return str(kind).startswith("HHEM")
    return False


@dataclass(frozen=True, slots=True)
class Consistency:
    """How consistent an answer is with its context, and how much of both the model read."""

    value: float
    """In [0, 1]."""
    windows: int
    windows_in_all: int
    parts: int
    """Of the answer: more than one where it is too long to be read at once."""
    parts_in_all: int


_entailment_models: Lazy[CrossEncoder | Hhem] = Lazy(_entailment_model)
_similarity_models: Lazy[CrossEncoder] = Lazy(lambda name: CrossEncoder(name, f"similarity_model {name!r}"))
_PAIRS = 64
"""Pairs that are judged for one answer at most."""
_PARTS = 8
_WORD = re.compile(r"\w{3,}")


def consistency(context: str, answer: str, name: str) -> Consistency:
    """How consistent an answer is with a context by the model `name`, a value of the setting `entailment_model`.

    A context that is too long for the model is read in windows, and the one that supports the answer best counts; of
    an answer that is too long, the part that is supported least. Of very many windows, those are read that share
    most words with the answer.
    """
    model = _entailment_models.get(name)
    context, answer = _clean(context), _clean(answer)
    parts = windows(answer, max(16, model.room // 2), model.tokens)
    longest = max((model.tokens(part) for part in parts), default=0)
    pieces = windows(context, max(16, model.room - longest), model.tokens)
    read = _nearest(pieces, answer, _PAIRS // len(parts[:_PARTS]))
    scores = model.entails([(piece, part) for part in parts[:_PARTS] for piece in read])
    best = [max(scores[i : i + len(read)]) for i in range(0, len(scores), len(read))]
    value = min(1.0, max(0.0, min(best)))
    return Consistency(value, len(read), len(pieces), len(best), len(parts))


def windows(text: str, room: int, tokens: Callable[[str], int]) -> list[str]:
    """The text in pieces of at most `room` tokens, cut at white space where there is some; each but the first begins
    in the last quarter of the one before, so that each sentence or two is whole in one of them."""
    if tokens(text) <= room:
        return [text]
    size = max(1, len(text) * room // tokens(text))
    pieces = []
    start = 0
    while start < len(text):
        end = min(len(text), start + size)
        while end > start + 1 and tokens(text[start:end]) > room:
            end = start + max(1, (end - start) * 4 // 5)
        if end < len(text):
            end = _space(text, start + (end - start) // 2, end)
        pieces.append(text[start:end])
        if end == len(text):
            break
        start = max(start + 1, _space(text, start + (end - start) // 2, end - (end - start) // 4))
    return pieces


def _space(text: str, low: int, high: int) -> int:
    """The end of the last word between two places; the second place where there is no white space."""
    for i in range(high, low, -1):
        if text[i - 1].isspace():
            return i
    return high


def _nearest(pieces: Sequence[str], answer: str, most: int) -> list[str]:
    if len(pieces) <= most:
        return list(pieces)
    words = set(_WORD.findall(answer.lower()))
    shared = [len(words & set(_WORD.findall(piece.lower()))) for piece in pieces]
    nearest = sorted(range(len(pieces)), key=lambda i: -shared[i])[:most]
    return [pieces[i] for i in sorted(nearest)]


def similarity(pairs: Sequence[tuple[str, str]], name: str) -> list[float]:
    """Per pair of texts how similar they are, or how much the second is on the first, in [0, 1], by the model `name`, a
    value of the setting `similarity_model`. The model cuts off what is too long for it."""
    model = _similarity_models.get(name)
    return model.scores([(_clean(a), _clean(b)) for a, b in pairs]) if pairs else []


# --- toxicity ---------------------------------------------------------------------------------------------------------

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
        detoxify = _package("detoxify", "", f"toxicity_model {name!r}")
        with _loading(f"the toxicity model {name!r}"):
            self._model = detoxify.Detoxify(name.removeprefix(_DETOXIFY))

    def probabilities(self, texts: Sequence[str]) -> list[dict[str, float]]:
        """Per text the probability of each label, under the names of `ragtrace.models.heads.toxicity`."""
        pieces = [(i, t[at : at + _TOXIC_CHARS]) for i, t in enumerate(texts) for at in range(0, len(t), _TOXIC_CHARS)]
        highest: list[dict[str, float]] = [dict.fromkeys(_LABELS, 0.0) for _ in texts]
        for start in range(0, len(pieces), _RUN):
            run = pieces[start : start + _RUN]
            results = self._model.predict([text for _, text in run])
            for label, name in _LABELS.items():
                values = results[name] if isinstance(results[name], list) else [results[name]]  # of one text: a number
                for (i, _), value in zip(run, values, strict=True):
                    highest[i][label] = max(highest[i][label], float(value))
        return highest


_toxicity_models: Lazy[Detoxifier] = Lazy(Detoxifier)


def toxicity(texts: Sequence[str], name: str) -> list[dict[str, float]]:
    """Per text the probability in [0, 1] of `toxicity`, `severe`, `obscene`, `threat`, `insult`, `identity_attack`, by
    the model `name`, a value of the setting `toxicity_model`."""
    return _toxicity_models.get(name).probabilities([_clean(text) for text in texts])


# --- personal data ----------------------------------------------------------------------------------------------------

_MAX_CHARS = 200_000
_SURE = 0.5
"""Score from which an entity counts. Presidio gives less to text that has only the shape: nine digits, for example."""


class _Entity(NamedTuple):
    kind: str
    start: int
    end: int
    score: float


class Presidio:
    """Presidio's analyzer for English, with the largest spaCy model that is installed; without one, with patterns
    alone, which find no names."""

    _MODELS = ("en_core_web_trf", "en_core_web_lg", "en_core_web_md", "en_core_web_sm")
    _KINDS = {"email_address": "email", "phone_number": "phone", "iban_code": "iban"}  # noqa: RUF012 never changed
    # Web addresses, dates, towns, nations and ages are in most answers and identify nobody.
    _NO_LEAK = frozenset({"url", "date_time", "location", "nrp", "organization", "age", "id", "uuid"})

    def __init__(self) -> None:
        """Raises MissingExtraError without the packages, ModelError where they cannot be set up."""
        presidio_analyzer = _package("presidio_analyzer", "", "pii_engine 'presidio'")
        spacy = _package("spacy", "", "pii_engine 'presidio'")
        engines = _package("presidio_analyzer.nlp_engine", "", "pii_engine 'presidio'")
        with _loading("Presidio"):
            model = next((m for m in self._MODELS if spacy.util.is_package(m)), None)
            # Set here and not by `load`, which would fetch a model that is missing.
            engine = engines.SpacyNlpEngine(models=[{"lang_code": "en", "model_name": model or "blank"}])
            engine.nlp = {"en": spacy.load(model) if model else spacy.blank("en")}
            self._analyzer = presidio_analyzer.AnalyzerEngine(nlp_engine=engine, supported_languages=["en"])
            # It asks the net for the list of top-level domains; ours finds e-mail addresses without.
            self._analyzer.registry.remove_recognizer("EmailRecognizer")

    def find(self, text: str) -> list[_Entity]:
        """The entities with a score of at least 0.5, in no particular order."""
        results = self._analyzer.analyze(text=text, language="en", score_threshold=_SURE)
        kinds = [(result.entity_type.lower(), result) for result in results]
        return [
            _Entity(self._KINDS.get(kind, kind), result.start, result.end, float(result.score))
            for kind, result in kinds
            if kind not in self._NO_LEAK
        ]


class Gliner:
    """A GLiNER model, asked for these labels."""

    _LABELS = {  # noqa: RUF012 never changed
        "person": "person",
        "address": "address",
        "email": "email",
        "phone number": "phone",
        "username": "username",
        "credit card number": "credit_card",
        "bank account number": "bank_account",
        "social security number": "us_ssn",
        "passport number": "passport",
        "driver's license number": "drivers_license",
        "tax identification number": "tax_id",
        "health insurance number": "health_insurance",
        "date of birth": "date_of_birth",
    }
    _WINDOW, _OVERLAP = 1_200, 120
    """Characters that are read together: the models read some 380 words and cut off the rest."""

    def __init__(self, name: str) -> None:
        """Raises MissingExtraError without the package, ModelError where the model cannot be had."""
        gliner = _package("gliner", "", f"pii_engine 'gliner:{name}'")
        with _loading(f"the GLiNER model {name!r}"):
            self._model = gliner.GLiNER.from_pretrained(name, local_files_only=_local(name))

    def find(self, text: str) -> list[_Entity]:
        """The entities with a score of at least 0.5, in no particular order."""
        labels = list(self._LABELS)
        entities = []
        for begin in range(0, max(1, len(text) - self._OVERLAP), self._WINDOW - self._OVERLAP):
            for entity in self._model.predict_entities(text[begin : begin + self._WINDOW], labels, threshold=_SURE):
                start, end = begin + int(entity["start"]), begin + int(entity["end"])
                entities.append(_Entity(self._LABELS[entity["label"]], start, end, float(entity["score"])))
        return entities


def _pii_engine(name: str) -> Presidio | Gliner:
    if name == "presidio":
        return Presidio()
    if name.startswith("gliner:"):
        return Gliner(name.removeprefix("gliner:"))
    raise SettingError(f"pii_engine is {name!r}; give presidio or gliner:NAME")


_pii_engines: Lazy[Presidio | Gliner] = Lazy(_pii_engine)


def personal(text: str, name: str) -> list[Named]:
    """Personal data by the engine `name`, a value of the setting `pii_engine`, in order, not overlapping.

    The kinds are those of `find_personal_data` (ragtrace/text/personal_data.py) and `person`, `address`, and the
    engine's own in lower case. The first 200,000 characters are read.
    """
    if not text.strip():
        return []
    engine = _pii_engines.get(name)
    selected: list[Named] = []
    entities = engine.find(_clean(text[:_MAX_CHARS]))
    for kind, start, end, _ in sorted(entities, key=lambda e: (-e.score, e.start - e.end)):
        if not any(start < other.end and other.start < end for other in selected):
            selected.append(Named(kind, start, end))
    return sorted(selected, key=lambda n: n.start)
