"""Sampled chat logs: the store they lie in, which of them people review, and what their verdicts say of the evaluators.

Needs the extra `store`. Knows records and evaluation, never the pipeline; the console knows this package, not the other
way round.
"""
