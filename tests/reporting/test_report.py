"""The page: whole, valid, without script, and with nothing of a row as markup."""

import base64
import hashlib
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from ragtrace.base.svg import Axis
from ragtrace.batch.reporting import report_charts, views
from ragtrace.batch.reporting.analysis import analyse
from ragtrace.batch.reporting.results import EvaluationRun, Info, Metric, Result
from ragtrace.records import Evidence, Score
from tests.reporting.page import Page
from tests.reporting.runs import FAITHFULNESS, HALLUCINATION, big, rows, run

pytest.importorskip("jinja2")
from ragtrace.batch.reporting.html import report, write_report

ATTACK = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'javascript:alert(1)</title></style>"


def attacked() -> EvaluationRun:
    """A row all of whose texts are markup."""
    evidence = (Evidence(0, 30, "unsupported", 0.1, ATTACK, 0, 0, 80), Evidence(30, 60, ATTACK, 0.2))
    scores = {
        "faithfulness": Score("faithfulness", value=0.1, label="fail", explanation=ATTACK, evidence=evidence),
        "classification": Score("classification", value=0.0, label="fail"),
        "broken": Score("broken", error=ATTACK, explanation=ATTACK),
        "verdict": Score("verdict", label=ATTACK),
    }
    row = Result(ATTACK, ATTACK, ATTACK, (ATTACK,), ATTACK, ATTACK, duration=1.0, cost=0.1, scores=scores)
    flipped = replace(row, id="2", perturbation=ATTACK, original=ATTACK, scores=rows([1.0])[0].scores)
    broken = Metric("broken", method=ATTACK, version=ATTACK)
    metrics = (FAITHFULNESS, Metric("classification"), broken, Metric("verdict"))
    info = Info(ATTACK, 1.0, 1.0, ATTACK, (ATTACK,), {ATTACK: ATTACK})
    other = replace(row, model="b", query="another", scores=rows([0.9])[0].scores)
    return EvaluationRun((row, flipped, other), {metric.name: metric for metric in metrics}, info)


@pytest.mark.parametrize("sample", [big(), attacked(), run([]), run(rows([None])), run(rows([0.1]))], ids=list("abcde"))
def test_the_page_is_well_formed(sample: EvaluationRun) -> None:
    """Tags match, ids are unique, links lead somewhere, headings are in order, tables have captions and scopes."""
    page = Page(report(analyse(sample)))
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert {attrs["href"] for attrs in page.all("a")} <= {f"#{name}" for name in ids}
    levels = [int(tag[1]) for tag, _ in page.tags if tag in ("h1", "h2", "h3")]
    assert (levels[0], levels.count(1)) == (1, 1)
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert len(page.all("caption")) == len(page.all("table"))
    assert all(attrs.get("scope") in ("col", "row") for attrs in page.all("th"))
    assert page.all("html") == [{"lang": "en"}]


@pytest.mark.parametrize("sample", [big(), attacked()], ids=["big", "attacked"])
def test_the_page_has_no_script_and_asks_for_nothing(sample: EvaluationRun) -> None:
    """No element that runs or loads, no handler, no style attribute, and a policy that would stop them all."""
    text = report(analyse(sample))
    page = Page(text)
    loading = {"script", "img", "link", "iframe", "object", "base", "form", "image", "use"}
    assert not {tag for tag, _ in page.tags} & loading
    for _, attrs in page.tags:
        assert not any(name.startswith("on") or name in ("style", "src", "srcset") for name in attrs)
        assert (attrs.get("href") or "#").startswith("#")
    policy = next(a["content"] for a in page.all("meta") if a.get("http-equiv") == "Content-Security-Policy") or ""
    style = re.search(r"<style>(.*?)</style>", text, re.S)
    assert style
    digest = base64.b64encode(hashlib.sha256(style.group(1).encode()).digest()).decode()
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}'")
    assert not re.search(r"url\(|@import", style.group(1))


def test_markup_of_rows_is_shown_as_text() -> None:
    """It is there to be read, in every place where a row's text is shown."""
    assert sum("<script>alert(1)</script>" in text for text in Page(report(analyse(attacked()))).text) > 15


