"""Reads the settings of a model call, its server and its provider, by name. Other fields hold credentials."""

import functools
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from ragtrace import semconv
from ragtrace.capture.adapters import number
from ragtrace.capture.content import Attributes

_NAMES = {
    semconv.REQUEST_TEMPERATURE: "temperature", semconv.REQUEST_TOP_P: "top_p topP p",
    semconv.REQUEST_TOP_K: "top_k topK k", semconv.REQUEST_SEED: "seed random_seed",
    semconv.REQUEST_FREQUENCY_PENALTY: "frequency_penalty frequencyPenalty",
    semconv.REQUEST_PRESENCE_PENALTY: "presence_penalty presencePenalty",
    semconv.REQUEST_MAX_TOKENS: "max_tokens max_completion_tokens max_output_tokens max_tokens_to_sample "
    "max_new_tokens maxTokens num_predict",
    semconv.REQUEST_CHOICES: "n candidate_count num_generations num_completions",
    semconv.REQUEST_STOP: "stop stop_sequences stopSequences stop_words",
}  # fmt: skip
_ATTRIBUTES = {name: attribute for attribute, names in _NAMES.items() for name in names.split()}
"""OpenTelemetry's attribute by the names in all providers' requests."""
_WORDS = (
    "tool_choice", "parallel_tool_calls", "reasoning_effort", "service_tier", "stream", "logprobs", "top_logprobs",
)  # fmt: skip
"""Further settings of OpenInference's list, for which OpenTelemetry has no name."""
_NESTED = frozenset(
    {"model_kwargs", "additional_kwargs", "generate_kwargs", "generation_config", "inferenceConfig", "options"}
)
"""Mappings that hold further settings."""
_WHOLE = frozenset({semconv.REQUEST_MAX_TOKENS, semconv.REQUEST_SEED, semconv.REQUEST_CHOICES})
_ADDRESSES = (
    "base_url", "api_base", "openai_api_base", "azure_endpoint", "anthropic_api_url", "groq_api_base",
    "endpoint_url", "endpoint", "inference_server_url", "server_url", "host",
)  # fmt: skip
_ADDRESS_NAMES = frozenset(_ADDRESSES)
_PORTS = {"http": 80, "https": 443}


def request_attributes(parameters: Iterable[Mapping[str, Any]], model: str | None) -> tuple[Attributes, Attributes]:
    """Returns the settings of a model call under OpenTelemetry's names, and those that only OpenInference has: all of
    them in one, under the provider's names. The first of several mappings that names a setting counts."""
    attributes: Attributes = {}
    settings: dict[str, Any] = {"model": model} if model else {}
    for mapping in parameters:
        _read(mapping, attributes, settings)
    return attributes, {semconv.OI_PARAMETERS: settings} if attributes else {}


def _read(fields: Mapping[str, Any], attributes: Attributes, settings: dict[str, Any], depth: int = 0) -> None:
    """By the fields' names, not by ours: a request has few settings, and there are many names for them."""
    nested = []
    for name, value in fields.items():
        if value is None:
            continue
        attribute = _ATTRIBUTES.get(name)
        if attribute is not None:
            if attribute not in attributes and (read := _value(attribute, value)) is not None:
                attributes[attribute] = read
                is_plain = isinstance(value, (str, int, float))  # others, e.g. Decimal, are no JSON
                settings[name] = list(read) if isinstance(read, tuple) else value if is_plain else read
        elif name in _WORDS and isinstance(value, (str, bool, int)):
            settings.setdefault(name, value)
        elif name in _NESTED and isinstance(value, Mapping):
            nested.append(value)
    for mapping in nested if depth < 2 else ():
        _read(mapping, attributes, settings, depth + 1)


def _value(attribute: str, value: Any) -> float | int | tuple[str, ...] | None:
    if attribute == semconv.REQUEST_STOP:
        return _texts(value) or None
    read = number(value)
    return int(read) if read is not None and attribute in _WHOLE else read


def _texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,) if value else ()
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, (list, tuple)) else ()


def server_attributes(places: Iterable[Mapping[str, Any]]) -> Attributes:
    """Returns the address and the port of the server that is named in the first of these settings that names one."""
    for fields in places:
        for name in () if _ADDRESS_NAMES.isdisjoint(fields) else _ADDRESSES:
            if isinstance(address := fields.get(name), str) and address and (server := _server(address)):
                return dict(server)
    return {}


@functools.lru_cache(maxsize=256)
def _server(address: str) -> tuple[tuple[str, Any], ...]:
    """Host and port alone: a URL may hold a user and a password, and its path a key."""
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        host, port = parts.hostname, parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return ()
    if not host:
        return ()
    return ((semconv.SERVER_ADDRESS, host), *(((semconv.SERVER_PORT, port),) if port else ()))


_PROVIDERS = {
    "azure": "azure.ai.openai", "azure_openai": "azure.ai.openai", "azure_ai": "azure.ai.inference",
    "azure_inference": "azure.ai.inference", "amazon_bedrock": "aws.bedrock", "bedrock": "aws.bedrock",
    "bedrock_converse": "aws.bedrock", "gemini": "gcp.gemini", "google_genai": "gcp.gemini",
    "google_vertexai": "gcp.vertex_ai", "vertex": "gcp.vertex_ai", "mistral": "mistral_ai", "mistralai": "mistral_ai",
    "ibm": "ibm.watsonx.ai", "xai": "x_ai",
}  # fmt: skip
"""OpenTelemetry's names for the providers that a framework calls otherwise."""
_OPENINFERENCE: dict[str, tuple[str, str | None]] = {
    "openai": ("openai", "openai"), "azure.ai.openai": ("azure", "openai"), "azure.ai.inference": ("azure", None),
    "anthropic": ("anthropic", "anthropic"), "cohere": ("cohere", "cohere"), "mistral_ai": ("mistralai", "mistralai"),
    "aws.bedrock": ("aws", None), "gcp.gemini": ("google", None), "gcp.vertex_ai": ("google", "vertexai"),
    "ibm.watsonx.ai": ("ibm", None), "x_ai": ("xai", None),
}  # fmt: skip
"""OpenInference's provider and system by OpenTelemetry's name; every other provider has one name in both."""


def provider_name(name: str) -> str:
    """Returns OpenTelemetry's name of a provider, which may be the framework's own."""
    return _PROVIDERS.get(name, name)


def provider_attributes(provider: object) -> Attributes:
    """Returns the attribute of a model's provider, given by any framework's name or OpenTelemetry's."""
    return {semconv.PROVIDER: provider_name(provider)} if isinstance(provider, str) and provider else {}


def openinference_provider(name: str | None) -> Attributes:
    """Returns OpenInference's attributes of a provider, given by OpenTelemetry's name."""
    provider, system = _OPENINFERENCE.get(name or "", (name, None))
    names = {semconv.OI_PROVIDER: provider, semconv.OI_SYSTEM: system}
    return {key: value for key, value in names.items() if value}
