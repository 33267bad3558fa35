"""Figures, problems, insights and the comparison of runs made by hand."""

from dataclasses import replace
from typing import Any

import pytest

from ragtrace import evaluation, plugins
from ragtrace.batch.reporting.analysis import analyse
from ragtrace.batch.reporting.comparison import BETTER, NOTHING, WORSE, compare, comparison_table
from ragtrace.batch.reporting.gates import GateResult, gate_results, parse_gate
from ragtrace.batch.reporting.results import EvaluationRun, Metric, Result
from ragtrace.batch.reporting.run_problems import flip_counts
from ragtrace.batch.reporting.summary import summarise
from ragtrace.errors import DataError, SettingError
from ragtrace.records import Evidence, Score
from ragtrace.testing import make_trace
from tests.reporting.runs import FAITHFULNESS, HALLUCINATION, big, rows, run


def gate_of(run_: EvaluationRun, gate: str) -> GateResult:
    """What `--fail-under` with this gate says of a run."""
    (result,) = gate_results(run_, [parse_gate("--fail-under", gate)])
    return result


def test_summary_counts_every_row_once() -> None:
    """A value, a verdict, nothing applicable, a refusal, errors of two kinds, and a row that was not asked."""
    results = rows([0.2, 0.8, 1.0, None, None, None, None, None, None])
    others: list[dict[str, Any]] = [{"label": "not_applicable"}, {"label": "refusal"}, {"error": "parse_failure"}]
    others += [{"error": "timeout"}, {"label": "pass", "failures": ("retrieval",), "cost": 0.5}]
    for i, given in enumerate(others, 3):
        results[i] = replace(results[i], scores={"faithfulness": Score("faithfulness", **given)})
    results[8] = replace(results[8], scores={})
    (s,) = summarise(run(results))
    assert (s.rows, s.count, s.not_applicable, s.refusals, s.cost) == (9, 3, 1, 1, 0.5)
    assert s.coverage == pytest.approx(4 / 9)
    assert s.mean == pytest.approx(2 / 3)
    assert s.interval[0] <= s.mean <= s.interval[1]
    c = s.counts
    assert (c.passed, c.failed, c.retrieval_failures, c.generation_failures, c.parse_failures) == (3, 1, 1, 0, 1)
    assert (s.median, s.pass_rate, s.errors, s.failures) == (0.8, 0.75, {"timeout": 1}, 2)


def test_perturbed_rows_do_not_count() -> None:
    (s,) = summarise(run([*rows([1.0, 1.0]), replace(rows([0.0])[0], id="p", perturbation="case", original="r0")]))
    assert (s.rows, s.mean) == (2, 1.0)


def test_thresholds_are_problems() -> None:
    """Below where higher is better, above where lower is; equal is good; each names the model."""
    results = rows([0.5, 0.6], "a") + rows([0.75, 0.75], "b") + rows([0.3, 0.3], "c", "hallucination")
    result = analyse(run(results, FAITHFULNESS, HALLUCINATION)).problems
    beyond = [(p.metric, p.model) for p in result if p.kind == "threshold"]
    assert beyond == [("faithfulness", "a"), ("hallucination", "c")]
    assert "below 0.75" in result[0].text


def test_silent_evaluators_are_one_problem_each() -> None:
    """Without any usable score there is one problem, not one for each error; without one for a model, one of it."""
    silent = Metric("silent")
    results = [
        replace(row, scores={**row.scores, "silent": Score("silent", error="timeout")}) for row in rows([1.0] * 4)
    ]
    result = analyse(run(results, FAITHFULNESS, silent)).problems
    assert [(p.kind, p.metric, p.model) for p in result] == [("nothing_usable", "silent", "")]
    assert "error timeout 4" in result[0].text
    half = rows([1.0, 1.0], "a") + rows([None, None], "b")
    assert [(p.kind, p.model) for p in analyse(run(half)).problems] == [("nothing_usable", "b")]


