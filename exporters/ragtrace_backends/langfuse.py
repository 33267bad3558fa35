"""Writes scores through Langfuse's public API, and reads those of people."""

import os
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ragtrace.errors import SettingError
from ragtrace_backends.annotations import OWN, Annotation, Key
from ragtrace_backends.person_labels import PersonLabel, StoredRequest
from ragtrace_backends.rest_client import RefusedError, RestClient, ServerError, UnavailableError, basic, find_url
from ragtrace_backends.score_delivery import Backend, BatchOutcome

_CONFIGS = 300.0
"""Seconds for which the score configs of the project are remembered."""
_PAGE = 100
_WITHOUT_ENDPOINT = (404, 405, 410)
"""Statuses of a server without the endpoint: Langfuse's cloud ends the one for batches."""


def make_client(url: str) -> RestClient:
    """A client of the server at `url`, or at LANGFUSE_BASE_URL or LANGFUSE_HOST for `env`, with the keys in
    LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY, which Langfuse's own client reads. Raises SettingError without them."""
    public, secret = (os.environ.get(f"LANGFUSE_{name}_KEY", "").strip() for name in ("PUBLIC", "SECRET"))
    if not public or not secret:
        raise SettingError(
            "langfuse_url is set, but not the environment variables LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY; copy "
            "both keys from the settings of the project in Langfuse"
        )
    address = find_url("langfuse_url", url, ("LANGFUSE_BASE_URL", "LANGFUSE_HOST"))
    return RestClient("Langfuse", address, {"authorization": basic(public, secret)})


class LangfuseScores(Backend):
    """Scores of traces, in batches. Each has an id that follows from its key, so a repetition changes the one that is
    there. A score whose name has a score config in the project, and that complies with it, names the config."""

    name = "langfuse"
    batch = 100
    make_client = staticmethod(make_client)

    def __init__(self, url: str = "env") -> None:
        super().__init__(url)
        self._takes_batches = True
        self._configs: Mapping[str, Mapping[str, Any]] = {}
        self._configs_until = 0.0

    def send(self, batch: Sequence[Annotation]) -> BatchOutcome:
        """Send scores. Langfuse takes those of unknown traces, too: they are shown when the trace comes."""
        self._read_configs()
        bodies = {one.key: _body(one, self._configs.get(one.name)) for one in batch}
        if self._takes_batches:
            try:
                return self._send_batch(batch, bodies)
            except RefusedError as error:
                if error.status not in _WITHOUT_ENDPOINT:
                    raise
        outcome = self._send_each(bodies)
        self._takes_batches = False  # the endpoint for single scores is there, so the other one is gone
        return outcome

    def _send_batch(self, batch: Sequence[Annotation], bodies: Mapping[Key, Any]) -> BatchOutcome:
        # The same id for a repetition, which Langfuse recognises by it, and another one for a newer score.
        events = {str(uuid.uuid5(one.id, repr((one.created, one.value, one.label)))): one for one in batch}
        content = [
            {"id": id, "timestamp": one.moment, "type": "score-create", "body": bodies[one.key]}
            for id, one in events.items()
        ]
        answer = self._client.ask("POST", "/api/public/ingestion", {"batch": content})
        if not isinstance(answer, Mapping) or not {"successes", "errors"} <= answer.keys():
            raise UnavailableError("Langfuse's answer says nothing of the scores")
        refused: dict[Key, str] = {}
        again = {one.key for one in batch} - {
            events[row["id"]].key for row in answer["successes"] if row["id"] in events
        }
        busy = False
        for row in answer["errors"]:
            status = row.get("status", 500)
            busy = busy or status == 429
            if row["id"] in events and 400 <= status < 500 and status not in (408, 429):
                refused[events[row["id"]].key] = "unauthorized" if status in (401, 403) else "refused"
        again.difference_update(refused)
        if len(again) == len(batch):
            kind = UnavailableError if busy else ServerError
            raise kind(f"Langfuse took none of {len(batch)} scores: {str(answer['errors'])[:200]}")
        return BatchOutcome(again=again, refused=refused)

    def _send_each(self, bodies: Mapping[Key, Any]) -> BatchOutcome:
        refused: dict[Key, str] = {}
        for number, (key, body) in enumerate(bodies.items()):
            try:
                self._client.ask("POST", "/api/public/scores", body)
            except RefusedError as error:
                if error.is_for_all:
                    raise
                refused[key] = error.reason
            except (UnavailableError, ServerError):
                if number == 0:
                    raise
                return BatchOutcome(again=list(bodies)[number:], refused=refused)
        return BatchOutcome(refused=refused)

    def _read_configs(self) -> None:
        """Read the score configs of the project again, where that was long ago."""
        if time.monotonic() < self._configs_until:
            return
        try:
            rows = _numbered_pages(self._client, "/api/public/score-configs", {})
            self._configs = {row["name"]: row for row in rows if not row["isArchived"]}
        except (RefusedError, KeyError, TypeError):  # scores are sent without configs; wrong keys are reported then
            self._configs = {}
        self._configs_until = time.monotonic() + _CONFIGS


