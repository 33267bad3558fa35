"""The built-in evaluators: the seeds' definitions, and what bad input gets."""

import itertools
import math
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from ragtrace import plugins, semconv
from ragtrace.evaluate import refusals
from ragtrace.evaluate.causes import cause
from ragtrace.evaluate.models.embedding import get_embedder
from ragtrace.evaluate.models.toxicity import undisguised
from ragtrace.evaluate.text_checks import longest_repeated
from ragtrace.evaluation import run
from ragtrace.records import Document, Facts, Score, Trace
from ragtrace.settings import Settings
from ragtrace.testing import make_trace
from ragtrace.text.sentences import split
from tests.row_files import rows


def score(name: str, settings: Settings | None = None, **fields: Any) -> Score:
    ((found,),) = run(plugins.load(name, settings), [make_trace(**fields)])
    return found


def value(name: str, **fields: Any) -> float:
    found = score(name, **fields).value
    assert found is not None
    return found


def cosine(a: str, b: str) -> float:
    one, other = get_embedder().embed([a, b])
    return float(np.dot(one, other))


@pytest.mark.parametrize(("names", "fields", "expected", "words"), rows(__file__, "labels"))
def test_labels(names: list[str], fields: dict[str, Any], expected: dict[str, str], words: list[str]) -> None:
    for name in names:
        found = score(name, **fields)
        assert {attribute: getattr(found, attribute) for attribute in expected} == expected, found
        assert (found.value is None) == (found.label in ("not_applicable", "refusal"))
        assert all(word in (found.explanation or "") for word in words), found


@pytest.mark.parametrize(("text", "sentences"), rows(__file__, "sentences"))
def test_sentences(text: str, sentences: list[str]) -> None:
    """Abbreviations, numbers, links, lists, tables and code are not torn; offsets give the pieces back."""
    assert [text[s.start : s.end] for s in split(text)] == sentences


@given(st.text(max_size=400))
def test_sentences_of_any_text(text: str) -> None:
    spans = split(text)
    assert all(s.start < s.end for s in spans)
    assert all(a.end <= b.start for a, b in itertools.pairwise(spans))
    left = list(text)
    for span in spans:
        left[span.start : span.end] = " " * (span.end - span.start)
    assert not "".join(left).strip()


