"""Queries that dashboards share, and the names of recorded series (grafana/rules/ragtrace-measures.yml)."""

RUNBOOKS = "https://github.com/ragtrace/ragtrace/blob/main/docs/runbooks"
BY = "app, env, evaluator"
DECIDED = 'verdict=~"pass|fail"'
LEAST = 30
"""The least number of effective evaluations for a rate that is shown in red."""
EXPECTED, EXCESS, INCIDENT, RISE = (f"ragtrace:{name}" for name in ("expected", "excess", "incident", "rise"))
OBJECTIVE = "ragtrace_objective"


def fails(window: str, select: str) -> str:
    """Returns the query of the failing share in a window (1h, 6h, 7d) of series that `select` chooses."""
    return f"(ragtrace:fails{window}{{{select}}} / ({evaluations(window, select)} > 0))"


def evaluations(window: str, select: str) -> str:
    """Returns the query of the effective evaluations in a window."""
    return f"ragtrace:evaluations{window}{{{select}}}"


def share(bad: str, whole: str, by: str = "app, env") -> str:
    """Returns the query of the share bad / whole by these labels, or of all series; it has no value when `whole` is 0."""
    grouped = f" by ({by})" if by else ""
    return f"sum{grouped} ({bad}) / (sum{grouped} ({whole}) > 0)"


def wilson(rate: str, samples: str, sign: str, z: float = 1.645) -> str:
    """Returns the query of Wilson's bound of a share: the lower one for the sign -, the upper one for +."""
    square = f"{z**2:.4g}"
    centre = f"{rate} + {square} / (2 * {samples})"
    spread = f"{z:g} * sqrt(({rate} * (1 - {rate}) + {square} / (4 * {samples})) / {samples})"
    return f"({centre} {sign} {spread})\n/ (1 + {square} / {samples})"
