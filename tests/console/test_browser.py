"""The console in a real browser: no page has an error, everything works by keyboard, nothing stored ever runs."""

import os
import random
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from ragtrace.console import accounts
from ragtrace.console.chatlogs import schema
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.chatlogs.store_types import Filter
from ragtrace.console.login import local_address
from ragtrace.console.options import ConsoleSettings
from ragtrace.console.review import named_queues, queue
from ragtrace.console.review.dataset_export import Options, reviewed_rows
from ragtrace.console.topics.grouper import Grouper
from tests.console.conftest import served
from tests.console.sample_store import ATTACKS, ask, evaluation, filled
from tests.row_files import table
from tests.topics.questions import WordEmbedder

CHROMIUM = shutil.which("chromium")
AXE = Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js"
HAS_AXE = AXE.is_file() or os.environ.get("CI")  # in CI tests/prepare.py installs it
if CHROMIUM is None and not os.environ.get("CI"):  # there it is a failure, of every test here
    pytest.skip("chromium is not installed: apt-get install chromium", allow_module_level=True)
playwright = pytest.importorskip("playwright.sync_api")

PAGES = table(__file__, "pages")
GOOD = f"/traces/{evaluation(3).trace.trace_id:032x}"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as running:
        made = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield made
        made.close()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with closing(filled(tmp_path_factory.mktemp("browser") / "logs.db", reviews=50)) as made:
        named_queues.create(made, "prices", filter=Filter(app="shop"), instructions="Compare with the list.")
        ask(made)
        Grouper(made, embedder=WordEmbedder()).update()
        yield made


@pytest.fixture(scope="module")
def url(store: Store) -> Iterator[str]:
    with served(store, ConsoleSettings(trace_url="https://traces.example.org/t/{trace_id}")) as address:
        yield address


class Tab:
    """A page that remembers what went wrong in it, and whom it spoke to."""

    def __init__(self, browser: Any, url: str, store: Store, **options: Any) -> None:
        options.setdefault("viewport", {"width": 1280, "height": 800})
        self.context = browser.new_context(base_url=url, reduced_motion="reduce", **options)
        self.context.set_default_timeout(20_000)
        self.page = self.context.new_page()
        self.page.goto(local_address(store, url))
        self.troubles: list[str] = []
        self.asked: set[str] = set()
        self.page.on("console", self._say)
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.troubles.append("a dialogue opened"), dialog.dismiss()))
        self.page.on("request", lambda request: self.asked.add(request.url))
        self.own = url

    def _say(self, said: Any) -> None:
        # What a page with an error's status says of itself is no error of the page.
        if said.type in {"error", "warning"} and "the server responded with a status of 40" not in said.text:
            self.troubles.append(said.text)

    def open(self, path: str) -> Any:
        self.page.goto(path)
        return self.page

    def check(self) -> None:
        """No error, no violation of the policy, nobody else asked, nothing of a log has run."""
        assert self.troubles == []
        assert {asked for asked in self.asked if not asked.startswith(self.own)} <= set()
        assert self.page.evaluate("window.pwned") is None


@contextmanager
def opened(browser: Any, url: str, store: Store, **options: Any) -> Iterator[Tab]:
    """A tab in which nothing may go wrong."""
    made = Tab(browser, url, store, **options)
    yield made
    made.check()
    made.context.close()


@pytest.fixture
def tab(browser: Any, url: str, store: Store) -> Iterator[Tab]:
    with opened(browser, url, store) as made:
        yield made


