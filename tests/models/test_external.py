"""Models that the user names in place of the embedded ones: which evaluators ask them, and what they get."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtrace import plugins
from ragtrace.errors import ModelError, SettingError
from ragtrace.evaluate.models import external, model_file
from ragtrace.evaluate.models.external.detoxifier import toxicity_models
from ragtrace.evaluate.models.external.entailment import HHEM, entailment_models
from ragtrace.evaluate.models.external.pair_models import similarity_models
from ragtrace.evaluate.models.external.passages import windows
from ragtrace.evaluate.models.external.pii_engines import pii_engines
from ragtrace.evaluation import run
from ragtrace.live.child_process import ProcessRunner
from ragtrace.records import Score
from ragtrace.settings import Settings, for_evaluators, load
from ragtrace.testing import make_trace

Use = Callable[..., None]


@dataclass
class Current:
    """What the evaluators of a test are given."""

    settings: Settings = field(default_factory=Settings)


CURRENT = Current()
MODELS = (
    toxicity_models, entailment_models, similarity_models, pii_engines,
)  # fmt: skip


@pytest.fixture
def setting() -> Iterator[Use]:
    """Sets what the evaluators of one test are given; no test has the models of another."""

    def change(**values: Any) -> None:
        CURRENT.settings = Settings(**values)

    yield change
    change()
    for models in MODELS:
        models.use(None)


def score(name: str, **fields: Any) -> Score:
    ((found,),) = run(plugins.load(name, CURRENT.settings), [make_trace(**fields)])
    return found


def missing(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    """As if the package were not installed."""
    monkeypatch.setitem(sys.modules, module, None)  # type: ignore[arg-type]


def stand_in(monkeypatch: pytest.MonkeyPatch, name: str, **members: Any) -> None:
    """A module with the interface that the library documents."""
    module = ModuleType(name)
    vars(module).update(members)
    monkeypatch.setitem(sys.modules, name, module)


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "module", "evaluator", "package"),
    [
        ({"models": {"toxicity": "detoxify:original"}}, "detoxify", "toxicity", "pip install 'detoxify'"),
        ({"models": {"pii": "presidio"}}, "presidio_analyzer", "pii_leakage", "pip install 'presidio-analyzer'"),
        ({"models": {"pii": "gliner:some"}}, "gliner", "contact_information", "pip install 'gliner'"),
        ({"models": {"entailment": "x"}}, "sentence_transformers", "hallucination_cross_encoder", "transformers]"),
        ({"models": {"entailment": HHEM}}, "transformers", "hallucination_cross_encoder", "transformers]"),
        ({"models": {"similarity": "x"}}, "sentence_transformers", "answer_relevance_cosine", "transformers]"),
    ],
)  # fmt: skip
def test_a_missing_package_is_named(  # noqa: PLR0917 a row of the table each
    setting: Use, monkeypatch: pytest.MonkeyPatch, values: dict[str, Any], module: str, evaluator: str, package: str
) -> None:
    """The score is an error that says which setting wants what, and how to install it."""
    missing(monkeypatch, module)
    setting(**values)
    found = score(evaluator)
    assert found.error == "MissingExtraError"
    assert package in (found.explanation or "")
    assert f"models.{next(iter(values['models']))}" in (found.explanation or "")


@pytest.mark.parametrize("models", [{"toxicity": "detoxify"}, {"pii": "gliner:"}, {"pip": "presidio"}])
def test_a_name_that_cannot_be_right_is_refused(models: dict[str, str]) -> None:
    """Before anything is evaluated."""
    with pytest.raises(SettingError, match=r"^models has"):
        load({"models": models}, environ={})


def test_processes_that_evaluate_are_told() -> None:
    """The names reach them by the environment."""
    models = {"toxicity": "detoxify:original", "pii": "presidio", "embedding": "/models/version=3,a/e5"}
    assert load(environ=for_evaluators(Settings(models=models))).models == models
    assert load(environ=for_evaluators(Settings())) == Settings()


def test_without_names_nothing_is_loaded(setting: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    """No library is asked for, and the embedded models answer."""
    for module in ("detoxify", "gliner", "presidio_analyzer", "sentence_transformers", "transformers"):
        missing(monkeypatch, module)
    setting()
    external.warm(CURRENT.settings)
    names = ("answer_similarity", "contact_information", "hallucination_cross_encoder", "pii_leakage", "toxicity")
    assert [score(name, reference="24 months").error for name in names] == [None] * 5
    assert "by" not in (score("toxicity").explanation or "")


# --- windows --------------------------------------------------------------------------------------


@given(st.integers(0, 300), st.integers(2, 20), st.integers(1, 40))
def test_windows_leave_nothing_out(length: int, words: int, room: int) -> None:
    """Each has room, they are in order and overlap, and together they are the whole text."""
    text = "".join(" " if i % words == words - 1 else chr(0x4E00 + i) for i in range(length))
    found = windows(text, room, len)
    assert all(len(window) <= room for window in found)
    end = 0
    for window in found:
        at = text.index(window, max(0, end - len(window)))
        assert at <= end
        end = at + len(window)
    assert end == length


def test_windows_are_cut_between_words() -> None:
    """Where there is white space."""
    assert windows("one two three four five six", 12, len)[0] == "one two "


# --- stand-ins for libraries whose weights come from the hub ----------------------------------------


class Detoxify:
    """Detoxify's documented interface: a text gives a number for each label, a list of texts a list."""

    def __init__(self, model_type: str) -> None:
        self.labels = ["toxicity", "severe_toxicity", "obscene", "identity_attack", "insult", "threat"]
        if model_type != "original":
            self.labels.append("sexual_explicit")

    def predict(self, text: str | list[str]) -> dict[str, Any]:
        assert isinstance(text, list)
        values = [0.9 if "nasty" in t else 0.1 for t in text]
        made = dict.fromkeys(self.labels, values) | {"threat": [0.0] * len(text)}
        # Of a list of one text the library gives bare numbers.
        return made if len(text) > 1 else {label: found[0] for label, found in made.items()}


