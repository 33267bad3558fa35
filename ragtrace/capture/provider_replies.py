"""Reads what a model's reply says of itself, in the shapes of all providers: its tokens and why it stopped.

A reply is a mapping or an object; frameworks pass it on as the provider's client built it, and some put it into another
one. Fields are read by name only, and nothing is ever called."""

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ragtrace import semconv
from ragtrace.capture.request import Run

Counts = dict[str, int]
"""Numbers of tokens by OpenTelemetry's attribute, and the total under OpenInference's."""

OI_COUNTS: Mapping[str, str] = {
    semconv.INPUT_TOKENS: semconv.OI_TOKENS_PROMPT, semconv.OUTPUT_TOKENS: semconv.OI_TOKENS_COMPLETION,
    semconv.CACHE_READ_TOKENS: semconv.OI_TOKENS_CACHE_READ,
    semconv.CACHE_WRITE_TOKENS: semconv.OI_TOKENS_CACHE_WRITE, semconv.REASONING_TOKENS: semconv.OI_TOKENS_REASONING,
    semconv.AUDIO_INPUT_TOKENS: semconv.OI_TOKENS_AUDIO_INPUT,
    semconv.AUDIO_OUTPUT_TOKENS: semconv.OI_TOKENS_AUDIO_OUTPUT,
}  # fmt: skip
"""OpenInference's names of numbers of tokens by OpenTelemetry's; all can be added up over several model calls."""
_NAMES: Mapping[str, str] = {
    # OpenAI; Gemini and Llama on Bedrock; Ollama; watsonx; metrics of Bedrock's streams; Titan on Bedrock
    semconv.INPUT_TOKENS: "prompt_tokens prompt_token_count promptTokenCount prompt_eval_count input_token_count "
    "inputTokenCount inputTextTokenCount",
    semconv.OUTPUT_TOKENS: "completion_tokens candidates_token_count candidatesTokenCount generation_token_count "
    "generated_token_count eval_count output_tokens outputTokens outputTokenCount tokenCount",
    semconv.OI_TOKENS_TOTAL: "total_tokens total_token_count totalTokenCount totalTokens",
    # Anthropic; Bedrock; Gemini; DeepSeek
    semconv.CACHE_READ_TOKENS: "cache_read_input_tokens cacheReadInputTokens cacheReadInputTokenCount "
    "cached_content_token_count cachedContentTokenCount prompt_cache_hit_tokens cached_tokens",
    # Anthropic; LangChain's older models of Bedrock; Bedrock
    semconv.CACHE_WRITE_TOKENS: "cache_creation_input_tokens cache_write_input_tokens cacheWriteInputTokens "
    "cacheWriteInputTokenCount",
    semconv.REASONING_TOKENS: "thoughts_token_count thoughtsTokenCount reasoning_tokens",
}
_WITHOUT_CACHE = ("input_tokens", "inputTokens")
"""Anthropic and Bedrock count cached tokens apart: the convention's number of input tokens holds them all."""
_APART_FROM_PROMPT = ("cache_read_input_tokens", "cache_creation_input_tokens", "cache_write_input_tokens")
"""Beside OpenAI's `prompt_tokens` and without OpenAI's details, these are Bedrock's numbers, which it counts apart."""
_GEMINI = ("thoughts_token_count", "thoughtsTokenCount", "candidates_token_count", "candidatesTokenCount")
"""Gemini counts its thoughts apart from the tokens of its candidates, of which it may have none; xAI does, too."""
_OF_TOOLS = ("tool_use_prompt_token_count", "toolUsePromptTokenCount")
_INPUT_DETAILS = {
    "cached_tokens": semconv.CACHE_READ_TOKENS, "cache_read": semconv.CACHE_READ_TOKENS,
    "cache_creation": semconv.CACHE_WRITE_TOKENS, "cache_write_tokens": semconv.CACHE_WRITE_TOKENS,
    "ephemeral_5m_input_tokens": semconv.CACHE_WRITE_TOKENS, "ephemeral_1h_input_tokens": semconv.CACHE_WRITE_TOKENS,
    "audio_tokens": semconv.AUDIO_INPUT_TOKENS, "audio": semconv.AUDIO_INPUT_TOKENS,
}  # fmt: skip
_OUTPUT_DETAILS = {
    "reasoning_tokens": semconv.REASONING_TOKENS, "reasoning": semconv.REASONING_TOKENS,
    "audio_tokens": semconv.AUDIO_OUTPUT_TOKENS, "audio": semconv.AUDIO_OUTPUT_TOKENS,
}  # fmt: skip
# OpenAI and Gemini, whose is a list by modality; OpenAI's Responses API; LangChain
_OF_INPUT = ("prompt_tokens_details", "promptTokensDetails", "input_tokens_details", "input_token_details")
_OF_OUTPUT = (
    "completion_tokens_details", "candidates_tokens_details", "candidatesTokensDetails", "output_tokens_details",
    "output_token_details",
)  # fmt: skip
_DETAILS: Mapping[str, Mapping[str, str]] = {
    **dict.fromkeys(_OF_INPUT, _INPUT_DETAILS), **dict.fromkeys(_OF_OUTPUT, _OUTPUT_DETAILS),
}  # fmt: skip
# `tokens` is of Cohere's `meta`, where what was billed is the second choice, and `token_count` of LangChain's model of
# Cohere. Streams end with `metadata` (Bedrock) or `response` (Cohere, OpenAI's Responses API).
_TOKEN_PLACES = (
    "usage", "usage_metadata", "usageMetadata", "token_usage", "tokens", "token_count", "billed_units", "meta",
    "metadata", "response", "_raw_response", "x_groq", "data", "message", "amazon-bedrock-invocationMetrics",
    "results",
)  # fmt: skip
_COUNTED = {name: kind for kind, names in _NAMES.items() for name in names.split()}
_FIELD_NAMES = frozenset((*_COUNTED, *_WITHOUT_CACHE, *_OF_TOOLS, *_DETAILS, *_TOKEN_PLACES))
_REASONS = ("finish_reason", "stop_reason", "stopReason", "finishReason", "done_reason", "completionReason")
_REASON_PLACES = (
    "choices", "candidates", "results", "generations", "outputs", "completions", "messageStop", "delta",
    "incomplete_details", "response", "_raw_response", "data", "finishReason",
)  # fmt: skip
_REASON_NAMES = frozenset((*_REASONS, *_REASON_PLACES, "status", "reason"))
_TOKEN_RANKS = {name: rank for rank, name in enumerate(_TOKEN_PLACES)}
_REASON_RANKS = {name: rank for rank, name in enumerate(_REASON_PLACES)}
_GEMINI_REASONS = ("", "STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "OTHER")
"""Google's older client turns its enumeration into numbers."""
_WITH_REASON = frozenset({"incomplete_details", "finishReason"})
"""Places whose `reason` says why the model stopped; elsewhere a field of that name belongs to the application."""
_MODALITY_NAMES = frozenset(("modality", "token_count", "tokenCount"))
_MAX_PARTS = 40
"""Parts of a reply that are looked at: an object that has a field of every name must not cost more."""


def token_counts(reply: Any) -> Counts:
    """Returns a reply's numbers of tokens, cached ones and reasoning included; {} where it says nothing of them."""
    counts: Counts = {}
    for _, fields in _parts(reply, _TOKEN_RANKS, _FIELD_NAMES):
        counts = {**_own_counts(fields), **counts}
        if semconv.INPUT_TOKENS in counts and semconv.OUTPUT_TOKENS in counts:
            # Not every provider gives a total, and some totals leave the cache out.
            both = counts[semconv.INPUT_TOKENS] + counts[semconv.OUTPUT_TOKENS]
            counts[semconv.OI_TOKENS_TOTAL] = max(both, counts.get(semconv.OI_TOKENS_TOTAL, 0))
            break
    return counts


def _parts(reply: Any, ranks: Mapping[str, int], names: frozenset[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The fields of a reply and of the parts that it holds at the places of `ranks`, with their places.

    The nearest parts come first, and those with the lower rank."""
    waiting: deque[tuple[str, Any]] = deque([("", reply)])
    for _ in range(_MAX_PARTS):
        if not waiting:
            return
        place, value = waiting.popleft()
        try:
            fields = _fields(value, names)
        except Exception:  # noqa: BLE001 an application's object: it has no counts, and hides no others
            continue
        if fields:
            yield place, fields
            present = sorted((name for name in fields if name in ranks), key=ranks.__getitem__)
            waiting.extend((name, below) for name in present if (below := _first(fields[name])) is not None)


def _own_counts(fields: Mapping[str, Any]) -> Counts:
    # Only the names that are present are looked at: a reply has few fields, and this module knows many names.
    numbers = {name: _number(fields[name]) for name in fields if name in _FIELD_NAMES}
    counts: Counts = {}
    for name in _COUNTED if len(numbers) > 1 else numbers:
        value = numbers.get(name)
        if value is not None and name in _COUNTED:
            counts.setdefault(_COUNTED[name], value)
    uncached = next((value for name in _WITHOUT_CACHE if (value := numbers.get(name)) is not None), None)
    if uncached is not None and semconv.INPUT_TOKENS not in counts:
        cached = counts.get(semconv.CACHE_READ_TOKENS, 0) + counts.get(semconv.CACHE_WRITE_TOKENS, 0)
        counts[semconv.INPUT_TOKENS] = uncached + cached
    for group in numbers:
        if group in _DETAILS and fields[group] is not None:
            _read_details(fields[group], _DETAILS[group], counts)
    _add_cached_tokens(fields, counts)
    _add_thoughts(numbers, counts)
    return counts


def _read_details(group: Any, kinds: Mapping[str, str], counts: Counts) -> None:
    details = _by_modality(group) or _fields(group, frozenset(kinds))
    sums: Counts = {}
    for name, kind in kinds.items():  # LangChain has Anthropic's writes by their duration, and 0 for the sum
        if (value := _number(details.get(name))) is not None:
            sums[kind] = sums.get(kind, 0) + value
    counts.update(sums)


def _add_cached_tokens(fields: Mapping[str, Any], counts: Counts) -> None:
    """Adds the cached tokens to the input's, where the reply's own numbers show that these do not hold them."""
    cached = counts.get(semconv.CACHE_READ_TOKENS, 0) + counts.get(semconv.CACHE_WRITE_TOKENS, 0)
    read = counts.get(semconv.INPUT_TOKENS)
    if not cached or read is None:
        return
    apart = "prompt_tokens" in fields and "prompt_tokens_details" not in fields
    apart = apart and any(name in fields for name in _APART_FROM_PROMPT)
    total = counts.get(semconv.OI_TOKENS_TOTAL)
    if apart or read < cached or total == read + counts.get(semconv.OUTPUT_TOKENS, 0) + cached:
        counts[semconv.INPUT_TOKENS] = read + cached


def _add_thoughts(numbers: Mapping[str, int | None], counts: Counts) -> None:
    """Adds the tokens of thoughts to the output's, and those of tools' results to the input's, where they are apart."""
    thoughts, output = counts.get(semconv.REASONING_TOKENS, 0), counts.get(semconv.OUTPUT_TOKENS, 0)
    of_tools = next((value for name in _OF_TOOLS if (value := numbers.get(name))), 0)
    if of_tools and semconv.INPUT_TOKENS in counts:
        counts[semconv.INPUT_TOKENS] += of_tools
    apart = counts.get(semconv.OI_TOKENS_TOTAL) == counts.get(semconv.INPUT_TOKENS, 0) + output + thoughts
    if thoughts and (apart or any(name in numbers for name in _GEMINI)):
        counts[semconv.OUTPUT_TOKENS] = output + thoughts


def _by_modality(details: Any) -> dict[str, Any]:
    """Gemini's details: a list of a modality and its tokens."""
    if not isinstance(details, (list, tuple)):
        return {}
    pairs = (_fields(item, _MODALITY_NAMES) for item in details)
    return {_word(pair.get("modality")).lower(): pair.get("token_count") or pair.get("tokenCount") for pair in pairs}


def write_counts(run: Run, counts: Counts) -> None:
    """Writes numbers of tokens into a run."""
    for name, value in counts.items():
        (run.attributes if name in OI_COUNTS else run.extra)[name] = value


def finish_reason(reply: Any) -> str | None:
    """Returns why the model stopped, in the provider's own word, or None. Of several answers the first counts."""
    completed = False
    for place, fields in _parts(reply, _REASON_RANKS, _REASON_NAMES):
        for name in ("reason",) if place in _WITH_REASON else _REASONS:
            word = _word(fields[name]) if name in fields else ""
            if word:
                return word
        # OpenAI's Responses API gives a reason only where the answer is not complete; LangChain drops what is null.
        is_response = "incomplete_details" in fields or fields.get("object") == "response"
        completed |= is_response and fields.get("status") == "completed"
    return "stop" if completed else None


def _word(value: Any) -> str:
    """A reason as text: a string, an enumeration's value or name, or Google's number."""
    if isinstance(value, bool) or value is None:
        return ""
    word = getattr(value, "value", value)
    if isinstance(word, str):
        return word
    name = getattr(value, "name", None)
    if isinstance(name, str):
        return name
    return _GEMINI_REASONS[word] if isinstance(word, int) and 0 <= word < len(_GEMINI_REASONS) else ""


def _fields(value: Any, names: frozenset[str]) -> Mapping[str, Any]:
    """The fields of a mapping or an object. Messages of protocol buffers have attributes only."""
    if isinstance(value, Mapping):
        return value if type(value) is dict else dict(value)  # one that cannot be read raises here, and nowhere else
    if value is None or isinstance(value, (str, bytes, int, float, list, tuple)):
        return {}
    own: dict[str, Any] = getattr(value, "__dict__", None) or {}
    extra = getattr(value, "__pydantic_extra__", None)
    fields = {**own, **extra} if isinstance(extra, dict) else own
    if not names.isdisjoint(fields):
        return fields
    return {name: item for name in names if (item := getattr(value, name, None)) is not None}


def _first(value: Any) -> Any:
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray, memoryview)):
        return value[0] if value else None
    return value


def _number(value: Any) -> int | None:
    """A number of tokens: Cohere sends 12.0, and the headers of Bedrock's replies are text."""
    if type(value) is int:
        return value if value >= 0 else None
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
        return None
    return int(value)
