"""Write the pages that are made from the code: python docs/generate.py"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from ragtrace import plugins
from ragtrace.settings import Settings, describe

DOCS = Path(__file__).parent
RECORD: dict[str, dict[str, Any]] = json.loads((DOCS.parent / "benchmarks" / "thresholds.json").read_text("utf-8"))
SHARES = ("good_failing", "recall")


_COSTS = {
    "text_checks": "no model",
    "overlap": "no model",
    "lexical": "no model",
    "steps": "no model",
    "privacy": "no model; `contact_information` one pass of the embedded name model over the answer and each chunk",
    "language_match": "one look-up in a language identifier for each text",
    "similarity": "sentence embeddings of the texts; chunks that recur are remembered",
    "composite": "that of the checks or embeddings that it is made of",
    "entities": "one pass of the embedded name model over the reference",
    "groundedness": "the groundedness model over answer and chunks, once for all its checks; chunks are remembered",
    "references": "the groundedness model over each pair of texts that it compares",
    "safety": "one embedding of each sentence, shared by all checks of this kind",
    "likelihood": "one pass of a causal language model over the texts, two for texts told in each other's words",
    "judge_ratios": "one request to the judge; forms that need the same claims share it",
    "critics": "one request to the judge",
    "g_eval": "one request to the judge, and one more for the steps of new criteria; eleven without log-probabilities",
    "cascade": "the local check, and one request to the judge where that is in doubt",
}
_OWN_COSTS = {
    "judge": "one request to the judge; a second one about the context where the answer fails",
    "ragas_judge": "four requests to the judge",
    **{f"critic_{c}": "three requests to the judge" for c in (
        "harmful", "malicious", "bias", "toxic", "hateful", "sexual", "violent", "insensitive", "self_harm",
        "manipulative",
    )},
}  # fmt: skip


def cost(name: str) -> str:
    """What an evaluator takes for a trace, in words."""
    module = plugins.BUILT_IN[name].partition(":")[0].rpartition(".")[2]
    return _OWN_COSTS.get(name, _COSTS[module])


def measured(name: str, version: str, threshold: float | None) -> list[str]:
    """What the threshold does on labelled data, where that was measured for this version."""
    entry = RECORD.get(name)
    if entry is None or entry["version"] != version:
        return []
    good, recall = (
        f"{entry[what]:.1%} ({entry[f'{what}_95'][0]:.0%} to {entry[f'{what}_95'][1]:.0%})" for what in SHARES
    )
    if threshold is None:
        return [f"- no verdict: where at most 5 % of good rows fail, {recall} of the bad ones do"]
    return [f"- at this threshold {good} of good rows fail, and {recall} of bad ones (`benchmarks/thresholds.py`)"]


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
            *measured(name, row["version"], row["threshold"]),
            f"- cost: {cost(name)}",
            f"- source: {row['source']}",
            "",
        ]
    return "\n".join(lines)


def settings_page() -> str:
    """The reference of the settings, with the texts that stand beside them in the code."""
    source = Path(__file__).parents[1].joinpath("ragtrace", "settings", "__init__.py").read_text(encoding="utf-8")
    body = source.split("class Settings:")[1].split("\n\n\n")[0]
    lines = [
        "# Settings",
        "",
        "Generated from the code by `make docs`. Arguments of `ragtrace.init(...)` win over environment variables",
        "(`RAGTRACE_<NAME>`), these over `ragtrace.toml` in the working directory (or at `RAGTRACE_CONFIG`).",
        "The settings of `ragtrace worker` alone are in [its page](worker.md).",
        "",
        "| setting | default | |",
        "|---|---|---|",
    ]
    for name, default in describe():
        after = body.split(f"    {name}: ")[1].split("\n", 1)[1]
        text = after.split('"""')[1] if after.lstrip().startswith('"""') else ""
        lines.append(f"| `{name}` | `{default!r}` | {' '.join(text.split())} |")
    assert len(lines) - 8 == len(describe()), Settings
    return "\n".join(lines) + "\n"


def runbooks_page() -> str:
    """The list of the runbooks: each alert with the first sentence of what it means."""
    lines = [
        "# Runbooks",
        "",
        "Generated by `make docs`. Each alert has a page: what it means, what to look at, what usually causes it, and",
        "what to do.",
        "",
        "| alert | what it means |",
        "|---|---|",
    ]
    for page in sorted((DOCS / "runbooks").glob("Ragtrace*.md")):
        meaning = page.read_text(encoding="utf-8").partition("## What it means\n\n")[2].splitlines()[0]
        first = re.split(r"(?<=[.:]) ", meaning)[0].rstrip(":.")
        lines.append(f"| [{page.stem}](runbooks/{page.name}) | {first} |")
    return "\n".join(lines) + "\n"


PAGES = {"evaluators.md": evaluators_page, "runbooks.md": runbooks_page, "settings.md": settings_page}


def main() -> None:
    for name, make in PAGES.items():
        (DOCS / name).write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    main()
