"""What a run will take, from a few of its logs: seconds, calls of the judge, US dollars."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ragtrace.base.rows import Row
from ragtrace.batch.rescore.job import RescoreSuite
from ragtrace.evaluate.judge import Judge, use_judge
from ragtrace.evaluation import Evaluator, configure, run
from ragtrace.settings import Settings

SAMPLE = 8
"""Logs at most from which a run is estimated."""
_CALL_SECONDS = 2.0
"""That a call of the judge is taken to last."""
_BYTES_PER_TOKEN = 4
_REPLY_TOKENS = 150
"""Tokens that a reply of the judge is taken to have, where `judge_max_tokens` allows them."""
_LIST_ITEMS = 3
"""Items that a list in a reply of the judge is taken to have: claims, statements."""


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """What a run will take."""

    seconds: float
    calls: int
    """Of the judge, without what it remembers."""
    dollars: float
    sample: int
    """Logs that it was estimated from."""
    is_free: bool = True
    """Whether no judge is asked, or it has no price."""
    waiting: float = 0.0
    """Those of the seconds in which the judge's replies are waited for."""

    def in_batches(self, share: float) -> CostEstimate:
        """The same where the judge is asked in batches at this share of the price, without the wait for them."""
        return replace(self, seconds=self.seconds - self.waiting, waiting=0.0, dollars=self.dollars * share)


def sample_size(logs: int) -> int:
    """Logs from which so many are estimated: their local evaluations are done twice."""
    return max(1, min(SAMPLE, logs // 50))


def estimate_cost(
    suite: RescoreSuite, rows: Sequence[Row], evaluations: Mapping[str, int], processes: int
) -> CostEstimate:
    """Estimates a run of so many evaluations by evaluator in so many processes (0: in this one).

    Local evaluators evaluate the sample, after a first log for which they load their models. For those that ask the
    judge, the sample's prompts are made and answered here: their tokens are their bytes divided by 4, and a reply is
    taken to have 150 tokens. Nothing is sent. Raises SettingError for a judge that is not usable."""
    if not rows:
        return CostEstimate(0.0, 0, 0.0, 0)
    local = sum(
        _local_seconds(configure(check, suite.settings), rows) * evaluations[check.name]
        for check in suite.own
        if not check.asks_judge
    ) / max(1, processes)
    asking = [configure(check, suite.settings) for check in suite.own if check.asks_judge]
    if not asking:
        return CostEstimate(local, 0, 0.0, len(rows))
    judge = ImaginedJudge(suite.settings)
    calls = dollars = 0.0
    use_judge(judge)
    try:
        for check in asking:
            before = judge.calls
            scores = [score for scores in run(check, [row.trace for row in rows]) for score in scores]
            share = evaluations[check.name] / len(rows)
            calls += (judge.calls - before) * share
            dollars += sum(score.cost for score in scores) * share
    finally:
        use_judge(None)
        judge.store.close()
    waiting = calls * _CALL_SECONDS / (suite.settings.judge_concurrency * max(1, processes))
    return CostEstimate(local + waiting, round(calls), dollars, len(rows), judge.is_free, waiting)


def _local_seconds(check: Evaluator, rows: Sequence[Row]) -> float:
    """Seconds of one evaluation, without those in which the models are loaded."""
    run(check, [rows[0].trace])
    started = time.perf_counter()
    run(check, [row.trace for row in rows])
    return (time.perf_counter() - started) / len(rows)


class ImaginedJudge(Judge):
    """A judge that answers itself with the least that is valid, and sends nothing. Its usage is an estimate."""

    def __init__(self, settings: Settings) -> None:
        """Raises the errors of `Judge`."""
        unlimited = replace(settings, judge_budget_hour=math.inf, judge_budget_day=math.inf)
        super().__init__(replace(unlimited, judge_store="", judge_ledger=""))
        self.calls = 0
        self._reply_tokens = min(_REPLY_TOKENS, settings.judge_max_tokens)

    @property
    def is_free(self) -> bool:
        """Whether neither prompts nor replies have a price."""
        return not any(self._prices)

    def _first_form(self) -> str:
        return "schema"

    def _complete(self, messages: Sequence[Any], temperature: float, options: Mapping[str, Any]) -> Any:
        self.calls += 1
        schema = options.get("response_format", {}).get("json_schema", {}).get("schema")
        text = "5" if schema is None else json.dumps(_least(schema))
        size = sum(len(message["content"].encode("utf-8", "replace")) for message in messages)
        usage = {"prompt_tokens": size // _BYTES_PER_TOKEN, "completion_tokens": self._reply_tokens}
        choice: dict[str, Any] = {"message": {"content": text}, "finish_reason": "stop"}
        if "logprobs" in options:
            first = {"token": text, "logprob": -0.1}
            choice["logprobs"] = {"content": [{**first, "top_logprobs": [first]}]}
        return {"choices": [choice], "usage": usage}


def _least(schema: Mapping[str, Any]) -> Any:
    """A value that is valid under a schema of a prompt."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "object":
        return {name: _least(value) for name, value in schema.get("properties", {}).items()}
    if kind == "array":
        count = min(max(_LIST_ITEMS, schema.get("minItems", 0)), schema.get("maxItems", _LIST_ITEMS))
        return [_least(schema["items"])] * count
    if kind in ("integer", "number"):
        return schema.get("minimum", 1)
    return {"boolean": True}.get(str(kind), "x")
