"""A judge behind a local evaluator: asked only where the local one is in doubt."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from ragtrace import plugins
from ragtrace.errors import MissingExtraError, SettingError
from ragtrace.evaluate.judge import get_judge
from ragtrace.evaluate.judge_questions import TIMEOUT
from ragtrace.evaluate.models.answer_reader import SUPPORTED
from ragtrace.evaluation import Evaluator, configure, evaluator, run
from ragtrace.records import Score, Trace
from ragtrace.settings import Settings

BAND = 0.05
"""Half the width of the band around the local threshold in which the judge is asked. docs/quality.md has its cost."""


def width(settings: Settings) -> float:
    """`BAND`, less where the judge's budget runs out faster than its hour and its day, 0 where nothing is left."""
    return BAND * min(1.0, get_judge(settings).headroom())


def cascade(
    local: Evaluator, judge: Evaluator, *, name: str | None = None, band: Callable[[], float] | None = None
) -> Evaluator:
    """An evaluator that answers with `local`, and with `judge` where the local value is within `band()` of the local
    threshold (the judge's, where the local evaluator has none), or one of its claims within `band()` of the other
    verdict; without `band` within `width` of the settings. The
    score's method says who answered: `model` or `code`, or `judge`. Where the judge fails, the score is the local one,
    and its explanation says so. Raises SettingError where neither has a threshold."""
    threshold = judge.threshold if local.threshold is None else local.threshold
    if threshold is None:
        raise SettingError(
            f"neither {local.name} nor {judge.name} has a threshold; a cascade needs one to know where its local "
            "evaluator is in doubt"
        )
    called = name or f"{local.name}_cascade"

    def check(traces: Sequence[Trace], *, settings: Settings) -> list[list[Score]]:
        scores = [replace(first, name=called) for first, *_ in run(configure(local, settings), traces)]
        doubtful = _doubtful(scores, threshold, band or partial(width, settings))
        answers = run(configure(judge, settings), [traces[i] for i in doubtful])
        for i, (first, *_) in zip(doubtful, answers, strict=True):
            scores[i] = _decided(scores[i], replace(first, name=called))
        return [[score] for score in scores]

    check.__doc__ = (
        f"`{local.name}`, and `{judge.name}` where its value is near its threshold. The score's method says which of "
        f"them answered. Near is within {BAND}, less where the judge's budget runs short."
    )
    return evaluator(
        name=called, needs=local.needs, threshold=threshold, direction=local.direction, range=local.range,
        method=local.method, asks_judge=True, batch=True, version=f"{local.version}.{judge.version}", timeout=TIMEOUT,
        source=local.source,
    )(check)  # fmt: skip


def _doubtful(scores: Sequence[Score], threshold: float, band: Callable[[], float]) -> list[int]:
    try:
        half = band()
    except (SettingError, MissingExtraError):  # no judge here: the local scores remain
        return []
    return [i for i, s in enumerate(scores) if s.value is not None and distance(s, threshold) < half]


def distance(score: Score, threshold: float) -> float:
    """How far a local score is from the other verdict, in [0, 1]: where it has claims with probabilities, that of the
    claim nearest to SUPPORTED, since a share of claims jumps; else that of the value to the threshold."""
    probabilities = [e.probability for e in score.evidence if e.probability is not None]
    if probabilities:
        return min(abs(p - SUPPORTED) for p in probabilities)
    return abs((score.value or 0.0) - threshold)


def _decided(local: Score, answer: Score) -> Score:
    """The judge's score, or the local one where the judge has none."""
    if answer.value is not None and answer.error is None:
        explanation = f"{answer.explanation or ''} (locally {local.value:.2f})".strip()
        # The evidence is the local model's: a judge points at no places.
        return replace(answer, explanation=explanation, evidence=local.evidence, cause=local.cause)
    why = answer.error or answer.label
    explanation = f"{local.explanation or ''} (the judge was asked and gave none: {why})".strip()
    return replace(
        local, explanation=explanation, model=answer.model, input_tokens=answer.input_tokens,
        output_tokens=answer.output_tokens, cost=answer.cost,
    )  # fmt: skip


def __getattr__(name: str) -> Evaluator:
    if plugins.BUILT_IN.get(name) == f"{__name__}:{name}":
        base = name.removesuffix("_cascade")
        return cascade(plugins.load(base), plugins.load(f"{base}_judge"))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
