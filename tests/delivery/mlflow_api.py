"""MLflow's assessments, as its server (3.17) takes them over REST."""

from typing import Any

from tests.delivery.servers import Asked

_ABSENT = {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "not found"}


class MlflowApi:
    """Keeps assessments by id. An id that is taken is an internal error, as in MLflow."""

    def __init__(self, known: set[str] | None = None) -> None:
        self.known = known
        """Trace ids that there are, without the prefix; None for all."""
        self.rows: dict[str, dict[str, Any]] = {}
        self.authorization = ""

    def answer(self, asked: Asked) -> tuple[int, Any]:
        if self.authorization and asked.headers.get("authorization") != self.authorization:
            return 401, {"error_code": "UNAUTHENTICATED"}
        *_, trace, rest = f"{asked.path}/".removeprefix("/api/3.0/mlflow/traces/").split("/", 1)
        trace_id = trace.removeprefix("tr-")
        if self.known is not None and trace_id not in self.known:
            return 404, _ABSENT
        own = rest.strip("/").removeprefix("assessments").strip("/")
        if asked.method == "GET" and not rest.strip("/"):
            rows = [row for row in self.rows.values() if row["trace_id"] == f"tr-{trace_id}"]
            return 200, {"trace": {"trace_info": {"trace_id": trace, "assessments": rows}}}
        if asked.method == "GET":
            return (200, {"assessment": self.rows[own]}) if own in self.rows else (404, _ABSENT)
        row = asked.body["assessment"]
        assert row["trace_id"] == f"tr-{trace_id}"
        assert all(isinstance(text, str) for text in row["metadata"].values())
        if row["assessment_name"] == "unloved":
            return 400, {"error_code": "INVALID_PARAMETER_VALUE"}
        if asked.method == "POST":
            if row["assessment_id"] in self.rows:
                return 500, {"error_code": "INTERNAL_ERROR", "message": "due to a constraint violation"}
            self.rows[row["assessment_id"]] = row
        else:
            changed = {name: row[name] for name in asked.body["update_mask"].split(",") if name in row}
            self.rows[own] = {**self.rows[own], **changed}
        return 200, {"assessment": row}
