"""Write the pages that are made from the code: python docs/generate.py"""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

from ragtrace import plugins
from ragtrace.evaluate.privacy_modes import redact_texts
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
    "likelihood": "one pass of a causal language model over the texts, two for texts that are compared both ways",
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


def measured(row: dict[str, Any]) -> list[str]:
    """What the threshold does on labelled data, where that was measured for this version."""
    entry = RECORD.get(row["name"])
    if entry is None or entry["version"] != row["version"]:
        return []
    good, recall = (f"{entry[what]:.1%}" for what in SHARES)
    if row["threshold"] is None:
        return [f"; no verdict: where at most 5 % of good rows fail, {recall} of the bad ones do"]
    return [f"; {good} of good rows fail, {recall} of bad ones"]


_GROUPS = {
    "Is the answer supported by its chunks?": (
        "groundedness groundedness_cosine groundedness_lexical faithfulness hallucination hallucination_cross_encoder "
        "context_contradiction noise_sensitivity noise_sensitivity_relevant noise_sensitivity_irrelevant"
    ),
    "Does it answer the question?": (
        "answer_relevance answer_relevance_cosine answer_relevance_max answer_relevancy_questions "
        "answer_relevancy_statements refusal "
        "no_answer language_mismatch"
    ),
    "Did the retrieval find what is needed?": (
        "context_relevancy context_relevancy_recall context_relevancy_precision context_precision "
        "context_precision_statements context_recall context_entities_recall"
    ),
    "Does it leak personal data or secrets?": "pii_leakage sensitive_data_leakage contact_information",
    "Is it harmful, rude or unfair?": (
        "toxicity toxicity_identity_attack toxicity_insult toxicity_obscene toxicity_severe toxicity_threat "
        "fairness_bias sexism stereotypes critic_bias critic_harmful critic_hateful critic_insensitive "
        "critic_malicious critic_manipulative critic_self_harm critic_sexual critic_toxic critic_violent"
    ),
    "Does it repeat itself?": (
        "looping_unique_sentences looping_repeated_ngrams looping_repeated_substring looping_compression_ratio "
        "looping_tool_calls"
    ),
    "Is it right, beside an expected answer?": (
        "answer_correctness answer_similarity classification ragas tokens_presence bleu_1 bleu_2 bleu_3 bleu_4 "
        "rouge_1 rouge_2 rouge_l"
    ),
    "Is the summary good?": "summary_faithfulness_zs summary_faithfulness_conv summary_completeness summary",
    "By criteria of your own": "g_eval judge",
    "By the likelihood of its words": "perplexity gptscore",
}
"""Evaluators by what they answer. A name includes its `_judge` and `_cascade` forms; `gptscore` includes all
evaluators that begin so."""
_LANGUAGES = {
    "text_checks": "any",
    "overlap": "any with blanks between words",
    "lexical": "English; else `not_applicable`",
    "steps": "any",
    "privacy": "patterns: any; words beside a value: several European languages; names: English",
    "language_match": "176; `not_applicable` where a text is too short to tell",
    "similarity": "English",
    "composite": "English",
    "entities": "English",
    "groundedness": "English; else `not_applicable`",
    "references": "English; else `not_applicable`",
    "safety": "English; insults also in nine other languages, refusals in eight",
    "likelihood": "those of the language model",
    "cascade": "the local check's; the judge's where it is asked",
}
_STARTS = (
    (
        "a support bot over manuals",
        "groundedness answer_relevance context_relevancy_recall refusal pii_leakage",
        "a claim without support, an answer beside the point, a search that found nothing, a bot that gives up, a leak",
    ),
    (
        "an assistant whose wrong sentence is expensive",
        "groundedness faithfulness_cascade context_contradiction context_relevancy_recall sensitive_data_leakage",
        "the judge is asked only where the local value is in doubt; it needs a model and a budget",
    ),
    (
        "an agent with tools",
        "looping_tool_calls groundedness refusal sensitive_data_leakage looping_repeated_ngrams",
        "calls in a circle, and what an agent repeats from its tools",
    ),
    (
        "an assistant in other languages than English",
        "language_mismatch faithfulness_judge answer_relevancy_statements pii_leakage looping_unique_sentences",
        "the embedded models know English; the judge knows its model's languages",
    ),
    (
        "a public chat with strangers",
        "toxicity refusal pii_leakage sensitive_data_leakage answer_relevance",
        "what users provoke",
    ),
    (
        "tests with expected answers",
        "answer_correctness context_recall faithfulness answer_similarity rouge_l",
        "these need a `reference`; live requests rarely have one",
    ),
)
"""What one builds, the five evaluators to begin with, and why."""


_FAMILIES = ("bleu_", "rouge_", "gptscore_qa_", "gptscore_summary_ref_", "gptscore_summary_", "gptscore_translation_",
             "toxicity", "critic_", "noise_sensitivity")  # fmt: skip
"""Evaluators whose names begin so are one idea that is measured in several ways."""


def _idea(name: str) -> str:
    """The idea that an evaluator measures: its family, or its name without the form."""
    base = name.removesuffix("_cascade").removesuffix("_judge")
    return next((family for family in _FAMILIES if base.startswith(family)), base)


