"""What each library's spans carry, measured on the golden spans.

    python -m tests.spans.carried --write

writes the table of `docs/other-tracers.md`: the facts that each library's spans lack. A wrong one raises ValueError."""

import sys
from collections.abc import Mapping
from pathlib import Path

from ragtrace.capture import seen_context
from ragtrace.records import Trace
from tests.row_files import table as read_table
from tests.spans.applications import PASSAGES, SESSION, TAG, USER
from tests.spans.golden_spans import golden_files, golden_spans, traces_of
from tests.spans.model_server import ANSWER, FAILING, MODEL, QUESTION, SERVED_MODEL, TOOL

PAGE = Path(__file__).parents[2] / "docs" / "other-tracers.md"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"
TITLES: dict[str, str] = read_table(__file__, "titles")
FRAMEWORKS: dict[str, str] = read_table(__file__, "frameworks")
PLAIN: dict[str, str] = read_table(__file__, "plain")
"""The case in which a question is answered once."""
FACTS: list[str] = read_table(__file__, "facts")
NEVER: dict[str, list[str]] = read_table(__file__, "never")
"""Facts that an application has no way to give."""
_ERRORS = ("OpenAIInvalidRequestError", "BadRequestError")


def traces_by_case(name: str) -> dict[str, list[Trace]]:
    traces = {}
    for case, spans in golden_spans(name).items():
        seen_context._chunks.clear()  # each case is the session's first turn
        traces[case] = traces_of(spans)
    return traces


def facts(framework: str, traces: Mapping[str, list[Trace]]) -> dict[str, str]:
    """By fact ✔ or -. Raises ValueError for a fact that is there and wrong."""
    plain = (traces[PLAIN[framework]] or traces.get("agent") or [None])[0]
    if plain is None:
        return {}
    cells = {name: _cell(name, actual, expected) for name, (actual, expected) in _of_plain(plain, framework).items()}
    stream = next(iter(traces["stream"]), None)
    first = stream.facts.time_to_first_chunk if stream is not None else None
    if first is not None and not 0 < first <= stream.duration:  # type: ignore[union-attr]  # not None
        raise ValueError(f"first chunk is {first}")
    cells["first chunk"] = "✔" if first is not None else "-"
    cells["tool calls"] = _tool_calls(traces.get("agent") or [])
    failed = next(iter(traces["error"]), None)
    error = failed.error if failed is not None else None
    if failed is not None and (error is None or failed.query not in ("", FAILING)):
        raise ValueError(f"the failed request has error {error} and question {failed.query!r}")
    cells["error type"] = "✔" if error in _ERRORS else "-"
    return cells


def _of_plain(trace: Trace, framework: str) -> dict[str, tuple[object, object]]:
    facts = trace.facts
    scores = [d.score for d in trace.documents if d.score is not None]
    # MockEmbedding finds everything equally similar.
    expected = [0.9, 0.8] if framework == "langchain" else [0.9999999999999998] * 2
    calls = 1 if facts.output_tokens in (None, 9) else 2
    return {
        "question": (trace.query, QUESTION), "answer": (trace.answer, ANSWER),
        "chunk texts": ([d.content for d in trace.chunks if d.content], list(PASSAGES.values())),
        "chunk ids": ([d.id for d in trace.documents if d.id in PASSAGES], list(PASSAGES)),
        "chunk scores": (scores, expected), "model": (facts.model if facts.model != SERVED_MODEL else None, MODEL),
        "provider": (facts.provider, "openai"), "response id": (facts.response_id, "chatcmpl-7"),
        "finish reason": (facts.finish_reason, "stop"),
        "tokens": ((facts.input_tokens, facts.output_tokens), (40 * calls, 9 * calls)),
        "session": (facts.session_id, SESSION), "user": (facts.user_id, USER), "tags": (list(facts.tags), [TAG]),
    }  # fmt: skip


def _cell(name: str, actual: object, expected: object) -> str:
    if actual == expected:
        return "✔"
    if actual in (None, "", [], (None, None)):
        return "-"
    raise ValueError(f"{name} is {actual!r} and not {expected!r}")


def _tool_calls(traces: list[Trace]) -> str:
    steps = traces[0].steps if traces else ()
    if not steps:
        return "-"
    [step] = steps
    if step["tool"] != TOOL or QUESTION not in step["args"] or step["result"] != "\n".join(PASSAGES.values()):
        raise ValueError(f"the tool call is {step}")
    return "✔"


def table() -> str:
    columns = [tuple(name.split("-")) for name in golden_files()]
    columns.sort(key=lambda each: (list(FRAMEWORKS).index(each[0]), list(TITLES).index(each[1])))
    cells = {column: facts(column[0], traces_by_case("-".join(column))) for column in columns}
    lines = ["| spans | do not carry |", "|---|---|"]
    for framework, library in columns:
        carried = cells[framework, library]
        missing = [fact for fact in FACTS if carried.get(fact, "-") == "-" and fact not in NEVER.get(framework, ())]
        lines.append(f"| {FRAMEWORKS[framework]}: {TITLES[library]} | {', '.join(missing)} |")
    return "\n".join(lines)


def page_with(written: str) -> str:
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n{written}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page_with(table()), encoding="utf-8")
    else:
        print(table())
