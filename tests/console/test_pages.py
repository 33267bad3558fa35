"""The console's pages as text: what they show, what they never let through, and that they work without script."""

import re
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select
from starlette.testclient import TestClient

from ragtrace.console.chatlogs import overview, schema
from ragtrace.console.chatlogs.costs import costs
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.chatlogs.store_types import Filter
from ragtrace.console.options import ConsoleSettings
from ragtrace.console.pages import evidence, filters, health, page_charts, trace_view
from ragtrace.console.pages.template_filters import percent, range_percent
from ragtrace.console.review import agreement, queue, true_shares
from ragtrace.console.review.threshold_effects import measure_thresholds
from ragtrace.console.safe_text import link, printable, visible, web_address
from ragtrace.console.template_engine import environment
from ragtrace.records import Document, Evidence, Facts
from ragtrace.testing import make_trace
from tests.console.conftest import Console
from tests.console.sample_store import ATTACKS, CHECKS, CHUNKS, GOOD_URL, URLS, evaluation, evaluations, filled
from tests.databases import count
from tests.row_files import rows, table


class Read(HTMLParser):
    """What a browser would make of a page, roughly."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def values(self, tag: str, name: str) -> list[str]:
        return [attrs[name] or "" for found, attrs in self.tags if found == tag and name in attrs]

    @property
    def logs(self) -> list[str]:
        return [href for href in self.values("a", "href") if re.fullmatch(r"/traces/[0-9]{6,19}", href)]

    @property
    def csrf(self) -> str:
        return next(attrs["value"] or "" for tag, attrs in self.tags if tag == "input" and attrs.get("name") == "csrf")

    def form(self, mark: str) -> dict[str, str]:
        """The hidden fields of the form that has that attribute."""
        at = next(i for i, (tag, attrs) in enumerate(self.tags) if tag == "form" and mark in attrs)
        found = {}
        for tag, attrs in self.tags[at + 1 :]:
            if tag == "form":
                break
            if tag == "input" and attrs.get("type") == "hidden":
                found[attrs["name"] or ""] = attrs.get("value") or ""
        return found


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with closing(filled(tmp_path_factory.mktemp("pages") / "logs.db", reviews=60)) as store:
        yield store


@pytest.fixture
def waiting(store: Store) -> Store:
    store.write(evaluations(12), CHECKS)
    queue.fill(store, queue.Policy(quota=30))
    return store


def client(store: Store, **settings: Any) -> TestClient:
    browser = Console(store, ConsoleSettings(**settings)).local()
    del browser.headers["x-csrf-token"]  # a form has the token in a field
    return browser


@pytest.mark.parametrize("character", rows(__file__, "characters_that_hide"), ids=ascii)
def test_what_hides_is_shown(character: str) -> None:
    """Controls, turns of direction, empty widths and lone surrogates stand as their code points, a run once."""
    shown = str(visible(f"a{character * 3}b"))
    assert re.sub("<[^>]*>", "", shown) == f"aU+{ord(character):04X} \N{MULTIPLICATION SIGN} 3b"
    assert printable(character) == "\ufffd"
    shown.encode()


@given(st.text(st.characters(codec=None), max_size=60))
def test_any_text_is_shown_whole(text: str) -> None:
    """Whatever a log says: it is valid UTF-8, holds no markup of its own, and nothing that can be seen is lost."""
    shown = visible(text)
    shown.encode()
    read = Read(str(shown))
    assert {tag for tag, _ in read.tags} <= {"span"}
    kept = "".join(c for c in text if visible(c) == c)
    assert "".join(c for c in read.text if c in kept) != "" or not kept


@pytest.mark.parametrize("url", [*URLS, *rows(__file__, "addresses_that_are_no_links")])
def test_other_addresses_are_no_links(url: object) -> None:
    """Only http and https with a host, no name in it, nothing unseen in it, become links."""
    assert web_address(url) is None
    assert "<a" not in link(url)


def test_a_link_shows_its_host() -> None:
    (found,) = [attrs for tag, attrs in Read(str(link(GOOD_URL))).tags if tag == "a"]
    assert found["href"] == GOOD_URL
    assert set(str(found["rel"]).split()) == {"noopener", "noreferrer"}
    assert Read(str(link(GOOD_URL))).text.startswith("docs.example.org ")


def test_no_template_lets_it_through() -> None:
    """A value that a template forgot to pass through `visible` cannot break the page's encoding or its direction."""
    made = environment().from_string("{{ one }}{{ two | visible }}").render(one="\ud800\u202e<", two="\u202e")
    assert made.startswith("\ufffd\ufffd&lt;<span")
    assert "U+202E" in made


