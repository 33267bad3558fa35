"""Finds the question in what a chain, graph or agent takes, and the answer in what it returns."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ragtrace.capture.request import Run
from ragtrace.text.sanitizer import fields_of, sendable
from ragtrace_langchain.chat_messages import ROLES, message_of
from ragtrace_langchain.conversion import text_of
from ragtrace_langchain.graphs import ELSEWHERE, GRAPH

_QUERY_KEYS = ("question", "query", "input", "user_input", "user_query", "prompt", "text")
_STRUCTURED_KEYS = ("structured_response", "parsed")
"""Answers in the form that the application asked for: an agent's, and a model's beside its raw message."""
_ANSWER_KEYS = ("answer", "output", "result", "response", "output_text", "text", "content", "generation")
_USERS = ("user", "human")
_MAX_CHARS = 100_000
"""Characters of inputs whose names say nothing, written as JSON."""


def query_of(inputs: Any) -> str | None:
    """Returns the question in a root's inputs, or None: a stream starts with an empty placeholder. Of several inputs
    with unknown names it is all of them, as JSON; of a command that resumes a graph, what a person replied. None for
    what cannot be read."""
    try:
        return _query_of(inputs)
    except Exception:  # noqa: BLE001 an object of the application, whose properties may raise
        return None


def _query_of(inputs: Any) -> str | None:
    if inputs is None or isinstance(inputs, str):
        return inputs or None
    if isinstance(inputs, Mapping):
        return _query_of_fields(inputs)
    if isinstance(inputs, (list, tuple)):
        is_several = len(inputs) > 1 and inputs[0] not in _USERS and all(isinstance(i, str) for i in inputs)
        return _written(inputs) if is_several else _last_text(inputs, _USERS) or _written(inputs)
    if hasattr(inputs, "to_messages"):
        return _last_text(inputs.to_messages(), _USERS)
    if hasattr(inputs, "content") or hasattr(inputs, "page_content"):
        return text_of(inputs) or None if hasattr(inputs, "content") else None
    if hasattr(inputs, "resume") and hasattr(inputs, "goto"):
        return question_text(inputs.resume) if inputs.resume is not None else query_of(inputs.update)
    fields = fields_of(inputs)
    return sendable(inputs, _MAX_CHARS) if fields is None else _query_of_fields(fields)


def _query_of_fields(inputs: Mapping[Any, Any]) -> str | None:
    if inputs.get("messages"):
        question = _last_text(inputs["messages"], _USERS)
        if question:
            return question
    for key in _QUERY_KEYS:
        if inputs.get(key):
            return query_of(inputs[key]) or text_of(inputs[key])
    texts = [value for value in inputs.values() if isinstance(value, str) and value]
    if len(texts) == 1:
        return texts[0]
    own = {key: value for key, value in inputs.items() if not _is_context(value)}
    return _written(next(iter(own.values())) if len(own) == 1 else own)


def _is_context(value: Any) -> bool:
    """Returns True for what is empty, or a conversation or documents beside the question."""
    first = value[0] if isinstance(value, (list, tuple)) and value else value
    is_empty = value is None or (isinstance(value, (str, list, tuple, dict)) and not value)
    return is_empty or hasattr(first, "content") or hasattr(first, "page_content")


def _written(value: Any) -> str | None:
    is_empty = isinstance(value, (str, list, tuple, Mapping)) and not value
    return None if is_empty or _is_context(value) else sendable(value, _MAX_CHARS)


def question_text(value: Any) -> str:
    """Returns what a graph asks a person, or what the person replies: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else sendable(value, _MAX_CHARS)


def note_interrupt(root: Run, error: BaseException) -> bool:
    """Notes that a root stopped to ask a person; whether it did. A graph that is called inside, and stops, ends as any
    other run: its caller goes on."""
    question, before = _questions_of(error.args[0] if error.args else ()), root.request.interrupt
    if question is None and type(error).__name__ == "GraphInterrupt":
        question = ""  # a breakpoint of a graph inside
    if question is not None and (before is None or question not in before):  # branches ask one after the other
        root.request.interrupt = f"{before}\n{question}" if before and question else before or question
    return root.request.interrupt is not None


def read_interrupt(root: Run, outputs: Any) -> bool:
    """Reads what a graph inside of a chain asked from the chain's outputs; whether it did."""
    if root.request.interrupt is not None or not isinstance(outputs, dict):
        return False
    root.request.interrupt = _questions_of(dict.get(outputs, "__interrupt__"))
    return root.request.interrupt is not None


