"""The example configurations say what the worker and the Collector understand."""

import re
import shlex
from pathlib import Path

import pytest
import yaml

from ragtrace.cli import _parser
from ragtrace.settings import load
from ragtrace.settings.section import PREFIX
from ragtrace.worker.worker_settings import load_worker
from tests.row_files import table

FOLDER = Path(__file__).parents[2] / "examples" / "worker"
KEYS: dict[str, list[str]] = table(__file__, "keys")
"""Keys of each component that the Collector's documentation describes, as far as the examples may use them."""


def _read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["collector-tail.yaml", "collector-side-branch.yaml"])
def test_a_collector_configuration_is_whole(name: str) -> None:
    """Each component is defined, used and has documented keys; the worker's address is one of the compose file."""
    content = yaml.safe_load(_read(name))
    used: dict[str, set[str]] = {"receivers": set(), "processors": set(), "exporters": set()}
    for pipeline, parts in content["service"]["pipelines"].items():
        assert pipeline.partition("/")[0] == "traces"  # the worker takes no other signal
        for kind, names in used.items():
            names.update(parts[kind])
    for kind, names in used.items():
        assert set(content[kind]) == names
        for component, settings in content[kind].items():
            assert settings.keys() <= set(KEYS[f"{kind}/{component.partition('/')[0]}"])
    assert any("worker" in each.get("endpoint", "") for each in content["exporters"].values())
    (exposed,) = re.findall(r"^EXPOSE (.*)$", _read("Dockerfile"), re.MULTILINE)
    for exporter, settings in content["exporters"].items():
        host, _, port = settings["endpoint"].removeprefix("http://").partition(":")
        assert host in yaml.safe_load(_read("compose.yaml"))["services"]
        assert port == ("4317" if exporter.startswith("otlp/") else "4318")
        assert host != "worker" or port in exposed.split()


def test_the_container_runs_the_worker_without_root() -> None:
    text = _read("Dockerfile")
    command = yaml.safe_load(re.search(r"^CMD (.*)$", text, re.MULTILINE)[1])  # type: ignore[index]
    options = _parser().parse_args(command)
    assert load_worker({"grpc": options.grpc, "http": options.http}).http == "0.0.0.0:4318"
    user = re.search(r"^USER (\d+)$", text, re.MULTILINE)
    assert user is not None
    assert int(user[1])


def test_the_compose_file_names_settings_that_exist() -> None:
    for service in yaml.safe_load(_read("compose.yaml"))["services"].values():
        variables = {name: str(value) for name, value in service.get("environment", {}).items()}
        assert load(environ=variables) is not None
        assert all(name.startswith(PREFIX) for name in variables)
        command = service.get("command")
        if command and "build" in service:
            assert _parser().parse_args(command if isinstance(command, list) else shlex.split(command))