@pytest.mark.parametrize("answer", ["That is nasty.", "A kind word. That is nasty. " * 20, "kind " * 500 + "nasty"])
@pytest.mark.parametrize("model", ["detoxify:original", "detoxify:multilingual"])
def test_detoxify(setting: Use, monkeypatch: pytest.MonkeyPatch, model: str, answer: str) -> None:
    """Toxicity and its labels by Detoxify, of which a stand-in has the documented interface: its weights are on the hub
    alone. `fairness_bias`, which it does not know, stays with the embedded head."""
    stand_in(monkeypatch, "detoxify", Detoxify=Detoxify)
    before = score("fairness_bias", answer=answer)
    setting(models={"toxicity": model})
    for name in ("toxicity", "toxicity_severe", "toxicity_obscene", "toxicity_insult", "toxicity_identity_attack"):
        found = score(name, answer=answer)
        assert (found.value, found.label) == (0.9, "fail")
        assert (found.explanation or "").endswith(f"; by {model}")
    assert score("toxicity_threat", answer=answer).value == 0.0
    assert score("fairness_bias", answer=answer) == before


class Hhem:
    """What Vectara's page documents: `predict` of pairs of premise and hypothesis."""

    calls: list[tuple[str, dict[str, Any]]] = []  # noqa: RUF012 emptied by the tests

    @classmethod
    def from_pretrained(cls, name: str, **options: Any) -> Hhem:
        cls.calls.append((name, options))
        return cls()

    def predict(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        return [0.95 if "24 months" in premise else 0.2 for premise, _ in pairs]


def test_hhem(setting: Use, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """HHEM, of which a stand-in has the documented interface: its weights are on the hub alone. Its code is run; a
    folder is never looked up on the hub."""
    stand_in(monkeypatch, "transformers", AutoModelForSequenceClassification=Hhem)
    Hhem.calls.clear()
    setting(models={"entailment": HHEM})
    found = score("hallucination_cross_encoder")
    assert (found.value, found.explanation) == (0.95, f"by {HHEM}")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "HHEMv2Config"}))
    setting(models={"entailment": str(tmp_path)})
    assert score("hallucination_cross_encoder", documents=["Nothing on pumps."]).value == 0.2
    assert Hhem.calls == [
        (HHEM, {"trust_remote_code": True, "local_files_only": False}),
        (str(tmp_path), {"trust_remote_code": True, "local_files_only": True}),
    ]


