"""Models that the user names in place of the embedded ones: which evaluators ask them, and what they get."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
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
from tests.row_files import rows

Models = dict[str, str]
USED = (toxicity_models, entailment_models, similarity_models, pii_engines)


@pytest.fixture(autouse=True)
def _no_models_of_another_test() -> Iterator[None]:
    yield
    for models in USED:
        models.use(None)


def score(name: str, models: Models | None = None, **fields: Any) -> Score:
    ((found,),) = run(plugins.load(name, Settings(models=models or {})), [make_trace(**fields)])
    return found


def stand_in(monkeypatch: pytest.MonkeyPatch, name: str, **members: Any) -> None:
    """A module with the interface that the library documents."""
    module = ModuleType(name)
    vars(module).update(members)
    monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.parametrize(("models", "module", "evaluator", "package"), rows(__file__, "a_missing_package_is_named"))
def test_a_missing_package_is_named(
    monkeypatch: pytest.MonkeyPatch, models: Models, module: str, evaluator: str, package: str
) -> None:
    """The score is an error that says which setting wants what, and how to install it."""
    monkeypatch.setitem(sys.modules, module, None)  # type: ignore[arg-type]
    found = score(evaluator, models)
    assert found.error == "MissingExtraError"
    assert package in (found.explanation or "")
    assert f"models.{next(iter(models))}" in (found.explanation or "")


@pytest.mark.parametrize("models", [{"toxicity": "detoxify"}, {"pii": "gliner:"}, {"pip": "presidio"}])
def test_a_name_that_cannot_be_right_is_refused(models: Models) -> None:
    with pytest.raises(SettingError, match=r"^models has"):
        load({"models": models}, environ={})


def test_without_names_nothing_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """No library is asked for, and the embedded models answer."""
    for module in ("detoxify", "gliner", "presidio_analyzer", "sentence_transformers", "transformers"):
        monkeypatch.setitem(sys.modules, module, None)  # type: ignore[arg-type]
    external.warm(Settings())
    names = ("answer_similarity", "contact_information", "hallucination_cross_encoder", "pii_leakage", "toxicity")
    assert [score(name, reference="24 months").error for name in names] == [None] * 5
    assert "by" not in (score("toxicity").explanation or "")


@given(st.integers(0, 300), st.integers(2, 20), st.integers(1, 40))
def test_windows_leave_nothing_out(length: int, words: int, room: int) -> None:
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
    assert windows("one two three four five six", 12, len)[0] == "one two "


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
def test_detoxify(monkeypatch: pytest.MonkeyPatch, model: str, answer: str) -> None:
    """Toxicity and its labels are Detoxify's; `fairness_bias`, which it does not know, stays with the embedded head."""
    stand_in(monkeypatch, "detoxify", Detoxify=Detoxify)
    before = score("fairness_bias", answer=answer)
    models = {"toxicity": model}
    for name in ("toxicity", "toxicity_severe", "toxicity_obscene", "toxicity_insult", "toxicity_identity_attack"):
        found = score(name, models, answer=answer)
        assert (found.value, found.label) == (0.9, "fail")
        assert (found.explanation or "").endswith(f"; by {model}")
    assert score("toxicity_threat", models, answer=answer).value == 0.0
    assert score("fairness_bias", models, answer=answer) == before


class Hhem:
    """What Vectara's page documents: `predict` of pairs of premise and hypothesis."""

    calls: list[tuple[str, dict[str, Any]]] = []  # noqa: RUF012 emptied by the tests

    @classmethod
    def from_pretrained(cls, name: str, **options: Any) -> Hhem:
        cls.calls.append((name, options))
        return cls()

    def predict(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        return [0.95 if "24 months" in premise else 0.2 for premise, _ in pairs]


@pytest.fixture
def hhem(monkeypatch: pytest.MonkeyPatch) -> Models:
    """HHEM, of which a stand-in has the documented interface: its weights are on the hub alone."""
    stand_in(monkeypatch, "transformers", AutoModelForSequenceClassification=Hhem)
    Hhem.calls.clear()
    return {"entailment": HHEM}


def test_hhem(hhem: Models, tmp_path: Path) -> None:
    """Its code is run; a folder is never looked up on the hub."""
    found = score("hallucination_cross_encoder", hhem)
    assert (found.value, found.explanation) == (0.95, f"by {HHEM}")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "HHEMv2Config"}))
    found = score("hallucination_cross_encoder", {"entailment": str(tmp_path)}, documents=["Nothing on pumps."])
    assert found.value == 0.2
    assert Hhem.calls == [
        (HHEM, {"trust_remote_code": True, "local_files_only": False}),
        (str(tmp_path), {"trust_remote_code": True, "local_files_only": True}),
    ]