def test_a_long_text_is_cut_with_a_count() -> None:
    """A page holds 100,000 characters of one text and says how many more there are."""
    shown = str(visible("x" * 100_007))
    assert shown.count("x") == 100_000
    assert "7 more characters" in shown


_SPAN = st.tuples(st.integers(-5, 60), st.integers(-5, 60))
_EVIDENCE = st.builds(
    lambda span, verdict, p, rank, passage: Evidence(*span, verdict, p, "d", rank, *passage), _SPAN,
    st.sampled_from(["supported", "unsupported", "contradicted", "odd"]), st.none() | st.floats(0, 1),
    st.none() | st.integers(-1, 3), _SPAN,
)  # fmt: skip


@given(st.text(max_size=50), st.lists(st.text(max_size=50), max_size=3), st.lists(_EVIDENCE, max_size=8))
def test_pieces_are_the_text(answer: str, chunks: list[str], found: list[Evidence]) -> None:
    """However evidence lies: the pieces are the text, each link has its anchor, and no anchor is there twice."""
    documents = tuple(Document(str(i), text) for i, text in enumerate(chunks))
    text = evidence.answer_text(answer, found, documents)
    made = evidence.chunk_texts(documents, found)
    assert "".join(p.text for p in (*text.visible, *text.rest)) == answer
    assert ["".join(p.text for p in (*c.text.visible, *c.text.rest)) for c in made] == chunks
    sentences = [n for p in text.visible for n in p.opens]
    passages = [n for c in made for p in c.text.visible for n in p.opens]
    assert (len(set(sentences)), len(set(passages))) == (len(sentences), len(passages))
    assert {p.target for p in text.visible} - {""} <= {f"p{n}" for n in passages}
    for piece in (p for c in made for p in c.text.visible if p.claims):
        assert piece.target == f"s{piece.claims[0]}"


def test_the_worst_verdict_colours() -> None:
    """Where claims overlap, a contradiction goes before what lacks support, and that before what has it."""
    found = [Evidence(0, 9, "supported", 0.9), Evidence(3, 6, "contradicted", 0.1), Evidence(0, 5, "unsupported", 0.2)]
    pieces = evidence.answer_text("abcdefghi", found, ()).visible
    assert [(p.text, p.verdict) for p in pieces] == [
        ("abc", "unsupported"), ("de", "contradicted"), ("f", "contradicted"), ("ghi", "supported"),
    ]  # fmt: skip


def test_a_long_text_is_folded() -> None:
    folded = evidence.answer_text("x" * 9_000, (), ())
    assert 1_000 < len(folded.visible[0].text) < 5_000
    assert folded.left == 9_000 - len(folded.visible[0].text)


def test_spans_stand_below_their_parents() -> None:
    """In the order of time, each with its place in the whole in thousandths."""
    bars = trace_view.bars(evaluation(1).trace)
    assert [(b.name, b.depth) for b in bars] == [("answer", 0), ("search", 1), ("chat", 1)]
    assert (round(bars[1].start), round(bars[1].width)) == (50, 200)
    assert (bars[2].model, bars[2].input_tokens) == ("small", 700)


