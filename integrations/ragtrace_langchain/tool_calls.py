"""Reads what a tool is called with and what it returns."""

from collections.abc import Mapping
from typing import Any

from ragtrace import semconv
from ragtrace.capture.plain_values import field_of
from ragtrace.capture.request import Run
from ragtrace.text.sanitizer import sendable
from ragtrace_langchain.conversion import text_of
from ragtrace_langchain.documents import documents_of_tool


def read_call(run: Run, text: Any, kwargs: Mapping[str, Any]) -> None:
    """Reads a tool's arguments, as JSON where LangChain passes them (`text` is Python's form of them), and its call."""
    arguments = kwargs.get("inputs")
    run.query = sendable(arguments) if isinstance(arguments, dict) else text_of(text)
    run.attributes[semconv.TOOL_NAME] = run.name
    run.attributes[semconv.TOOL_TYPE] = "function"
    if call_id := kwargs.get("tool_call_id"):
        run.attributes[semconv.TOOL_CALL_ID] = str(call_id)


def _text_of_command(command: Any) -> str:
    """Returns the result of a tool that directs a graph by a command: the texts of the command's tool messages, or the
    command itself."""
    update = getattr(command, "update", None)
    messages = update.get("messages") if isinstance(update, Mapping) else None
    items = messages if isinstance(messages, (list, tuple)) else ()
    texts = [text_of(item) for item in items if hasattr(item, "tool_call_id")]
    return "\n".join(texts) if texts else text_of(command)


def read_result(run: Run, output: Any) -> None:
    """Reads a tool's result and the documents in it; of an object whose attributes raise, nothing."""
    if not _has_readable_attributes(output):
        return
    run.answer = _text_of_command(output) if hasattr(output, "goto") else text_of(getattr(output, "content", output))
    if documents := documents_of_tool(output):
        run.documents = documents
        run.request.passed.append((len(run.request.model_calls), documents))
    # Early 0.3 releases do not pass the call's id when the tool starts.
    if call_id := getattr(output, "tool_call_id", None):
        run.attributes.setdefault(semconv.TOOL_CALL_ID, str(call_id))


def _has_readable_attributes(value: Any) -> bool:
    try:
        hasattr(value, "content")
    except Exception:  # noqa: BLE001 the application's own method, e.g. of a proxy outside of its request
        return False
    return True


def is_failure(output: Any) -> bool:
    """Whether LangChain caught the tool's error, and gives its message to the model as the tool's result."""
    return bool(field_of(output, "status") == "error")
