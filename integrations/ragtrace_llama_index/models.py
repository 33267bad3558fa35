"""Reads a model's settings and its reply. Fields are read by name only, because other fields hold credentials."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from ragtrace import semconv
from ragtrace.tracing.content import Attributes
from ragtrace.tracing.request import Run
from ragtrace_llama_index import conversion
from ragtrace_llama_index.conversion import field_of

_PROVIDERS = {
    "azure_openai": "azure.ai.openai",
    "azure_inference": "azure.ai.inference",
    "bedrock": "aws.bedrock",
    "bedrock_converse": "aws.bedrock",
    "gemini": "gcp.gemini",
    "google_genai": "gcp.gemini",
    "vertex": "gcp.vertex_ai",
    "mistralai": "mistral_ai",
    "ibm": "ibm.watsonx.ai",
    "xai": "x_ai",
    "openai_like": None,
}
"""OpenTelemetry's names for the providers whose LlamaIndex package has another name."""
_USAGE = (
    (semconv.INPUT_TOKENS, semconv.OI_TOKENS_PROMPT, ("prompt_tokens", "input_tokens", "prompt_eval_count")),
    (
        semconv.OUTPUT_TOKENS,
        semconv.OI_TOKENS_COMPLETION,
        ("completion_tokens", "output_tokens", "eval_count"),
    ),
    (None, semconv.OI_TOKENS_TOTAL, ("total_tokens", "total_token_count")),
    (semconv.INPUT_TOKENS, semconv.OI_TOKENS_PROMPT, ("prompt_token_count",)),
    (semconv.OUTPUT_TOKENS, semconv.OI_TOKENS_COMPLETION, ("candidates_token_count",)),
    (semconv.CACHE_READ_TOKENS, semconv.OI_TOKENS_CACHE_READ, ("cache_read_input_tokens",)),
    (semconv.CACHE_WRITE_TOKENS, semconv.OI_TOKENS_CACHE_WRITE, ("cache_creation_input_tokens",)),
)
_DETAILS = (
    (semconv.CACHE_READ_TOKENS, semconv.OI_TOKENS_CACHE_READ, "prompt_tokens_details", "cached_tokens"),
    (semconv.REASONING_TOKENS, semconv.OI_TOKENS_REASONING, "completion_tokens_details", "reasoning_tokens"),
)
_REASONS = ("finish_reason", "stop_reason", "done_reason")


@functools.lru_cache(maxsize=256)
def provider_of(kind: type) -> str | None:
    """Returns the provider: the name of the integration package that defines the model's class or one of its bases."""
    for base in kind.__mro__:
        parts = base.__module__.split(".")
        if parts[:2] in (["llama_index", "llms"], ["llama_index", "embeddings"]) and len(parts) > 2:
            return _PROVIDERS.get(parts[2], parts[2])
    return None


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


def describe(instance: Any, model: str | None, openinference: bool) -> Attributes:
    """Returns a model's attributes before it answers: name, provider, parameters."""
    attributes: Attributes = {}
    provider = provider_of(type(instance))  # type: ignore[arg-type]
    if model:
        attributes[semconv.REQUEST_MODEL] = model
        if openinference:
            attributes[semconv.OI_MODEL] = model
    if provider:
        attributes[semconv.PROVIDER] = provider
        if openinference:
            attributes[semconv.OI_PROVIDER] = provider
    fields = getattr(instance, "__dict__", {})
    for name, field in (
        (semconv.REQUEST_TEMPERATURE, "temperature"),
        (semconv.REQUEST_MAX_TOKENS, "max_tokens"),
    ):
        if isinstance(fields.get(field), (int, float)):
            attributes[name] = fields[field]
    return attributes


def read_reply(run: Run, response: Any, openinference: bool) -> None:
    """Reads a chat or completion response into the run: text, tool calls, tokens, finish reason, model."""
    message = getattr(response, "message", None)
    text = conversion.text_of(message) if message is not None else getattr(response, "text", None)
    if isinstance(text, str):
        run.answer = text
    calls = conversion.tool_calls(message)
    if calls:
        parts = [{"type": "text", "content": run.answer}] if run.answer else []
        run.reply = [("assistant", [*parts, *calls])]
    raw = getattr(response, "raw", None)
    extra = getattr(response, "additional_kwargs", None) or {}
    if raw is None and not extra:
        return
    _read_identity(run, raw, extra)
    _read_usage(run.attributes, raw, extra, openinference)


def _read_identity(run: Run, raw: Any, extra: Mapping[str, Any]) -> None:
    model, identity = field_of(raw, "model"), field_of(raw, "id")
    if isinstance(model, str):
        run.attributes[semconv.RESPONSE_MODEL] = model
    if isinstance(identity, str):
        run.attributes[semconv.RESPONSE_ID] = identity
    choices = field_of(raw, "choices")
    first = choices[0] if isinstance(choices, (list, tuple)) and choices else None
    for place in (first, raw, extra):
        for name in _REASONS:
            reason = field_of(place, name)
            reason = getattr(reason, "value", reason)
            if isinstance(reason, str) and reason:
                run.finish_reason = reason
                run.attributes[semconv.FINISH_REASONS] = (reason,)
                return


def _read_usage(attributes: Attributes, raw: Any, extra: Mapping[str, Any], openinference: bool) -> None:
    usage = field_of(raw, "usage") or field_of(raw, "usage_metadata")
    for place in (usage, raw, extra):
        for name, oi_name, fields in _USAGE:
            _count(
                attributes,
                name,
                oi_name,
                next((field_of(place, f) for f in fields if field_of(place, f)), None),
                openinference,
            )
    for name, oi_name, group, field in _DETAILS:
        _count(attributes, name, oi_name, field_of(field_of(usage, group), field), openinference)


def _count(attributes: Attributes, name: str | None, oi_name: str, value: Any, openinference: bool) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        return
    if name is not None:
        attributes.setdefault(name, value)
    if openinference:
        attributes.setdefault(oi_name, value)