def _questions_of(interrupts: Any) -> str | None:
    items: Iterable[Any] = interrupts if isinstance(interrupts, (list, tuple)) else (interrupts,)
    values = [item.value for item in items if hasattr(item, "value")]
    return "\n".join(question_text(value) for value in values if value is not None) if values else None


def question_of_state(run: Run, outputs: Any) -> str | None:
    """Returns the question in the state that a graph returns, for one that went on from a checkpoint without inputs."""
    state = outputs if isinstance(outputs, Mapping) else fields_of(outputs)
    if run.state not in (GRAPH, ELSEWHERE) or not state:
        return None
    return query_of({key: state.get(key) for key in ("messages", *_QUERY_KEYS)})


def read_answer(run: Run, outputs: Any) -> None:
    """Reads what a chain, graph or agent returns into its run."""
    # The parts of a graph's state come one after the other; those of a chain's outputs may be answers side by side.
    calls = run.request.model_calls if run.state in (GRAPH, ELSEWHERE) else ()
    try:
        run.answer = answer_of(outputs, run.query, [call.answer.strip() for call in reversed(calls) if call.answer])
    except Exception:  # noqa: BLE001 an application's mapping whose methods raise, which is named instead
        run.answer = sendable(outputs)
    if not run.answer and getattr(outputs, "tool_calls", None):
        run.answer, run.reply = None, [message_of(outputs)]  # there is no answer yet


def answer_of(outputs: Any, question: str | None = None, replies: Sequence[str] = ()) -> str | None:
    """Returns the answer in a root's outputs, or None. Objects are written as JSON. Of several outputs with unknown
    names it is the first one of the model's `replies` that is among them, else what is neither a document nor the
    question."""
    if outputs is None or isinstance(outputs, str):
        return outputs
    if isinstance(outputs, Mapping):
        return _answer_of_fields(outputs, question, replies)
    if not hasattr(outputs, "content") and (fields := fields_of(outputs)):
        return _answer_of_fields(fields, question, replies)
    if isinstance(outputs, (list, tuple)) and outputs and hasattr(outputs[-1], "content"):
        return _last_answer(outputs)
    return text_of(outputs)


def _answer_of_fields(outputs: Mapping[Any, Any], question: str | None, replies: Sequence[str]) -> str | None:
    for key in _STRUCTURED_KEYS:
        if outputs.get(key) is not None:
            return sendable(outputs[key])
    for key in _ANSWER_KEYS:
        if outputs.get(key) is not None:
            return answer_of(outputs[key])
    if outputs.get("messages"):
        return _last_answer(outputs["messages"])
    texts = {key: text_of(value).strip() for key, value in outputs.items() if not _holds_documents(value)}
    for text in replies:
        if text in texts.values():
            return text
    own = [key for key, text in texts.items() if text and text != question] or list(outputs)
    if len(own) == 1 < len(outputs):
        return answer_of(outputs[own[0]])
    return sendable({key: _shown(outputs[key]) for key in own})


def _holds_documents(value: Any) -> bool:
    first = value[0] if isinstance(value, (list, tuple)) and value else value
    return hasattr(first, "page_content")


def _shown(value: Any) -> Any:
    """Returns the texts of messages among several outputs; any other value as it is."""
    if isinstance(value, (list, tuple)) and value and hasattr(value[0], "content"):
        return [_shown(item) for item in value]
    return text_of(value) if hasattr(value, "content") else value


def _last_answer(messages: Any) -> str | None:
    """Returns the model's last text since the user's last message, or the result of a tool that an agent returns."""
    items = messages if isinstance(messages, (list, tuple)) else [messages]
    places = [n for n, item in enumerate(items) if not isinstance(item, str) and _last_text([item], _USERS) is not None]
    items = items[places[-1] + 1 :] if places else items
    answer = _last_text(items, ("assistant", "ai"))
    return answer or _last_text(items[-1:], ("tool", "function")) or answer


def _last_text(messages: Any, roles: tuple[str, ...]) -> str | None:
    items = messages if isinstance(messages, (list, tuple)) else [messages]
    for item in reversed(items):
        if isinstance(item, str):
            return item
        if isinstance(item, (list, tuple)) and len(item) == 2 and item[0] in roles:
            return text_of(item[1])
        kind = item.get("role") or item.get("type") if isinstance(item, Mapping) else getattr(item, "type", None)
        if kind in roles or ROLES.get(str(kind)) in roles:
            return text_of(item.get("content") if isinstance(item, Mapping) else item)
    return None
