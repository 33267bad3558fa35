"""Reads from MLflow what its pages show: the traces' list and the spans of each, by the REST API that they ask.

MLflow's pages draw documents and chats only where the values have one of the forms that they know. `_documents` and
`_messages` read those forms, so that what MLflow would print as JSON is missing here."""

import base64
import json
from collections.abc import Mapping
from typing import Any

from tests.backends.servers import Server
from tests.backends.shown import Call, Document, Message, Span, Tokens, Trace

_EXPERIMENT = {"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": "0"}}


def traces(server: Server) -> list[Trace]:
    """Return the traces of the default experiment of which all spans have their parents, the oldest first."""
    query = {"locations": [_EXPERIMENT], "max_results": 100, "order_by": ["timestamp ASC"]}
    infos = server.post("/api/3.0/mlflow/traces/search", query).get("traces", [])
    return [trace for info in infos if (trace := _trace(server, info))]


def assessments(server: Server, trace_id: str) -> list[dict[str, Any]]:
    """Return the assessments of a trace, which has OpenTelemetry's id."""
    answer = server.get(f"/api/3.0/mlflow/traces/tr-{trace_id}")
    rows: list[dict[str, Any]] = answer["trace"]["trace_info"].get("assessments", [])
    return rows


def _trace(server: Server, info: Mapping[str, Any]) -> Trace | None:
    answer = server.get(f"/api/3.0/mlflow/traces/get?trace_id={info['trace_id']}")
    items = sorted(answer["trace"]["spans"], key=lambda item: int(item["start_time_unix_nano"]))
    spans = {item["span_id"]: _span(item) for item in items}
    root = None
    for item in items:
        parent = item.get("parent_span_id")
        if parent in spans:
            spans[parent].children.append(spans[item["span_id"]])
        elif parent is None:
            root = spans[item["span_id"]]
        else:
            return None
    if root is None:
        return None
    metadata = info.get("trace_metadata", {})
    usage, cost = metadata.get("mlflow.trace.tokenUsage"), metadata.get("mlflow.trace.cost")
    return Trace(
        question=str(json.loads(info.get("request_preview") or '""')),
        answer=str(json.loads(info.get("response_preview") or '""')),
        session=metadata.get("mlflow.trace.session", ""), user=metadata.get("mlflow.trace.user", ""),
        failed=info["state"] == "ERROR", tokens=_tokens(json.loads(usage)) if usage else None,
        cost=json.loads(cost)["total_cost"] if cost else 0.0, root=root, id=info["trace_id"].removeprefix("tr-"),
    )  # fmt: skip


def _span(item: Mapping[str, Any]) -> Span:
    attributes = {attribute["key"]: _plain(attribute["value"]) for attribute in item["attributes"]}
    inputs, outputs = attributes.get("mlflow.spanInputs"), attributes.get("mlflow.spanOutputs")
    kind = attributes.get("mlflow.spanType", "")
    usage = attributes.get("mlflow.chat.tokenUsage")
    status = item.get("status", {})
    events = [event for event in item.get("events", ()) if event["name"] == "exception"]
    return Span(
        name=item["name"], kind=kind, input=inputs, output=outputs,
        error=status.get("message", "") if status.get("code") == "STATUS_CODE_ERROR" else "",
        exceptions=tuple(_exception(event) for event in events), attributes=attributes,
        model=attributes.get("mlflow.llm.model", ""), tokens=_tokens(usage) if usage else None,
        cost=attributes.get("mlflow.llm.cost", {}).get("total_cost", 0.0), messages=_chat(inputs, outputs),
        tools=_tools(attributes.get("mlflow.chat.tools")), documents=_documents(outputs) if kind == "RETRIEVER" else (),
        id=base64.b64decode(item["span_id"]).hex(),
    )  # fmt: skip


def _plain(value: Mapping[str, Any]) -> Any:
    """An OTLP value as plain Python."""
    ((kind, inner),) = value.items()
    if kind == "kvlist_value":
        return {pair["key"]: _plain(pair["value"]) for pair in inner.get("values", ())}
    if kind == "array_value":
        return [_plain(element) for element in inner.get("values", ())]
    return int(inner) if kind == "int_value" else inner


def _tokens(usage: Mapping[str, int]) -> Tokens:
    return Tokens(usage["input_tokens"], usage["output_tokens"], usage.get("cache_read_input_tokens", 0))


def _exception(event: Mapping[str, Any]) -> str:
    attributes = {attribute["key"]: _plain(attribute["value"]) for attribute in event["attributes"]}
    return str(attributes.get("exception.message", ""))


def _chat(inputs: Any, outputs: Any) -> tuple[Message, ...]:
    """A chat is drawn where all messages have parts of text, tool calls or tool results; the output may be a text."""
    if not _is_chat(inputs) or not (outputs is None or isinstance(outputs, str) or _is_chat(outputs)):
        return ()
    if isinstance(outputs, str):
        return (*map(_message, inputs), Message("assistant", outputs))
    return tuple(map(_message, (*inputs, *(outputs or ()))))


def _is_chat(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(message, dict) and message.get("parts") for message in value)
        and all(part["type"] in {"text", "tool_call", "tool_call_response"} for m in value for part in m["parts"])
    )


def _message(message: Mapping[str, Any]) -> Message:
    parts = message["parts"]
    texts = [part.get("content", part.get("response", "")) for part in parts if part["type"] != "tool_call"]
    calls = [part for part in parts if part["type"] == "tool_call"]
    return Message(
        message["role"], "".join(texts), tuple(Call(call["id"], call["name"], call["arguments"]) for call in calls),
        next((part["id"] for part in parts if part["type"] == "tool_call_response"), ""),
    )  # fmt: skip


def _tools(tools: Any) -> tuple[str, ...]:
    """Tools are drawn where all have OpenAI's form."""
    if not isinstance(tools, list) or not all("name" in tool.get("function", {}) for tool in tools):
        return ()
    return tuple(tool["function"]["name"] for tool in tools)


def _documents(output: Any) -> tuple[Document, ...]:
    """Documents are drawn where all have a `page_content`."""
    if not isinstance(output, list) or not all(isinstance(item, dict) and "page_content" in item for item in output):
        return ()
    return tuple(Document(item["id"], item["page_content"], item.get("score"), item.get("metadata")) for item in output)