@pytest.mark.parametrize("spans", rows(__file__, "odd_spans_break_nothing"))
def test_odd_spans_break_nothing(spans: list[Any]) -> None:
    """Circles, strangers, text for numbers: what is no span is left out, the others are each shown once."""
    assert len(trace_view.bars(make_trace(facts=Facts(spans=tuple(spans))))) <= len(spans)


def test_stages_stand_in_for_spans() -> None:
    facts = Facts(stages={"retrieval": 0.5, "generation": 1.0, "odd": "x"})
    bars = trace_view.bars(make_trace(duration=2.0, facts=facts))
    assert [(b.name, round(b.start), round(b.width)) for b in bars] == [
        ("request", 0, 1000), ("retrieval", 0, 250), ("generation", 250, 500),
    ]  # fmt: skip


def test_a_gap_is_a_gap() -> None:
    """Where nothing was seen no line is drawn, and one point alone is a dot."""
    points = [page_charts.Point(i, v, v and v - 0.1, v and v + 0.05) for i, v in enumerate([0.5, 0.6, None, 0.7, None])]
    drawn = page_charts.rates(points, "rates <&>")
    assert [drawn.count(part) for part in ("<polyline", "<circle", 'class="band"')] == [1, 1, 2]
    assert "rates &lt;&amp;&gt;" in drawn
    assert page_charts.rates([page_charts.Point(0, None)], "nothing") == ""


def checked(page: str) -> Read:
    """No markup but ours: no inline script, style or handler, no address but http(s) and our own, ids once."""
    read = Read(page)
    for tag, attrs in read.tags:
        assert tag not in {"style", "iframe", "object", "embed", "base", "img"}, tag
        if tag == "script":
            assert str(attrs.get("src", "")).startswith("/static/")
        if tag == "meta":
            assert "http-equiv" not in attrs
        assert "style" not in attrs
        assert not [name for name in attrs if name.startswith("on")]
        for name in ("href", "action", "src", "formaction"):
            if name in attrs:
                address = urlsplit(attrs[name] or "")
                assert address.scheme in {"", "http", "https"}
                assert address.scheme or not address.netloc
                assert "attack.example" not in (address.hostname or "")
                if address.scheme and tag == "a":
                    assert "noopener" in str(attrs["rel"])
    ids = [attrs["id"] for _, attrs in read.tags if "id" in attrs]
    assert len(ids) == len(set(ids)), sorted(i for i in ids if ids.count(i) > 1)
    assert {href for href in read.values("a", "href") if href.startswith("#")} <= {f"#{i}" for i in ids}
    assert "{{" not in re.sub(re.escape(ATTACKS[6]) + r"|alert\(2\)>\{\{", "", read.text)
    return read


@pytest.mark.parametrize("path", rows(__file__, "pages"))
def test_a_page_is_only_ours(full: Store, store: Store, path: str) -> None:
    """With attacks in every field of the logs that it shows; no page fails for lack of data."""
    for shown in (full, store):
        answer = client(shown).get(path)
        assert answer.status_code == (404 if shown is store and "faithfulness" in path else 200)
        assert "unsafe" not in answer.headers["content-security-policy"]
        checked(answer.text)


def test_every_log_is_shown(full: Store) -> None:
    """Each of them on its own page and in review, evidence linked both ways; an attack can be read as text."""
    here, texts = client(full, trace_url="https://traces.example.org/t/{trace_id}"), []
    for (trace_id,) in full.rows(select(schema.traces.c.trace_id)):
        page, review = here.get(f"/traces/{trace_id}"), here.get(f"/review?trace={trace_id}")
        assert page.status_code == review.status_code == 200
        read = checked(page.text)
        assert f"https://traces.example.org/t/{trace_id}" in read.values("a", "href")
        checked(review.text)
        texts.append(read.text)
    for attack in ATTACKS[:8]:
        assert any(attack in text for text in texts), attack


