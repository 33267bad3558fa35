"""The sizes and costs of docs/scale.md are those that benchmarks/scale_model.py computes."""

from __future__ import annotations

import pytest

from benchmarks import scale_model


def test_the_page_has_the_tables_of_the_model() -> None:
    """docs/scale.md holds what the script prints today."""
    page = scale_model.PAGE.read_text("utf-8")
    assert scale_model.tables(scale_model.load()) in page


def test_sizes_follow_the_rate_and_the_share() -> None:
    """Cores that evaluate grow with both, cores that take spans with the rate alone; a million traces at a tenth cost a
    tenth."""
    figures = scale_model.load()
    assert scale_model.evaluation_cores(100, 100, 0.1) == pytest.approx(100 * 0.1 * 0.1 / 0.7)
    assert scale_model.intake_cores(figures, 2_000) == pytest.approx(2 * scale_model.intake_cores(figures, 1_000))
    assert scale_model.judge_dollars("gpt-4o-mini", 1e6) == pytest.approx(600)
    assert scale_model.core_dollars(100, 1e5) == pytest.approx(scale_model.core_dollars(100, 1e6) / 10)


@pytest.mark.parametrize("sample", scale_model.SAMPLES)
def test_evaluation_is_full_first(sample: float) -> None:
    """Where one of each runs, evaluation is the first bottleneck at every share that the page shows."""
    capacities = scale_model.capacities(scale_model.load(), sample)
    assert min(capacities, key=capacities.__getitem__) == "evaluating, default suite"