def test_errors_above_five_percent() -> None:
    """5 of 100 are borne, 6 are a problem; rows to which the question does not apply are not counted."""
    for bad, message in ((5, 0), (6, 1)):
        results = rows([1.0] * 200)
        for i in (*range(bad), *range(100, 200)):
            own = {"error": "timeout"} if i < bad else {"label": "not_applicable"}
            results[i] = replace(results[i], scores={"faithfulness": Score("faithfulness", **own)})
        assert len([p for p in analyse(run(results)).problems if p.kind == "errors"]) == message


def test_every_flip_is_found() -> None:
    """A change from pass to fail or from fail to pass is a flip; an unchanged or missing verdict is not."""
    results = rows([0.9, 0.1, 0.9, 0.9])
    after: list[float | None] = [0.1, 0.9, 0.8, None]
    results += [replace(r, id=f"{r.id}~typos", perturbation="typos", original=r.id) for r in rows(after)]
    results.append(replace(rows([0.1])[0], id="x", perturbation="case", original="gone"))  # its row was unusable
    result = [p for p in analyse(run(results)).problems if p.kind == "flip"]
    assert {(p.perturbation, p.metric) for p in result} == {("typos", "faithfulness")}
    assert [(p.id, p.before, p.after) for p in result] == [("r0", "pass", "fail"), ("r1", "fail", "pass")]
    (counted,) = flip_counts(run(results))
    assert (counted.pairs, counted.flipped) == (3, 2)


def test_insights_about_models() -> None:
    """Best and worst by the metric, whichever way it goes; time and cost. A close race is called one."""
    results = rows([0.1, 0.2], "a", "hallucination", duration=3.0, cost=0.1)
    results += rows([0.5, 0.6], "b", "hallucination", duration=1.0, cost=0.3)
    result = {i.kind: i for i in analyse(run(results, FAITHFULNESS, HALLUCINATION)).insights}
    models = {kind: i.model for kind, i in result.items() if i.model}
    assert models == {
        "best_model": "a", "worst_model": "b", "fastest": "b", "slowest": "a", "cheapest": "a", "most_expensive": "b",
    }  # fmt: skip
    assert result["hardest_question"].id == "r1"
    assert "overlaps" not in result["best_model"].text
    close = rows([0.1, 0.9, 0.5], "a") + rows([0.1, 0.8, 0.5], "b")
    assert "overlaps" in next(i for i in analyse(run(close)).insights if i.kind == "best_model").text


def test_retrieval_is_compared_by_model_and_by_row() -> None:
    """context_contradiction judges answers, and is left out."""
    metrics = (Metric("context_precision"), Metric("context_contradiction", "lower"))

    def row(i: int, model: str, precision: float) -> Result:
        scores = {name: Score("x", value=precision) for name in ("context_precision", "context_contradiction")}
        return Result(str(i), f"q{i}", "a", model=model, scores=scores)

    two = analyse(run([row(1, "a", 0.2), row(2, "b", 0.8)], *metrics)).insights
    assert {i.kind: i.model for i in two if "retrieval" in i.kind} == {"best_retrieval": "b", "worst_retrieval": "a"}
    one = analyse(run([row(1, "", 0.2), row(2, "", 0.8)], *metrics)).insights
    assert {i.kind: i.id for i in one if "retrieval" in i.kind} == {"best_retrieval": "2", "worst_retrieval": "1"}


def test_the_least_grounded_sentence() -> None:
    """The lowest probability of all evidence of groundedness, with the sentence itself."""
    answer = "Sure. It is free."
    parts = ((0, 5, "supported", 0.9), (6, 17, "unsupported", 0.1), (30, 40, "supported", 0.0))
    evidence = tuple(Evidence(*part) for part in parts)
    row = Result("7", "q", answer, scores={"groundedness": Score("groundedness", value=0.1, evidence=evidence)})
    (result,) = (i for i in analyse(run([row], Metric("groundedness"))).insights if i.kind == "least_grounded")
    assert (result.id, result.value) == ("7", 0.1)
    assert "“It is free.”" in result.text


def test_primary_metric() -> None:
    """The first with a value. Without rows there is none."""
    assert analyse(run(rows([0.4], name="hallucination"), FAITHFULNESS, HALLUCINATION)).primary == HALLUCINATION
    empty = analyse(run([]))
    assert (empty.summaries, empty.problems, empty.insights, empty.primary) == ((), (), (), None)


