"""The page and the route that compare two sides."""

import time

import pytest

from ragtrace.console.chatlogs.side_by_side import Side, compare_sides
from ragtrace.console.chatlogs.store import Store
from tests.console.conftest import Console
from tests.row_files import rows
from tests.topics.questions import CHECK, DAY, asked

MAIL = "jane.doe@example.org"


def _filled(store: Store) -> float:
    """v7 fails 10 of 100, v8 fails 40 of the same questions; v9 was tried once."""
    now, made = time.time(), []
    for offset, prompt, failures in ((0, "v7", 10), (100, "v8", 40)):
        for n in range(100):
            more = {"prompt": prompt, "model": "m", "started": now - (3 if prompt == "v7" else 1) * DAY + n}
            made.append(asked(offset + n, f"Question {n} of {MAIL}?", n < failures, **more))
    store.write(made, [CHECK])
    store.write([asked(500, "Once?", False, prompt="v9", model="m", started=now - 60)])
    return now


def test_the_page_says_what_changed(console: Console) -> None:
    """The two newest prompt versions in a sentence, in figures, and by answers that changed; masked for viewers."""
    now = _filled(console.store)
    text = console.signed_in("rob").get("/compare").text
    sides = [Side(f"prompt {name}", now - 30 * DAY, now, prompt_version=name) for name in ("v7", "v8")]
    (row,) = compare_sides(console.store, *sides).rows
    assert f"Faithfulness: {row.sentence} Each pair is the same question on both sides." in text
    for part in ("prompt v8 fails 30 points more than prompt v7 (", "n = 100 pairs.", "Passed in A, fails in B"):
        assert part in text
    assert "Failed in A, passes in B" not in text
    for trace in row.worse[0]:
        assert f"/traces/{console.store.get(trace).trace.trace_id:032x}" in text  # type: ignore[union-attr]
    assert "▲ worse" in text
    masked = console.signed_in("vera").get("/compare").text
    assert (MAIL in text, "jane" in masked, "[email]" in masked) == (True, False, True)


def test_two_periods_on_the_page(console: Console) -> None:
    """They have the chosen length, and begin when the address says; by default one follows the other."""
    now = _filled(console.store)
    browser = console.signed_in("vera")
    starts = [time.strftime("%Y-%m-%dT%H:%M", time.gmtime(now - days * DAY - 3_600)) for days in (3, 1)]
    text = browser.get(f"/compare?kind=period&range=24h&a={starts[0]}&b={starts[1]}").text
    assert "fails 30 points more than" in text
    assert f'value="{starts[0]}"' in text
    assert browser.get("/compare?kind=period&range=24h").status_code == 200
    assert "&#39;x&#39; is no time" in browser.get("/compare?kind=period&a=x").text


@pytest.mark.parametrize("query", rows(__file__, "addresses"))
def test_every_address_shows_a_page(console: Console, query: str) -> None:
    """An empty store, one model, one version, a side twice: the page says what is missing."""
    assert "Nothing to compare" in console.signed_in("vera").get("/compare?kind=model").text
    _filled(console.store)
    answer = console.signed_in("vera").get(f"/compare{query}")
    assert answer.status_code == 200
    if "a=v7&b=v7" in query:
        assert "name two different ones" in answer.text
    if query in ("?kind=model", "?kind=evaluator_version"):
        assert "Nothing to compare" in answer.text


def test_evaluator_versions_on_the_page(console: Console) -> None:
    _filled(console.store)
    begin = time.time() - 3 * DAY
    again = [asked(n, f"Question {n}?", n < 25, version="2", started=begin + n) for n in range(100)]
    console.store.write(again, [CHECK])
    text = console.signed_in("rob").get("/compare?kind=evaluator_version&a=1&b=2").text
    assert "version 2 fails 15 points more than version 1" in text
    assert "Each pair is one request, judged by both." in text


def test_the_route_compares(console: Console) -> None:
    """The same as JSON; what makes no sense is refused."""
    now = _filled(console.store)
    program = console.program("vera", "read")
    answer = program.get(f"/api/compare?a=v7&b=v8&since={now - 7 * DAY}&until={now}").json()
    assert (answer["requests_a"], answer["requests_b"]) == (100, 100)
    (row,) = answer["rows"]
    assert (row["verdict"], row["pairs"]["pairs"], row["pairs"]["value"]) == ("worse", 100, pytest.approx(0.3))
    assert row["sentence"].startswith("prompt v8 fails 30 points more")
    for wrong in rows(__file__, "comparisons_that_make_no_sense"):
        assert program.get(f"/api/compare?{wrong}").status_code == 422, wrong