def test_what_html_cannot_hold_is_replaced(tmp_path: Path) -> None:
    """Control characters and lone surrogates."""
    row = Result("1", "a\x00b\udc80\x1b[31m", "x", scores=rows([0.1])[0].scores)
    assert "a\ufffdb\ufffd\ufffd[31m" in write_report(analyse(run([row])), tmp_path).read_text(encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_the_page_says_what_the_run_says() -> None:
    analysis = analyse(big())
    text = " ".join(" ".join(Page(report(analysis)).text).split())
    parts = ["0.840", "0.782 to 0.897, n 52", "questions.jsonl, line 7: Expecting value", "2025-06-15 15:06 UTC"]
    for part in (*parts, "0 to ∞", *(each.text for each in (*analysis.problems, *analysis.insights))):
        assert part in text


def test_confusion_matrix() -> None:
    sample = []
    for answer, expected in (("yes", "yes"), ("no", "yes"), ("no", "no")):
        scores = {"classification": Score("x", value=float(answer == expected))}
        sample.append(Result(str(len(sample)), "q", answer, reference=expected, scores=scores))
    text = report(analyse(run(sample, Metric("classification"))))
    assert "Confusion of (no model)" in text
    assert "0.667" in text


def test_heat_map_is_bounded() -> None:
    sample = run(rows([i / 300 for i in range(300)]))
    total, table = views.heat_map(analyse(sample), [""])
    assert (total, len(table)) == (300, 200)
    assert table[0][0] == "question 0"
    assert "the 200 hardest of 300 questions" in report(analyse(sample))


def test_heat_has_the_thresholds_sides() -> None:
    """No colour of the good half fails, whichever way is better."""
    for metric in (FAITHFULNESS, HALLUCINATION):
        sample = run(rows([i / 40 for i in range(41)], name=metric.name), metric)
        for _, cells in views.heat_map(analyse(sample), [""])[1]:
            assert (cells[0].heat > 5) == (cells[0].kind == "good")


def test_worst_cases() -> None:
    """Twenty, the worst first, each with its sentences by verdict and the closest passages."""
    cases = views.worst_cases(analyse(big()))
    assert len(cases) == views.WORST
    values = [case.score.value or 0.0 for case in cases]
    assert values == sorted(values)
    assert all("".join(piece.text for piece in case.pieces) == case.row.answer for case in cases)
    assert {p.verdict for case in cases for p in case.pieces} <= {"", "supported", "unsupported", "contradicted"}
    assert cases[0].passages[0].text == cases[0].row.contexts[0][10:38].strip()


def test_pieces_of_evidence_that_overlaps_or_does_not_fit() -> None:
    """The worst verdict counts; nothing is lost or doubled."""
    evidence = [Evidence(0, 6, "supported", 0.9), Evidence(4, 8, "contradicted", 0.1)]
    evidence += [Evidence(start, end, "unsupported") for start, end in ((9, 99), (50, 60), (-3, -1))]
    parts = [(piece.text, piece.verdict) for piece in views.pieces("0123456789AB", evidence)]
    assert parts == [("0123", "supported"), ("4567", "contradicted"), ("8", ""), ("9AB", "unsupported")]
    assert views.pieces("", evidence) == ()


def test_bins() -> None:
    """Every value is in one of twenty bins; the ends and values outside are in the nearest one."""
    values = [0.0, 0.04, 0.05, 0.15, 1.0, 7.0, -1.0]
    assert report_charts.binned(values, Axis(0.0, 1.0)) == [3, 1, 0, 1] + [0] * 15 + [2]


def test_histograms_of_odd_values() -> None:
    """One value, one value many times, no end of the range, no values."""
    assert report_charts.histogram(FAITHFULNESS, []) == ""
    for values in ([5.0], [5.0] * 9, [1.0, 2.0]):
        svg = report_charts.histogram(Metric("perplexity", "lower", None, (float("-inf"), float("inf"))), values)
        assert svg.startswith("<svg")
        assert not re.search("nan|inf", svg)
