"""Reads a model's settings and its reply. Fields are read by name only, because other fields hold credentials."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from ragtrace import semconv
from ragtrace.capture.content import Attributes
from ragtrace.capture.content_blocks import parts_of, tool_definitions
from ragtrace.capture.model_messages import ModelMessage, PromptTemplate, ToolDefinition
from ragtrace.capture.parameters import provider_attributes, provider_name, request_attributes, server_attributes
from ragtrace.capture.plain_values import field_of, raw_calls
from ragtrace.capture.provider_replies import Counts, finish_reason, token_counts, write_counts
from ragtrace.capture.request import Run
from ragtrace.text.sanitizer import sendable
from ragtrace_llama_index import conversion
from ragtrace_llama_index.blocks import message_of

_CLASSES = {
    "OpenAI": "openai", "AzureOpenAI": "azure.ai.openai", "Anthropic": "anthropic", "Bedrock": "aws.bedrock",
    "BedrockConverse": "aws.bedrock", "Cohere": "cohere", "DeepSeek": "deepseek", "Gemini": "gcp.gemini",
    "GoogleGenAI": "gcp.gemini", "Groq": "groq", "MistralAI": "mistral_ai", "Ollama": "ollama",
    "Perplexity": "perplexity", "Vertex": "gcp.vertex_ai",
}  # fmt: skip
"""Providers by the name of LlamaIndex's class, for classes of the same name elsewhere."""


_IDENTITY = (
    (semconv.RESPONSE_MODEL, "model"),
    (semconv.RESPONSE_ID, "id"),
    (semconv.RESPONSE_ID, "response_id"),  # Cohere
)


@functools.lru_cache(maxsize=256)
def provider_of(kind: type) -> str | None:
    """Returns the provider: the name of the integration package that defines the model's class or one of its bases, or
    what the class is called where no such package does."""
    for base in kind.__mro__:
        parts = base.__module__.split(".")
        if parts[:2] in (["llama_index", "llms"], ["llama_index", "embeddings"]) and len(parts) > 2:
            return provider_name(parts[2]) if parts[2] != "openai_like" else None  # it says nothing of the provider
    return next((_CLASSES[base.__name__] for base in kind.__mro__ if base.__name__ in _CLASSES), None)


def name_of(instance: Any) -> str | None:
    """Returns the model's name, or None when it has none (mock models are named `unknown`)."""
    fields = getattr(instance, "__dict__", {})
    # The metadata last: most models build it again at each access.
    name = _name(fields.get("model_name")) or _name(fields.get("model"))
    return name or _name(_from_metadata(instance))


def _name(value: Any) -> str | None:
    return value if isinstance(value, str) and value != "unknown" else None


def _from_metadata(instance: Any) -> Any:
    try:
        return getattr(getattr(instance, "metadata", None), "model_name", None)
    except Exception:  # noqa: BLE001 some integrations raise for unknown models
        return None


def _wrapped(instance: Any) -> Any:
    """Returns the model inside a structured model, which has no settings of its own."""
    inner = getattr(instance, "__dict__", {}).get("llm")
    return inner if inner is not None and conversion.role_of(type(inner)) == "model" else instance  # type: ignore[arg-type]


def describe(run: Run, instance: Any, model: str | None, options: Any) -> None:
    """Writes what is known of a model before it answers: name, provider, server, and the settings of the model and of
    this call (`options`)."""
    instance = _wrapped(instance)
    if model:
        run.attributes[semconv.REQUEST_MODEL] = model
    run.attributes.update(provider_attributes(provider_of(type(instance))))  # type: ignore[arg-type]
    fields = getattr(instance, "__dict__", {})
    options = options if isinstance(options, Mapping) else {}
    run.attributes.update(server_attributes((fields,)))
    settings, extra = request_attributes((options, fields), model)
    run.attributes.update(settings)
    run.extra.update(extra)


def tools_of(tools: Any, schemas: bool = True) -> list[ToolDefinition]:
    """Returns the definitions of tools: of LlamaIndex's own, with the JSON schema of their arguments where `schemas` is
    True, and of those in a provider's format."""
    if not isinstance(tools, (list, tuple)):
        return []
    own = [_tool_of(tool.metadata, schemas) for tool in tools if hasattr(tool, "metadata")]
    return [*own, *tool_definitions(tools)]


def _tool_of(metadata: Any, schemas: bool) -> ToolDefinition:
    name, description = getattr(metadata, "name", None), getattr(metadata, "description", None)
    kind = getattr(metadata, "fn_schema", None)
    schema = _schema_of(kind) if schemas and isinstance(kind, type) else None
    return ToolDefinition(str(name or ""), description if isinstance(description, str) else None, schema)


