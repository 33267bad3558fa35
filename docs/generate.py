"""Write the pages that are made from the code: python docs/generate.py"""

import json
import re
import tempfile
from itertools import takewhile
from pathlib import Path
from typing import Any

from ragtrace import plugins
from ragtrace.evaluate.privacy_modes import redact_texts
from ragtrace.settings import Settings, describe

DOCS = Path(__file__).parent
RECORD: dict[str, dict[str, Any]] = json.loads((DOCS.parent / "benchmarks" / "thresholds.json").read_text("utf-8"))
SHARES = ("good_failing", "recall")


_KINDS = {
    "code": ("any", "no model"),
    "word overlap": ("any with blanks between words", "no model"),
    "word statistics": ("English; else `not_applicable`", "no model"),
    "patterns": (
        "any; several European languages for words beside a value; English for names",
        "no model; `contact_information` takes one pass of the embedded name model over the answer and each chunk",
    ),
    "language identifier": (
        "176; `not_applicable` where a text is too short to tell",
        "one look-up for each text",
    ),
    "embeddings": ("English", "sentence embeddings of the texts; chunks that recur are remembered"),
    "composite": ("English", "that of the checks or embeddings that it is made of"),
    "name model": ("English", "one pass of the embedded name model over the reference"),
    "reader": (
        "English; else `not_applicable`",
        "the [reader](models/reader.md) over answer and chunks, once for all of this kind; chunks are remembered",
    ),
    "reader, pairs": ("English; else `not_applicable`", "the reader over each pair of texts that it compares"),
    "sentence classifier": (
        "English; insults also in nine other languages, refusals in eight",
        "one embedding of each sentence, shared by all of this kind",
    ),
    "language model": (
        "those of the language model",
        "one pass of a causal language model over the texts, two for texts that are compared both ways",
    ),
    "judge": ("those of the judge", "one request to the judge, unless the entry says another number"),
}
"""Languages and cost of each kind of evaluators."""
_MODULE_KINDS = {
    "text_checks": "code",
    "steps": "code",
    "overlap": "word overlap",
    "lexical": "word statistics",
    "privacy": "patterns",
    "language_match": "language identifier",
    "similarity": "embeddings",
    "composite": "composite",
    "entities": "name model",
    "groundedness": "reader",
    "references": "reader, pairs",
    "safety": "sentence classifier",
    "likelihood": "language model",
    "judge_ratios": "judge",
    "critics": "judge",
    "g_eval": "judge",
}
_OWN_COSTS = {
    "judge": "a second request about the context where the answer fails",
    "g_eval": "one more request for the steps of new criteria; eleven without log-probabilities",
    "ragas_judge": "four requests",
    "critic": "three requests",
}


