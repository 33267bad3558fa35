"""Presidio and GLiNER, named by the setting `models.pii`."""

from ragtrace.base.lazy import Lazy
from ragtrace.errors import SettingError, package
from ragtrace.evaluate.models.external.libraries import clean, is_local, load_errors
from ragtrace.evaluate.models.person_names import Named

_MAX_CHARS = 200_000
_SURE = 0.5
"""Score from which an entity counts. Presidio gives less to text that has only the shape: nine digits, for example."""


Scored = tuple[float, Named]
"""An entity's score, and the entity."""


class Presidio:
    """Presidio's analyzer for English, with the largest spaCy model that is installed; without one no names."""

    _MODELS = ("en_core_web_trf", "en_core_web_lg", "en_core_web_md", "en_core_web_sm")
    _KINDS = {"email_address": "email", "phone_number": "phone", "iban_code": "iban"}  # noqa: RUF012 never changed
    # Web addresses, dates, towns, nations and ages are in most answers and identify nobody.
    _NO_LEAK = frozenset({"url", "date_time", "location", "nrp", "organization", "age", "id", "uuid"})

    def __init__(self) -> None:
        """Raises MissingExtraError without the packages, ModelError where they cannot be set up."""
        presidio_analyzer = package("presidio_analyzer", "", "models.pii 'presidio'")
        spacy = package("spacy", "", "models.pii 'presidio'")
        engines = package("presidio_analyzer.nlp_engine", "", "models.pii 'presidio'")
        with load_errors("Presidio"):
            model = next((m for m in self._MODELS if spacy.util.is_package(m)), None)
            # Set here and not by `load`, which would fetch a model that is missing.
            engine = engines.SpacyNlpEngine(models=[{"lang_code": "en", "model_name": model or "blank"}])
            engine.nlp = {"en": spacy.load(model) if model else spacy.blank("en")}
            self._analyzer = presidio_analyzer.AnalyzerEngine(nlp_engine=engine, supported_languages=["en"])
            # It asks the net for the list of top-level domains; ours finds e-mail addresses without.
            self._analyzer.registry.remove_recognizer("EmailRecognizer")

    def find(self, text: str) -> list[Scored]:
        """The entities with a score of at least 0.5, in no particular order."""
        results = self._analyzer.analyze(text=text, language="en", score_threshold=_SURE)
        kinds = [(result.entity_type.lower(), result) for result in results]
        return [
            (float(result.score), Named(self._KINDS.get(kind, kind), result.start, result.end))
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
        gliner = package("gliner", "", f"models.pii 'gliner:{name}'")
        with load_errors(f"the GLiNER model {name!r}"):
            self._model = gliner.GLiNER.from_pretrained(name, local_files_only=is_local(name))

    def find(self, text: str) -> list[Scored]:
        """The entities with a score of at least 0.5, in no particular order."""
        labels = list(self._LABELS)
        entities = []
        for begin in range(0, max(1, len(text) - self._OVERLAP), self._WINDOW - self._OVERLAP):
            for entity in self._model.predict_entities(text[begin : begin + self._WINDOW], labels, threshold=_SURE):
                start, end = begin + int(entity["start"]), begin + int(entity["end"])
                entities.append((float(entity["score"]), Named(self._LABELS[entity["label"]], start, end)))
        return entities


def _pii_engine(name: str) -> Presidio | Gliner:
    if name == "presidio":
        return Presidio()
    if name.startswith("gliner:"):
        return Gliner(name.removeprefix("gliner:"))
    raise SettingError(f"models.pii is {name!r}; give presidio or gliner:NAME")


pii_engines: Lazy[Presidio | Gliner] = Lazy(_pii_engine)


def personal(text: str, name: str) -> list[Named]:
    """Personal data by the engine `name`, a value of the setting `models.pii`, in order, not overlapping.

    The kinds are those of `find_personal_data` (ragtrace/text/privacy/find.py) and `person`, `address`, and the
    engine's own in lower case. The first 200,000 characters are read."""
    if not text.strip():
        return []
    engine = pii_engines.get(name)
    selected: list[Named] = []
    entities = engine.find(clean(text[:_MAX_CHARS]))
    for _, one in sorted(entities, key=lambda scored: (-scored[0], scored[1].start - scored[1].end)):
        if not any(one.start < other.end and other.start < one.end for other in selected):
            selected.append(one)
    return sorted(selected, key=lambda n: n.start)
