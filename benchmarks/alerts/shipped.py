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
    found = []
    for rule in _rules():
        value = re.fullmatch(r"vector\(([0-9.]+)\)", rule["expr"].strip())
        if "record" in rule and value:
            found.append((rule["record"], rule.get("labels", {}), float(value[1])))
    return found


def records() -> dict[str, str]:
    """Recorded names and their expressions, but for constants."""
    return {r["record"]: r["expr"] for r in _rules() if "record" in r and r["record"] not in CONSTANTS}


def inline(expr: str, known: dict[str, str], shift: int = 0, match: str = "") -> str:
    """The expression with each recorded name replaced by what records it.

    `shift` is an offset in seconds and `match` matchers without braces, for all that it reads.
    """

    def put(found: re.Match[str]) -> str:
        name, own = found["name"], (found["match"] or "")[1:-1]
        moved = shift + seconds(found["offset"] or "0s")
        matchers = ",".join(m for m in (own, match) if m)
        if name in known:
            step = ":5m]" if found["range"] else ""
            return f"({inline(known[name], known, moved, matchers)})" + (found["range"] or "").replace("]", step)
        constant = name in CONSTANTS
        inner = own if constant else matchers
        offset = f" offset {moved}s" if moved and not constant else ""
        return name + (f"{{{inner}}}" if inner else "") + (found["range"] or "") + offset

    return _USED.sub(put, expr)


CONSTANTS = {name for name, _, _ in constants()}


def alerts(*severities: str, known: dict[str, str] | None = None) -> list[Alert]:
    """The alerts of these severities, or of all. What is not `known` they read by its name; usually all is."""
    known = records() if known is None else known
    found = []
    for rule in _rules():
        if "alert" not in rule or (severities and rule["labels"]["severity"] not in severities):
            continue
        labels = rule["labels"]
        ticket = "(ticket)" if labels["severity"] == "ticket" else ""
        name = " ".join(x for x in (rule["alert"].removeprefix("Ragtrace"), labels.get("long_window"), ticket) if x)
        found.append(
            Alert(
                name=name,
                severity=labels["severity"],
                expr=inline(rule["expr"], known),
                wait=seconds(rule.get("for", "0s")),
                keep=seconds(rule.get("keep_firing_for", "0s")),
            )
        )
    return found
