"""The shipped rules, read from grafana/rules: alerts as expressions over the exported counters alone.

What a recording rule records is its expression, evaluated at the same minute; so instead of recording a month of it,
an alert gets the expressions of the rules that it reads, with offsets and matchers handed down.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import yaml

RULES = Path(__file__).resolve().parents[2] / "grafana" / "rules"
_USED = re.compile(
    r"\b(?P<name>(?:ragtrace_|app_evaluator(?:_group|_paging)?:)[a-z0-9_:]+)(?P<match>\{[^}]*\})?(?P<range>\[[^\]]+\])?"
    r"(?:\s+offset\s+(?P<offset>[0-9a-z]+))?"
)
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def seconds(duration: str) -> int:
    """Seconds of a Prometheus duration: 6d23h is 601,200."""
    return sum(int(n) * _UNITS[u] for n, u in re.findall(r"(\d+)([smhdw])", duration))


@dataclasses.dataclass(frozen=True)
class Alert:
    """An alerting rule. `expr` reads counters only; `name` tells its window, where several have one name."""

    name: str
    severity: str
    expr: str
    wait: int
    keep: int


def _rules() -> list[dict[str, Any]]:
    files = sorted(RULES.glob("*.yml"))
    return [r for f in files for g in yaml.safe_load(f.read_text(encoding="utf-8"))["groups"] for r in g["rules"]]


def constants() -> list[tuple[str, dict[str, str], float]]:
    """Rules that record a number, as series: the objectives."""
    rules = []
    for rule in _rules():
        value = re.fullmatch(r"vector\(([0-9.]+)\)", rule["expr"].strip())
        if "record" in rule and value:
            rules.append((rule["record"], rule.get("labels", {}), float(value[1])))
    return rules


def records() -> dict[str, str]:
    """Recorded names and their expressions, but for constants. Rules of one name that differ by a label are joined."""
    parts: dict[str, list[str]] = {}
    for rule in _rules():
        if "record" in rule and rule["record"] not in CONSTANTS:
            expr = rule["expr"]
            for label, value in rule.get("labels", {}).items():
                expr = f'label_replace({expr}, "{label}", "{value}", "", "")'
            parts.setdefault(rule["record"], []).append(expr)
    return {name: " or ".join(exprs) for name, exprs in parts.items()}


def inline(expr: str, records: dict[str, str], shift: int = 0, match: str = "") -> str:
    """The expression with each recorded name replaced by what records it.

    `shift` is an offset in seconds and `match` matchers without braces, for all that it reads.
    """

    def put(reference: re.Match[str]) -> str:
        name, own = reference["name"], (reference["match"] or "")[1:-1]
        moved = shift + seconds(reference["offset"] or "0s")
        matchers = ",".join(m for m in (own, match) if m)
        if name in records:
            step = reference["range"] or ""
            if step and ":" not in step:
                step = step.replace("]", ":5m]")
            return f"({inline(records[name], records, moved, matchers)})" + step
        constant = name in CONSTANTS
        inner = own if constant else matchers
        offset = f" offset {moved}s" if moved and not constant else ""
        return name + (f"{{{inner}}}" if inner else "") + (reference["range"] or "") + offset

    return _USED.sub(put, expr)


CONSTANTS = {name for name, _, _ in constants()}


FAILS = "app_evaluator:ragtrace_evaluation_fail:"
INCIDENT = f"{FAILS}incident"
WINDOWS = ("15m", "1h", "2h", "6h", "12h")
LEAST_INCIDENT = 3_000
"""An incident lasts at least so many seconds."""


def _beginnings(rule: dict[str, Any]) -> list[tuple[str, str]]:
    """What begins an incident: by window, its condition, without rhythms of weeks and without groups.

    Incidents depend on what was before them, which a question about a range of time cannot say; where one begins is all
    that delays and false pages need. A rhythm keeps pages away, so these are rather more than there are."""
    if INCIDENT not in rule["expr"]:
        return [("", rule["expr"])]
    if not rule["expr"].startswith(INCIDENT):
        return [("", rule["expr"].replace(INCIDENT, f"{FAILS}fall"))]
    return [
        (
            window,
            rule["expr"].replace(
                INCIDENT,
                f'({FAILS}ratio_before_{window} and on (app, env, evaluator) {FAILS}worse{{window="{window}"}} == 1 '
                f'and on (app, env, evaluator) {FAILS}beyond_chance{{window="{window}"}} == 1)',
            ),
        )
        for window in WINDOWS
    ]


def alerts(*severities: str, recorded: dict[str, str] | None = None) -> list[Alert]:
    """The alerts of these severities, or of all. What is not `recorded` they read by its name; usually all is."""
    recorded = records() if recorded is None else recorded
    rules = []
    for rule in _rules():
        if "alert" not in rule or (severities and rule["labels"]["severity"] not in severities):
            continue
        ticket = "(ticket)" if rule["labels"]["severity"] == "ticket" else ""
        for window, expr in _beginnings(rule):
            keep = seconds(rule.get("keep_firing_for", "0s"))
            rules.append(
                Alert(
                    name=" ".join(x for x in (rule["alert"].removeprefix("Ragtrace"), window, ticket) if x),
                    severity=rule["labels"]["severity"],
                    expr=inline(expr, recorded),
                    wait=seconds(rule.get("for", "0s")),
                    keep=max(keep, LEAST_INCIDENT) if window else keep,
                )
            )
    return rules
