"""Where settings come from, and what a wrong one says."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ragtrace.errors import SettingError
from ragtrace.settings import Settings, describe, evaluator_shares, load, prices
from ragtrace.settings.section import Section
from tests.row_files import rows


def test_arguments_win_over_environment_over_file_over_defaults(tmp_path: Path) -> None:
    """The nearer to the program a value stands, the stronger it is."""
    file = tmp_path / "ragtrace.toml"
    file.write_text('[ragtrace]\napp = "file"\nenv = "file"\nsample = 0.25\nevaluators = ["toxicity"]\n')
    environ = {"RAGTRACE_APP": "environment", "RAGTRACE_ENV": "environment", "RAGTRACE_OPENINFERENCE": "on"}
    used = load({"app": "argument"}, environ, file)
    assert (used.app, used.env, used.sample, used.evaluators) == ("argument", "environment", 0.25, ("toxicity",))
    assert used.openinference is True
    assert used.queue_items == Settings().queue_items


def test_the_file_is_found_in_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ragtrace.toml needs no mention; RAGTRACE_CONFIG names another one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ragtrace.toml").write_text('app = "here"\n')
    (tmp_path / "other.toml").write_text('app = "there"\n')
    assert load(environ={}).app == "here"
    assert load(environ={"RAGTRACE_CONFIG": str(tmp_path / "other.toml")}).app == "there"


@pytest.mark.parametrize(
    ("arguments", "environ", "words"), rows(__file__, "a_wrong_setting_names_itself_its_value_and_what_is_right")
)
def test_a_wrong_setting_names_itself_its_value_and_what_is_right(
    arguments: dict[str, object], environ: dict[str, str], words: tuple[str, ...]
) -> None:
    with pytest.raises(SettingError) as caught:
        load(arguments, environ)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("address", rows(__file__, "addresses_of_every_form_are_taken"))
@pytest.mark.parametrize("signal", ["", "TRACES_"])
def test_addresses_of_every_form_are_taken(address: str, signal: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Collectors by URL, over gRPC also by host or socket, and brokers with several servers."""
    if address.startswith(("collector", "unix")):
        with pytest.raises(SettingError, match="does not begin with http://"):
            load({"otlp_endpoint": address}, {})
        monkeypatch.setenv(f"OTEL_EXPORTER_OTLP_{signal}PROTOCOL", "grpc")
    assert load({"otlp_endpoint": address}, {}).otlp_endpoint == address


def test_a_password_in_a_wrong_address_is_not_shown() -> None:
    with pytest.raises(SettingError) as caught:
        load({"transport": "nats://ada:s3\u2100cret@host:4222/s"}, {})
    assert "cret" not in str(caught.value)


def test_evaluators_have_shares(tmp_path: Path) -> None:
    file = tmp_path / "ragtrace.toml"
    file.write_text('evaluators = ["toxicity", {name = "faithfulness_judge", sample = 0.01}]')
    expected = [("toxicity", 1.0), ("faithfulness_judge", 0.01)]
    assert evaluator_shares(load(environ={}, file=file).evaluators) == expected
    variables = {"RAGTRACE_EVALUATORS": "toxicity, faithfulness_judge=0.01"}
    assert evaluator_shares(load(environ=variables).evaluators) == expected
    given = {"evaluators": ["toxicity", {"name": "faithfulness_judge", "sample": 0.01}]}
    assert evaluator_shares(load(given, environ={}).evaluators) == expected
    assert evaluator_shares(load({"evaluators": [{"name": "a:b"}]}, environ={}).evaluators) == [("a:b", 1.0)]


def test_prices_by_model() -> None:
    """A model's name may hold slashes and equals signs, as providers' do."""
    used = load({}, {"RAGTRACE_MODEL_PRICES": "openai/gpt-4o-mini=0.15/0.60, size=large=0/1e1/2/3"})
    expected = {"openai/gpt-4o-mini": (0.15, 0.60, 0.15, 0.15), "size=large": (0.0, 10.0, 2.0, 3.0)}
    assert prices(used.model_prices) == expected
    with pytest.raises(SettingError, match="CACHE_READ"):
        load({"model_prices": ["m=1/2/3"]}, {})
    with pytest.raises(SettingError, match="give KEY=VALUE"):
        load({}, {"RAGTRACE_MODELS": '{"embedding"'})