def test_a_sentence_leads_to_its_passage(full: Store) -> None:
    """The sign and the words say what the colour says, and the marked passage is the evidence's."""
    page = client(full).get(f"/traces/{evaluation(3).trace.trace_id:032x}").text
    read = Read(page)
    claims = [attrs for tag, attrs in read.tags if tag == "a" and "claim" in str(attrs.get("class"))]
    assert [str(c["class"]).split()[1] for c in claims] == ["supported", "contradicted", "unsupported"]
    assert claims[1]["href"] == "#p2"
    passage = re.search(r'<a class="passage" id="p2"[^>]*>(.*?)</a>', page)
    assert passage[1] == CHUNKS[1][:19]  # type: ignore[index]
    assert "(contradicted, supported with probability 0.03)" in read.text


@pytest.mark.parametrize("folder", ["traces", "evaluators"])
def test_no_such_page(full: Store, folder: str) -> None:
    here = client(full)
    for wrong in ("0" * 32, "x", "1", "9" * 19, "%00", "ß" * 32, "<script>", "../x"):
        assert here.get(f"/{folder}/{wrong}").status_code == 404


def test_the_address_is_the_state() -> None:
    """What is asked for comes back out of the address, without what makes no sense; a verdict has an evaluator."""
    state = filters.chosen(table(__file__, "address"), 2e9)
    assert state.filter == Filter(**table(__file__, "filter_of_the_address"))
    assert (state.order, state.after) == ("worst", "7")
    again = filters.chosen(dict(parse_qsl(state.query)), 2e9)
    assert (again.filter, again.order, again.query) == (state.filter, state.order, state.query)
    assert filters.chosen({"label": "fail"}, 0, "faithfulness").filter.evaluator == "faithfulness"
    assert filters.chosen({"q": "x"}, 0, "faithfulness").filter.evaluator == ""


def test_the_list_shows_what_is_asked_for(full: Store) -> None:
    """By application, by text, by verdict; a chip takes each filter away again."""
    here = client(full)
    found = Read(here.get("/traces?app=shop&evaluator=faithfulness&label=fail").text)
    assert found.logs
    for row in found.logs:
        stored = full.get(row.rpartition("/")[2])
        assert stored.trace.facts.app == "shop"  # type: ignore[union-attr]
        assert {s.name: s.label for s in stored.evaluation.scores}["faithfulness"] == "fail"  # type: ignore[union-attr]
    assert "/traces?evaluator=faithfulness&label=fail" in found.values("a", "href")
    assert "parcel 7?" in Read(here.get('/traces?q="parcel 7"').text).text
    assert "Nothing found" in here.get("/traces?q=zebrafish").text


def test_pages_follow_each_other(full: Store) -> None:
    here, seen, forward = client(full), [], ["/traces?app=shop"]
    while forward and len(seen) < 99:
        read = Read(here.get(forward[0]).text)
        seen += read.logs
        forward = [str(attrs["href"]) for tag, attrs in read.tags if tag == "a" and attrs.get("rel") == "next"]
    assert len(seen) == len(set(seen)) == 20


def test_views_are_ones_own(console: Console) -> None:
    """Saved with the list's state alone, listed, replaced, deleted; nobody else's can be."""
    here, other = console.signed_in("ada"), console.signed_in("rob")
    other.post("/views", data={"name": "his", "query": "app=shop"})
    saved = here.post("/views", data={"name": "<b>mine", "query": "app=shop&after=9&evil=%3Cscript%3E"})
    assert (saved.status_code, saved.headers["location"]) == (303, "/traces?app=shop")
    page = here.get("/traces?app=shop").text
    assert "&lt;b&gt;mine" in page
    (own,) = re.findall(r"/views/(\d+)/delete", page)
    (his,) = re.findall(r"/views/(\d+)/delete", other.get("/traces?app=shop").text)
    for view in (his, own):
        here.post(f"/views/{view}/delete")
    assert console.store.rows(select(schema.views.c.name)) == [("his",)]


