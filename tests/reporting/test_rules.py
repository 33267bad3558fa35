"""`ragtrace rules` writes what a team owns."""

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from ragtrace.cli import main
from tests.row_files import rows


@pytest.mark.process
def test_the_written_rules_are_valid_and_say_what_was_chosen(tmp_path: Path) -> None:
    """Choices are in the files, Prometheus's own tools accept them, and what a user edited stays."""
    out = tmp_path / "alerts"
    command = ["rules", "https://g.example.org/", "https://c.example.org", "--out", str(out)]
    command += ["--pages", "groundedness, toxicity", "--env-pattern", "prod-.*|prod"]
    assert main(command) == 0
    own = out / "rules" / "objectives.yml"
    (group,) = yaml.safe_load(own.read_text(encoding="utf-8"))["groups"]
    assert [rule["labels"]["evaluator"] for rule in group["rules"]] == ["groundedness", "toxicity"]
    alerts = (out / "rules" / "ragtrace-alerts.yml").read_text(encoding="utf-8")
    assert "https://g.example.org/d/ragtrace-overview?" in alerts
    assert "https://c.example.org/traces?" in alerts
    assert "localhost" not in "".join(line for line in alerts.splitlines() if not line.startswith("#"))
    assert 'env!~"|prod-.*|prod"' in (out / "alertmanager" / "alertmanager.yml").read_text(encoding="utf-8")
    assert {path.name for path in out.iterdir()} == {"rules", "alertmanager", "dashboards", "prometheus.yml"}
    own.write_text("groups: []\n", encoding="utf-8")
    assert main(command) == 0
    assert own.read_text(encoding="utf-8") == "groups: []\n"
    if shutil.which("promtool") is None or shutil.which("amtool") is None:
        pytest.skip("promtool or amtool is not installed")
    for tool in (
        ["promtool", "check", "rules", *map(str, (out / "rules").glob("ragtrace-*.yml"))],
        ["promtool", "test", "rules", str(out / "rules" / "tests" / "texts.yml")],
        ["amtool", "check-config", str(out / "alertmanager" / "alertmanager.yml")],
    ):
        done = subprocess.run(tool, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("more", "message"), rows(__file__, "bad_input_is_refused"))
def test_bad_input_is_refused(
    more: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A name that is none, a pattern that is none, a file in the place of the folder."""
    assert main(["rules", "--out", str(tmp_path / "out"), *more]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    (tmp_path / "file").touch()
    assert main(["rules", "--out", str(tmp_path / "file")]) == 2


def test_an_unknown_name_gets_a_hint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It may be an evaluator of one's own, so the rules are written all the same."""
    assert main(["rules", "--out", str(tmp_path), "--pages", "toxicty,zzz,faithfulness"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert [("toxicty" in line, "similar: toxicity" in line) for line in lines] == [(True, True), (False, False)]
