"""All results about a run, computed once for every output format."""

from dataclasses import dataclass

from ragtrace.batch.reporting.classification import Classification, classifications
from ragtrace.batch.reporting.insights import Insight, insights
from ragtrace.batch.reporting.results import EvaluationRun, Metric
from ragtrace.batch.reporting.run_problems import Flips, RunProblem, flip_counts, problems
from ragtrace.batch.reporting.summary import ModelSummary, Summary, summarise, summarise_models


@dataclass(frozen=True, slots=True)
class Analysis:
    """A run with its figures, problems and insights."""

    run: EvaluationRun
    primary: Metric | None
    """The metric that ranks models and questions; None if no metric has a value."""
    summaries: tuple[Summary, ...]
    models: tuple[ModelSummary, ...]
    classifications: tuple[Classification, ...]
    problems: tuple[RunProblem, ...]
    insights: tuple[Insight, ...]
    flips: tuple[Flips, ...]


def analyse(run: EvaluationRun) -> Analysis:
    """Compute all results about a run. Raises MissingExtraError without numpy."""
    summaries, models = summarise(run), summarise_models(run)
    metric = run.primary()
    return Analysis(
        run=run, primary=metric, summaries=tuple(summaries), models=tuple(models),
        classifications=tuple(classifications(run.originals())), problems=tuple(problems(run, summaries)),
        insights=tuple(insights(run, summaries, models, metric)), flips=tuple(flip_counts(run)),
    )  # fmt: skip
