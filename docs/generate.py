"""Write the pages that are made from the code: python docs/generate.py"""

from __future__ import annotations

from pathlib import Path

from ragtrace import plugins
from ragtrace.settings import Settings, describe

DOCS = Path(__file__).parent


def evaluators_page() -> str:
    """The reference of the evaluators."""
    lines = [
        "# Evaluators",
        "",
        "Generated from the code by `make docs`. Method: `code` needs no model, `model` an embedded one,",
        "`judge` an LLM.",
        "",
    ]
    for name in plugins.builtin_names():
        row = plugins.describe(plugins.load(name))
        low, high = row["range"]
        arrow = "higher is better" if row["direction"] == "higher" else "lower is better"
        lines += [
            f"## `{name}`",
            "",
            str(row["description"]),
            "",
            f"- needs: {', '.join(row['needs'])}",
            f"- method: {row['method']} · range {low:g} to {'∞' if high is None else f'{high:g}'}, {arrow}"
            f" · threshold {'none' if row['threshold'] is None else format(row['threshold'], 'g')}"
            f" · version {row['version']}",
            f"- source: {row['source']}",
            "",
        ]
    return "\n".join(lines)


def settings_page() -> str:
    """The reference of the settings, with the texts that stand beside them in the code."""
    source = Path(__file__).parents[1].joinpath("ragtrace", "settings.py").read_text(encoding="utf-8")
    body = source.split("class Settings:")[1].split("\n\n\n")[0]
    lines = [
        "# Settings",
        "",
        "Generated from the code by `make docs`. Arguments of `ragtrace.init(...)` win over environment variables",
        "(`RAGTRACE_<NAME>`), these over `ragtrace.toml` in the working directory (or at `RAGTRACE_CONFIG`).",
        "",
        "| setting | default | |",
        "|---|---|---|",
    ]
    for name, default in describe():
        after = body.split(f"    {name}: ")[1].split("\n", 1)[1]
        text = after.split('"""')[1] if after.lstrip().startswith('"""') else ""
        lines.append(f"| `{name}` | `{default!r}` | {' '.join(text.split())} |")
    assert len(lines) - 7 == len(describe()), Settings
    return "\n".join(lines) + "\n"


PAGES = {"evaluators.md": evaluators_page, "settings.md": settings_page}


def main() -> None:
    for name, make in PAGES.items():
        (DOCS / name).write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    main()
