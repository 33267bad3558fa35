"""Phoenix's span annotations, as its REST API documents them and its server (20.26) behaves."""

from typing import Any

from tests.delivery.servers import Asked


class PhoenixApi:
    """Keeps annotations by span or trace, name and identifier; those of unknown spans are refused with their batch."""

    def __init__(self, known: set[str] | None = None) -> None:
        self.known = known
        """Spans and traces that there are; None for all."""
        self.rows: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.key = ""
        """The API key that is asked for."""

    def answer(self, asked: Asked) -> tuple[int, Any]:
        if self.key and asked.headers.get("authorization") != f"Bearer {self.key}":
            return 401, {"detail": "Invalid token"}
        if asked.method == "GET":
            return self._read(asked)
        field = {"/v1/span_annotations": "span_id", "/v1/trace_annotations": "trace_id"}[asked.path]
        assert asked.params == {"sync": ["true"]}
        for row in asked.body["data"]:
            assert set(row) == {field, "name", "annotator_kind", "identifier", "result", "metadata"}
            assert row["annotator_kind"] in {"CODE", "LLM", "HUMAN"}
            if row["name"] == "note":
                return 400, {"detail": "The name 'note' is reserved for trace and span notes."}
            if row["name"] == "unloved":
                return 422, {"detail": "no"}
        ids = [row[field] for row in asked.body["data"]]
        absent = [id for id in ids if self.known is not None and id not in self.known]
        if absent:
            return 404, {"detail": f"Spans with IDs {', '.join(absent)} do not exist."}
        for row in asked.body["data"]:
            self.rows[row[field], row["name"], row["identifier"]] = row
        return 200, {"data": [{"id": "x"} for _ in ids]}

    def _read(self, asked: Asked) -> tuple[int, Any]:
        if asked.path == "/v1/projects":
            return 200, {"data": [{"name": "default"}, {"name": "a shop"}], "next_cursor": None}
        if asked.path != "/v1/projects/a%20shop/span_annotations":
            return 404, {"detail": "None of the supplied span_ids exist in this project"}
        rows = [row for row in self.rows.values() if row["span_id"] in asked.params["span_ids"]]
        first = int(asked.params.get("cursor", ["0"])[0])
        more = str(first + 2) if len(rows) > first + 2 else None
        return 200, {"data": rows[first : first + 2], "next_cursor": more}
