"""Converts LangChain's objects to ragtrace's records. Duck-typed: an object of an unknown shape is ignored."""

import contextlib
import functools
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from ragtrace import semconv
from ragtrace.capture.adapters import SESSION_KEYS, refusal_of, session_and_user
from ragtrace.capture.content_blocks import parts_of
from ragtrace.capture.model_messages import TextPart
from ragtrace.capture.provider_replies import token_counts, write_counts
from ragtrace.capture.request import Request, Run
from ragtrace.text.sanitizer import sendable
from ragtrace_langchain.chat_messages import replies_of

_CONTROL_FLOW = frozenset({"GraphInterrupt", "NodeInterrupt", "GraphBubbleUp", "ParentCommand", "GraphDrained"})
_FRAMEWORK_TAGS = ("seq:step", "map:key", "graph:step")
_FRAMEWORK_METADATA = ("ls_", "langgraph_", "lc_", "__", "checkpoint_")
_names_no_session = frozenset(SESSION_KEYS).isdisjoint


def key_of(run_id: Any) -> Any:
    """Returns the number of a run's id, under which the run is recorded: its hash takes far less time than that of a
    UUID, which a request needs a hundred times. None stays None."""
    return getattr(run_id, "int", run_id)


def name_of(serialized: Any, kwargs: Mapping[str, Any], default: str) -> str:
    """Returns a run's name: the configured one, or that of the class."""
    name = kwargs.get("name")
    if not name and isinstance(serialized, Mapping):
        identity = serialized.get("id")
        name = serialized.get("name") or (identity[-1] if isinstance(identity, Sequence) and identity else None)
    return str(name) if name else default


def origin(tags: Any, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Conversation, user, tags and the application's own metadata; the framework's is left out."""
    if not metadata and not tags:
        return {}
    session, user = session_and_user(metadata)
    own = {k: v for k, v in metadata.items() if isinstance(k, str) and not k.startswith(_FRAMEWORK_METADATA)}
    labels = [tag for tag in map(sendable, tags or ()) if not tag.startswith(_FRAMEWORK_TAGS)]
    return {"session": session, "user": user, "tags": labels, "metadata": own}


def child_origin(tags: Any, metadata: Mapping[str, Any], request: Request) -> dict[str, Any]:
    """Does the same for a run below a root, for what its request lacks. Metadata is inherited: the root's need not be
    read again, but a step may name a conversation. What is `configurable` is not reported to a root, unlike metadata:
    its steps find it in LangChain's own context."""
    if request.session is None and not _names_no_session(metadata):
        return origin(tags, metadata)
    if request.session is not None and request.user is not None:
        return {}
    config = _child_config().get()
    configurable = config.get("configurable") if config else None
    if not configurable:
        return {}
    session, user = session_and_user(configurable)
    return {"session": session, "user": user} if session is not None or user is not None else {}


@functools.lru_cache(maxsize=1)
def _child_config() -> ContextVar[Any]:
    from langchain_core.runnables.config import var_child_runnable_config

    return var_child_runnable_config


def text_of(value: Any) -> str:
    """Returns the text of a message or of message parts, and any other value, e.g. a list of texts, as JSON."""
    if isinstance(value, str):
        return value
    try:
        content = getattr(value, "content", value)
    except Exception:  # noqa: BLE001 an application's object, which is named instead
        content = value
    if isinstance(content, str):
        return content or refusal_of(getattr(value, "additional_kwargs", None))
    if isinstance(content, (list, tuple)) and content and (content is not value or all(map(_is_block, content))):
        return content_text(content)
    return "" if content is None else sendable(content)


def content_text(content: Any) -> str:
    """Returns the text of a message's content, without the model's reasoning and the results of provider's tools."""
    return "".join(part.text for part in parts_of(content) if isinstance(part, TextPart))


def _is_block(item: Any) -> bool:
    try:
        return isinstance(item, Mapping) and isinstance(item.get("type"), str)
    except Exception:  # noqa: BLE001 as above
        return False


def read_reply(run: Run, response: Any) -> None:
    """Reads an LLMResult into the run: text, tool calls, tokens, finish reason, model."""
    generations = getattr(response, "generations", None) or [[]]
    generation = generations[0][0] if generations[0] else None
    if generation is None:
        return
    message = getattr(generation, "message", None)
    run.answer = text_of(message) if message is not None else str(getattr(generation, "text", "") or "")
    run.reply = replies_of(response)
    meta: dict[str, Any] = {}
    places = ((response, "llm_output"), (generation, "generation_info"), (message, "response_metadata"))
    for owner, name in places:
        if isinstance(fields := getattr(owner, name, None), Mapping):
            with contextlib.suppress(Exception):  # an application's mapping
                meta.update(fields)
    reasons = tuple(reply.finish_reason for reply in run.reply if reply.finish_reason)
    if reasons:
        run.finish_reason = reasons[0]
        run.attributes[semconv.FINISH_REASONS] = reasons
    for key in ("model_name", "model", "model_id"):
        if isinstance(meta.get(key), str):
            run.attributes[semconv.RESPONSE_MODEL] = meta[key]
            break
    # When the provider sends no id, LangChain builds one from the run's id; OpenAI's is in the metadata.
    for identity in (meta.get("id"), getattr(message, "id", None)):
        if isinstance(identity, str) and identity and not identity.startswith(("run-", "lc_")):
            run.attributes[semconv.RESPONSE_ID] = identity
            break
    usage = getattr(message, "usage_metadata", None)
    if isinstance(usage, Mapping) and usage.get("total_cost") == 0:
        return  # an answer of LangChain's cache: no provider was asked, and nobody paid
    write_counts(run, token_counts(usage) or token_counts(meta))


def is_control_flow(error: BaseException) -> bool:
    """Returns True for an exception that LangGraph uses as a signal, not as an error."""
    return any(kind.__name__ in _CONTROL_FLOW for kind in type(error).__mro__)
