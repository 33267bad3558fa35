"""Writes assessments through MLflow's REST API, of traces that came over OTLP, and reads those of people."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ragtrace_backends.annotations import OWN, Annotation
from ragtrace_backends.person_labels import PersonLabel, StoredRequest
from ragtrace_backends.rest_client import BackendError, RefusedError, RestClient, ServerError, basic, find_url
from ragtrace_backends.score_delivery import Backend, BatchOutcome

_PREFIX = "tr-"
"""Of MLflow's id of a trace that came over OTLP; the rest is OpenTelemetry's."""
_SOURCES = {"CODE": "CODE", "LLM": "LLM_JUDGE", "HUMAN": "HUMAN"}
_MASK = "feedback,rationale,metadata"
"""The fields that a second score with the same key changes."""
_ABSENT = "RESOURCE_DOES_NOT_EXIST"


def make_client(url: str) -> RestClient:
    """A client of the server at `url`, or at MLFLOW_TRACKING_URI for `env`, with the credentials in
    MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, which MLflow's own client reads."""
    user, password, token = (
        os.environ.get(f"MLFLOW_TRACKING_{name}", "").strip() for name in ("USERNAME", "PASSWORD", "TOKEN")
    )
    headers = {}
    if user and password:
        headers["authorization"] = basic(user, password)
    elif token:
        headers["authorization"] = f"Bearer {token}"
    return RestClient("MLflow", find_url("mlflow_url", url, ("MLFLOW_TRACKING_URI",)), headers)


class MlflowAssessments(Backend):
    """Assessments of traces. Each has an id that follows from its key, so a repetition changes the one that is there.
    MLflow takes one in a request."""

    name = "mlflow"
    batch = 50
    make_client = staticmethod(make_client)

    def send(self, batch: Sequence[Annotation]) -> BatchOutcome:
        """Create or change one assessment after the other; `missing` are those whose traces MLflow does not have."""
        absent: set[str] = set()
        for number, one in enumerate(batch):
            try:
                if one.trace_id not in absent and not self._write(one):
                    absent.add(one.trace_id)
            except BackendError:
                if number == 0:
                    raise
                missing = [other.key for other in batch[:number] if other.trace_id in absent]
                return BatchOutcome(missing, [other.key for other in batch[number:]])
        return BatchOutcome([one.key for one in batch if one.trace_id in absent])

    def _write(self, one: Annotation) -> bool:
        """Create or change an assessment; False if MLflow does not have the trace."""
        path = f"/api/3.0/mlflow/traces/{_PREFIX}{one.trace_id}/assessments"
        body = _body(one)
        try:
            self._client.ask("POST", path, {"assessment": body})
        except RefusedError as error:
            if _is_absent(error):
                return False
            raise
        except ServerError:  # MLflow's answer where the id is taken
            if not self._exists(f"{path}/{body['assessment_id']}"):
                raise
            self._client.ask("PATCH", f"{path}/{body['assessment_id']}", {"assessment": body, "update_mask": _MASK})
        return True

    def _exists(self, path: str) -> bool:
        try:
            self._client.ask("GET", path)
        except RefusedError as error:
            if error.status == 404:
                return False
            raise
        return True


def _is_absent(error: RefusedError) -> bool:
    """Whether MLflow does not have the trace; a wrong address has status 404, too."""
    return error.status == 404 and _ABSENT in error.body


def _body(one: Annotation) -> dict[str, Any]:
    metadata = {**one.metadata, "span_id": one.span_id}
    if one.label is not None:
        metadata["label"] = one.label
    if one.kind == "HUMAN":
        value: Any = one.label if one.label is not None else one.value
    else:
        value = one.value if one.value is not None else one.label
    body = {
        "assessment_id": f"a-{one.id.hex}", "assessment_name": one.name, "trace_id": f"{_PREFIX}{one.trace_id}",
        "source": {"source_type": _SOURCES[one.kind], "source_id": f"ragtrace/{one.identifier}"},
        "create_time": one.moment, "last_update_time": one.moment, "feedback": {"value": value},
        "metadata": {name: text if isinstance(text, str) else json.dumps(text) for name, text in metadata.items()},
    }  # fmt: skip
    return body if one.explanation is None else {**body, "rationale": one.explanation}


# --- labels of people -------------------------------------------------------------------------------------------------


def read_labels(client: RestClient, requests: Sequence[StoredRequest]) -> Iterator[PersonLabel]:
    """The feedback that people gave to these requests in MLflow. That which ragtrace wrote is left out. Raises
    BackendError where MLflow does not answer."""
    for trace_id in dict.fromkeys(request.trace_id for request in requests):
        try:
            answer = client.ask("GET", f"/api/3.0/mlflow/traces/{_PREFIX}{trace_id}")
        except RefusedError as error:
            if _is_absent(error):
                continue
            raise
        for row in answer["trace"]["trace_info"].get("assessments", ()):
            is_person = row.get("source", {}).get("source_type") == "HUMAN" and row.get("valid", True)
            if is_person and "feedback" in row and (row.get("metadata") or {}).get("source") != OWN:
                yield _label(trace_id, row)


def _label(trace_id: str, row: Mapping[str, Any]) -> PersonLabel:
    reviewer = row["source"].get("source_id") or "user"
    return PersonLabel(
        trace_id, row["assessment_name"], row["feedback"].get("value"), f"mlflow:{reviewer}", row.get("rationale")
    )