def evaluators_page() -> str:
    """The reference of the evaluators: where to begin, and each idea with the evaluators that measure it."""
    ideas: dict[str, list[str]] = {}
    for name in plugins.builtin_names():
        ideas.setdefault(_idea(name), []).append(name)
    lines = [
        "# Evaluators",
        "",
        f"{len(ideas)} ideas, {len(plugins.builtin_names())} names. An idea may have several forms, each an evaluator:",
        "",
        "- its own name: by `code`, without a model, or by an embedded `model`;",
        "- `NAME_judge`: by the LLM that [`judge_model`](judge.md) names, in the languages of that model. One request,",
        "  shared by forms that need the same claims, unless the entry says another number;",
        "- `NAME_cascade`: the local form, and the judge where its value is nearer to the threshold than the setting",
        "  `cascade_band`, less where the judge's budget runs short. The score's method says which of them answered.",
        "",
        "A score of 1 is best and 0 worst, and `pass` is a score at the threshold or above, unless the entry says that",
        "lower is better.",
        "",
        "## Which five do I want?",
        "",
        "| you have | begin with | for |",
        "|---|---|---|",
        *(f"| {what} | {', '.join(_link(name) for name in names.split())} | {why} |" for what, names, why in _STARTS),
        "",
        "Without a setting these run: " + ", ".join(_link(name) for name in plugins.DEFAULT_SUITE) + ".",
        "Alerts page on `faithfulness` as shipped. Where it is not among yours, [name another one](howto/alerts.md).",
        "[Write your own](howto/evaluator.md) · [how good they are](quality.md) · [the judge](judge.md)",
        "",
    ]
    for title in _GROUPS:
        lines += [f"## {title}", ""]
        for names in ideas.values():
            if _group(names[0]) == title:
                lines += _entry([plugins.describe(plugins.load(name)) for name in names])
    return "\n".join([*lines, _MADE])


_MADE = "This page is made from the code by `make docs`.\n"


def _group(name: str) -> str:
    base = "gptscore" if name.startswith("gptscore_") else name.removesuffix("_cascade").removesuffix("_judge")
    titles = [title for title, names in _GROUPS.items() if {name, base} & set(names.split())]
    if len(titles) != 1:
        raise ValueError(f"{name} is in {len(titles)} groups of docs/generate.py; put it into one of _GROUPS")
    return titles[0]


def _link(name: str) -> str:
    return f"[`{name}`](#{_anchor(_idea(name))})"


def _anchor(idea: str) -> str:
    return idea.strip("_")


def _entry(rows: list[dict[str, Any]]) -> list[str]:
    """An idea: what it measures, its forms, and what they share."""
    first = next((row for row in rows if row["method"] != "judge"), rows[0])
    name = first["name"]
    module = plugins.BUILT_IN[name].partition(":")[0].rpartition(".")[2]
    is_family = len({row["name"].removesuffix("_cascade").removesuffix("_judge") for row in rows}) > 1
    lines = [f"### `{_anchor(_idea(name))}`", ""]
    has_own = not is_family or name == _anchor(_idea(name))
    lines += [str(first["description"]), ""] if has_own else []
    lines += [_form(row, first, described=is_family and not (has_own and row is first)) for row in rows]
    facts = [f"needs {', '.join(first['needs'])}", f"languages: {_LANGUAGES.get(module, 'those of the judge')}"]
    lines += ["", f"{'; '.join(facts)}; cost: {cost(name)}. Source: {first['source']}.", ""]
    lines[-2] = lines[-2][0].upper() + lines[-2][1:]
    return lines


def _form(row: dict[str, Any], first: dict[str, Any], described: bool) -> str:
    """A form of an idea in one line; of a family, with what it says unless it is the form of another."""
    is_form = row["name"].endswith(("_judge", "_cascade")) and row["name"] != "ragas_judge"
    text = re.split(r"(?<=\.)\s", " ".join(row["description"].split()))[0].rstrip(".") if described else ""
    what = f": {text}" if text and not is_form else ""
    high = "" if row["range"] == [0.0, 1.0] else f", {row['range'][0]:g} to {row['range'][1] or '∞'}"
    lower = ", lower is better" if row["direction"] == "lower" else ""
    threshold = "no threshold" if row["threshold"] is None else f"threshold {row['threshold']:g}"
    needs = [] if row["needs"] == first["needs"] else [f"; needs {', '.join(row['needs'])}"]
    own = [f"; {_OWN_COSTS[row['name']]}"] if is_form and row["name"] in _OWN_COSTS else []
    parts = [f"{row['method']}{high}{lower}", threshold, f"version {row['version']}"]
    return "".join([f"- `{row['name']}`{what} ({', '.join(parts)})", *measured(row), *needs, *own])


