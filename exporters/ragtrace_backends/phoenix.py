"""Writes annotations through Phoenix's REST API (`/v1/span_annotations`), and reads those of people."""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from ragtrace_backends.annotations import OWN, Annotation
from ragtrace_backends.person_labels import PersonLabel, StoredRequest
from ragtrace_backends.rest_client import RefusedError, RestClient, find_url, parse_headers
from ragtrace_backends.score_delivery import Backend, BatchOutcome

_SPANS = 200
"""Spans in one question: their ids are in the URL."""
_RESERVED = "note"
"""Phoenix has other notes of people under this name, and refuses annotations with it."""


def make_client(url: str) -> RestClient:
    """A client of the server at `url`, or at PHOENIX_COLLECTOR_ENDPOINT for `env`, with the credentials in
    PHOENIX_API_KEY and PHOENIX_CLIENT_HEADERS, which Phoenix's own clients read."""
    headers = parse_headers(os.environ.get("PHOENIX_CLIENT_HEADERS", ""))
    if key := os.environ.get("PHOENIX_API_KEY", "").strip():
        headers.setdefault("authorization", f"Bearer {key}")
    address = find_url("phoenix_url", url, ("PHOENIX_COLLECTOR_ENDPOINT",))
    return RestClient("Phoenix", address.removesuffix("/v1/traces"), headers)


class PhoenixAnnotations(Backend):
    """Annotations of spans, or of traces where the span is not known. Phoenix replaces one with the same span, name and
    identifier, so a repetition changes nothing."""

    name = "phoenix"
    batch = 100
    make_client = staticmethod(make_client)

    def send(self, batch: Sequence[Annotation]) -> BatchOutcome:
        """Send annotations; those whose spans Phoenix does not have are `missing`. It refuses the rest of their batch
        with them: these are `again`."""
        missing: set[Any] = set()
        again: set[Any] = set()
        for field, path in (("span_id", "/v1/span_annotations"), ("trace_id", "/v1/trace_annotations")):
            group = [one for one in batch if bool(one.span_id) == (field == "span_id")]
            absent = self._absent(group, field, path)
            missing.update(absent)
            again.update(one.key for one in group if absent and one.key not in absent)
        return BatchOutcome(missing, again)

    def _absent(self, group: Sequence[Annotation], field: str, path: str) -> set[Any]:
        """Send annotations of spans, or of traces; the keys of those that Phoenix names as unknown."""
        if not group:
            return set()
        try:
            self._client.ask("POST", path, {"data": [_body(one, field) for one in group]}, {"sync": "true"})
        except RefusedError as error:
            absent = {one.key for one in group if getattr(one, field) in error.body}
            if error.status != 404 or not absent:
                raise
            return absent
        return set()


def _body(one: Annotation, field: str) -> dict[str, Any]:
    result = {"score": one.value, "label": one.label, "explanation": one.explanation}
    return {
        field: getattr(one, field), "name": f"{one.name}_" if one.name == _RESERVED else one.name,
        "annotator_kind": one.kind, "identifier": one.identifier,
        "result": {name: value for name, value in result.items() if value is not None},
        "metadata": dict(one.metadata),
    }  # fmt: skip


# --- labels of people -------------------------------------------------------------------------------------------------


def read_labels(client: RestClient, requests: Sequence[StoredRequest]) -> Iterator[PersonLabel]:
    """The annotations that people made of these requests in Phoenix, in all of its projects. Those that ragtrace wrote
    are left out. Raises BackendError where Phoenix does not answer."""
    projects = [project["name"] for project in _pages(client, "/v1/projects", {})]
    by_span = {request.span_id: request for request in requests}
    spans = list(by_span)
    for project in projects:
        path = f"/v1/projects/{quote(project, safe='')}/span_annotations"
        for start in range(0, len(spans), _SPANS):
            for row in _pages(client, path, {"span_ids": spans[start : start + _SPANS], "limit": 1000}):
                if row["annotator_kind"] == "HUMAN" and (row.get("metadata") or {}).get("source") != OWN:
                    yield _label(by_span[row["span_id"]].trace_id, row)


def _label(trace_id: str, row: Mapping[str, Any]) -> PersonLabel:
    result = row.get("result") or {}
    # Without accounts, annotations of the web page have identifiers that say nothing of the person.
    identifier = row.get("identifier") if row.get("source") != "APP" else None
    reviewer = row.get("user_id") or identifier or "user"
    return PersonLabel(
        trace_id, row["name"], result.get("label") if result.get("label") is not None else result.get("score"),
        f"phoenix:{reviewer}", result.get("explanation"),
    )  # fmt: skip


def _pages(client: RestClient, path: str, params: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    cursor = None
    while True:
        try:
            page = client.ask("GET", path, params={**params, **({"cursor": cursor} if cursor else {})})
        except RefusedError as error:
            if error.status == 404:  # none of these spans is in this project
                return
            raise
        yield from page["data"]
        cursor = page.get("next_cursor")
        if not cursor:
            return
