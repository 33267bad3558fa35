"""Reads from Phoenix what its pages show: the same questions that they ask its GraphQL API."""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from tests.backends.servers import Server
from tests.backends.shown import Call, Document, Message, Span, Tokens, Trace

_SPAN = """
name spanKind statusMessage statusCode parentId spanId startTime attributes tokenCountPrompt tokenCountCompletion
tokenPromptDetails { cacheRead } input { value mimeType } output { value mimeType }
events { name message } costSummary { total { cost } }
"""
_QUERY = f"""
{{ projects {{ edges {{ node {{ name
  sessions(first: 50) {{ edges {{ node {{ sessionId numTraces
    firstInput {{ value }} lastOutput {{ value }} tokenUsage {{ total }} costSummary {{ total {{ cost }} }}
  }} }} }}
  spans(first: 200) {{ edges {{ node {{ {_SPAN} trace {{ traceId costSummary {{ total {{ cost }} }} }}
    cumulativeTokenCountPrompt cumulativeTokenCountCompletion propagatedStatusCode
  }} }} }}
}} }} }} }}
"""


def _project(server: Server, name: str) -> Mapping[str, Any]:
    answer = server.post("/graphql", {"query": _QUERY})
    assert not answer.get("errors"), answer["errors"]
    projects = [edge["node"] for edge in answer["data"]["projects"]["edges"]]
    return next((project for project in projects if project["name"] == name), {"spans": {"edges": []}})


def traces(server: Server, project: str) -> list[Trace]:
    """Return the traces of a project whose root has arrived, the oldest first."""
    nodes = [edge["node"] for edge in _project(server, project)["spans"]["edges"]]
    nodes.sort(key=lambda node: node["startTime"])
    spans = {node["spanId"]: _span(node) for node in nodes}
    roots = []
    for node in nodes:
        if node["parentId"] in spans:
            spans[node["parentId"]].children.append(spans[node["spanId"]])
        elif node["parentId"] is None:
            roots.append(node)
    return [_trace(node, spans[node["spanId"]]) for node in roots]


def sessions(server: Server, project: str) -> dict[str, tuple[int, str, str, float]]:
    """Return the list of sessions: by id the number of turns, the first question, the last answer and the cost."""
    sessions = {}
    for node in (edge["node"] for edge in _project(server, project)["sessions"]["edges"]):
        first, last = (_value(node[name]) or "" for name in ("firstInput", "lastOutput"))
        sessions[node["sessionId"]] = (node["numTraces"], first, last, node["costSummary"]["total"]["cost"] or 0.0)
    return sessions


def annotations(server: Server, project: str, spans: Sequence[str], limit: int = 10_000) -> list[dict[str, Any]]:
    """Return the annotations of these spans."""
    query = urlencode({"span_ids": spans, "limit": limit}, doseq=True)
    rows: list[dict[str, Any]] = server.get(f"/v1/projects/{project}/span_annotations?{query}")["data"]
    return rows


def _trace(node: Mapping[str, Any], root: Span) -> Trace:
    cached = sum(span.tokens.cache_read for span in root.walk() if span.tokens)
    tokens = Tokens(int(node["cumulativeTokenCountPrompt"]), int(node["cumulativeTokenCountCompletion"]), cached)
    return Trace(
        question=str(root.input or ""), answer=str(root.output or ""), session=root.attributes.get("session.id", ""),
        user=root.attributes.get("user.id", ""), failed=node["propagatedStatusCode"] == "ERROR",
        tokens=tokens if tokens.input else None, cost=node["trace"]["costSummary"]["total"]["cost"] or 0.0, root=root,
    )  # fmt: skip


def _span(node: Mapping[str, Any]) -> Span:
    nested = json.loads(node["attributes"])
    model = nested.get("llm", {})
    details = node["tokenPromptDetails"]
    messages = (*model.get("input_messages", ()), *model.get("output_messages", ()))
    is_model = node["spanKind"] == "llm"
    prompt = node["tokenCountPrompt"]
    return Span(
        name=node["name"], kind=node["spanKind"].upper(), input=_value(node["input"]), output=_value(node["output"]),
        error=node["statusMessage"] if node["statusCode"] == "ERROR" else "",
        exceptions=tuple(event["message"] for event in node["events"] if event["name"] == "exception"),
        attributes=_flat(nested), model=model.get("model_name", ""),
        tokens=Tokens(prompt, node["tokenCountCompletion"], details["cacheRead"] or 0) if prompt else None,
        cost=(node["costSummary"] or {"total": {"cost": 0.0}})["total"]["cost"] or 0.0,
        messages=tuple(_message(item["message"]) for item in messages) if is_model else (),
        tools=tuple(json.loads(item["tool"]["json_schema"])["function"]["name"] for item in model.get("tools", ())),
        documents=tuple(_document(item["document"]) for item in nested.get("retrieval", {}).get("documents", ())),
        id=node["spanId"],
    )  # fmt: skip


def _value(value: Mapping[str, Any] | None) -> Any:
    """A span's input or output, read as JSON where the page draws it as JSON."""
    if value is None:
        return None
    return json.loads(value["value"]) if value.get("mimeType") == "json" else value["value"]


def _message(message: Mapping[str, Any]) -> Message:
    calls = [item["tool_call"] for item in message.get("tool_calls", ())]
    return Message(
        message["role"], message.get("content", ""),
        tuple(Call(c["id"], c["function"]["name"], json.loads(c["function"]["arguments"])) for c in calls),
        message.get("tool_call_id", ""),
    )  # fmt: skip


def _document(document: Mapping[str, Any]) -> Document:
    return Document(document["id"], document["content"], document.get("score"), document.get("metadata"))


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    """Attributes by their full names: Phoenix nests them at the dots."""
    if isinstance(value, Mapping) and value:
        items: Sequence[tuple[str, Any]] = [(str(key), item) for key, item in value.items()]
        return {k: v for key, item in items for k, v in _flat(item, f"{name}.{key}" if name else key).items()}
    return {name: value}
