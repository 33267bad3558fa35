"""Reads the settings of a model call, and its server, by name. Other fields hold credentials."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from ragtrace import semconv
from ragtrace.tracing.adapters import number
from ragtrace.tracing.content import Attributes

_NUMBERS: Mapping[str, tuple[str, ...]] = {
    semconv.REQUEST_TEMPERATURE: ("temperature",),
    semconv.REQUEST_TOP_P: ("top_p", "topP", "p"),
    semconv.REQUEST_TOP_K: ("top_k", "topK", "k"),
    semconv.REQUEST_FREQUENCY_PENALTY: ("frequency_penalty", "frequencyPenalty"),
    semconv.REQUEST_PRESENCE_PENALTY: ("presence_penalty", "presencePenalty"),
    semconv.REQUEST_MAX_TOKENS: (
        "max_tokens",
        "max_completion_tokens",
        "max_output_tokens",
        "max_tokens_to_sample",
        "max_new_tokens",
        "maxTokens",
        "num_predict",
    ),
    semconv.REQUEST_SEED: ("seed", "random_seed"),
    semconv.REQUEST_CHOICES: ("n", "candidate_count", "num_generations", "num_completions"),
}
"""Names of a number in all providers' requests, by OpenTelemetry's attribute."""
_STOP = ("stop", "stop_sequences", "stopSequences", "stop_words")
_WORDS = (
    "tool_choice",
    "parallel_tool_calls",
    "reasoning_effort",
    "service_tier",
    "stream",
    "logprobs",
    "top_logprobs",
)
"""Further settings of OpenInference's list, for which OpenTelemetry has no name."""
_NESTED = ("model_kwargs", "additional_kwargs", "generate_kwargs", "generation_config", "inferenceConfig", "options")
"""Mappings that hold further settings."""
_WHOLE = frozenset({semconv.REQUEST_MAX_TOKENS, semconv.REQUEST_SEED, semconv.REQUEST_CHOICES})
_ADDRESSES = (
    "base_url",
    "api_base",
    "openai_api_base",
    "azure_endpoint",
    "anthropic_api_url",
    "groq_api_base",
    "endpoint_url",
    "endpoint",
    "inference_server_url",
    "server_url",
    "host",
)
_PORTS = {"http": 80, "https": 443}


def request_attributes(parameters: Iterable[Mapping[str, Any]], model: str | None, openinference: bool) -> Attributes:
    """Returns the settings of a model call under OpenTelemetry's names and, if wanted, as OpenInference's JSON, there
    under the provider's names. The first of several mappings that names a setting counts."""
    attributes: Attributes = {}
    settings: dict[str, Any] = {"model": model} if model else {}
    for fields in (place for mapping in parameters for place in _places(mapping)):
        for attribute, names in _NUMBERS.items():
            for name in names:
                if name in fields and attribute not in attributes and (value := number(fields[name])) is not None:
                    settings[name] = fields[name]
                    attributes[attribute] = int(value) if attribute in _WHOLE else value
        for name in _STOP:
            if semconv.REQUEST_STOP not in attributes and (words := _texts(fields.get(name))):
                settings[name], attributes[semconv.REQUEST_STOP] = list(words), words
        settings |= {name: fields[name] for name in _WORDS if isinstance(fields.get(name), (str, bool, int))}
    if openinference and attributes:
        attributes[semconv.OI_PARAMETERS] = json.dumps(settings)
    return attributes


def _places(parameters: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield parameters
    for name in _NESTED:
        if isinstance(inner := parameters.get(name), Mapping):
            yield inner


def _texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,) if value else ()
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, (list, tuple)) else ()


def server_attributes(places: Iterable[Mapping[str, Any]]) -> Attributes:
    """Returns the address and the port of the server that is named in the first of these settings that names one."""
    for fields in places:
        for name in _ADDRESSES:
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
