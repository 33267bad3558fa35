"""`/compare`: two prompt versions, models, periods or evaluator versions side by side."""

import time
from collections.abc import Sequence
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel
from starlette.responses import Response

from ragtrace.console import visible_content
from ragtrace.console.access import User, Viewer, store_of
from ragtrace.console.chatlogs import search
from ragtrace.console.chatlogs.overview import ordered
from ragtrace.console.chatlogs.side_by_side import SideBySide, compare_sides
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.chatlogs.store_types import TraceSummary
from ragtrace.console.comparison_sides import KINDS, SideChoice, choices, parse_start, two_sides, with_defaults
from ragtrace.console.pages.filters import RANGE_NAMES, RANGES
from ragtrace.console.pages.template_filters import local_time, render
from ragtrace.console.review.true_shares import estimate, sentence
from ragtrace.errors import SettingError

router = APIRouter()
_DEFAULT = "30d"


class CompareChoices(BaseModel):
    """What an address asks for; what makes no sense in it is left out."""

    kind: str = ""
    a: str = ""
    b: str = ""
    range: str = _DEFAULT
    app: str = ""
    evaluator: str = ""


@router.get("/compare")
def compare(request: Request, user: Viewer, query: Annotated[CompareChoices, Query()]) -> Response:
    """The page."""
    store, now = store_of(request), time.time()
    stored = search.choices(store)
    evaluators = ordered(stored.get("evaluator", []))
    range = query.range if query.range in RANGES else _DEFAULT
    kind = next((kind for kind, _ in KINDS if kind == query.kind), KINDS[0][0])
    evaluator = query.evaluator if query.evaluator in evaluators else next(iter(evaluators), "")
    choice = SideChoice(kind, query.a[:200], query.b[:200], now - RANGES[range], now, query.app[:200], evaluator)
    names = choices(store, choice)
    choice = with_defaults(choice, names)
    result, problem = None, ""
    try:
        result = compare_sides(store, *two_sides(choice), evaluator if kind == "evaluator_version" else "")
    except SettingError as error:
        problem = str(error) if len(names) > 1 or kind == "period" else ""
    row = next((row for row in (result.rows if result else ()) if row.evaluator == evaluator), None)
    worse, better = (_examples(request, user, pairs) for pairs in ((row.worse, row.better) if row else ((), ())))
    return render(
        request, "compare.html.j2", choice=choice, kinds=KINDS,
        names=[*names, *(name for name in (choice.a, choice.b) if name and name not in names)], starts=_starts(choice),
        range=range, ranges=RANGE_NAMES, apps=stored.get("app", []), evaluators=evaluators, result=result, row=row,
        people=_people(store, result, evaluator), worse=worse, better=better, problem=problem,
        kept=urlencode({"range": range, "app": choice.app, "evaluator": evaluator}),
    )  # fmt: skip


def _people(store: Store, result: SideBySide | None, evaluator: str) -> list[str]:
    """What people would say of each side that they have judged."""
    lines = []
    for side in (result.a, result.b) if result else ():
        of = {name: getattr(side, name) for name in ("app", "model", "prompt_version")}
        share = estimate(store, evaluator, side.since, side.until, version=side.evaluator_version, **of)
        lines += [f"{side.name}: {sentence(share)}"] if share else []
    return lines


def _starts(choice: SideChoice) -> tuple[str, str]:
    """When two periods begin, as a field of a form has it."""
    if choice.kind != "period":
        return "", ""
    try:
        return local_time(parse_start(choice.a)), local_time(parse_start(choice.b))
    except SettingError:
        return "", ""


def _examples(request: Request, user: User, pairs: Sequence[tuple[int, int]]) -> list[dict[str, TraceSummary]]:
    """The same questions on both sides."""
    ids = [trace for pair in pairs for trace in pair]
    by_id = {row.id: row for row in visible_content.find_summaries(request, user, ids)}
    return [{"a": by_id[a], "b": by_id[b]} for a, b in pairs if a in by_id and b in by_id]