@pytest.mark.parametrize("content", [None, "app = ", "app = " + "[" * 5_000, "sample = " + "1" * 5_000])
def test_a_broken_file_is_named(tmp_path: Path, content: str | None) -> None:
    """One that is no TOML, nested without end, or not there, or has a number of 5,000 digits, is an error."""
    file = tmp_path / "ragtrace.toml"
    if content is not None:
        file.write_text(content)
    with pytest.raises(SettingError, match=file.name):
        load(environ={}, file=file)


def test_an_environment_shared_with_others_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """A variable like no setting is ignored with a warning: it may be another program's. None stands for not given."""
    assert load({"app": None}, environ={"RAGTRACE_XYZZY_HOME": "/opt"}) == Settings()
    assert dict(describe())["sample_per_second"] == Settings().sample_per_second
    assert "RAGTRACE_XYZZY_HOME" in caplog.text


@dataclass(frozen=True)
class Review:
    """Settings of a part of ragtrace, as a section has them."""

    quota: int = 50
    worst: float = 0.25
    evaluators: tuple[str, ...] = ()
    roles: Mapping[str, str] = field(default_factory=dict)
    secret: str = ""
    related: tuple[frozenset[str], ...] = ()


SECTION = Section(
    Review, table="review", prefix="RAGTRACE_CONSOLE_REVIEW_", bounds={"quota": (0, 1000)},
    variables={"evaluators": "RAGTRACE_CONSOLE_REVIEWED"}, secrets=frozenset({"secret"}),
)  # fmt: skip


@pytest.mark.parametrize("table", ["review", "ragtrace.review"])
def test_a_section_is_a_table_of_the_same_file(tmp_path: Path, table: str) -> None:
    """One file has the settings of all parts; arguments win over the environment, and that over the file."""
    file = tmp_path / "ragtrace.toml"
    own = "[ragtrace]\n" if "." in table else ""
    file.write_text(f'{own}app = "shop"\n[{table}]\nquota = 10\nworst = 1\nroles = {{"a" = "admin"}}\n')
    environ = {"RAGTRACE_CONSOLE_REVIEW_WORST": "0.5", "RAGTRACE_CONSOLE_REVIEWED": "toxicity, refusal"}
    review = SECTION.load({"quota": 20}, {**environ, "RAGTRACE_CONSOLE_REVIEW_ROLES": ""}, file)
    assert review == Review(20, 0.5, ("toxicity", "refusal"), {"a": "admin"})
    assert SECTION.load(environ={}, file=file).quota == 10
    assert load(environ=environ, file=file).app == "shop"
    roles = SECTION.load(environ={"RAGTRACE_CONSOLE_REVIEW_ROLES": "x=y=admin,*=viewer"}).roles
    assert roles == {"x=y": "admin", "*": "viewer"}


@pytest.mark.parametrize(("line", "words"), rows(__file__, "a_wrong_setting_of_a_section_names_the_table"))
def test_a_wrong_setting_of_a_section_names_the_table(tmp_path: Path, line: str, words: tuple[str, ...]) -> None:
    """An unknown key of a table is an error with a suggestion; a secret belongs to the environment."""
    file = tmp_path / "ragtrace.toml"
    file.write_text(f"[review]\n{line}\n")
    with pytest.raises(SettingError) as caught:
        SECTION.load(environ={}, file=file)
    for word in words:
        assert word in str(caught.value)


def test_a_table_at_two_levels_is_an_error(tmp_path: Path) -> None:
    """Where the settings are in [ragtrace], the sections are below it; one beside it would be ignored."""
    file = tmp_path / "ragtrace.toml"
    file.write_text('[ragtrace]\napp = "x"\n[review]\nquota = 1\n')
    with pytest.raises(SettingError, match=r"write \[ragtrace\.review\]"):
        SECTION.load(environ={}, file=file)
