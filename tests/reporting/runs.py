"""Rows made by hand."""

import random
from typing import Any

from ragtrace.batch.reporting.results import EvaluationRun, Info, Metric, Result
from ragtrace.records import Evidence, Score

FAITHFULNESS = Metric("faithfulness", "higher", 0.75, method="model")
HALLUCINATION = Metric("hallucination", "lower", 0.25, method="model")


def score(name: str, value: float | None, metric: Metric = FAITHFULNESS, **more: Any) -> Score:
    """A score labelled by the metric's threshold."""
    verdict = None if value is None else metric.meets(value)
    label = None if verdict is None else "pass" if verdict else "fail"
    return Score(name, value=value, **{"label": label, **more})


def rows(values: list[float | None], model: str = "", name: str = "faithfulness", **more: Any) -> list[Result]:
    """One row for each value, with ids r0, r1, …"""
    return [
        Result(f"r{i}", f"question {i}", f"answer {i}", model=model, scores={name: score(name, value)}, **more)
        for i, value in enumerate(values)
    ]


def run(results: list[Result], *metrics: Metric) -> EvaluationRun:
    """A run of these rows; `faithfulness` alone by default."""
    return EvaluationRun(tuple(results), {m.name: m for m in metrics or (FAITHFULNESS,)}, Info(file="made.jsonl"))


def big(questions: int = 60, seed: int = 7) -> EvaluationRun:
    """A run as a user has one: two models, several metrics, errors, refusals, evidence and perturbed rows."""
    rng = random.Random(seed)
    metrics = (
        FAITHFULNESS, HALLUCINATION, Metric("answer_relevance", "higher", 0.75, (-1.0, 1.0), "model"),
        Metric("context_precision", "higher", 0.75, method="judge", version="2"),
        Metric("context_recall", "higher", 0.75), Metric("pii_leakage", "higher", 0.5),
        Metric("perplexity", "lower", None, (0.0, float("inf")), "model"),
        Metric("stereotypes", "higher", 0.5, method="judge"), Metric("classification", "higher", 0.75),
        Metric("sexism", "higher", 0.5, method="judge"),
    )  # fmt: skip
    results = []
    for model, skill in (("gpt-large", 0.85), ("mini", 0.62)):
        for i in range(questions):
            results.append(_row(rng, model, skill, i, metrics))
    for row in results[:20]:
        value = rng.random()
        scores = {"faithfulness": score("faithfulness", value)}
        results.append(
            Result(f"{row.id}~typos", row.query, row.answer, model=row.model, perturbation="typos", original=row.id,
                   scores=scores)
        )  # fmt: skip
    info = Info(
        file="questions.jsonl", started=1_750_000_000.0, duration=93.4, version="0.2.0",
        unusable=("questions.jsonl, line 7: Expecting value",), settings={"judge": "gpt-4o-mini", "seed": "0"},
    )  # fmt: skip
    return EvaluationRun(tuple(results), {m.name: m for m in metrics}, info)


def _row(rng: random.Random, model: str, skill: float, i: int, metrics: tuple[Metric, ...]) -> Result:
    sentences = [f"The warranty of model {i} lasts {rng.randint(1, 9)} years.", "It covers the battery as well.",
                 "You can extend it online at any time."]  # fmt: skip
    answer = " ".join(sentences)
    contexts = (f"Model {i}: the warranty lasts 2 years and covers the case.", "Batteries are not covered.")
    at, evidence = 0, []
    for sentence in sentences:
        p = min(1.0, max(0.0, rng.gauss(skill, 0.25)))
        verdict = "supported" if p > 0.6 else "contradicted" if p < 0.3 else "unsupported"
        evidence.append(Evidence(at, at + len(sentence), verdict, p, "d0", 0, 10, 38))
        at += len(sentence) + 1
    value = sum(e.verdict == "supported" for e in evidence) / 3
    leaks = ("retrieval",) * (i % 9 == 0)
    scores = {
        "faithfulness": score("faithfulness", value, evidence=tuple(evidence), method="model"),
        "hallucination": score("hallucination", 1 - value, HALLUCINATION),
        "perplexity": Score("perplexity", value=rng.lognormvariate(2, 0.5)),
        "pii_leakage": score("pii_leakage", float(rng.random() < 0.9), metrics[5], failures=leaks),
        "sexism": Score("sexism", label="not_applicable"),
        "classification": score("classification", float(rng.random() < skill), metrics[8]),
    }  # fmt: skip
    for metric in metrics[2:5]:
        scores[metric.name] = score(metric.name, min(1.0, max(0.0, rng.gauss(skill, 0.15))), metric)
    if i % 8 == 3:
        scores["faithfulness"] = Score("faithfulness", label="refusal")
    if i % 5 == 0:
        reason = "parse_failure" if i % 10 else "timeout"
        scores["stereotypes"] = Score("stereotypes", error=reason, explanation=f"no answer within {i} s")
    else:
        failures = () if rng.random() < skill else ("generation",)
        scores["stereotypes"] = score("stereotypes", float(not failures), metrics[7], failures=failures, cost=0.0004)
    return Result(
        f"q{i}", f"How long is the warranty of model {i} in {rng.choice(['Spain', 'France', 'Norway'])}?", answer,
        contexts, rng.choice(["yes", "no", "maybe"]), model, None, None, rng.lognormvariate(0.2, 0.4) * skill,
        0.002 * skill, scores,
    )  # fmt: skip
