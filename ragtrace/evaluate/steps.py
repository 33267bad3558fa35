"""Whether an agent goes round in circles: the tool calls of one request, in order."""

import json
import re
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ragtrace.errors import EvaluationError
from ragtrace.evaluation import evaluator
from ragtrace.records import Score, Trace

_MAX_STEPS = 1_000
_MAX_CHARS = 4_000
"""Steps of a trace, and characters of one argument or result, that are read."""
_ENDS = " \t\n.,;:!?'\""
_SPACE = re.compile(r"\s+")
# A clock or a request's id makes two equal results differ; a progress of 10 % and one of 20 % must go on differing.
_CHANGING = re.compile(
    r"\d{4}-\d\d-\d\d(?:[t ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:z|[+-]\d\d:?\d\d)?)?|\b\d\d:\d\d:\d\d(?:\.\d+)?\b"
    r"|\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b"
)
_SECOND, _AGAIN = 0.5, 1.0
_NEW_CALL, _NEWS = -0.5, -1.0
"""What a step adds to its stretch: the first repetition of a call with its result may have a reason,
further ones have less; a call that was not made before is some headway, an old call with a new result is more."""


@dataclass(frozen=True, slots=True)
class _Stretch:
    weight: float
    start: int
    end: int
    """Indexes of its first and last step."""


@evaluator(
    needs={"steps"},
    threshold=0.5,
    direction="lower",
    version="3",
    source="Repeated tool calls; weights and threshold: dev",
)
def looping_tool_calls(trace: Trace) -> Score:
    """How much of a circle the agent's tool calls make: 0 where no call came twice with the same result, a third
    where one came twice, .6 for three times, towards 1 with every further one.

    Calls are the same if tool and arguments (also as JSON) are, up to case, white space, the order of fields and
    punctuation at the ends. One that came with another result before, or gets another one later, is a poll or a retry
    that led somewhere: headway, like pages that are asked for one after the other. Calls without results are
    distinguished by arguments alone. Reads `trace.steps`: mappings with `tool`, `args` and, where known, `result`."""
    steps = [_read(step, i) for i, step in enumerate(trace.steps[:_MAX_STEPS])]
    stretch = _longest(_weights(steps))
    explanation = _explanation(steps, stretch) if stretch.weight else None
    if len(trace.steps) > _MAX_STEPS:
        explanation = f"{explanation or 'no repetition'}; the first {_MAX_STEPS} steps were read"
    return Score("looping_tool_calls", value=stretch.weight / (1 + stretch.weight), explanation=explanation)


_Step = tuple[str, str, str]
"""Tool, arguments and result, so that equal ones mean the same."""


def _read(step: Any, number: int) -> _Step:
    if not isinstance(step, Mapping) or not isinstance(step.get("tool"), str):
        raise EvaluationError("bad_steps", f"steps[{number}] is not an object with a text in `tool`")
    return step["tool"].casefold(), _text(step.get("args")), _CHANGING.sub("#", _text(step.get("result")))


def _text(value: Any) -> str:
    """One text for all values that mean the same. Never raises: `str` writes the values that JSON cannot."""
    if isinstance(value, str):
        if value.lstrip()[:1] in ("{", "["):  # as OpenAI's calls have their arguments
            with suppress(ValueError, RecursionError):
                return _text(json.loads(value))
        return _plain(value)
    try:
        return _cut(json.dumps(_sorted(value, 0), default=str, ensure_ascii=False))
    except (ValueError, TypeError, RecursionError):
        return _cut(str(value))


def _sorted(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return _plain(value)
    if isinstance(value, Mapping) and depth < 20:
        fields = sorted((str(k), v) for k, v in value.items() if v is not None)
        return {k: _sorted(v, depth + 1) for k, v in fields}
    if isinstance(value, (list, tuple)) and depth < 20:
        return [_sorted(v, depth + 1) for v in value]
    return value


def _plain(text: str) -> str:
    return _SPACE.sub(" ", _cut(text)).strip(_ENDS).casefold()


def _cut(text: str) -> str:
    """A text, or its beginning with a checksum of the whole: texts with one beginning stay different."""
    is_long = len(text) > _MAX_CHARS
    return f"{text[:_MAX_CHARS]} {zlib.crc32(text.encode('utf-8', 'replace')):08x}" if is_long else text


def _weights(steps: Sequence[_Step]) -> list[float]:
    last = {(tool, args): result for tool, args, result in steps}
    counts: Counter[_Step] = Counter()
    calls: set[tuple[str, str]] = set()
    weights = []
    for tool, args, result in steps:
        times = counts[tool, args, result]
        if (tool, args) not in calls:
            weights.append(_NEW_CALL)
        elif not times or result != last[tool, args]:
            weights.append(_NEWS)
        else:
            weights.append(_SECOND if times == 1 else _AGAIN)
        counts[tool, args, result] += 1
        calls.add((tool, args))
    return weights


def _longest(weights: Sequence[float]) -> _Stretch:
    """The stretch whose weights have the largest sum; weight 0 if none is above it."""
    best = _Stretch(0.0, 0, -1)
    total, start = 0.0, 0
    for i, weight in enumerate(weights):
        if total <= 0:
            total, start = 0.0, i
        total += weight
        if total > best.weight:
            best = _Stretch(total, start, i)
    return best


def _explanation(steps: Sequence[_Step], stretch: _Stretch) -> str:
    inside = Counter(tool for tool, _, _ in steps[stretch.start : stretch.end + 1])
    tools = ", ".join(f"{tool} ({n})" for tool, n in inside.most_common(5))
    steps_range = f"steps {stretch.start + 1}-{stretch.end + 1} of {len(steps)}"
    return f"{steps_range} repeat earlier calls that had the same results: {tools}"
