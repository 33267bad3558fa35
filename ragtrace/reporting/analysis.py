"""Everything that is told of a run, worked out once for all the forms in which it is written."""

from __future__ import annotations

from dataclasses import dataclass

from ragtrace.errors import SettingError
from ragtrace.reporting.classification import Classification, classifications
from ragtrace.reporting.insights import Insight, insights
from ragtrace.reporting.problems import Flips, Problem, flip_counts, problems
from ragtrace.reporting.results import Metric, Run
from ragtrace.reporting.summary import ModelSummary, Summary, summarise, summarise_models


@dataclass(frozen=True, slots=True)
class Analysis:
    """A run with its figures, problems and insights."""

    run: Run
    primary: Metric | None
    """The metric by which models and questions are ranked; None if no metric has a value."""
    summaries: tuple[Summary, ...]
    models: tuple[ModelSummary, ...]
    classifications: tuple[Classification, ...]
    problems: tuple[Problem, ...]
    insights: tuple[Insight, ...]
    flips: tuple[Flips, ...]


def analyse(run: Run, primary: str | None = None, seed: int = 0) -> Analysis:
    """Work out everything that is told of a run. `primary` names the metric to rank by, by default the first that has a
    value. Raises SettingError if the run has no such metric, MissingExtraError without numpy."""
    if primary is not None and primary not in run.metrics:
        raise SettingError(f"primary metric {primary!r}: the run has {', '.join(run.metrics) or 'none'}")
    summaries, models = summarise(run, seed), summarise_models(run)
    ranked_by = run.primary(primary)
    return Analysis(
        run=run,
        primary=ranked_by,
        summaries=tuple(summaries),
        models=tuple(models),
        classifications=tuple(classifications(run.originals())),
        problems=tuple(problems(run, summaries)),
        insights=tuple(insights(run, summaries, models, ranked_by)),
        flips=tuple(flip_counts(run)),
    )
