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
    r"\b(?P<name>(?:ragtrace_|app_evaluator:)[a-z0-9_:]+)(?P<match>\{[^}]*\})?(?P<range>\[[^\]]+\])?"
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
    """Recorded names and their expressions, but for constants."""
    return {r["record"]: r["expr"] for r in _rules() if "record" in r and r["record"] not in CONSTANTS}


def inline(expr: str, records: dict[str, str], shift: int = 0, match: str = "") -> str:
    """The expression with each recorded name replaced by what records it.

    `shift` is an offset in seconds and `match` matchers without braces, for all that it reads.
    """

    def put(reference: re.Match[str]) -> str:
        name, own = reference["name"], (reference["match"] or "")[1:-1]
        moved = shift + seconds(reference["offset"] or "0s")
        matchers = ",".join(m for m in (own, match) if m)
        if name in records:
            step = ":5m]" if reference["range"] else ""
            return f"({inline(records[name], records, moved, matchers)})" + (reference["range"] or "").replace(
                "]", step
            )
        constant = name in CONSTANTS
        inner = own if constant else matchers
        offset = f" offset {moved}s" if moved and not constant else ""
        return name + (f"{{{inner}}}" if inner else "") + (reference["range"] or "") + offset

    return _USED.sub(put, expr)


CONSTANTS = {name for name, _, _ in constants()}


def alerts(*severities: str, recorded: dict[str, str] | None = None) -> list[Alert]:
    """The alerts of these severities, or of all. What is not `known` they read by its name; usually all is."""
    recorded = records() if recorded is None else recorded
    rules = []
    for rule in _rules():
        if "alert" not in rule or (severities and rule["labels"]["severity"] not in severities):
            continue
        labels = rule["labels"]
        ticket = "(ticket)" if labels["severity"] == "ticket" else ""
        name = " ".join(x for x in (rule["alert"].removeprefix("Ragtrace"), labels.get("long_window"), ticket) if x)
        rules.append(
            Alert(
                name=name,
                severity=labels["severity"],
                expr=inline(rule["expr"], recorded),
                wait=seconds(rule.get("for", "0s")),
                keep=seconds(rule.get("keep_firing_for", "0s")),
            )
        )
    return rules