def measured(row: dict[str, Any]) -> list[str]:
    """What the threshold does on labelled data, where that was measured for this version."""
    entry = RECORD.get(row["name"])
    if entry is None or entry["version"] != row["version"]:
        return []
    good, recall = (f"{entry[what]:.1%}" for what in SHARES)
    if row["threshold"] is None:
        return [f"; where at most 5 % of good rows fail, {recall} of the bad ones do"]
    return [f"; fails {good} of good, {recall} of bad"]


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
_STARTS = (
    (
        "a support bot over manuals",
        "groundedness answer_relevance context_relevancy_recall refusal pii_leakage",
        "a claim without support, an answer beside the point, a search that found nothing, a bot that gives up, a leak",
    ),
    (
        "an assistant whose wrong sentence is expensive",
        "groundedness faithfulness_cascade context_contradiction context_relevancy_recall sensitive_data_leakage",
        "the judge is asked only in doubt; it needs a model and a budget",
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
        "- `NAME_judge`: by the LLM that [`judge_model`](judge.md) names; forms with the same claims share a request;",
        "- `NAME_cascade`: the local form, and the judge where its value is within 0.05 of the threshold,",
        "  less where the judge's budget runs short. The score's method says which of them answered. A",
        "  cascade without figures has the local threshold, and both versions: `16.2`.",
        "",
        "A score of 1 is best and 0 worst, and `pass` is a score at the threshold or above, unless the entry says that",
        "lower is better. *Fails* is the share of good and of bad rows of [labelled data](quality.md) that fail.",
        "",
        "## Which five do I want?",
        "",
        "| you have | begin with | for |",
        "|---|---|---|",
        *(f"| {what} | {', '.join(_link(name) for name in names.split())} | {why} |" for what, names, why in _STARTS),
        "",
        "Without a setting these run: " + ", ".join(_link(name) for name in plugins.DEFAULT_SUITE) + ".",
        "Alerts page on `faithfulness` as shipped. Where it is not among yours, [name another one](howto/alerts.md).",
        "You can also [write your own](howto/evaluator.md).",
        "",
        "## Kinds",
        "",
        "Languages and cost depend on the kind. An entry names its local form's; `_judge` forms have the kind judge.",
        "",
        "| kind | languages | cost of a trace |",
        "|---|---|---|",
        *(f"| {kind} | {languages} | {cost} |" for kind, (languages, cost) in _KINDS.items()),
        "",
        "Sources: *H2O* is H2O Eval Studio, *Ejento* Ejento's evaluation metrics, *guide* the RAG evaluation guide.",
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
    idea = _anchor(_idea(name))
    lines = [f"### `{idea}`", ""]
    is_family = len({_base(row) for row in rows}) > 1
    has_own = not is_family or name == idea
    if has_own:
        lines += [str(first["description"]), ""]
    described = [row for row in rows if is_family and not _is_form(row) and not (has_own and row is first)]
    before, texts, after = _shared([_first_sentence(row) for row in described])
    if before or after:
        text = " ".join([before] * bool(before) + ["…"] * any(texts)) + after
        lines += [f"The others: {text[0].lower()}{text[1:]}" if has_own else text, ""]
    own = {row["name"]: text for row, text in zip(described, texts, strict=True)}
    facts = {row["name"]: [] if _follows(row, rows) else _facts(row) for row in rows}
    shares = len(rows) > 1
    common = [fact for fact in facts[name] if shares and all(fact in each for each in facts.values() if each)]
    for row in rows:
        text = f": {own[row['name']]}" if own.get(row["name"]) else ""
        mine = ", ".join(fact for fact in facts[row["name"]] if fact not in common)
        needs = "" if row["needs"] == first["needs"] else f"; needs {', '.join(row['needs'])}"
        cost = f"; {_OWN_COSTS[row['name']]}" if _is_form(row) and row["name"] in _OWN_COSTS else ""
        lines.append("".join([f"- `{row['name']}`{text}", f" ({mine})" * bool(mine), *measured(row), needs, cost]))
    kind = _MODULE_KINDS[plugins.BUILT_IN[name].partition(":")[0].rpartition(".")[2]]
    shared = [", ".join(common)] if common else []
    shared += [f"needs {', '.join(first['needs'])}"] if first["needs"] else []
    shared += [f"kind: {kind}"] + ([_OWN_COSTS[idea]] if idea in _OWN_COSTS else [])
    text = "; ".join(shared)
    return [*lines, "", f"{text[0].upper()}{text[1:]}. Source: {_source(first['source'])}.", ""]


def _base(row: dict[str, Any]) -> str:
    return str(row["name"]).removesuffix("_cascade").removesuffix("_judge")


def _is_form(row: dict[str, Any]) -> bool:
    """Whether an evaluator is the judge's or the cascade's form of another one."""
    return str(row["name"]).endswith(("_judge", "_cascade"))


def _follows(row: dict[str, Any], rows: list[dict[str, Any]]) -> bool:
    """Whether an evaluator is a cascade whose threshold is that of its local form, and its version that of both."""
    forms = {each["name"]: each for each in rows}
    local, judge = forms.get(_base(row)), forms.get(f"{_base(row)}_judge")
    if not str(row["name"]).endswith("_cascade") or local is None or judge is None:
        return False
    return (row["threshold"], row["version"]) == (local["threshold"], f"{local['version']}.{judge['version']}")


def _first_sentence(row: dict[str, Any]) -> str:
    """The first sentence of a description; BLEU-N in place of the number that the name has."""
    text = re.split(r"(?<=\.)\s", " ".join(row["description"].split()))[0].rstrip(".")
    return re.sub(r"(?<=BLEU-)\d|\d(?=-grams)", "N", text)


def _shared(texts: list[str]) -> tuple[str, list[str], str]:
    """The words with which all texts begin and end, and what is left of each, where there are three texts or more.

    What is quoted stays whole, and the common end begins with "of" or a colon.
    """
    if len(texts) < 3:
        return "", texts, ""
    words = [text.replace(": ", " : ").split() for text in texts]
    start = _begin_alike(words)
    start = next((i for i, word in enumerate(words[0][:start]) if word.startswith("“")), start)
    end = _begin_alike([each[start:][::-1] for each in words])
    end = next((n for n in range(end, 0, -1) if words[0][-n] in ("of", ":")), 0)
    left = [" ".join(each[start : len(each) - end]) for each in words]
    before, after = " ".join(words[0][:start]), " ".join(words[0][len(words[0]) - end :])
    before, *left, after = (part.replace(" : ", ": ") for part in (before, *left, f" {after}." if after else ""))
    return before, left, after


def _begin_alike(lists: list[list[str]]) -> int:
    """With how many equal words all lists begin."""
    return len([*takewhile(lambda column: len(set(column)) == 1, zip(*lists, strict=False))])


def _facts(row: dict[str, Any]) -> list[str]:
    """Method, range, direction, threshold and version, as far as the name of the form does not say them."""
    facts = [] if _is_form(row) else [row["method"]]
    facts += [] if row["range"] == [0.0, 1.0] else [f"{row['range'][0]:g} to {row['range'][1] or '∞'}"]
    facts += ["lower is better"] if row["direction"] == "lower" else []
    facts += ["no threshold" if row["threshold"] is None else f"threshold {row['threshold']:g}"]
    return [*facts, f"version {row['version']}"]


_SHORT_SOURCES = {
    "H2O Eval Studio": "H2O",
    "Ejento evaluation metrics": "Ejento",
    "RAG evaluation guide": "guide",
    " Evaluator": "",
}


def _source(text: str) -> str:
    """A source without what the kind says: that the embedded models measure it."""
    for long, short in _SHORT_SOURCES.items():
        text = text.replace(long, short)
    return re.sub(r"[;,] (?:by|with) the embedded (?:models?|classifier)$", "", text)


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

ragtrace.init(evaluators=["groundedness", "toxicity"], sample=0.2)
```

```sh
export RAGTRACE_EVALUATORS=groundedness,toxicity RAGTRACE_SAMPLE=0.2
```

```toml
# ragtrace.toml
evaluators = ["groundedness", "toxicity"]
sample = 0.2
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
    "names": "Names of people and home addresses are replaced, too. A model finds them; it needs the extra `models`.",
    "hash": "Email addresses and ids of users and sessions leave as keyed hashes, which can be joined.",
    "metadata_only": (
        "No question, chunk, prompt or answer leaves, whatever `capture_content` says. Other texts leave as with `pii`."
    ),
}


def redaction_page() -> str:
    """Texts before and after each mode of `redact`, as the redaction itself writes them."""
    lines = [
        "# What leaves: before and after",
        "",
        "[Privacy](../privacy.md) says what each mode finds and misses, and what it costs. Without `capture_content`,",
        "no question, chunk, prompt or answer leaves in any mode. With `capture_content=True` these texts leave. `pii`",
        "has those that it changes, and the modes after it have those that leave otherwise than with `pii`.",
    ]
    leaves = {mode: _redacted(mode) for mode in _MODES}
    for mode, meaning in _MODES.items():
        lines += ["", f'## `redact = "{mode}"`', "", meaning]
        others = {"off": {}, "pii": leaves["off"]}.get(mode, leaves["pii"])
        rows = {what: text for what, text in leaves[mode].items() if others.get(what) != text}
        if rows:
            lines += ["", "| | leaves as |", "|---|---|", *(f"| {what} | `{text}` |" for what, text in rows.items())]
    return "\n".join([*lines, "", _MADE])


def _redacted(mode: str) -> dict[str, str]:
    """The texts that leave in a mode, as they leave."""
    with tempfile.TemporaryDirectory() as folder:
        key = Path(folder) / "key"
        key.write_text("of these examples alone", encoding="utf-8")
        _, sanitizer = redact_texts(Settings(redact=mode, redact_key=str(key) if mode == "hash" else ""))
    texts = {what: text for what, text in _TEXTS.items() if mode != "metadata_only" or what == "an exception"}
    leaves = {what: sanitizer.text(text) for what, text in texts.items()}
    return {**leaves, "the user id `ada@acme.com`": sanitizer.identifier("ada@acme.com")}


def runbooks_page() -> str:
    """The list of the runbooks: each alert with its severities and the first sentence of what it means."""
    severities: dict[str, list[str]] = {}
    for file in sorted((DOCS.parent / "grafana" / "rules").glob("*.yml")):
        for alert, severity in re.findall(r"- alert: (\w+)\n.*?severity: (\w+)", file.read_text("utf-8"), re.DOTALL):
            if severity not in severities.setdefault(alert, []):
                severities[alert].append(severity)
    lines = [
        "# Runbooks",
        "",
        "A runbook says what its alert means, what to look at, and what to do. [How good the alerts are](alerts.md):",
        "how soon they fire, and what they miss.",
        "",
    ]
    for page in sorted((DOCS / "runbooks").glob("Ragtrace*.md")):
        meaning = page.read_text(encoding="utf-8").partition("## What it means\n\n")[2].partition("\n\n")[0]
        first = re.split(r"(?<=[.:])\s", meaning)[0].replace("\n", " ").rstrip(":.")
        lines.append(f"- [{page.stem}](runbooks/{page.name}) ({', '.join(severities[page.stem])}): {first}")
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