def test_review_is_blind(store: Store) -> None:
    """Pages of a passed and a failed log differ in ids and times alone; what evaluators said is shown on request."""
    store.write([evaluation(1, 0.99, trace_id=1, query="q"), evaluation(1, 0.01, trace_id=2, query="q")], CHECKS)
    browser = client(store)
    pages = []
    for stored in (store.get(f"{1:032x}"), store.get(f"{2:032x}")):
        page = browser.get(f"/review?trace={stored.id}").text.replace(str(stored.id), "ID")  # type: ignore[union-attr]
        pages.append(re.sub(r'value="\d+\.\d{3}"', "TIME", page))
    assert pages[0] == pages[1]
    assert "<div data-scores></div>" in pages[1]
    assert "contradicted" not in pages[1].split("<dialog")[0].replace('data-mark="contradicted">contradicted', "")
    parts = browser.get(f"/review/evaluators?trace={2:032x}&reason=worst").text
    assert all(text in parts for text in ("What the evaluators said", "contradicted", "among the worst"))
    assert browser.get("/review/evaluators?trace=x").status_code == 404


def test_review_without_script(waiting: Store) -> None:
    """A form brings a log, keeps what is said of it, and goes on to the next; nothing said is nothing kept."""
    here = client(waiting)
    first = Read(here.get("/review").text).form("data-review")
    first["do"] = "submit"
    assert here.post("/review", data=first).status_code == 409
    said = {"v-faithfulness": "fail", "v-toxicity": "pass", "comment": "<b>no", "corrected": "Yes."}
    kept = here.post("/review", data={**first, **said})
    assert (kept.status_code, kept.headers["location"]) == (303, "/review")
    assert f"/review?trace={first['trace']}" in here.get("/review").text  # the way back
    second = Read(here.get("/review").text).form("data-review")
    assert second["trace"] != first["trace"]
    assert waiting.get(first["trace"]).reviewed  # type: ignore[union-attr]
    verdicts = {row.evaluator: row.verdict for row in queue.load_verdicts(waiting)}
    assert verdicts == {"faithfulness": "fail", "toxicity": "pass"}
    page = here.get(f"/traces/{first['trace']}").text
    assert all(text in page for text in ("&lt;b&gt;no", "Yes."))
    assert here.post("/review", data={**second, "do": "skip", "reason": "cannot tell"}).status_code == 303
    assert Read(here.get("/review").text).form("data-review")["trace"] not in {first["trace"], second["trace"]}


def test_a_review_can_be_taken_back(store: Store) -> None:
    """What one said is in the form again, and replaces what was said before."""
    store.write(evaluations(5), CHECKS)
    here, trace_id = client(store), f"{evaluation(2).trace.trace_id:032x}"
    form = Read(here.get(f"/review?trace={trace_id}").text).form("data-review")
    assert form["item"] == ""
    here.post("/review", data={**form, "v-faithfulness": "pass", "do": "submit", "comment": "first"})
    page = here.get(f"/review?trace={trace_id}").text
    assert re.search(r'name="v-faithfulness" value="pass" checked', page)
    assert "first</textarea>" in page
    for label in ("fail", "pass"):  # from a tab that was open before: the comment stays
        assert here.post("/review", data={**form, "v-faithfulness": label, "do": "submit"}).status_code == 409
    form = Read(page).form("data-review")
    here.post("/review", data={**form, "v-faithfulness": "fail", "do": "submit"})
    assert [row.verdict for row in queue.load_verdicts(store)] == ["fail"]