_TASKS = {
    "enabled": "Name it, or turn it off",
    "evaluators": "Choose what is evaluated",
    "capture_content": "Decide what leaves the process",
    "source": "Choose where requests come from",
    "otlp_endpoint": "Send spans, events and scores",
    "report_file": "Write a journal, and use calibrated thresholds",
    "prometheus_port": "Metrics",
    "hold_seconds": "How long spans wait for scores",
    "queue_items": "Queues, threads and processes",
    "models": "Larger models, and what counts as personal data",
    "judge_model": "The judge",
    "store": "Keep chat logs",
}
"""The first setting of each part of the page, and the title of the part."""
_FORMS = """# Settings

A setting has three forms. An argument of `ragtrace.init` wins over the environment, and that over `ragtrace.toml` in
the working directory (or at `RAGTRACE_CONFIG`):

```python
import ragtrace

ragtrace.init(evaluators=["groundedness", "toxicity"], sample=0.2, capture_content=True)
```

```sh
export RAGTRACE_EVALUATORS=groundedness,toxicity RAGTRACE_SAMPLE=0.2 RAGTRACE_CAPTURE_CONTENT=true
```

```toml
# ragtrace.toml
evaluators = ["groundedness", "toxicity"]
sample = 0.2
capture_content = true
```

The settings of [`ragtrace worker`](worker.md) and of [the console](console.md) alone are in their pages."""


def settings_page() -> str:
    """The reference of the settings by task, with the texts that stand beside them in the code."""
    source = Path(__file__).parents[1].joinpath("ragtrace", "settings", "__init__.py").read_text(encoding="utf-8")
    body = source.split("class Settings:")[1].split("\n\n\n")[0]
    lines = [_FORMS]
    for name, default in describe():
        if name in _TASKS:
            lines += ["", f"## {_TASKS[name]}", "", "| setting | default | |", "|---|---|---|"]
        after = body.split(f"    {name}: ")[1].split("\n", 1)[1]
        text = after.split('"""')[1] if after.lstrip().startswith('"""') else ""
        lines.append(f"| `{name}` | `{default!r}` | {' '.join(text.split())} |")
    return "\n".join([*lines, "", _MADE])


_TEXTS = {
    "a question": (
        "I am Ada Lovelace, ada@acme.com, +49 30 901820. Why was my card 4111 1111 1111 1111 charged twice? "
        "My password is Tr0ub4dor&3."
    ),
    "an answer": "Hello Ada! The invoice went to 12 Main Street, Springfield; IBAN DE89 3704 0044 0532 0130 00.",
    "an exception": "ConnectionError: postgresql://shop:hunter2secret@10.1.2.3/orders does not answer",
    "a chunk without personal data": "The pump is covered for 24 months from delivery, see section 4.2.",
}
_MODES = {
    "off": "Texts leave as they are.",
    "pii": "Personal data and secrets leave as their kind.",
    "names": "Names of people and home addresses, too. A model finds them; it needs the extra `models`.",
    "hash": "As `pii`; email addresses and ids of users and sessions leave as keyed hashes, which can be joined.",
    "metadata_only": "No content leaves, whatever `capture_content` says. Other texts leave as with `pii`.",
}


def redaction_page() -> str:
    """Texts before and after each mode of `redact`, as the redaction itself writes them."""
    lines = [
        "# What leaves: before and after",
        "",
        "[Privacy](../privacy.md) says what each mode finds and misses, and what it costs. Without `capture_content`,",
        "no question, chunk, prompt or answer leaves in any mode. This is what leaves with `capture_content=True`:",
    ]
    for mode, meaning in _MODES.items():
        lines += ["", f'## `redact = "{mode}"`', "", meaning, "", "| | leaves as |", "|---|---|"]
        with tempfile.TemporaryDirectory() as folder:
            key = Path(folder) / "key"
            key.write_text("of these examples alone", encoding="utf-8")
            settings = Settings(redact=mode, redact_key=str(key) if mode == "hash" else "")
            _, sanitizer = redact_texts(settings)
        for what, text in _TEXTS.items():
            leaves = mode != "metadata_only" or what == "an exception"
            lines.append(f"| {what} | {f'`{sanitizer.text(text)}`' if leaves else 'does not leave'} |")
        lines.append(f"| the user id `ada@acme.com` | `{sanitizer.identifier('ada@acme.com')}` |")
    return "\n".join([*lines, "", _MADE])


def runbooks_page() -> str:
    """The list of the runbooks: each alert with the first sentence of what it means."""
    lines = [
        "# Runbooks",
        "",
        "Each alert has a page: what it means, what to look at, what usually causes it, and",
        "what to do.",
        "",
        "| alert | what it means |",
        "|---|---|",
    ]
    for page in sorted((DOCS / "runbooks").glob("Ragtrace*.md")):
        meaning = page.read_text(encoding="utf-8").partition("## What it means\n\n")[2].splitlines()[0]
        first = re.split(r"(?<=[.:]) ", meaning)[0].rstrip(":.")
        lines.append(f"| [{page.stem}](runbooks/{page.name}) | {first} |")
    return "\n".join([*lines, "", _MADE])


PAGES = {
    "evaluators.md": evaluators_page,
    "howto/redaction.md": redaction_page,
    "runbooks.md": runbooks_page,
    "settings.md": settings_page,
}


def main() -> None:
    for name, make in PAGES.items():
        (DOCS / name).write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    main()