def test_shortfalls() -> None:
    """A gate opens only for what was measured and meets its limit."""
    results = rows([0.8, 0.8], "a") + rows([0.7, 0.7], "b") + rows([0.3], "b", "hallucination")
    run_ = run(results, FAITHFULNESS, HALLUCINATION)

    def problems(gate: str, of: EvaluationRun = run_) -> list[str]:
        return [result.problem for result in gate_results(of, [parse_gate("--fail-under", gate)]) if result.problem]

    assert gate_results(run_, []) == []
    assert problems("faithfulness=0.7") == []
    assert problems("faithfulness=0.75") == ["faithfulness: the mean of b is 0.7, below 0.75"]
    assert problems("hallucination=0.3") == ["hallucination: no value for a"]
    assert len(problems("hallucination=0.2")) == 2
    assert problems("bleu_1=0.1") == ["bleu_1: the run has no such metric"]
    assert problems("faithfulness=0.1", run([], FAITHFULNESS)) == ["faithfulness: the run has no rows"]


def test_a_gate_does_not_open_on_the_rows_that_were_measured() -> None:
    """Rows that an error left without a score are counted with their reasons; that is no missed limit."""
    budget = [Result(f"e{i}", "q", "a", scores={"faithfulness": Score("faithfulness", error="budget")}) for i in (1, 2)]
    run_ = run([*rows([0.9]), *budget], FAITHFULNESS)
    for gate in ("faithfulness=0.8", "faithfulness=90%"):
        result = gate_of(run_, gate)
        assert result.problem == "faithfulness: 2 of 3 rows of (no model) have no score (budget: 2)"
        assert not result.is_missed
    blank = Result("b", "q", " \u200b\u2060", scores={"faithfulness": Score("faithfulness", label="not_applicable")})
    said = gate_of(run([*rows([0.9]), blank], FAITHFULNESS), "faithfulness=0.8").problem
    assert said == "faithfulness: 1 of 2 rows of (no model) have no score (no answer: 1)"
    unread = evaluation.run(plugins.load("groundedness_lexical"), [make_trace(documents=())])[0][0]
    lacking = replace(blank, id="c", answer="It is.", scores={"faithfulness": unread})
    said = gate_of(run([*rows([0.9]), lacking], FAITHFULNESS), "faithfulness=0.8").problem
    assert said == "faithfulness: 1 of 2 rows of (no model) have no score (no documents: 1)"


def test_a_gate_on_the_share_of_passes() -> None:
    """`NAME=75%` is met when three of four rows pass, whatever the mean is. Rows without a verdict do not count."""
    scores = [Score("faithfulness", 0.9, label) for label in ("pass", "pass", "pass", "fail", "refusal")]
    run_ = run([Result(str(i), "q", "a", scores={s.name: s}) for i, s in enumerate(scores)], FAITHFULNESS)
    assert gate_of(run_, "faithfulness=75%").problem == ""
    exact = [Score("faithfulness", 0.9, "pass" if n < 56 else "fail") for n in range(100)]
    exact_run = run([Result(str(i), "q", "a", scores={s.name: s}) for i, s in enumerate(exact)], FAITHFULNESS)
    assert gate_of(exact_run, "faithfulness=56%").problem == ""
    assert gate_of(run_, "faithfulness=80%").problem == "faithfulness: 3 of 4 rows of (no model) pass, fewer than 80 %"
    assert gate_of(run(rows([None])), "faithfulness=0%").problem == "faithfulness: no row of (no model) passes or fails"


@pytest.mark.parametrize("text", ["faithfulness=nan", "faithfulness=inf", "faithfulness=high", "faithfulness=%", "x"])
def test_a_gate_without_a_number_is_refused(text: str) -> None:
    """NaN would open every gate: it is refused like a word, with the option and the value in the message."""
    with pytest.raises(SettingError, match=f"^--fail-under has the invalid value .*{text.split('=', maxsplit=1)[0]}"):
        parse_gate("--fail-under", text)


