"""Data are read as sentences: a value stays with its key and its record."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtrace.evaluate.models.answer_reader import reader
from ragtrace.evaluate.models.data_sentences import divide
from tests.row_files import rows

ORDERS, SENTENCES = rows(__file__, "ORDERS"), rows(__file__, "SENTENCES")


WHOLE, LINES = json.dumps(ORDERS), "\n".join(map(json.dumps, ORDERS))


@pytest.mark.parametrize("chunk", [WHOLE, json.dumps(ORDERS, indent=2), str(ORDERS), LINES, WHOLE[:-2]])
def test_an_object_is_a_sentence(chunk: str) -> None:
    """However it is written, also cut off by a limit; its place is that of the whole object."""
    parts = divide(chunk)
    assert ([part.text for part in parts], [chunk[part.start] for part in parts]) == (SENTENCES, ["{", "{"])
    assert chunk[parts[0].start : parts[0].end].endswith("}")


PROSE = ["a: 1; b: 2.", *["Prose."] * 25, "END"]


@pytest.mark.parametrize(
    ("chunk", "texts"),
    [
        *rows(__file__, "a_value_keeps_its_keys_and_its_place"),
        ('{"a": 1, "b": 2, "c": ' + "Prose. " * 25 + "END}", PROSE),
        ('{"a": 1, "b": 2, "texts": ["' + "Prose. " * 25 + 'END"]}', PROSE),
    ],
)
def test_a_value_keeps_its_keys_and_its_place(chunk: str, texts: list[str]) -> None:
    parts = divide(chunk)
    assert [part.text for part in parts] == texts
    places = [chunk[part.start : part.end] for part in parts]
    assert all(places)
    assert all(place == text for place, text in zip(places, texts, strict=True) if text in ("Prose.", "END"))


def test_records_in_records() -> None:
    """An object in an object is part of it; those of a list have it as their parent, as rows have their first row."""
    data = {"site": {"id": 7, "city": "Graz"}, "tags": ["a", "b"], "sensors": [{"id": 1, "ok": False}], "n": 1}
    whole, sensor = divide(f"Result: {json.dumps(data)} end.")[1:3]
    assert whole.text == "site id: 7; site city: Graz; tags: a, b; n: 1."
    assert (sensor.text, sensor.parent) == ("sensors: id: 1; ok: false.", 1)
    assert [part.parent for part in divide("Prices.\n| a | b |\n| 1 | 2 |\n| 3 | 4 |")] == [None, None, 1, 1]


def test_long_values_are_prose() -> None:
    """The sentences of a document in a search's result are parts, about the object that holds them."""
    text = 'The pump has \\"two\\" years of warranty. ' + "It is made of steel and weighs nine kilograms. " * 4
    parts = divide(f'{{"title": "Pump", "url": "http://a.de", "text": "{text}"}}')
    assert [part.text for part in parts[:2]] == [
        "title: Pump; url: http://a.de.",
        'The pump has "two" years of warranty.',
    ]
    assert {part.parent for part in parts[1:]} == {0}


def test_a_chosen_value_brings_its_record() -> None:
    """With a part of a long record its first part is read, which has the record's name; nobody else names it."""
    between = {f"field{i}": f"word{i}" for i in range(120)}
    rows = [{"order_id": f"SO-{n}", **between, "carrier": f"X{n}Line"} for n in range(30, 50)]
    chunks = reader().chunks
    read = chunks.tokenizer.decode(
        chunks.evidence([f"Orders.\n{json.dumps(rows)}"], "Who carries it?", "X41Line does.").ids
    )
    assert "X41Line" in read
    assert "SO-41" in read


@given(st.text(alphabet="{}[]:,\"'\\ab1-|\t\n =x", max_size=200), st.booleans())
def test_any_text_can_be_read(text: str, behind_data: bool) -> None:
    chunk = ('{"a": 1, "b": 2, "c": 3, ' if behind_data else "") + text
    for number, part in enumerate(divide(chunk)):
        assert 0 <= part.start <= part.end <= len(chunk)
        assert part.parent is None or part.parent < number