def test_long_contexts_are_read_in_windows(setting: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    """The window that supports the answer best counts, wherever it is, and the explanation says what was read."""
    stand_in(monkeypatch, "transformers", AutoModelForSequenceClassification=Hhem)
    setting(models={"entailment": HHEM})
    filler = "Water flows downhill in the valley. " * 800
    found = score("hallucination_cross_encoder", documents=[filler, filler + "The pump is covered for 24 months."])
    assert found.value == 0.95
    assert "windows, of which the best counts" in (found.explanation or "")
    found = score("hallucination_cross_encoder", documents=[filler * 20, "The pump is covered for 24 months.", filler])
    assert found.value == 0.95
    assert "64 of them were judged" in (found.explanation or "")
    found = score("hallucination_cross_encoder", answer="The pump is covered for two years. " * 1_000)
    assert "8 of them were judged" in (found.explanation or "")


@pytest.mark.parametrize(
    ("answer", "label"), [("The context does not mention this.", "refusal"), ("I hope this helps!", "not_applicable")]
)
def test_what_claims_nothing_is_not_asked(
    setting: Use, monkeypatch: pytest.MonkeyPatch, answer: str, label: str
) -> None:
    """Refusals and courtesies are told apart as without a named model."""
    stand_in(monkeypatch, "transformers", AutoModelForSequenceClassification=Hhem)
    setting(models={"entailment": HHEM})
    assert score("hallucination_cross_encoder", answer=answer).label == label
    assert score("hallucination_cross_encoder", documents=[" "]).label == "not_applicable"


class GLiNER:
    """GLiNER's documented interface."""

    @classmethod
    def from_pretrained(cls, name: str, local_files_only: bool = False) -> GLiNER:
        if name == "nobody/none":
            raise OSError("no such model")
        return cls()

    def predict_entities(self, text: str, labels: list[str], threshold: float) -> list[dict[str, Any]]:
        assert len(text) <= 1_200
        assert threshold == 0.5
        words = {"Ada Byron": "person", "adab": "username", "P1234567": "passport number", "4111 1111": "phone number"}
        assert set(words.values()) <= set(labels)
        return [
            {"start": text.index(w), "end": text.index(w) + len(w), "text": w, "label": label, "score": 0.8}
            for w, label in words.items()
            if w in text
        ]


def test_gliner(setting: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    """GLiNER's finds beside ours; a stand-in has its documented interface: weights are on the hub alone."""
    stand_in(monkeypatch, "gliner", GLiNER=GLiNER)
    setting(models={"pii": "gliner:some/model"})
    text = "Bananas are yellow. " * 100 + "passport P1234567, card 4111 1111 1111 1111, Ada Byron, alias adab"
    at = text.index("P1234567")
    assert [n.kind for n in external.personal(text, CURRENT.settings.model("pii"))] == [
        "passport", "phone", "person", "username",
    ]  # fmt: skip
    found = score("pii_leakage", answer=text)
    assert found.label == "fail"
    assert f"passport at {at}-{at + 8}, credit_card at" in (found.explanation or "")
    assert "phone" not in (found.explanation or "")  # ours is checked, and wins
    assert (found.explanation or "").endswith("with gliner:some/model")
    found = score("contact_information", answer="Ada Byron writes as adab.")
    assert "person at 0-9, username at 20-24" in (found.explanation or "")
    assert score("contact_information", answer="Ada Byron wrote it.").label == "pass"


def test_a_model_that_cannot_be_loaded(setting: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that names it."""
    stand_in(monkeypatch, "gliner", GLiNER=GLiNER)
    setting(models={"pii": "gliner:nobody/none"})
    found = score("pii_leakage")
    assert found.error == "ModelError"
    assert "'nobody/none' cannot be loaded: no such model" in (found.explanation or "")


# --- Presidio ---------------------------------------------------------------------------------------


@pytest.fixture
def presidio(setting: Use) -> None:
    """The real analyzer; spaCy with the largest model here, or a blank one."""
    for module in ("presidio_analyzer", "spacy"):
        pytest.importorskip(module, reason=f"{module} is not installed: pip install presidio-analyzer")
    setting(models={"pii": "presidio"})


@pytest.mark.usefixtures("presidio")
def test_presidio_repeats_nothing_that_ours_found() -> None:
    """What both know is reported once, under our name of the kind."""
    answer = "Mail jo@acme.io, card 4111 1111 1111 1111, wallet 16Yeky6GMjeNkAiNcBY7ZhrLoMSgg1BoyZ."
    found = score("pii_leakage", answer=answer)
    assert found.label == "fail"
    assert found.explanation == (
        "generation: email at 5-15, credit_card at 22-41, wallet at 50-84 (not in the chunks); with presidio"
    )


@pytest.mark.usefixtures("presidio")
@pytest.mark.parametrize(
    "answer",
    ["See www.acme.com, on 3 May 2021.", "Write to help@example.com.", "The host is 127.0.0.1.", "Order 912803456."],
)
def test_presidio_does_not_cry_wolf(answer: str) -> None:
    """Web addresses and dates identify nobody; what our checks refute, or Presidio is not sure of, stays out."""
    assert score("pii_leakage", answer=answer).label == "pass"


@pytest.mark.usefixtures("presidio")
def test_presidio_reads_any_text() -> None:
    """Also none, a long one, and what is no text at all."""
    for answer in ("", " ", "\ud800 lone", "x" * 300_000):
        assert score("pii_leakage", answer=answer).error is None


# --- cross-encoders ---------------------------------------------------------------------------------

ENTAILMENT = {0: "contradiction", 1: "entailment", 2: "neutral"}


@pytest.fixture
def make(tmp_path: Path, setting: Use, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Makes a cross-encoder with random weights, in a folder; the hub cannot be reached."""
    for module in ("sentence_transformers", "torch"):
        pytest.importorskip(module, reason=f"{module} is not installed: pip install 'ragtrace-otel[{EXTRA}]'")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")

    def write(labels: int = 1, names: dict[int, str] | None = None, tokens: int = 64) -> str:
        import torch
        from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

        torch.manual_seed(7)
        config = BertConfig(
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            max_position_embeddings=tokens,
            num_labels=labels,
            initializer_range=1.0,
            **({"id2label": names, "label2id": {v: k for k, v in names.items()}} if names else {}),
        )
        folder = tmp_path / f"{labels}-{len(names or {})}-{tokens}"
        BertForSequenceClassification(config).save_pretrained(folder)
        BertTokenizerFast(vocab=str(model_file("vocabulary")), model_max_length=tokens).save_pretrained(folder)
        return str(folder)

    return write


EXTRA = "sentence-transformers"


@pytest.mark.parametrize(("labels", "names"), [(1, None), (2, None), (3, ENTAILMENT)])
def test_a_cross_encoder_for_entailment(
    make: Callable[..., str], setting: Use, labels: int, names: dict[int, str] | None
) -> None:
    """With one score, with a yes and a no, and with three named labels; its value is the model's own."""
    folder = make(labels, names)
    setting(models={"entailment": folder})
    found = score("hallucination_cross_encoder")
    assert found.explanation == f"by {folder}"
    pair = ("The pump is covered for 24 months from delivery.", "The pump is covered for 24 months.")
    model = importlib.import_module("sentence_transformers").CrossEncoder(folder)
    made = model.predict([pair], apply_softmax=True, show_progress_bar=False)[0]
    assert found.value == pytest.approx(float(made if labels == 1 else made[1]), abs=1e-5)


def test_long_texts_and_a_cross_encoder(make: Callable[..., str], setting: Use) -> None:
    """What does not fit goes in as windows: no pair is longer than the model reads."""
    folder = make()
    setting(models={"entailment": folder})
    context = "Water flows downhill in the valley. " * 40 + "The pump is covered for 24 months."
    found = score("hallucination_cross_encoder", documents=[context])
    assert "windows, of which the best counts" in (found.explanation or "")
    model = entailment_models.get(folder)
    for piece in windows(context, 40, model.tokens):
        assert model.tokens(piece) <= 40
    long = score("hallucination_cross_encoder", documents=[context], answer="The pump is covered. " * 30)
    assert "parts, of which the worst counts" in (long.explanation or "")


def test_labels_that_say_nothing_of_entailment(make: Callable[..., str], setting: Use) -> None:
    """An error, not a number of something else."""
    setting(models={"entailment": make(2, {0: "cat", 1: "dog"})})
    found = score("hallucination_cross_encoder")
    assert found.error == "ModelError"
    assert "['cat', 'dog']" in (found.explanation or "")


def test_a_cross_encoder_for_similarity(make: Callable[..., str], setting: Use) -> None:
    """Relevance of the answer's sentences by its scores; one that gives several numbers is refused."""
    cosine = score("answer_relevance_cosine").value
    model = make()
    setting(models={"similarity": model})
    two = "The pump is covered for 24 months. Bananas are yellow and sweet."
    mean, most = score("answer_relevance_cosine", answer=two), score("answer_relevance_max", answer=two)
    scores = external.similarity(
        [("How long is the pump covered?", s) for s in two.replace(". ", ".|").split("|")], model
    )
    assert 0.0 <= min(scores) < max(scores) <= 1.0
    assert mean.value == pytest.approx(sum(scores) / 2)
    assert most.value == pytest.approx(max(scores))
    assert (mean.explanation or "").startswith("by ")
    assert external.similarity([], model) == []
    same = score("answer_similarity", answer="24 months", reference="two years")
    assert [same.value] == external.similarity([("24 months", "two years")], model)
    with pytest.raises(ModelError, match="3 numbers"):
        external.similarity([("a", "b")], make(3, ENTAILMENT))
    setting()
    assert score("answer_relevance_cosine").value == cosine


def test_a_name_that_nobody_has(make: Callable[..., str], setting: Use) -> None:
    """An error that names it."""
    setting(models={"entailment": "/nowhere/at/all"})
    assert score("hallucination_cross_encoder").error == "ModelError"


@pytest.mark.process
def test_processes_that_evaluate_load_what_is_named(make: Callable[..., str], setting: Use) -> None:
    """The child has the model ready before an evaluator's time begins, and gives the same value."""
    folder = make()
    settings = Settings(models={"entailment": folder})
    check = plugins.load("hallucination_cross_encoder", settings)
    here = run(check, [make_trace()])
    runner = ProcessRunner(for_evaluators(settings))
    try:
        there = runner.evaluate(check, [make_trace()], [0], 10)
    finally:
        runner.stop()
    assert there is not None
    assert there[0][0].value == pytest.approx(here[0][0].value or 0.0, abs=1e-5)
    assert there[0][0].explanation == f"by {folder}"