@functools.lru_cache(maxsize=256)
def _schema_of(kind: type) -> Mapping[str, object] | None:
    """Returns the JSON schema of a tool's arguments. To build it takes longer than to trace a call."""
    build = getattr(kind, "model_json_schema", None)
    try:
        return dict(build()) if build is not None else None
    except Exception:  # noqa: BLE001 a class of the application
        return None


def prompt_of(event: Any) -> PromptTemplate | None:
    """Returns the template and the values of a prompt that is about to be sent to a model, or None."""
    template = event.template
    template = getattr(template, "default_template", template)  # one that chooses by the model
    text = getattr(template, "template", None) or getattr(template, "template_str", None)
    if not isinstance(text, str):
        contents = [getattr(message, "content", None) for message in getattr(template, "message_templates", None) or ()]
        text = "\n".join(content for content in contents if isinstance(content, str))
    values = {**(getattr(template, "kwargs", None) or {}), **(event.template_args or {})}
    return PromptTemplate(text or None, values) if text or values else None


def read_reply(run: Run, response: Any) -> None:
    """Reads a chat or completion response into the run: text, tool calls, tokens, finish reason, model.

    Of a stream it is the last response, or None when the stream did not end."""
    # The reply of a structured model is an object of the application.
    replies = [] if response is None or _wrapped(run.owner) is not run.owner else [response]
    replies.extend(chunk for chunk in reversed(run.state.chunks) if chunk is not response)
    write_counts(run, _read_provider(run, replies))
    text = text_of_reply(response)
    if text is not None:
        run.answer = text
    message = getattr(response, "message", None)
    if message is not None:
        run.reply = [message_of(message, run.finish_reason), *_further_choices(getattr(response, "raw", None))]
        if run.state.is_object and (calls := run.reply[0].calls):
            run.answer = sendable(calls[-1].arguments)
        if len(run.reply) > 1:
            run.attributes[semconv.FINISH_REASONS] = tuple(m.finish_reason for m in run.reply if m.finish_reason)


def _further_choices(raw: Any) -> list[ModelMessage]:
    """Returns the choices of a reply after the first one, which LlamaIndex's own response leaves out."""
    choices = field_of(raw, "choices")
    if not isinstance(choices, (list, tuple)) or len(choices) < 2:  # all but a few replies
        return []
    replies = []
    for choice in choices[1:]:
        message = field_of(choice, "message")
        parts = [*parts_of(field_of(message, "content")), *raw_calls(message)]
        replies.append(ModelMessage("assistant", parts, finish_reason=finish_reason({"choices": [choice]})))
    return replies


def read_inner(run: Run, response: Any) -> None:
    """Reads what the innermost call's reply says of itself: the outer call may pass on its text alone.

    The tokens of several replies add up; those of the outer call, if it has any, replace them."""
    counts = _read_provider(run, [response, *reversed(run.state.chunks)])
    run.state.chunks.clear()
    before = {**run.extra, **run.attributes}
    write_counts(run, {name: value + before.get(name, 0) for name, value in counts.items()})


def text_of_reply(response: Any) -> str | None:
    """Returns the text of a chat or completion response, or None when it has none."""
    message = getattr(response, "message", None)
    text = conversion.text_of(message) if message is not None else getattr(response, "text", None)
    return text if isinstance(text, str) else None


def _read_provider(run: Run, responses: Sequence[Any]) -> Counts:
    """Reads the provider's own replies into the run: model, id, finish reason. Returns the numbers of tokens.

    A stream has them in different chunks; the first reply that knows each of them counts."""
    names: Attributes = {}
    reason: str | None = None
    counts: Counts = {}
    for response in responses:
        raw = getattr(response, "raw", None)
        if len(names) < 2:
            names = {**_identity(field_of(raw, "response")), **_identity(raw), **names}
        if reason and counts:
            continue
        message = getattr(response, "message", None)
        beside = (getattr(response, "additional_kwargs", None), getattr(message, "additional_kwargs", None))
        places = [place for place in (raw, *beside) if place]
        reason = reason or next((word for place in places if (word := finish_reason(place))), None)
        counts = counts or next((numbers for place in places if (numbers := token_counts(place))), {})
    run.attributes.update(names)
    if reason:
        run.finish_reason = reason
        run.attributes[semconv.FINISH_REASONS] = (reason,)
    return counts


def _identity(reply: Any) -> Attributes:
    """Returns the model's name and the id of a provider's reply. The last event of a stream holds a whole reply."""
    if reply is None:
        return {}
    values = ((name, field_of(reply, field)) for name, field in _IDENTITY)
    return {name: value for name, value in values if isinstance(value, str)}