def test_comparison_sees_what_is_there() -> None:
    """A shift of every row is real, in the metric's own direction; equal rows are not, with a note of the versions."""
    metrics = (FAITHFULNESS, HALLUCINATION)
    low = [0.5 + i % 7 / 100 for i in range(30)]
    for metric, verdict in zip(metrics, (BETTER, WORSE), strict=True):
        a, b = run(rows(low, name=metric.name), metric), run(rows([v + 0.3 for v in low], name=metric.name), metric)
        (d,) = compare(a, b).differences
        assert (d.verdict, d.n) == (verdict, 30)
        assert d.difference == pytest.approx(0.3)
        assert d.p < 0.001
    (same,) = compare(run(rows(low)), run(rows(low), replace(FAITHFULNESS, version="2"))).differences
    assert (same.verdict, same.p, same.difference) == (NOTHING, 1.0, 0.0)
    assert same.note == "version differs: 1 and 2"


def test_comparison_pairs_rows_by_id() -> None:
    """Other rows, and those that ask something else, are left out. Ids alone match while unique, else with models."""
    a, b = rows([0.1, 0.2, 0.3, 0.4]), rows([0.1, 0.2, 0.3, 0.4])[1:]
    b[0] = replace(b[0], query="another question")
    b.append(replace(a[0], id="new"))
    result = compare(run(a), run(b[::-1]))
    assert (result.matched, result.only_a, result.only_b, result.changed) == (2, 1, 1, 1)
    with pytest.raises(DataError, match="no row in common"):
        compare(run(a), run([]))
    with pytest.raises(DataError, match="2 rows with the id 'r0'"):
        compare(run([*a, a[0]]), run(a))
    assert compare(run(rows([0.1, 0.2], "a")), run(rows([0.1, 0.2], "b"))).matched == 2
    both = run(rows([0.1, 0.2], "a") + rows([0.3, 0.4], "b"))
    (d,) = compare(both, both).differences
    assert (d.n, d.difference, d.mcnemar) == (2, 0.0, None)
    better = run(rows([0.9, 0.2], "a") + rows([0.9, 0.4], "b"))
    (d,) = compare(both, better).differences
    assert (d.n, round(d.difference, 3), d.p) == (2, 0.35, 1.0)  # one question changed, however many models answered it


def test_comparison_of_verdicts_without_values() -> None:
    """Verdicts without values are compared by McNemar's test; a note counts the rows with a score in one run only."""

    def side(labels: list[str | None]) -> EvaluationRun:
        scores = [{"faithfulness": Score("x", label=label)} for label in labels]
        return run([replace(r, scores=own) for r, own in zip(rows([None] * 12), scores, strict=True)])

    fails: list[str | None] = ["fail"] * 10 + [None, "pass"]
    passes: list[str | None] = ["pass"] * 12
    (d,) = compare(side(fails), side(passes)).differences
    assert (d.verdict, d.n, d.only_b_passes, d.difference) == (BETTER, 11, 10, None)
    assert d.p == d.mcnemar == 2 / 1024
    assert d.note == "1 rows have a score in B only"
    assert compare(side(passes), side(fails)).differences[0].verdict == WORSE


def test_metrics_that_never_differ_correct_nothing() -> None:
    """Six broken answers of eighteen are seen beside eleven metrics that are equal on every row."""
    names = ["faithfulness", *(f"constant{i}" for i in range(11))]
    metrics = [replace(FAITHFULNESS, name=name) for name in names]

    def side(values: list[float]) -> EvaluationRun:
        scores = [{name: Score(name, v if name == names[0] else 1.0) for name in names} for v in values]
        return run([replace(row, scores=own) for row, own in zip(rows(values), scores, strict=True)], *metrics)

    a, b = side([1.0] * 18), side([0.2] * 6 + [1.0] * 12)
    first, *others = compare(a, b).differences
    assert (first.verdict, first.p_holm) == (WORSE, first.p)
    assert {d.p_holm for d in others} == {1.0}
    assert "The clearest change: faithfulness by -0.267" in comparison_table(a, b)
    assert "No metric differs" in comparison_table(a, a)


def test_comparison_as_text() -> None:
    """A table with the counts, the verdicts and how to read them. Seeds are fixed."""
    assert analyse(big()) == analyse(big())
    text = comparison_table(big(), big())
    assert "rows in both 120" in text
    assert text.count(NOTHING) == 10
    assert "Holm" in text
    assert not text.endswith("\n")
