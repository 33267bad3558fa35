"""Perturbations change what they say and nothing else."""

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtrace.batch.reporting.paraphrase import paraphrase
from ragtrace.batch.reporting.perturb import KINDS, perturbed
from ragtrace.errors import SettingError
from ragtrace.records import Document, Trace
from tests.row_files import rows

_NUMBERS = re.compile(r"\d+")
_WORDS = st.sampled_from(rows(__file__, "words"))
questions = st.lists(_WORDS, min_size=1, max_size=12).map(lambda w: " ".join(w) + "?")


def trace(query: str, *contents: str, number: int = 1) -> Trace:
    """A row with chunks of these texts."""
    documents = tuple(Document(str(i), content) for i, content in enumerate(contents))
    return Trace(number, number, query, documents, "the answer", reference="the reference")


def of(row: Trace, kind: str, seed: int = 0, *others: Trace) -> Trace | None:
    """The row under one kind, or None where it offers no place for it."""
    results = [changed for changed, _ in perturbed([row, *others], [kind], seed)]
    return next((changed for changed in results if changed.trace_id == row.trace_id), None)


@given(questions, st.integers(0, 50))
def test_numbers_and_addresses_stay(query: str, seed: int) -> None:
    """No perturbation touches a number, a URL, an address or a name with capitals inside; `case` keeps letters."""
    for kind in ("typos", "case", "paraphrase"):
        changed = of(trace(query), kind, seed)
        if changed is not None:
            assert changed.query != query
            assert kind != "case" or changed.query.lower() == query.lower()
            assert _NUMBERS.findall(changed.query) == _NUMBERS.findall(query)
            for whole in ("https://x.io/a1?b=2", "jo@acme.io", "iPhone", "mW", "USB-C"):
                assert changed.query.count(whole) == query.count(whole)


@given(questions, st.integers(0, 50))
def test_typos_are_few_and_spare_negations(query: str, seed: int) -> None:
    """As many words as before, most of them as they were, "not" and "never" among them."""
    changed = of(trace(query), "typos", seed)
    if changed is not None:
        before, after = query.split(), changed.query.split()
        assert len(before) == len(after)
        hit = [(b, a) for b, a in zip(before, after, strict=True) if b != a]
        assert 1 <= len(hit) <= max(1, round(0.03 * len(query)))
        assert all(b[0] == a[0] and abs(len(b) - len(a)) <= 1 for b, a in hit)
        assert not {"not", "never", "Norway", "don't"} & {b for b, _ in hit}


@pytest.mark.parametrize(("query", "possible"), rows(__file__, "paraphrases"))
def test_paraphrases(query: str, possible: list[str]) -> None:
    assert set(possible) <= {paraphrase(query, random.Random(seed)) for seed in range(60)}


@pytest.mark.parametrize("query", rows(__file__, "unturned"))
def test_frames_that_cannot_be_turned_are_not(query: str) -> None:
    """They are still asked politely."""
    result = {paraphrase(query, random.Random(seed)) or "" for seed in range(40)}
    assert result
    assert all(text.endswith(query) or text.startswith(query[:3]) for text in result)


@pytest.mark.parametrize("query", ["", "  ", "Wie lange dauert die Garantie?", "garantie 24 mois", "保証期間は"])
def test_what_is_not_english_is_not_paraphrased(query: str) -> None:
    """English words in another language's question would change its language."""
    assert paraphrase(query, random.Random(0)) is None


def test_quotations_are_left_alone() -> None:
    query = 'What is the meaning of "do not disturb"?'
    assert all('"do not disturb"' in (paraphrase(query, random.Random(s)) or query) for s in range(40))


@given(st.lists(st.text(max_size=5), max_size=6), st.integers(0, 50))
def test_chunk_order(contents: list[str], seed: int) -> None:
    """The same chunks in another order, or nothing where there is no other order."""
    changed = of(trace("q", *contents), "chunk_order", seed)
    if len(set(contents)) < 2:
        assert changed is None
    else:
        assert [d.content for d in changed.documents] != contents
        assert sorted(d.content for d in changed.documents) == sorted(contents)


def test_distractor() -> None:
    """One chunk more, of another row; the row's own keep their order."""
    row, other = trace("q", "one", "two"), trace("r", "three", "one", number=2)
    for seed in range(20):
        changed = of(row, "distractor", seed, other)
        contents = [d.content for d in changed.documents]
        assert sorted(contents) == ["one", "three", "two"]
        contents.remove("three")
        assert contents == ["one", "two"]
    assert of(row, "distractor") is None, "no other row, no distractor"


def test_what_happens_to_a_row_is_the_rows_own() -> None:
    """Same seed, same change, whichever rows come before; ids, answer and reference stay."""
    rows = [trace(f"What is the warranty of model {i}?", "a", "b", number=i) for i in range(1, 9)]
    kinds = [kind for kind in KINDS if kind != "distractor"]
    result = list(perturbed(rows, kinds, 3))
    assert result == list(perturbed(rows, kinds, 3))
    assert [c for c, _ in result if c.trace_id == 5] == [c for c, _ in perturbed(rows[4:], kinds, 3) if c.trace_id == 5]
    assert {(c.answer, c.reference) for c, _ in result} == {("the answer", "the reference")}
    assert [kind for _, kind in result][:4] == kinds


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(SettingError, match="'typo'; choose from typos"):
        perturbed([], ["typo"])