def test_long_contexts_are_read_in_windows(hhem: Models) -> None:
    """The window that supports the answer best counts, wherever it is, and the explanation says what was read."""
    filler, fact = "Water flows downhill in the valley. " * 800, "The pump is covered for 24 months."
    for documents, words in (
        ([filler, filler + fact], "windows, of which the best counts"),
        ([filler * 20, fact, filler], "64 of them were judged"),
    ):
        found = score("hallucination_cross_encoder", hhem, documents=documents)
        assert found.value == 0.95
        assert words in (found.explanation or "")
    found = score("hallucination_cross_encoder", hhem, answer="The pump is covered for two years. " * 1_000)
    assert "8 of them were judged" in (found.explanation or "")


def test_what_claims_nothing_is_not_asked(hhem: Models) -> None:
    """Refusals, courtesies and empty contexts are told apart as without a named model."""
    assert score("hallucination_cross_encoder", hhem, answer="The context does not mention this.").label == "refusal"
    for fields in ({"answer": "I hope this helps!"}, {"documents": [" "]}):
        assert score("hallucination_cross_encoder", hhem, **fields).label == "not_applicable"
    assert Hhem.calls == []


class GLiNER:
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


def test_gliner(monkeypatch: pytest.MonkeyPatch) -> None:
    """GLiNER's finds beside ours; a stand-in has its documented interface: weights are on the hub alone."""
    stand_in(monkeypatch, "gliner", GLiNER=GLiNER)
    models = {"pii": "gliner:some/model"}
    text = "Bananas are yellow. " * 100 + "passport P1234567, card 4111 1111 1111 1111, Ada Byron, alias adab"
    at = text.index("P1234567")
    kinds = [match.kind for match in external.personal(text, models["pii"])]
    assert kinds == ["passport", "phone", "person", "username"]
    found = score("pii_leakage", models, answer=text)
    assert found.label == "fail"
    assert f"passport at {at}-{at + 8}, credit_card at" in (found.explanation or "")
    assert "phone" not in (found.explanation or "")  # ours is checked, and wins
    assert (found.explanation or "").endswith("with gliner:some/model")
    found = score("contact_information", models, answer="Ada Byron writes as adab.")
    assert "person at 0-9, username at 20-24" in (found.explanation or "")
    assert score("contact_information", models, answer="Ada Byron wrote it.").label == "pass"
    found = score("pii_leakage", {"pii": "gliner:nobody/none"})
    assert found.error == "ModelError"
    assert "'nobody/none' cannot be loaded: no such model" in (found.explanation or "")


@pytest.fixture
def presidio() -> Models:
    """The real analyzer; spaCy with the largest model here, or a blank one."""
    for module in ("presidio_analyzer", "spacy"):
        pytest.importorskip(module, reason=f"{module} is not installed: pip install presidio-analyzer")
    return {"pii": "presidio"}


def test_presidio_repeats_nothing_that_ours_found(presidio: Models) -> None:
    """What both know is reported once, under our name of the kind."""
    answer = "Mail jo@acme.io, card 4111 1111 1111 1111, wallet 16Yeky6GMjeNkAiNcBY7ZhrLoMSgg1BoyZ."
    found = score("pii_leakage", presidio, answer=answer)
    assert found.label == "fail"
    assert found.explanation == (
        "generation: email at 5-15, credit_card at 22-41, wallet at 50-84 (not in the chunks); with presidio"
    )


@pytest.mark.parametrize("answer", rows(__file__, "presidio_does_not_cry_wolf"))
def test_presidio_does_not_cry_wolf(presidio: Models, answer: str) -> None:
    """Web addresses and dates identify nobody; what our checks refute, or Presidio is not sure of, stays out."""
    assert score("pii_leakage", presidio, answer=answer).label == "pass"


def test_presidio_reads_any_text(presidio: Models) -> None:
    for answer in ("", " ", "\ud800 lone", "x" * 300_000):
        assert score("pii_leakage", presidio, answer=answer).error is None


_SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
TINY: dict[str, Any] = {**_SIZES, "initializer_range": 1.0}
ENTAILMENT = {0: "contradiction", 1: "entailment", 2: "neutral"}


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Makes a cross-encoder with random weights, in a folder; the hub cannot be reached."""
    for module in ("sentence_transformers", "torch"):
        pytest.importorskip(
            module, reason=f"{module} is not installed: pip install 'ragtrace-otel[sentence-transformers]'"
        )
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")

    def write(labels: int = 1, names: dict[int, str] | None = None, tokens: int = 64) -> str:
        import torch
        from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

        torch.manual_seed(7)
        named = {"id2label": names, "label2id": {v: k for k, v in names.items()}} if names else {}
        config = BertConfig(**TINY, max_position_embeddings=tokens, num_labels=labels, **named)
        folder = tmp_path / f"{labels}-{len(names or {})}-{tokens}"
        BertForSequenceClassification(config).save_pretrained(folder)
        BertTokenizerFast(vocab=str(model_file("vocabulary")), model_max_length=tokens).save_pretrained(folder)
        return str(folder)

    return write


@pytest.mark.parametrize(("labels", "names"), [(1, None), (2, None), (3, ENTAILMENT)])
def test_a_cross_encoder_for_entailment(make: Callable[..., str], labels: int, names: dict[int, str] | None) -> None:
    """With one score, with a yes and a no, and with three named labels; its value is the model's own."""
    folder = make(labels, names)
    found = score("hallucination_cross_encoder", {"entailment": folder})
    assert found.explanation == f"by {folder}"
    pair = ("The pump is covered for 24 months from delivery.", "The pump is covered for 24 months.")
    model = importlib.import_module("sentence_transformers").CrossEncoder(folder)
    made = model.predict([pair], apply_softmax=True, show_progress_bar=False)[0]
    assert found.value == pytest.approx(float(made if labels == 1 else made[1]), abs=1e-5)


def test_long_texts_and_a_cross_encoder(make: Callable[..., str]) -> None:
    """What does not fit goes in as windows: no pair is longer than the model reads."""
    folder = make()
    models = {"entailment": folder}
    context = "Water flows downhill in the valley. " * 40 + "The pump is covered for 24 months."
    found = score("hallucination_cross_encoder", models, documents=[context])
    assert "windows, of which the best counts" in (found.explanation or "")
    model = entailment_models.get(folder)
    for piece in windows(context, 40, model.tokens):
        assert model.tokens(piece) <= 40
    long = score("hallucination_cross_encoder", models, documents=[context], answer="The pump is covered. " * 30)
    assert "parts, of which the worst counts" in (long.explanation or "")


def test_labels_that_say_nothing_of_entailment(make: Callable[..., str]) -> None:
    """An error, not a number of something else; a folder that is not there is an error, too."""
    assert score("hallucination_cross_encoder", {"entailment": "/nowhere/at/all"}).error == "ModelError"
    found = score("hallucination_cross_encoder", {"entailment": make(2, {0: "cat", 1: "dog"})})
    assert found.error == "ModelError"
    assert "['cat', 'dog']" in (found.explanation or "")


def test_a_cross_encoder_for_similarity(make: Callable[..., str]) -> None:
    """Relevance of the answer's sentences by its scores; one that gives several numbers is refused."""
    cosine = score("answer_relevance_cosine").value
    model = make()
    models = {"similarity": model}
    two = ("The pump is covered for 24 months.", "Bananas are yellow and sweet.")
    mean, most = (score(f"answer_relevance_{name}", models, answer=" ".join(two)) for name in ("cosine", "max"))
    scores = external.similarity([("How long is the pump covered?", sentence) for sentence in two], model)
    assert 0.0 <= min(scores) < max(scores) <= 1.0
    assert mean.value == pytest.approx(sum(scores) / 2)
    assert most.value == pytest.approx(max(scores))
    assert (mean.explanation or "").startswith("by ")
    assert external.similarity([], model) == []
    same = score("answer_similarity", models, answer="24 months", reference="two years")
    assert [same.value] == external.similarity([("24 months", "two years")], model)
    with pytest.raises(ModelError, match="3 numbers"):
        external.similarity([("a", "b")], make(3, ENTAILMENT))
    assert score("answer_relevance_cosine").value == cosine


@pytest.mark.process
def test_processes_that_evaluate_load_what_is_named(make: Callable[..., str]) -> None:
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