def _body(one: Annotation, config: Mapping[str, Any] | None) -> dict[str, Any]:
    metadata = {**one.metadata, "evaluator": one.identifier, "annotator_kind": one.kind, "span_id": one.span_id}
    if one.label is not None:
        metadata["label"] = one.label
    body = {
        "id": str(one.id), "traceId": one.trace_id, "name": one.name, "metadata": metadata,
        **(_by_value(one) if config is None else _by_config(one, config)),
    }  # fmt: skip
    return body if one.explanation is None else {**body, "comment": one.explanation}


def _by_value(one: Annotation) -> dict[str, Any]:
    """Value and data type: the label of a person's verdict or of a score without a value, else the number."""
    if one.value is None or (one.kind == "HUMAN" and one.label is not None):
        return {"value": one.label, "dataType": "CATEGORICAL"}
    return {"value": one.value, "dataType": "NUMERIC"}


def _by_config(one: Annotation, config: Mapping[str, Any]) -> dict[str, Any]:
    """Value and data type that the config asks for. A score that does not fit the config is sent as without one."""
    kind = config["dataType"]
    value: float | str | None = None
    if kind == "NUMERIC" and one.value is not None:
        low, high = config.get("minValue"), config.get("maxValue")
        is_inside = (low is None or low <= one.value) and (high is None or one.value <= high)
        value = one.value if is_inside else None
    elif kind == "BOOLEAN":
        value = {"pass": 1.0, "fail": 0.0}.get(one.label or "", one.value if one.value in (0.0, 1.0) else None)
    elif kind == "CATEGORICAL" and one.label in {row["label"] for row in config.get("categories") or ()}:
        value = one.label
    if value is None:
        return _by_value(one)
    return {"value": value, "dataType": kind, "configId": config["id"]}


# --- labels of people -------------------------------------------------------------------------------------------------


def read_labels(client: RestClient, requests: Sequence[StoredRequest]) -> Iterator[PersonLabel]:
    """The scores that people gave to these requests in Langfuse. Raises BackendError where Langfuse does not answer."""
    traces = {request.trace_id for request in requests}
    for row in _people_scores(client):
        subject = row.get("subject") or {}
        trace_id = row.get("traceId") or subject.get("traceId") or subject.get("id")
        if trace_id in traces and (row.get("metadata") or {}).get("source") != OWN:
            value = row.get("stringValue") or row["value"]
            reviewer = row.get("authorUserId") or "user"
            yield PersonLabel(trace_id, row["name"], value, f"langfuse:{reviewer}", row.get("comment"))


def _people_scores(client: RestClient) -> Iterator[Mapping[str, Any]]:
    """Scores with the source ANNOTATION; of servers without the third version of the endpoint by the second one."""
    params: dict[str, Any] = {"source": "ANNOTATION", "fields": "details,subject,annotation", "limit": _PAGE}
    try:
        page = client.ask("GET", "/api/public/v3/scores", params=params)
    except RefusedError as error:
        if error.status != 404:
            raise
        yield from _numbered_pages(client, "/api/public/v2/scores", {"source": "ANNOTATION"})
        return
    while True:
        yield from page["data"]
        cursor = page["meta"].get("cursor")
        if not cursor:
            return
        page = client.ask("GET", "/api/public/v3/scores", params={**params, "cursor": cursor})


def _numbered_pages(client: RestClient, path: str, params: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    number, last = 1, 1
    while number <= last:
        page = client.ask("GET", path, params={**params, "page": number, "limit": _PAGE})
        yield from page["data"]
        number, last = number + 1, (page.get("meta") or {}).get("totalPages", 1)
