"""Where settings come from, and what a wrong one says."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragtrace.errors import SettingError
from ragtrace.settings import Settings, describe, load, prices


def test_arguments_win_over_environment_over_file_over_defaults(tmp_path: Path) -> None:
    """The nearer to the program a value stands, the stronger it is."""
    file = tmp_path / "ragtrace.toml"
    file.write_text('[ragtrace]\napp = "file"\nenv = "file"\nsample = 0.25\nevaluators = ["toxicity"]\n')
    environ = {"RAGTRACE_APP": "environment", "RAGTRACE_ENV": "environment", "RAGTRACE_SAMPLE_ERRORS": "off"}
    used = load({"app": "argument"}, environ, file)
    assert (used.app, used.env, used.sample) == ("argument", "environment", 0.25)
    assert used.evaluators == ("toxicity",)
    assert used.sample_errors is False
    assert used.queue_items == Settings().queue_items


def test_the_file_is_found_in_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ragtrace.toml needs no mention; RAGTRACE_CONFIG names another one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ragtrace.toml").write_text('app = "here"\n')
    (tmp_path / "other.toml").write_text('app = "there"\n')
    assert load(environ={}).app == "here"
    assert load(environ={"RAGTRACE_CONFIG": str(tmp_path / "other.toml")}).app == "there"


@pytest.mark.parametrize(
    ("arguments", "environ", "words"),
    [
        ({"sampel": 0.5}, {}, ("sampel", "did you mean sample")),
        ({"sample": 1.5}, {}, ("sample is 1.5", "from 0 to 1")),
        ({"sample": "many"}, {}, ("sample is 'many'", "a number")),
        ({"queue_items": 2.5}, {}, ("queue_items is 2.5", "whole number")),
        ({}, {"RAGTRACE_SAMPLE": "2"}, ("RAGTRACE_SAMPLE is '2'", "from 0 to 1")),
        ({}, {"RAGTRACE_OPENINFERENCE": "maybe"}, ("RAGTRACE_OPENINFERENCE is 'maybe'", "true or false")),
        ({}, {"RAGTRACE_SAMPEL": "0.1"}, ("RAGTRACE_SAMPEL", "did you mean sample")),
        ({"otlp_protocol": "thrift"}, {}, ("otlp_protocol is 'thrift'", "grpc")),
        ({"app": 3}, {}, ("app is 3", "a text")),
        ({"model_prices": ["gpt=1"]}, {}, ("model_prices has 'gpt=1'", "model=INPUT/OUTPUT")),
        ({"model_prices": ["gpt=1/-2"]}, {}, ("'gpt=1/-2'", "million tokens")),
        ({"model_prices": ["=1/2"]}, {}, ("'=1/2'", "model=INPUT/OUTPUT")),
        ({"model_prices": ["a=1/nan"]}, {}, ("'a=1/nan'", "US dollars")),
        ({"model_prices": [3]}, {}, ("has 3", "model=INPUT/OUTPUT")),
        ({}, {"RAGTRACE_MODEL_PRICES": "a=1/2,a=3/4"}, ("RAGTRACE_MODEL_PRICES has 'a' twice", "one price")),
    ],
)
def test_a_wrong_setting_names_itself_its_value_and_what_is_right(
    arguments: dict[str, object], environ: dict[str, str], words: tuple[str, ...]
) -> None:
    """Nobody has to search for what is wrong."""
    with pytest.raises(SettingError) as caught:
        load(arguments, environ)
    for word in words:
        assert word in str(caught.value)


def test_prices_by_model() -> None:
    """A model's name may hold slashes and equals signs, as providers' do."""
    used = load({}, {"RAGTRACE_MODEL_PRICES": "openai/gpt-4o-mini=0.15/0.60, size=large=0/1e1"})
    assert prices(used.model_prices) == {"openai/gpt-4o-mini": (0.15, 0.60), "size=large": (0.0, 10.0)}


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    """A file that is no TOML, or is not there, is an error with its path."""
    broken = tmp_path / "ragtrace.toml"
    broken.write_text("app = ")
    for path in (broken, tmp_path / "absent.toml"):
        with pytest.raises(SettingError, match=path.name):
            load(environ={}, file=path)


def test_an_environment_shared_with_others_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """A variable that is like no setting is ignored with a warning: it may belong to another program."""
    assert load(environ={"RAGTRACE_XYZZY_HOME": "/opt"}) == Settings()
    assert "RAGTRACE_XYZZY_HOME" in caplog.text


def test_an_empty_argument_is_none(tmp_path: Path) -> None:
    """None stands for not given."""
    assert load({"app": None}, {}).app == Settings().app


def test_every_setting_has_a_default() -> None:
    """ragtrace runs without any setting."""
    assert dict(describe())["sample_per_second"] == Settings().sample_per_second