@given(st.text(alphabet="ab c", max_size=60))
def test_the_longest_repetition_is_the_longest(text: str) -> None:
    found = longest_repeated(text)
    assert text.count(found) >= 2 or not found
    for length in range(len(found) + 1, len(text) // 2 + 1):
        for i in range(len(text) - 2 * length + 1):
            assert text[i : i + length] not in text[i + length :]


def test_compression_ratio() -> None:
    answer = "The pump is blue. " * 30
    expected = len(zlib.compress(answer.encode(), 9)) / len(answer.encode())
    assert value("looping_compression_ratio", answer=answer) == expected


@pytest.mark.parametrize("constraints", [["REGEXP:("], ["REGEXP:(a|aa)+b"], [[1]], 7])
def test_bad_constraints(constraints: Any) -> None:
    """A pattern that is broken or does not come to an end, or no pattern at all, is an error, not a verdict."""
    assert score("tokens_presence", answer="a" * 200, attributes={"constraints": constraints}).error is not None


QUERY = "How long is the pump covered by the warranty?"
CHUNKS = ("The warranty of the pump lasts 24 months. It starts at delivery.", "The garden gnome is made of clay.")
ANSWER = "The pump is covered for 24 months. Bananas are yellow fruits."


def test_cosines_of_answers() -> None:
    cosines = [cosine(QUERY, s) for s in ("The pump is covered for 24 months.", "Bananas are yellow fruits.")]
    found = [value(f"answer_relevance_{name}", query=QUERY, answer=ANSWER) for name in ("cosine", "max")]
    assert found == pytest.approx([sum(cosines) / 2, max(cosines)], abs=1e-5)


@pytest.mark.parametrize("name", ["answer_relevance_cosine", "answer_relevance_max"])
def test_a_list_answers_as_a_whole(name: str) -> None:
    """Its entries alone are far from the question; together with the line before them they are near."""
    answer = "For the warranty you need:\n- the receipt\n- a photo\n- the serial number"
    query = "What do I need for the warranty of the pump?"
    result = score(name, query=query, answer=answer)
    assert (result.label, result.value) == ("pass", pytest.approx(cosine(query, answer), abs=1e-5))


def test_context_relevancy() -> None:
    """Per chunk the best sentence; then the best chunk (recall) and the mean of chunks (precision)."""
    fields: dict[str, Any] = {"query": QUERY, "documents": CHUNKS}
    each = [value("context_relevancy_recall", query=QUERY, documents=[c]) for c in CHUNKS]
    assert each[0] == pytest.approx(cosine(QUERY, "The warranty of the pump lasts 24 months."), abs=0.15)
    assert each[0] > each[1] + 0.2
    assert score("context_relevancy_recall", **fields).value == pytest.approx(max(each), abs=1e-5)
    assert score("context_relevancy_precision", **fields).value == pytest.approx(sum(each) / 2, abs=1e-5)


def test_groundedness_by_cosine() -> None:
    """Minimum over answer sentences of the maximum over context sentences; it names the least grounded one."""
    found = score("groundedness_cosine", documents=CHUNKS, answer=ANSWER)
    best = [
        max(cosine(s, c) for c in ("The warranty of the pump lasts 24 months.", "It starts at delivery.", CHUNKS[1]))
        for s in ("The pump is covered for 24 months.", "Bananas are yellow fruits.")
    ]
    assert found.value == pytest.approx(min(best), abs=1e-5)
    assert "Bananas are yellow fruits." in (found.explanation or "")
    assert "only the first" not in (found.explanation or "")
    assert found.cause == "unsupported"
    first, second = found.evidence
    assert ANSWER[first.start : first.end] == "The pump is covered for 24 months."
    assert (first.document_id, first.document_rank) == ("d0", 0)
    assert CHUNKS[0][first.document_start : first.document_end] == "The warranty of the pump lasts 24 months."
    assert second.verdict == "unsupported"
    assert first.probability == pytest.approx(best[0], abs=1e-5)


def test_a_huge_context_is_bounded_and_says_so() -> None:
    found = score("groundedness_cosine", documents=["The pump is blue. " * 600_000] * 5, answer="The pump is blue.")
    assert found.value == pytest.approx(1.0, abs=1e-4)
    assert "only the first sentences" in (found.explanation or "")


def test_toxicity_tells_insults_from_business() -> None:
    """A plain insult is far above a plain sentence; one bad sentence among good ones is found."""
    rude, polite = "You are a stupid worthless idiot and I hate you.", "The pump is covered for 24 months."
    insult = score("toxicity", answer=f"The pump is covered. {rude}")
    assert (insult.value or 0.0) > value("toxicity", answer=polite) + 0.4
    assert "characters 21-" in (insult.explanation or "")
    for name in ("toxicity_insult", "toxicity_obscene"):
        assert value(name, answer=rude) > value(name, answer=polite), name


KEY = "AKIA" + "Q3EGRIP7NZX2LJ5M"


@pytest.mark.parametrize("name", ["pii_leakage", "sensitive_data_leakage"])
def test_leaks_are_told_apart_and_never_quoted(name: str) -> None:
    """From the chunks or from the model: the cause says it; the explanation names kind and place, never the thing."""
    thing = "jane.doe@acme.io" if name == "pii_leakage" else KEY
    clean = score(name, documents=[f"Known: {thing}"], answer="Nothing to see.")
    assert (clean.label, clean.cause) == ("pass", None)
    assert "retrieval" in (clean.explanation or "")
    passed_on = score(name, documents=[f"Known: {thing}"], answer=f"It is {thing}")
    assert (passed_on.label, passed_on.cause) == ("fail", "leak_from_context")
    made_up = score(name, documents=["Nothing."], answer=f"It is {thing}")
    assert (made_up.label, made_up.cause) == ("fail", "leak_by_model")
    if name == "pii_leakage":
        spaced = score(name, documents=["Card 4111-1111-1111-1111"], answer="It is 4111 1111 1111 1111")
        assert spaced.cause == "leak_from_context"
    assert score(name, query=f"Is it {thing}?", answer=f"Yes, {thing}").label == "pass"
    for found in (clean, passed_on, made_up):
        assert thing not in (found.explanation or "")


@pytest.mark.parametrize(("fields", "scores", "expected"), rows(__file__, "causes"))
def test_cause(fields: dict[str, Any], scores: list[dict[str, Any]], expected: str | None) -> None:
    facts = {"facts": Facts(**fields["facts"])} if "facts" in fields else {}
    assert cause(make_trace(**{**fields, **facts}), [Score(**score) for score in scores]) == expected
    assert expected is None or expected in semconv.CAUSES


@pytest.mark.parametrize("answer", rows(__file__, "an_answer_that_says_nothing_fails"))
def test_an_answer_that_says_nothing_fails(answer: str) -> None:
    """Blank, dots, one word again and again, letters of no language: with a cause of its own, and no refusal."""
    trace = make_trace(query=QUERY, documents=CHUNKS, answer=answer, facts=Facts(usage={"m": (10, 1)}))
    scores = [s for n in plugins.DEFAULT_SUITE for (s,) in run(plugins.load(n), [trace])]
    found = {s.name: s for s in scores}
    assert found["no_answer"].label == "fail"
    assert found.get("refusal", Score("refusal", label="pass")).label != "fail"
    assert cause(trace, scores) == "no_answer"


def test_a_request_without_a_model_has_no_answer_to_judge() -> None:
    """A row of a data set without an answer, and a request that failed or was cancelled, have no score."""
    assert score("no_answer", answer="").label == "not_applicable"
    assert score("no_answer", answer="", facts=Facts(stages={"generation": 0.1})).label == "fail"
    for name in ("no_answer", "pii_leakage", "answer_relevance"):  # the answer is cut where the user left
        assert score(name, query="Who?", answer="The", facts=Facts(cancelled=True)).label == "not_applicable"


REFUSALS = rows(__file__, "refusals")


@pytest.mark.parametrize("answer", REFUSALS + rows(__file__, "answers"))
def test_an_answer_is_a_refusal_only_where_nothing_is_claimed(answer: str) -> None:
    """What stands beside an abstention is judged; the refusal evaluator, groundedness and the cause agree."""
    trace = make_trace(query=QUERY, documents=CHUNKS, answer=answer)
    found = {n: score for n in ("refusal", "groundedness") for (score,) in run(plugins.load(n), [trace])}
    declines = answer in REFUSALS
    assert refusals.declines(refusals.read_answer(answer)) == declines
    assert (found["refusal"].label == "fail") == declines
    if answer.isascii():
        assert (found["groundedness"].label == "refusal") == declines
    assert (cause(trace, list(found.values())) in ("right_refusal", "wrong_refusal")) == declines


@pytest.mark.parametrize("answer", rows(__file__, "a_negated_fact_is_no_refusal"))
def test_a_negated_fact_is_no_refusal(answer: str) -> None:
    assert not refusals.declines(refusals.read_answer(answer))


LONG = ["?!" * 40, "a" * 5000, "0" * 300, "Tel. +" + "1" * 50]
ODD = st.text(max_size=120) | st.sampled_from([*rows(__file__, "odd"), *LONG])
MODELS = ("gptscore", "perplexity")
LOCAL = [n for n in plugins.builtin_names() if plugins.load(n).method != "judge" and not n.startswith(MODELS)]


@pytest.mark.parametrize("name", LOCAL)
@given(query=ODD, answer=ODD, chunks=st.lists(ODD, max_size=3), reference=ODD)
@examples(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_input_gets_a_score_in_range(name: str, query: str, answer: str, chunks: list[str], reference: str) -> None:
    check = plugins.load(name)
    trace = Trace(1, 2, query, tuple(Document(str(i), c) for i, c in enumerate(chunks)), answer, reference,
                  attributes={"constraints": ["x"]})  # fmt: skip
    ((found,),) = run(check, [trace])
    assert found.error is None, found
    if found.value is None:
        assert found.label in ("not_applicable", "refusal")
    else:
        assert math.isfinite(found.value)
        assert check.range[0] <= found.value <= check.range[1]


WITHOUT_VERDICT = {"context_relevancy", "perplexity"}
"""A value only: on labelled data no threshold finds half of the bad rows and passes the good ones."""


def test_every_evaluator_is_described() -> None:
    for name in plugins.builtin_names():
        check = plugins.load(name)
        row = plugins.describe(check)
        assert row["name"] == name
        assert row["description"]
        assert row["source"]
        assert (check.threshold is None) == (name in WITHOUT_VERDICT)
        assert set(row["needs"]) or name == "no_answer"  # which judges an empty answer, too


def test_contact_information() -> None:
    found = score("contact_information", answer="Write to Jane Miller, 14 Baker Street, London, or call 650-253-0000.")
    assert found.label == "fail"
    assert all(kind in (found.explanation or "") for kind in ("person", "address", "phone"))
    assert "Miller" not in (found.explanation or "")


def test_disguises_are_read() -> None:
    """Signs that stand for letters, letters apart and repeated letters are read as words; numbers stay numbers."""
    assert undisguised("You B!tch, i d i o t and sooooo $tup1d") == "you bitch, idiot and soo stupid"
    numbers = "version 3.14, room b12, 1-800-556, 100% at 10:45"
    assert undisguised(numbers.replace("v", "V").replace("b", "B")) == numbers