def test_a_verdict_for_another_log_is_refused(waiting: Store) -> None:
    """A task of another log changes nothing, what is sent twice is kept once, and *false* can be said of every log."""
    here = client(waiting)
    page = here.get("/review").text
    sent = {**Read(page).form("data-review"), "do": "submit", "v-faithfulness": "pass", "v-correctness": "pass"}
    items = waiting.rows(select(schema.items.c.id).where(schema.items.c.slot == 0))
    other = next(item for (item,) in items if str(item) != sent["item"])
    assert here.post("/review", data={**sent, "item": str(other)}).status_code == 409
    assert [here.post("/review", data=sent).status_code for _ in range(2)] == [303, 303]
    assert [row.verdict for row in queue.load_verdicts(waiting)] == ["pass", "pass"]
    assert 'name="v-correctness" value="fail"' in page


def test_the_next_log_can_be_had_in_advance(waiting: Store) -> None:
    """Another one than the one that is shown, held as well, and given back by who leaves."""
    here = client(waiting)
    first = Read(here.get("/review").text).form("data-review")
    ahead = here.get(f"/review/next?skip={first['item']}")
    assert "<html" not in ahead.text
    second = Read(ahead.text).form("data-review")
    assert second["item"] not in {"", first["item"]}
    assert sum(states["locked"] for states in queue.count_items(waiting).values()) == 2
    here.post("/review", data={"csrf": first["csrf"], "item": second["item"], "do": "release"})
    assert sum(states["locked"] for states in queue.count_items(waiting).values()) == 1


def test_the_overview_shows_the_store_s_figures(full: Store) -> None:
    """Rates with their intervals, also on the list of evaluators, a chart for each, links to the failures."""
    now = time.time()
    page = client(full).get("/?range=24h").text
    found = overview.overview(full, now - 86_400, now)
    (check,) = (each for each in found.checks if each.evaluator == "faithfulness")
    text = Read(page).text
    week = overview.pass_rates(full, now - 7 * 86_400, now)["faithfulness"]
    evaluators = Read(client(full).get("/evaluators").text).text
    for rate, shown in ((check.passes, text), (week, evaluators)):
        assert percent(rate.value) in shown  # type: ignore[union-attr]
        assert range_percent(rate.interval) in shown  # type: ignore[union-attr]
    assert 'aria-label="Pass rate of faithfulness over time"' in page
    spent = costs(full, now - 86_400, now)
    assert spent.total == pytest.approx(40 * 2 * 0.01), "each stored one stands for two requests"
    assert f"US$ {spent.total:.2f}" in text
    assert [each.cost for each in spent.sessions] == [pytest.approx(0.02)] * 10
    assert f"/traces?session_id={spent.sessions[0].name}" in page
    assert "/traces?evaluator=faithfulness&amp;label=fail&amp;range=24h" in page
    assert "Nothing in this time" not in text


def test_the_time_that_is_shown_first_has_the_logs(store: Store) -> None:
    """The shortest one with all of them, 7 days at most; 24 hours are 24 columns, and times are also the reader's."""
    browser, now = client(store), time.time()
    shown = lambda path: re.search(r'aria-current="true">([^<]+)<', browser.get(path).text)[1]  # type: ignore[index]  # noqa: E731
    assert [shown("/"), shown("/questions")] == ["7 days", "7 days"]
    for age, name in ((1_800, "hour"), (20 * 3_600, "24 hours"), (20 * 86_400, "7 days")):
        store.write([evaluation(age + n, 0.9, started=now - age + n) for n in range(3)], CHECKS)
        assert [shown("/"), shown("/questions")] == [name, name]
    assert shown("/?range=30d") == "30 days"
    day = overview.overview(store, overview.begin_of(86_400, now), now)
    assert (len(day.traffic), day.step) == (24, 3_600)
    assert '<time datetime="' in browser.get("/").text


