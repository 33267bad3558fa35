"""What an answer claims, and what is only its dress: courtesies, prefaces, citations, abstentions."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragtrace.text.claims import claims, read
from tests.row_files import rows


def kinds(answer: str) -> list[str]:
    """What the parts of an answer do."""
    return [statement.kind for statement in read(answer).statements]


def claimed(answer: str) -> list[str]:
    """The claims' texts, without what is blanked."""
    reading = read(answer)
    return [" ".join(reading.text[s.start : s.end].split()) for s in reading.claims]


@pytest.mark.parametrize("rule", ["|---|---|", "| :-- | --: |", "--- | ---"])
def test_the_names_of_columns_claim_nothing(rule: str) -> None:
    """Of a table in Markdown the rows below its rule are claims; a line between sentences is no such rule."""
    edge = "|" if rule.startswith("|") else ""
    rows = [f"{edge} {row} {edge}".strip() for row in ("Item | Kept for", "Invoices | 10 years", "Logs | 90 days")]
    assert claimed("\n".join([rows[0], rule, *rows[1:]])) == rows[1:]


@pytest.mark.parametrize(("answer", "claim"), rows(__file__, "a_fact_is_a_claim_whatever_the_sentence_begins_with"))
def test_a_fact_is_a_claim_whatever_the_sentence_begins_with(answer: str, claim: str) -> None:
    """Courtesies, openings and negations do not hide what is stated beside them."""
    assert claim in " ".join(claimed(answer))


@pytest.mark.parametrize("answer", rows(__file__, "dress_makes_no_claim_of_its_own"))
def test_dress_makes_no_claim_of_its_own(answer: str) -> None:
    """A preface, marks, source lines and courtesies: there is one claim with them as without them."""
    (statement,) = claimed(answer)
    assert statement.lower().replace(" .", ".").endswith("the valve opens at 3 bar.")


@pytest.mark.parametrize("answer", rows(__file__, "dress_alone_claims_nothing"))
def test_dress_alone_claims_nothing(answer: str) -> None:
    """What only greets or cites leaves nothing to judge."""
    assert claims(answer) == []


OF_ONE_KIND = {
    "abstentions_in_other_languages": "abstention",
    "negated_facts_in_other_languages_are_claims": "claim",
}
KINDS: list[tuple[str, list[str]]] = [
    *rows(__file__, "what_an_abstaining_answer_states_beside_is_a_claim"),
    *((answer, [kind]) for test, kind in OF_ONE_KIND.items() for answer in rows(__file__, test)),
]


@pytest.mark.parametrize(("answer", "expected"), KINDS)
def test_what_an_abstaining_answer_states_beside_is_a_claim(answer: str, expected: list[str]) -> None:
    """Only what abstains, where else to ask and what the passages are about is taken out, in eight languages."""
    assert kinds(answer) == expected


@pytest.mark.parametrize(
    "text",
    rows(__file__, "what_somebody_else_said_is_no_abstention") + rows(__file__, "a_negative_fact_is_no_abstention"),
)
def test_a_negative_fact_is_no_abstention(text: str) -> None:
    """Insurance, privacy and contracts are full of them, and so is what a program or somebody else said."""
    assert "claim" in kinds(text)


@pytest.mark.parametrize("text", rows(__file__, "an_abstention_is_one"))
def test_an_abstention_is_one(text: str) -> None:
    """What is lacking is knowledge, or the speaker declines."""
    assert "abstention" in kinds(text)
    assert "claim" not in kinds(text)


@pytest.mark.parametrize("redirect", rows(__file__, "redirects"))
def test_where_else_to_ask_is_no_claim_after_an_abstention(redirect: str) -> None:
    """A redirect states no fact; without an abstention the sentence is an instruction."""
    assert claimed(f"I couldn't find any information about this. {redirect}") == []
    assert " ".join(claimed(redirect)) == redirect


@pytest.mark.parametrize("invented", rows(__file__, "an_invented_fact_stays_a_claim_behind_an_abstention"))
def test_an_invented_fact_stays_a_claim_behind_an_abstention(invented: str) -> None:
    """Neither an apology nor a redirect hides an amount, a date, a reason or another statement."""
    for start in ("I couldn't find it.", "I'm sorry, but the manual does not mention this."):
        assert claimed(f"{start} {invented}")


