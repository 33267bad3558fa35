"""`ragtrace rules`: writes alert rules with their tests, Alertmanager's configuration, dashboards, a scrape job."""

import re
import shutil
from pathlib import Path

from ragtrace.errors import SettingError

_INSTALLED, _CHECKOUT = Path(__file__).parent / "alerting", Path(__file__).parents[2] / "grafana"
_GRAFANA, _CONSOLE = "http://localhost:3000", "http://localhost:8400"
_PATTERN = "|(?i:.*(prod|prd).*|(.*[^a-z])?live([^a-z].*)?)"
"""The environments that page as shipped, in alertmanager.yml; ragtrace-alerts.yml has the first part of it."""
_PAGES = "  - record: ragtrace_pages\n    expr: vector(1)\n    labels: {{evaluator: {name}}}\n"
OWN = "objectives.yml"


def write_rules(out: Path, pages: str = "", env_pattern: str = "", grafana: str = "", console: str = "") -> list[Path]:
    """Writes all files below `out` and returns their paths; an `objectives.yml` that is there stays.

    `pages` are names of evaluators whose falls wake people, separated by commas; `env_pattern` is a regular expression
    (RE2, of the whole name) of the environments that page, an unset one always does; the addresses are those that links
    begin with. Raises SettingError for an invalid name or pattern, and for a folder that cannot be written."""
    names = [name.strip() for name in pages.split(",") if name.strip()]
    if wrong := [name for name in names if not re.fullmatch(r"[\w.:-]{1,100}", name)]:
        raise SettingError(f"--pages has {wrong[0][:60]!r}; give names of evaluators, such as faithfulness,toxicity")
    try:
        re.compile(env_pattern)
    except re.error as error:
        raise SettingError(f"--env-pattern {env_pattern[:60]!r} is no regular expression: {error}") from None
    if '"' in env_pattern or "\\" in env_pattern:
        raise SettingError("--env-pattern has a quote or a backslash; use [.] for a dot")
    if re.search(r"\(\?(?![:iP])|[*+?}]\+", env_pattern):
        raise SettingError(f"--env-pattern {env_pattern[:60]!r} is no regular expression of RE2, which Prometheus uses")
    for address in filter(None, (grafana, console)):
        if not re.fullmatch(r"https?://[^\s\"'\\{}]+", address):
            raise SettingError(f"{address[:60]!r} is no address for links; give one like https://grafana.example.org")
    try:
        return [_written(path, out, names, env_pattern, grafana, console) for path in _files()]
    except OSError as error:
        raise SettingError(f"--out {out}: {error.strerror or error}; give a folder that can be written") from error


def _files() -> list[tuple[Path, Path]]:
    """Each file, and where it is written."""
    source = _INSTALLED if _INSTALLED.is_dir() else _CHECKOUT
    paths = [path for name in ("rules", "alertmanager", "dashboards") for path in sorted((source / name).rglob("*.*"))]
    scrape = next(path for path in (source / "prometheus.yml", source / "compose" / "prometheus.yml") if path.is_file())
    return [*((path, path.relative_to(source)) for path in paths), (scrape, Path("prometheus.yml"))]


def _written(  # noqa: PLR0917 what is replaced
    file: tuple[Path, Path], out: Path, names: list[str], env_pattern: str, grafana: str, console: str
) -> Path:
    source, path = file[0], out / file[1]
    if path.name == OWN and path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix not in (".yml", ".json"):
        return Path(shutil.copyfile(source, path))
    text = source.read_text(encoding="utf-8")
    for old, new in ((_GRAFANA, grafana), (_CONSOLE, console)):
        text = text.replace(old, new.rstrip("/")) if new else text
    if env_pattern:
        text = text.replace(_PATTERN, f"|{env_pattern}")
    if path.name == OWN and names:
        text = text.replace(_PAGES.format(name="faithfulness"), "".join(_PAGES.format(name=name) for name in names))
    path.write_text(text, encoding="utf-8")
    return path