def test_the_overview_begins_with_what_people_say(full: Store) -> None:
    """The share that people would fail with its interval, from verdicts and scores; then how many pass with n."""
    text = Read(client(full).get("/?range=7d").text).text
    evaluator = r"Faithfulness: \d+\.\d % of the answers pass \(\d+\.\d to \d+\.\d, n = \d+\) in the last 7 days\."
    people = r"People would fail (\d+) % \((\d+) to (\d+); (\d+) verdicts and (\d+) scores(?:; [^)]*)?\)\."
    numbers = re.search(f"{people} {evaluator}", text)
    assert numbers is not None, text[:2_000]
    share = true_shares.estimate(full, "faithfulness", time.time() - 7 * 86_400, time.time())
    low, high = share.interval  # type: ignore[union-attr]
    shown = [round(100 * x) for x in (share.value, low, high)] + [share.verdicts, share.scores]  # type: ignore[union-attr]
    assert [int(x) for x in numbers.groups()[:5]] == pytest.approx(shown, abs=1)


def test_a_fall_has_a_beginning(store: Store) -> None:
    """The first sentence says from what to what, and since when; the rate of the week before is beside this week's."""
    now = time.time()
    for first, value, days, step in ((0, 0.95, 9, -3_000), (100, 0.95, 6, 3_000), (200, 0.1, 2, 600)):
        starts = [now - days * 86_400 + step * n for n in range(60)]
        store.write([evaluation(first + n, value, started=start) for n, start in enumerate(starts)], CHECKS)
    page = client(store).get("/?range=7d").text
    text = Read(page).text
    assert 'class="note bad"' in page
    assert all(before in text for before in ("▼ from 100.0 %", "before 100.0 %"))
    since = re.search(r"fewer than the 100\.0 % before \(n = \d+\), since about (\d{4}-\d\d-\d\d)", text)
    assert since is not None, text[:1_500]
    begun = [time.strftime("%Y-%m-%d", time.gmtime(now - 2 * 86_400 - back)) for back in (0, 15_000)]
    assert since[1] in begun  # a point of time covers some hours


def test_the_health_page_counts_every_check(full: Store) -> None:
    done = {check.name: (check.done, check.failed) for check in health._checks(full, time.time())}
    assert done["faithfulness"] == (count(full, schema.traces), 0)
    assert "No evaluator has scored" not in client(full).get("/health").text


def test_the_health_page_misses_what_is_absent(store: Store) -> None:
    """A store that never had a trace, and an evaluator that stopped while another one goes on."""
    assert "No trace has come in" in client(store).get("/health").text
    store.write([replace(evaluation(98), scores=())], CHECKS)
    assert "no evaluator scored any" in client(store).get("/health").text
    now, other = time.time(), replace(CHECKS[0], name="toxicity")
    before = [evaluation(n, 0.9, started=now - 90_000 - 3_600 * n) for n in range(30)]
    today = [evaluation(99, 0.9, started=now - 60)]
    today = [replace(each, scores=(replace(each.scores[0], name="toxicity"),)) for each in today]
    store.write([*before, replace(today[0], scores=())], CHECKS)
    assert "faithfulness: no score today" in Read(client(store).get("/health").text).text  # nor has any other
    assert "Faithfulness: no answer has a verdict in the" in Read(client(store).get("/?range=24h").text).text
    store.write(today, [*CHECKS, other])
    assert "faithfulness: no score today" in Read(client(store).get("/health").text).text


def test_agreement_shows_the_store_s_figures(full: Store) -> None:
    """Precision, recall and alpha are those that the store's own functions give."""
    page = Read(client(full).get("/agreement").text).text
    found = agreement.agreement(full)
    (of,) = (each for each in found.evaluators if each.evaluator == "faithfulness")
    for estimate in (of.precision, of.recall):
        assert percent(estimate.value) in page  # type: ignore[union-attr]
    alpha = found.alphas[""].value
    assert f"{alpha:.2f}" in page
    assert "anna and ben" in page