DRESSED = st.lists(
    st.sampled_from(
        ["[1]", "(source 2)", "Source: a.pdf", "According to the text,", "I'm sorry,", "Sure:", "\n", "I do not know",
         "but", "the fee is 5.", "let me know if", "```", "。", "\0", "😀", ", ", "3 %", "Sources:\n-"]
    )
).map(" ".join)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(DRESSED | st.text(max_size=300))
def test_a_reading_keeps_every_place(answer: str) -> None:
    """The blanked text is as long as the answer, but for spaces and apostrophes equal, and statements are in order."""
    reading = read(answer)
    assert len(reading.text) == len(answer)
    plain = answer.replace("\u2019", "'")
    assert all(new in (old, " ") for old, new in zip(plain, reading.text, strict=True))
    last = 0
    for statement in reading.statements:
        assert last <= statement.start < statement.end <= len(answer)
        last = statement.end


@pytest.mark.parametrize(("answer", "text"), rows(__file__, "the_models_read_no_stars"))
def test_the_models_read_no_stars(answer: str, text: str) -> None:
    """Bold and italic words lose their stars and keep their places; code and products keep theirs."""
    assert read(answer).text == text


@pytest.mark.parametrize(("answer", "expected"), rows(__file__, "claims"))
def test_claims(answer: str, expected: list[str]) -> None:
    """Titles, wishes, lists, notes and short answers."""
    assert claimed(answer) == expected


@pytest.mark.parametrize(
    "short", ["Yes.", "No!", "**Yes.**", "No, they aren't.", "Partly.", "Not quite.", "It depends.", "Ja.", "Sí,"]
)
def test_a_short_answer_is_one_statement_with_its_explanation(short: str) -> None:
    """The sentence behind it explains it; the next one does not."""
    answer = f"{short} Guests may stay for three nights. Breakfast costs 9 euros."
    statements = [answer[s.start : s.end].strip() for s in claims(answer)]
    assert statements == [f"{short} Guests may stay for three nights.", "Breakfast costs 9 euros."]


@pytest.mark.parametrize(("answer", "claim"), rows(__file__, "a_careful_statement_is_a_claim"))
def test_a_careful_statement_is_a_claim(answer: str, claim: str) -> None:
    """What somebody thinks or guesses, after "I'm not sure", is judged: doubt hides no invention."""
    assert claimed(answer)[-1].endswith(claim)


@pytest.mark.parametrize("answer", rows(__file__, "an_opinion_without_a_fact_claims_nothing"))
def test_an_opinion_without_a_fact_claims_nothing(answer: str) -> None:
    """Where to ask, and what the documents lack, is no fact behind "I think" either."""
    assert claimed(answer) == []


@pytest.mark.parametrize("answer", rows(__file__, "letters_markup_and_titles_are_no_part_of_a_claim"))
def test_letters_markup_and_titles_are_no_part_of_a_claim(answer: str) -> None:
    """Salutations, signatures, HTML, reasoning, and the title of what is cited make no claim of their own."""
    [claim] = claimed(answer.format("refunds take two weeks"))
    assert claim.rstrip(" .").endswith("refunds take two weeks")


@pytest.mark.parametrize("answer", rows(__file__, "what_only_looks_like_markup_stays"))
def test_what_only_looks_like_markup_stays(answer: str) -> None:
    """Facts in brackets, code and the words of a greeting are claims."""
    assert " ".join(claimed(answer)) in (answer, answer.replace("\n", " "), answer.removeprefix("Thanks,\n"))


def test_base64_is_read_as_far_as_prose_of_the_same_cost() -> None:
    """A tokenizer makes three times as many pieces of it: less of it is read, and the rest is not judged."""
    line = "65HEZqBGpKhDXlKTTuF4IeQda2TgpB8Vuqow687oKKSU7PSAbS9PQqHgIBln7DyNcL85GAo+"
    reading = read("\n".join([line] * 300))
    assert not reading.complete
    assert 8_000 < reading.statements[-1].end < 12_500