def press(page: Any, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def unfold(page: Any, parts: str = "main details") -> None:
    page.evaluate(f"document.querySelectorAll('{parts}').forEach((part) => {{ part.open = true; }})")


def script(name: str) -> str:
    """A script that runs in the page."""
    return (Path(__file__).parent / "scripts" / f"{name}.js").read_text(encoding="utf-8")


def width(page: Any) -> int:
    return int(page.evaluate("document.documentElement.scrollWidth"))


def violations(page: Any) -> list[str]:
    """What axe-core finds that is serious or critical."""
    page.evaluate(AXE.read_text(encoding="utf-8"))  # past the policy, which lets no page load it
    return [
        f"{each['id']}: {node['target']} {node['failureSummary']}"
        for each in page.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
        if each["impact"] in {"serious", "critical"}
        for node in each["nodes"][:3]
    ]


@pytest.mark.parametrize("path", [*PAGES, GOOD, "/conversation?session=session-3"])
def test_a_page_is_sound(tab: Tab, path: str) -> None:
    """No error or violation of the policy, nothing too wide, nothing serious for axe-core, folded parts open or not."""
    for theme in ("light", "dark"):
        tab.page.emulate_media(color_scheme=theme)
        page = tab.open(path)
        for wide, unfolded in ((1280, False), (400, False), (400, True), (1920, True), (1280, True)):
            page.set_viewport_size({"width": wide, "height": 800})
            if unfolded:
                unfold(page)
            assert width(page) <= wide, theme
            if HAS_AXE and (unfolded or wide < 500) and wide < 1_900 and (theme == "light" or wide == 1280):
                assert violations(page) == []


def test_no_attack_runs(tab: Tab, store: Store) -> None:
    """Logs with attacks in every field, on their pages and in review, all parts unfolded, all links inside clicked."""
    ids = store.rows(select(schema.traces.c.trace_id).order_by(schema.traces.c.started).limit(60))
    hostile = [i for (i,) in ids if (s := store.get(i)) is not None and s.trace.span_id > 1_000]
    assert len(hostile) == len(ATTACKS)
    for trace_id in hostile:
        for path in (f"/traces/{trace_id}", f"/review?trace={trace_id}"):
            page = tab.open(path)
            unfold(page, "details")
            links = page.eval_on_selector_all("a", "all => all.map((a) => [a.protocol, a.getAttribute('href') ?? '#'])")
            assert {protocol for protocol, href in links if not href.startswith("#")} <= {"http:", "https:"}
            page.evaluate("document.querySelectorAll('a[href^=\"#\"]').forEach((link) => link.click())")
            assert width(page) <= 1280
    for path in ("/traces", "/audit", "/health", "/", "/evaluators"):
        tab.open(path)


def test_the_theme_is_kept(tab: Tab) -> None:
    """The toggle turns it, and the next page has it from the start."""
    page = tab.open("/traces")
    colour = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(colour)
    page.keyboard.press("t")
    dark = page.evaluate(colour)
    assert dark != light
    page.goto("/health")
    assert page.evaluate(colour) == dark
    page.click("[data-theme-toggle]")
    assert page.evaluate(colour) == light


def test_lists_by_keyboard(tab: Tab) -> None:
    """j and k walk, Enter opens, / searches, ? tells, g and a letter go."""
    page = tab.open("/traces")
    press(page, "j", "j", "k")
    assert page.locator(".log a.cover").first.evaluate("link => link === document.activeElement")
    press(page, "j")
    wanted = page.evaluate("document.activeElement.getAttribute('href')")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{wanted}")
    page.go_back()
    page.keyboard.press("/")
    page.keyboard.type("parcel 7")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=parcel+7")
    assert page.locator(".log").count() == 1
    page.keyboard.press("?")
    assert page.locator("dialog[open]").is_visible()
    page.keyboard.press("Escape")
    assert page.locator("dialog[open]").count() == 0
    press(page, "g", "h")
    page.wait_for_url("**/health")


def test_filters_by_form(tab: Tab) -> None:
    """The address holds what was chosen and nothing else, the list follows, a chip takes a filter away."""
    page = tab.open("/traces")
    page.select_option("#f-app", "shop")
    page.select_option("#f-evaluator", "faithfulness")
    page.select_option("#f-label", "fail")
    page.click("text=Search")
    page.wait_for_url(re.compile(r"\?app=shop&evaluator=faithfulness&label=fail$"))
    count = page.locator(".log").count()
    assert 0 < count < 20
    assert page.locator(".log .main .chip.fail").count() == count
    page.click("a.chip:has-text('label')")
    page.wait_for_url(re.compile(r"\?app=shop&evaluator=faithfulness$"))
    assert page.locator(".log").count() == 20
    page.fill("input[name=name]", "the shop's")
    page.click("text=Save view")
    page.click('a.chip:has-text("the shop\'s")')
    page.wait_for_url(re.compile(r"\?app=shop&evaluator=faithfulness$"))


def test_logs_are_ticked_by_mouse(review: Tab, waiting: Store) -> None:
    """Two rows of the list get one verdict, and are a data set; the row's link does not cover the box."""
    page = review.open("/traces?app=shop")
    for row in (1, 3):
        page.check(f".log input >> nth={row}")
    page.select_option("select[name=question]", "faithfulness")
    page.click("button[value=fail]")
    page.wait_for_selector(".log:has-text('reviewed') >> nth=1")
    assert list(verdicts(waiting).values()) == [{"faithfulness": "fail"}] * 2
    page.check(".log input >> nth=2")
    with page.expect_download() as download:
        page.click("text=Data set")
    assert len(download.value.path().read_text(encoding="utf-8").splitlines()) == 1


def test_evidence_lights_up_both_ways(tab: Tab) -> None:
    """A sentence that is pointed at shows its passage, a passage its sentence; a click goes there; by keyboard too."""
    page = tab.open(GOOD)
    page.hover(".claim.contradicted")
    assert page.locator(".passage.lit").inner_text().startswith("The moon is a rock.")
    page.hover("h1")
    assert page.locator(".lit").count() == 0
    page.focus("#p1")
    assert page.locator(".claim.lit").count() == 1
    page.keyboard.press("Enter")
    page.wait_for_url("**#s1")
    page.goto(f"{GOOD}#p2")
    assert page.locator("#p2").is_visible()


def test_the_slider_moves_the_figures(tab: Tab) -> None:
    """By arrow keys: figures and line follow, the table of all thresholds says the same, the address keeps it."""
    page = tab.open("/evaluators/faithfulness?view=reviewed")
    page.focus("#at")
    before = page.inner_text("[data-threshold] output")
    line = page.get_attribute(".limit.threshold", "x1")
    press(page, *["ArrowLeft"] * 4)
    shown = page.inner_text("[data-threshold] output")
    assert float(shown) < float(before)
    assert float(page.get_attribute(".limit.threshold", "x1")) < float(line)
    assert page.get_attribute("#at", "aria-valuetext") == shown
    row = page.locator(f'[data-step="{shown}"]').first
    for name in ("flagged", "precision", "recall"):
        cell = row.locator(f'[data-of="{name}"]').text_content()
        assert page.inner_text(f'[data-figure="{name}"] [data-value]') == cell
    recall = page.inner_text('[data-figure="recall"] [data-value]')
    page.reload()
    assert page.inner_text("[data-threshold] output") == shown
    assert page.inner_text('[data-figure="recall"] [data-value]') == recall
    page.click("[data-reset]")
    assert page.inner_text("[data-threshold] output") == before
    thumb, mark = page.evaluate(script("thumb_and_mark"))
    assert thumb == pytest.approx(mark, abs=1.5)


def test_charts_can_be_read_at_any_width(tab: Tab) -> None:
    """Their texts are 10.5 to 15 pixels high; a time line over two days names both."""
    for wide in (320, 400, 768, 1280, 1920):
        page = tab.open("/?range=24h")
        page.set_viewport_size({"width": wide, "height": 900})
        unfold(page)
        sizes = page.evaluate(script("text_sizes"))
        ends = page.locator(".rate .plot text").all_text_contents()[-2:]
        page.goto("/evaluators/faithfulness?view=reviewed")
        sizes += page.evaluate(script("text_sizes"))
        assert len(sizes) > 5
        assert all(10.5 <= size <= 15 for size in sizes), (wide, sizes)
        assert ends[0] != ends[1]


def test_a_wide_table_says_so(tab: Tab) -> None:
    """On a phone, where its end is out of sight; on a wide screen it does not."""
    page = tab.open("/agreement")
    hint = page.locator("section:has(#by) .sideways")
    assert hint.is_hidden()
    page.set_viewport_size({"width": 400, "height": 800})
    hint.wait_for(state="visible")


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[Store]:
    with closing(filled(tmp_path / "logs.db", 20)) as made:
        queue.fill(made, queue.Policy(quota=60))
        yield made


def verdicts(store: Store) -> dict[int, dict[str, str]]:
    found: dict[int, dict[str, str]] = {}
    for row in queue.load_verdicts(store):
        found.setdefault(row.trace, {})[row.evaluator] = row.verdict
    return found


@pytest.fixture
def review(browser: Any, waiting: Store) -> Iterator[Tab]:
    """A tab with a console over `waiting`."""
    with served(waiting) as url, opened(browser, url, waiting) as made:
        yield made


def label_of(store: Store, trace: str) -> dict[str, str]:
    return verdicts(store)[store.get(trace).id]  # type: ignore[union-attr]


def settled(page: Any) -> None:
    """Until the server has said that it has what was sent."""
    page.wait_for_selector("[data-state]:text-matches('^(saved|skipped)$')")


def send(page: Any, *keys: str) -> str:
    """Press keys and Enter, and wait for another log, or none; the trace of the one that was judged."""
    trace = str(page.get_attribute("[data-task]", "data-trace"))
    press(page, *keys, "Enter")
    page.wait_for_selector(f"[data-task]:not([data-trace='{trace}'])")
    return trace


def judge(page: Any, key: str) -> str:
    """`send`, until it is stored."""
    trace = send(page, key)
    settled(page)
    return trace


def test_review_by_two_keys(review: Tab, waiting: Store) -> None:
    """1 or 2, then Enter: stored, and the next log is there without loading. u leads back, after a reload as well."""
    page = review.open("/review")
    page.evaluate("window.same = true")
    seen = [judge(page, key) for key in ("1", "2", "1")]
    assert page.evaluate("window.same")
    assert page.inner_text("[data-done]") == "3"
    assert [label_of(waiting, trace) for trace in seen] == [{"faithfulness": v} for v in ("pass", "fail", "pass")]
    press(page, "u")
    page.wait_for_selector(f"[data-trace='{seen[-1]}'] [data-ask].now")  # the page's script listens to keys
    send(page, "2")
    assert label_of(waiting, seen[-1]) == {"faithfulness": "fail"}
    page.reload()
    for trace in reversed(seen):
        press(page, "u")
        page.wait_for_selector(f"[data-trace='{trace}']")
        page.wait_for_load_state()
        assert page.locator("input:checked").count() == 1


def test_review_says_more_by_keyboard(review: Tab, waiting: Store) -> None:
    """Another question, a comment, a corrected answer; then it goes on. And a skip."""
    page = review.open("/review")
    first = page.get_attribute("[data-task]", "data-trace")
    press(page, "Enter")
    assert "First press 1 or 2" in page.inner_text("[data-state]")
    press(page, "2", "j", "j", "4", "c")
    page.keyboard.type("1 of these is wrong?")
    press(page, "Escape", "e")
    page.keyboard.type("It should say so.")
    press(page, "Control+Enter")
    settled(page)
    assert page.get_attribute("[data-task]", "data-trace") != first
    assert sorted(label_of(waiting, first).values()) == ["fail", "unsure"]
    press(page, "s", "Tab", "Enter")
    settled(page)
    assert sum(states["skipped"] for states in queue.count_items(waiting).values()) == 1
    page.goto(f"/traces/{first}")
    assert "It should say so." in page.inner_text("main")
    assert "1 of these is wrong?" in page.inner_text("main")


def test_a_session_by_keyboard(review: Tab, waiting: Store) -> None:
    """Each kind of question by its own key, marks by words and sentences, one taken away again."""
    ask(waiting)
    page = review.open("/review")
    press(page, "2", "r", "f", page.get_attribute("[name=q-score]", "data-hotkey"))  # of r and f the last one counts
    page.keyboard.type("7.5")
    press(page, "Escape", page.get_attribute("[name=q-gap]", "data-hotkey"))
    page.keyboard.type("where; a, b, f, w")
    letter = page.get_attribute("[name=v-toxicity][value=fail]", "data-hotkey")
    press(page, "Escape", f"Shift+{letter}", "w", "ArrowDown")
    assert page.evaluate("getSelection().toString()") == "The moon is made of cheese."
    press(page, "x", "w", "ArrowRight", "Shift+ArrowRight", "Shift+ArrowRight", "Shift+ArrowLeft")
    assert page.evaluate("getSelection().toString()") == "take a"
    press(page, "w", "w", "ArrowUp", "ArrowUp", "w")
    assert page.locator("[name=mark]:checked").count() == 3
    assert page.evaluate("CSS.highlights.get('mark-unsupported').size") == 2
    press(page, "h")
    page.wait_for_selector("[data-scores] h3")
    assert page.evaluate("CSS.highlights.get('mark-contradicted').size") == 1
    page.evaluate("getSelection().selectAllChildren(document.querySelector('.claim'))")
    judge(page, "Backspace")
    (row,) = reviewed_rows(waiting, Options(), Counter())
    said = {one["question"]: one["text"] or one["number"] for one in row["answers"]}
    assert said == {"tone": "friendly", "score": 7.5, "gap": "where; a, b, f, w"}
    assert {one["evaluator"]: one["label"] for one in row["labels"]} == {"faithfulness": "fail", "toxicity": "fail"}
    marks = [(one["text"], one["verdict"]) for one in row["evidence"]]
    assert marks == [("The moon is made of cheese.", "contradicted"), ("take a", "unsupported")]


ODD = "Zero\u200b\u200bwidth \U0001f600 smiles.\r\nA <b>second</b> line \u202e turned.\r\n\r\nThe third one is wrong."


def test_marks_by_mouse_in_an_odd_text(review: Tab, waiting: Store) -> None:
    """Characters without a shape, beyond 16 bits, and both kinds of line ends: what is dragged over is what is kept."""
    odd = evaluation(500, 0.2, answer=ODD)
    waiting.write([odd], [])
    page = review.open(f"/review?trace={odd.trace.trace_id:032x}")
    for words in ("smiles", "third one", "second"):
        left, right, middle = page.evaluate(script("place_of_words"), words)
        page.mouse.move(left + 1, middle)
        page.mouse.down()
        page.mouse.move(right - 1, middle, steps=5)
        page.mouse.up()
        page.click("[data-mark=contradicted]")
    page.click("text=Save, next")
    page.wait_for_url(re.compile(r"/review$"))
    (row,) = reviewed_rows(waiting, Options(), Counter())
    assert sorted(one["text"] for one in row["evidence"]) == ["second", "smiles", "third one"]


def test_the_last_one(review: Tab, waiting: Store) -> None:
    """After it the page says so, and stands on the server's side as well; u leads back from there, d ends the day."""
    page = review.open("/review")
    for _ in range(80):
        if page.get_attribute("[data-task]", "data-task") == "0":
            break
        trace = judge(page, "1")
    assert "That was the last one" in page.inner_text("main")
    press(page, "u")
    page.wait_for_selector(f"[data-trace='{trace}']")
    page.wait_for_load_state()
    press(page, "d")
    page.wait_for_url("**/review/done")
    assert "Done for today" in page.inner_text("h1")
    assert sum(states["open"] + states["locked"] for states in queue.count_items(waiting).values()) <= 4


def test_a_verdict_that_cannot_be_sent_is_said(review: Tab, waiting: Store) -> None:
    """Where the server refuses, the next log says so and leads back to the one that was judged."""
    page = review.open("/review")
    refusal = {"status": 403, "json": {"title": "No"}}
    page.route("**/review", lambda it: it.fulfill(**refusal) if it.request.method == "POST" else it.continue_())
    first = send(page, "1")
    page.wait_for_selector("[data-state] a")
    assert "not saved (No)" in page.inner_text("[data-state]")
    assert page.get_attribute("[data-state] a", "href") == f"/review?trace={first}"
    assert verdicts(waiting) == {}


def test_no_verdict_is_stored_for_another_log(review: Tab, waiting: Store) -> None:
    """While logs and answers come late a reviewer presses on: each has the verdict chosen while it was on screen."""
    chance = random.Random(1)
    review.context.add_init_script(script("late_answers"))
    page = review.open("/review")
    refused: list[str] = []
    page.on("response", lambda answer: refused.append(answer.url) if answer.status == 409 else None)
    for _ in range(50):
        press(page, chance.choice("12"), "Enter")
        page.wait_for_timeout(80)
    page.wait_for_selector("[data-work]:not(:has([inert]))", state="attached")
    settled(page)
    pressed = page.evaluate("window.keys")
    shown = [trace for trace, _ in groupby(trace for trace, _ in pressed)]
    assert len(shown) == len(set(shown)), "no log comes twice"
    assert refused == [], "the page itself sends nothing for another log"
    meant: dict[str, str] = {}
    last: dict[str, str] = {}
    for trace, key in pressed:
        if key == "Enter" and trace in last:
            meant.setdefault(trace, last[trace])
        elif key in "12":
            last[trace] = {"1": "pass", "2": "fail"}[key]
    found = verdicts(waiting)
    assert len(found) > 3
    told = {waiting.get(trace).id: {"faithfulness": label} for trace, label in meant.items()}  # type: ignore[union-attr]
    assert found == {trace: told[trace] for trace in found}


def test_without_script(browser: Any, waiting: Store) -> None:
    """A log is searched, judged and the next one comes, by forms and links alone."""
    with served(waiting) as url:
        tab = Tab(browser, url, waiting, java_script_enabled=False)
        page = tab.open("/traces")
        page.fill("input[name=q]", "parcel 7")
        page.click("text=Search")
        page.wait_for_url("**q=parcel+7*")
        assert page.locator(".log").count() == 1
        page = tab.open("/review")
        trace = page.get_attribute("[data-task]", "data-trace")
        page.check("input[name=v-faithfulness][value=fail]", force=True)
        page.click("text=Save, next")
        page.wait_for_selector(f"[data-task]:not([data-trace='{trace}'])")
        assert list(verdicts(waiting).values()) == [label_of(waiting, trace)] == [{"faithfulness": "fail"}]
        tab.context.close()


def test_sign_in(browser: Any, tmp_path: Path) -> None:
    """Who is not known gets the form, signs in, sees what the role allows, and signs out."""
    store = filled(tmp_path / "logs.db", 3)
    accounts.add(store, "vera", "viewer", "correct horse battery")
    with served(store) as url, opened(browser, url, store) as tab:
        page = tab.open("/traces")
        page.wait_for_url("**/login?next=/traces")
        assert page.evaluate("document.activeElement.name") == "name"
        for password, selector in (("wrong horse battery", "[role=alert]"), ("correct horse battery", "text=Log out")):
            page.fill("input[name=name]", "vera")
            page.fill("input[name=password]", password)
            page.keyboard.press("Enter")
            page.wait_for_selector(selector)
        page.wait_for_url("**/traces")
        assert page.locator("nav >> text=Audit").count() == 0
        page.click("text=Log out")
        page.wait_for_url("**/login")
    store.close()