def test_a_threshold_shows_its_consequences(full: Store) -> None:
    """Without script: the form's slider names a candidate, and the page has the figures of that very threshold."""
    here = client(full)
    judged = queue.load_verdicts(full, "faithfulness")
    steps = sorted(measure_thresholds(judged, None, "higher", weighted=False), key=lambda step: step.threshold)
    wanted = steps[len(steps) // 3]
    page = here.get(f"/evaluators/faithfulness?view=reviewed&threshold={wanted.threshold}").text
    assert re.search(r"<output[^>]*>([^<]*)<", page)[1] == f"{wanted.threshold:.4g}"  # type: ignore[index]
    shown = dict(re.findall(r'data-figure="(\w+)".*?data-value>([^<]*)<', page, re.S))
    for name in ("flagged", "precision", "recall", "balanced_accuracy"):
        estimate = getattr(wanted, name)
        assert shown[name] == (percent(estimate.value) if estimate else "\N{EN DASH}"), name
    (named,) = re.findall(r'type="range"[^>]* name="threshold"[^>]* value="([^"]+)"', page)
    assert float(named) == wanted.threshold
    for odd in ("at=x", "threshold=x", "threshold=nan", "threshold=1e999", "threshold=-1"):
        assert here.get(f"/evaluators/faithfulness?{odd}").status_code == 200


def test_a_calibration_is_fitted_and_put_in_force(tmp_path: Path) -> None:
    """First it is shown with its figures on held-out logs, then the file has it, and the page says so."""
    store = filled(tmp_path / "logs.db", 120, reviews=160)
    file = tmp_path / "calibration.json"
    here = client(store, calibration_file=str(file))
    data = {"csrf": Read(here.get("/evaluators/faithfulness").text).csrf, "view": "reviewed"}
    page = here.post("/evaluators/faithfulness/calibrations", data={**data, "do": "fit"})
    assert (page.status_code, "not yet in force" in page.text, file.exists()) == (200, True, False)
    assert here.post("/evaluators/faithfulness/calibrations", data={**data, "do": "save"}).status_code == 303
    assert '"faithfulness"' in file.read_text()
    assert "2+c1" in here.get("/evaluators/faithfulness").text
    assert "a calibration needs" in here.post("/evaluators/toxicity/calibrations", data={**data, "do": "fit"}).text
    store.close()


def test_roles_see_their_pages(store: Store) -> None:
    """A viewer reads and sees no personal data; the links are those of the pages that the role may open."""
    made = evaluation(1)
    found = Evidence(11, 40, "supported", 0.9, "d", 0, 14, 40)
    private = replace(made.trace, answer="Write to anna@example.org, please do it now. Yes.", query="Who?")
    store.write([replace(made, trace=private, scores=(replace(made.scores[0], evidence=(found,)),))])
    path, console = f"/traces/{private.trace_id:032x}", Console(store)
    for role in ("viewer", "reviewer", "admin"):
        console.add(role, role)
        here = console.signed_in(role)
        seen = here.get(path)
        assert (seen.status_code, "anna@example.org" in Read(seen.text).text) == (200, role != "viewer")
        assert ('href="/users"' in seen.text) == (role == "admin")
        assert ("/review?trace=" in seen.text) == (role != "viewer")
        assert ("/conversation?session=" in seen.text) == (role != "viewer")
        assert "Log out" in seen.text


def test_a_link_of_the_dashboards_is_understood() -> None:
    """What a dashboard's link to the answers behind a series has in its address, the list of traces filters by."""
    folder = Path(__file__).parents[2] / "grafana" / "dashboards"
    texts = "".join(file.read_text(encoding="utf-8") for file in folder.glob("*.json"))
    links = set(re.findall(r"\$\{chatlog_url\}(/traces\?[^\"]+)", texts))
    assert links
    for address in links:
        timed = re.sub(r"\$\{__(?:from|to):date:iso\}", "2026-11-21T10:00:00.500Z", address)
        asked = dict(parse_qsl(urlsplit(re.sub(r"\$\{[^}]+\}", "x", timed)).query))
        assert set(filters.chosen(asked, 0.0).values) == set(asked), address
