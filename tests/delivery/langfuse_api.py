"""Langfuse's public API as its OpenAPI description says: each request and each answer is checked against it."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.delivery.servers import Asked

DESCRIPTION: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "schemas" / "langfuse-scores.json").read_text("utf-8")
)
PUBLIC, SECRET = "pk-lf-1", "sk-lf-2"
AUTHORIZATION = "Basic cGstbGYtMTpzay1sZi0y"


@pytest.fixture
def langfuse_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", PUBLIC)
    monkeypatch.setenv("LANGFUSE_SECRET_KEY", SECRET)


def _with_null(schema: Any) -> Any:
    """The schema with OpenAPI's `nullable` in JSON Schema's words."""
    if isinstance(schema, list):
        return [_with_null(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    converted = {key: _with_null(value) for key, value in schema.items() if key != "nullable"}
    return {"anyOf": [converted, {"type": "null"}]} if schema.get("nullable") is True else converted


@cache
def _validator(pointer: str) -> jsonschema.Draft7Validator:
    components = _with_null(DESCRIPTION["components"])
    schema: Any = DESCRIPTION
    for part in pointer.split("|"):
        schema = schema[part]
    return jsonschema.Draft7Validator({**_with_null(schema), "components": components})


def check(path: str, method: str, *rest: str, value: Any) -> None:
    """Assert that a body has the documented form."""
    content = ("content", "application/json", "schema")
    _validator("|".join(("paths", path, method, *rest, *content))).validate(value)


def score(number: int, **fields: Any) -> dict[str, Any]:
    """A score of a person as the third version of the endpoint has it."""
    moment = "2026-01-01T00:00:00Z"
    return {
        "id": f"s{number}", "projectId": "p", "name": "faithfulness", "source": "ANNOTATION", "timestamp": moment,
        "createdAt": moment, "updatedAt": moment, "environment": "default", "dataType": "BOOLEAN", "value": False,
        "comment": "wrong year", "configId": None, "metadata": {}, "subject": {"kind": "trace", "id": f"{number:032x}"},
        "authorUserId": "ada", "queueId": None, **fields,
    }  # fmt: skip


class LangfuseApi:
    """Keeps scores by id. An event id that came before is not processed again."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self.events: set[str] = set()
        self.configs: list[dict[str, Any]] = []
        self.people: list[dict[str, Any]] = []
        self.errors: dict[str, list[int]] = {}
        """Statuses that the next events with a score of this name get."""
        self.gone: set[str] = set()
        """Endpoints that this server does not have."""

    def answer(self, asked: Asked) -> tuple[int, Any]:
        if asked.headers.get("authorization") != AUTHORIZATION:
            return 401, {"message": "Invalid credentials"}
        if asked.path in self.gone:
            return 404, {"message": "Not Found"}
        method = asked.method.lower()
        operation = DESCRIPTION["paths"][asked.path][method]
        assert set(asked.params) <= {one["name"] for one in operation.get("parameters", ())}
        if asked.body is not None:
            check(asked.path, method, "requestBody", value=asked.body)
        status, body = self._answers()[asked.path](asked)
        if status < 400:
            check(asked.path, method, "responses", str(status), value=body)
        return status, body

    def _answers(self) -> dict[str, Any]:
        return {
            "/api/public/ingestion": self._ingest, "/api/public/scores": self._create,
            "/api/public/score-configs": lambda asked: self._page(asked, self.configs),
            "/api/public/v2/scores": lambda asked: self._page(asked, [self._old(row) for row in self.people]),
            "/api/public/v3/scores": self._people,
        }  # fmt: skip

    def _ingest(self, asked: Asked) -> tuple[int, Any]:
        successes, errors = [], []
        for event in asked.body["batch"]:
            statuses = self.errors.get(event["body"]["name"], [])
            status = statuses.pop(0) if statuses else 201
            if status >= 400:
                errors.append({"id": event["id"], "status": status, "message": "by script"})
                continue
            if event["id"] not in self.events:
                self.events.add(event["id"])
                self.rows[event["body"]["id"]] = event["body"]
            successes.append({"id": event["id"], "status": status})
        return 207, {"successes": successes, "errors": errors}

    def _create(self, asked: Asked) -> tuple[int, Any]:
        if asked.body["name"] == "unloved":
            return 400, {"message": "no"}
        self.rows[asked.body["id"]] = asked.body
        return 200, {"id": asked.body["id"]}

    @staticmethod
    def _page(asked: Asked, rows: list[dict[str, Any]]) -> tuple[int, Any]:
        page, size = int(asked.params["page"][0]), 2
        meta = {"page": page, "limit": size, "totalItems": len(rows), "totalPages": -(-len(rows) // size)}
        return 200, {"data": rows[(page - 1) * size : page * size], "meta": meta}

    def _people(self, asked: Asked) -> tuple[int, Any]:
        assert asked.params["source"] == ["ANNOTATION"]
        first = int(asked.params.get("cursor", ["0"])[0])
        meta: dict[str, Any] = {"limit": 2}
        if len(self.people) > first + 2:
            meta["cursor"] = str(first + 2)
        return 200, {"data": self.people[first : first + 2], "meta": meta}

    @staticmethod
    def _old(row: dict[str, Any]) -> dict[str, Any]:
        value = {"value": float(row["value"]), "stringValue": str(row["value"])}
        rest = {name: each for name, each in row.items() if name not in ("subject", "projectId")}
        return {**rest, **value, "traceId": row["subject"]["id"]}
