"""`assert_scores`: limits in both directions, what a failure says, and what is refused."""

import sys
from typing import Any

import pytest
from langchain_core.documents import Document as LangChainDocument

from ragtrace.errors import RagtraceError
from ragtrace.evaluation import evaluator
from ragtrace.pytest import assert_scores
from ragtrace.records import Document, Score, Trace
from tests.row_files import rows

CHUNKS = ["The pump is covered for 24 months from delivery.", "Filters are not covered."]
FALSE = "The pump is covered for 36 years, even on Mars. Filters are not covered."


@evaluator(needs={"answer"}, direction="lower", range=(0.0, 100.0))
def words(trace: Trace) -> float:
    """How many words the answer has."""
    return float(len(trace.answer.split()))


@evaluator(needs={"answer"}, threshold=0.5)
def inputs(trace: Trace) -> Score:
    """Fails, so that the message shows what the evaluator is given."""
    seen = [trace.query, *(d.content for d in trace.documents), trace.reference, trace.constraints, trace.steps]
    return Score("inputs", 0.0, explanation=repr(seen))


@evaluator(needs={"answer"})
def broken(_trace: Trace) -> float:
    """Always fails."""
    raise ConnectionError("the service is away")


WORDS, INPUTS, BROKEN = (f"{__name__}:{name}" for name in ("words", "inputs", "broken"))


def problem(*arguments: Any, **options: Any) -> str:
    with pytest.raises(AssertionError) as caught:
        assert_scores(*arguments, **options)
    return str(caught.value)


def test_a_supported_answer_passes() -> None:
    """Each named evaluator is asked, and says nothing where its value is within the limit."""
    assert_scores(CHUNKS[0], CHUNKS, query="How long?", faithfulness=0.8, hallucination=0.2, pii_leakage=True)


def test_a_failure_says_what_and_where() -> None:
    """The message names the evaluator, its value, the limit, the explanation, the sentence and its closest passage."""
    first, *rest = problem(FALSE, CHUNKS, faithfulness=0.8).splitlines()
    assert first.startswith("faithfulness is 0.")
    assert first.endswith(", wanted ≥ 0.8")
    text = "\n".join(rest)
    assert "least supported: “The pump is covered for 36 years, even on Mars.”" in text
    assert "(supported with probability 0." in text
    assert "closest passage, in contexts[0]: “The pump is covered for 24 months from delivery.”" in text


def test_lower_is_better_where_it_is() -> None:
    """A limit is the greatest value of an evaluator for which lower is better; a value that equals it passes."""
    assert_scores("one two three", **{WORDS: 3})
    assert problem("one two three", **{WORDS: 2}) == "words is 3.000, wanted ≤ 2"
    assert problem(FALSE, CHUNKS, hallucination=0.2).startswith("hallucination is ")


def test_all_evaluators_that_fail_are_named() -> None:
    text = problem(FALSE, CHUNKS, faithfulness=0.8, toxicity=0.5, **{WORDS: 1})
    assert [line.split()[0] for line in text.splitlines() if not line.startswith(" ")] == ["faithfulness", "words"]


def test_nothing_measured_is_a_failure() -> None:
    """A refusal, an input that is empty and an evaluator that fails are no pass: each says why there is no value."""
    assert "faithfulness has no value, wanted ≥ 0.5: its verdict is refusal" in problem(
        "I cannot answer that from the documents.", CHUNKS, faithfulness=0.5
    )
    assert (
        problem("x", [], faithfulness=0.5) == "faithfulness has no value: it needs contexts, but assert_scores got none"
    )
    text = problem("x", **{BROKEN: 0.5})
    assert text == "broken has no value: the evaluator failed with ConnectionError\n  the service is away"
    assert problem("x", **{WORDS: True}) == "words has no threshold of its own: give a limit instead of True"


def test_contexts_may_be_documents_of_a_framework() -> None:
    """Texts, and documents of ragtrace and LangChain, are the chunks; all inputs reach the evaluator."""
    chunks = ["a", Document("d", "b"), LangChainDocument(page_content="c")]
    more: dict[str, Any] = {"query": "q", "reference": "r", "constraints": ["k"], "steps": [{"tool": "t"}]}
    assert "['q', 'a', 'b', 'c', 'r', ['k'], ({'tool': 't'},)]" in problem("x", chunks, **more, **{INPUTS: True})


@pytest.mark.parametrize(
    ("arguments", "limits", "message"),
    [
        *rows(__file__, "what_cannot_be_measured_is_refused"),
        (["x"], {"faithfulness": float("nan")}, "assert_scores: faithfulness=nan is outside of"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    arguments: list[Any], limits: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line says what is wrong with the call, which is an error of the test and not a failed assertion."""
    monkeypatch.delenv("RAGTRACE_JUDGE_MODEL", raising=False)
    with pytest.raises(RagtraceError) as caught:
        assert_scores(*arguments, **limits)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_model_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the packages of an evaluator, the error is the command that installs them."""
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(RagtraceError, match=r"faithfulness, .*onnxruntime.*pip install 'ragtrace-otel\[models\]'"):
        assert_scores("x", CHUNKS, faithfulness=0.5)
