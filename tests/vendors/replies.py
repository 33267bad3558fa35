"""A model's answer, and the same answer in the format of each vendor: whole, and as the events of a stream."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Call:
    name: str
    arguments: Json
    id: str = "call_1"


@dataclass(frozen=True)
class Usage:
    """Tokens. `input` includes what was read from and written to the cache, `output` all that the model wrote."""

    input: int = 18
    output: int = 7
    cache_read: int = 0
    cache_write: int = 0
    audio_input: int = 0
    audio_output: int = 0


@dataclass(frozen=True)
class Reply:
    """An answer of a model, or an error with its HTTP status."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    reasoning: str = ""
    usage: Usage = field(default_factory=Usage)
    is_cut: bool = False
    """Whether the limit of tokens ended the answer."""
    breaks_after: int | None = None
    """Number of events of a stream after which the connection breaks."""
    status: int = 200
    model: str = "model-2026-01-01"
    id: str = "reply-1"

    def pieces(self) -> list[str]:
        """The text, word by word."""
        words = self.text.split(" ")
        return [word if i == 0 else f" {word}" for i, word in enumerate(words)] if self.text else []


def _openai_usage(usage: Usage) -> Json:
    predicted = {"accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0}
    said = {"reasoning_tokens": 0, "audio_tokens": usage.audio_output, **predicted}
    return {
        "prompt_tokens": usage.input, "completion_tokens": usage.output, "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read, "audio_tokens": usage.audio_input},
        "completion_tokens_details": said,
    }  # fmt: skip


def _openai_reason(reply: Reply) -> str:
    return "length" if reply.is_cut else "tool_calls" if reply.calls else "stop"


def _openai_call(call: Call) -> Json:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": json.dumps(call.arguments)}}


def openai_chat(reply: Reply) -> Json:
    """The body of `POST /v1/chat/completions`."""
    message: Json = {"role": "assistant", "content": reply.text or None, "refusal": None, "annotations": []}
    if reply.calls:
        message["tool_calls"] = [_openai_call(call) for call in reply.calls]
    return {
        "id": reply.id, "object": "chat.completion", "created": 1767225600, "model": reply.model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": _openai_reason(reply)}],
        "usage": _openai_usage(reply.usage), "service_tier": "default", "system_fingerprint": "fp_1",
    }  # fmt: skip


def openai_chat_stream(reply: Reply, request: Json) -> Iterator[tuple[None, Json | str]]:
    """The events of a streamed chat completion; the usage comes only where the request asks for it."""
    deltas: list[Json] = [{"role": "assistant", "content": "", "refusal": None}]
    deltas += [{"content": piece} for piece in reply.pieces()]
    for index, call in enumerate(reply.calls):
        whole = _openai_call(call)
        arguments = whole["function"].pop("arguments")
        deltas.append({"tool_calls": [{"index": index, **whole, "function": {"name": call.name, "arguments": ""}}]})
        half = len(arguments) // 2
        for part in (arguments[:half], arguments[half:]):
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
    base = {"id": reply.id, "object": "chat.completion.chunk", "created": 1767225600, "model": reply.model}
    for delta in deltas:
        yield None, {**base, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}]}
    reason = _openai_reason(reply)
    yield None, {**base, "choices": [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": reason}]}
    if (request.get("stream_options") or {}).get("include_usage"):
        yield None, {**base, "choices": [], "usage": _openai_usage(reply.usage)}
    yield None, "[DONE]"


def openai_response(reply: Reply) -> Json:
    """The body of `POST /v1/responses`."""
    usage = reply.usage
    return {
        "id": reply.id, "object": "response", "created_at": 1767225600,
        "status": "incomplete" if reply.is_cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if reply.is_cut else None, "error": None,
        "instructions": None, "metadata": {}, "model": reply.model, "output": _response_items(reply),
        "parallel_tool_calls": True, "temperature": 1.0, "tool_choice": "auto", "tools": [], "top_p": 1.0,
        "usage": {
            "input_tokens": usage.input, "input_tokens_details": {"cached_tokens": usage.cache_read},
            "output_tokens": usage.output, "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage.input + usage.output,
        },
    }  # fmt: skip


def _response_items(reply: Reply) -> list[Json]:
    items: list[Json] = []
    if reply.reasoning:
        summary = [{"type": "summary_text", "text": reply.reasoning}]
        items.append({"id": "rs_1", "type": "reasoning", "summary": summary})
    if reply.text:
        content = [{"type": "output_text", "text": reply.text, "annotations": []}]
        items.append({"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": content})
    for call in reply.calls:
        function = {"call_id": call.id, "name": call.name, "arguments": json.dumps(call.arguments)}
        items.append({"id": f"fc_{call.id}", "type": "function_call", "status": "completed", **function})
    return items


def openai_response_stream(reply: Reply, _: Json) -> Iterator[tuple[str, Json]]:
    whole = openai_response(reply)
    events: list[Json] = [
        {"type": "response.created", "response": {**whole, "status": "in_progress", "output": [], "usage": None}}
    ]
    for index, item in enumerate(whole["output"]):
        empty = {"content": []} if item["type"] == "message" else {"summary": []} if "summary" in item else {}
        if item["type"] == "function_call":
            empty = {"arguments": ""}
        events.append({"type": "response.output_item.added", "output_index": index, "item": {**item, **empty}})
        events += _response_deltas(reply, item, {"output_index": index, "item_id": item["id"]})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": "response.incomplete" if reply.is_cut else "response.completed", "response": whole})
    for number, event in enumerate(events):
        yield event["type"], {"sequence_number": number, **event}


def _response_deltas(reply: Reply, item: Json, place: Json) -> list[Json]:
    if item["type"] == "message":
        part = {"type": "output_text", "text": "", "annotations": []}
        full = {**part, "text": reply.text}
        place = {**place, "content_index": 0}
        return [
            {"type": "response.content_part.added", **place, "part": part},
            *({"type": "response.output_text.delta", **place, "delta": p, "logprobs": []} for p in reply.pieces()),
            {"type": "response.output_text.done", **place, "text": reply.text, "logprobs": []},
            {"type": "response.content_part.done", **place, "part": full},
        ]
    if item["type"] == "reasoning":
        part = {"type": "summary_text", "text": ""}
        place = {**place, "summary_index": 0}
        return [
            {"type": "response.reasoning_summary_part.added", **place, "part": part},
            {"type": "response.reasoning_summary_text.delta", **place, "delta": reply.reasoning},
            {"type": "response.reasoning_summary_text.done", **place, "text": reply.reasoning},
            {"type": "response.reasoning_summary_part.done", **place, "part": {**part, "text": reply.reasoning}},
        ]
    arguments = item["arguments"]
    return [
        {"type": "response.function_call_arguments.delta", **place, "delta": arguments},
        {"type": "response.function_call_arguments.done", **place, "arguments": arguments, "name": item["name"]},
    ]


def _anthropic_usage(usage: Usage) -> Json:
    """Anthropic counts what the cache gave and took beside the input tokens, not among them."""
    return {
        "input_tokens": usage.input - usage.cache_read - usage.cache_write, "output_tokens": usage.output,
        "cache_creation_input_tokens": usage.cache_write, "cache_read_input_tokens": usage.cache_read,
        "service_tier": "standard",
    }  # fmt: skip


def _anthropic_blocks(reply: Reply) -> list[Json]:
    blocks: list[Json] = []
    if reply.reasoning:
        blocks.append({"type": "thinking", "thinking": reply.reasoning, "signature": "c2lnbmF0dXJl"})
    if reply.text:
        blocks.append({"type": "text", "text": reply.text, "citations": None})
    for call in reply.calls:
        blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments})
    return blocks


def _anthropic_reason(reply: Reply) -> str:
    return "max_tokens" if reply.is_cut else "tool_use" if reply.calls else "end_turn"


def anthropic_message(reply: Reply) -> Json:
    """The body of `POST /v1/messages`."""
    return {
        "id": reply.id, "type": "message", "role": "assistant", "model": reply.model,
        "content": _anthropic_blocks(reply), "stop_reason": _anthropic_reason(reply), "stop_sequence": None,
        "usage": _anthropic_usage(reply.usage),
    }  # fmt: skip


def anthropic_stream(reply: Reply, _: Json) -> Iterator[tuple[str, Json]]:
    whole = anthropic_message(reply)
    start = {**whole, "content": [], "stop_reason": None, "usage": {**whole["usage"], "output_tokens": 1}}
    yield "message_start", {"type": "message_start", "message": start}
    yield "ping", {"type": "ping"}
    for index, block in enumerate(whole["content"]):
        empty = {"thinking": "", "signature": ""} if block["type"] == "thinking" else {"text": ""}
        if block["type"] == "tool_use":
            empty = {"input": {}}
        first = {**block, **empty}
        yield "content_block_start", {"type": "content_block_start", "index": index, "content_block": first}
        for delta in _anthropic_deltas(reply, block):
            yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", "index": index}
    delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield "message_delta", {"type": "message_delta", "delta": delta, "usage": whole["usage"]}
    yield "message_stop", {"type": "message_stop"}


def _anthropic_deltas(reply: Reply, block: Json) -> list[Json]:
    if block["type"] == "thinking":
        return [
            {"type": "thinking_delta", "thinking": block["thinking"]},
            {"type": "signature_delta", "signature": block["signature"]},
        ]
    if block["type"] == "text":
        return [{"type": "text_delta", "text": piece} for piece in reply.pieces()]
    text = json.dumps(block["input"])
    return [{"type": "input_json_delta", "partial_json": part} for part in (text[:5], text[5:])]


def _cohere_reason(reply: Reply, calls: str) -> str:
    return "MAX_TOKENS" if reply.is_cut else calls if reply.calls else "COMPLETE"


def _cohere_usage(usage: Usage) -> Json:
    """Cohere bills fewer tokens than the model read."""
    return {
        "billed_units": {"input_tokens": usage.input - 3, "output_tokens": usage.output},
        "tokens": {"input_tokens": usage.input, "output_tokens": usage.output},
        "cached_tokens": usage.cache_read,
    }


def cohere_chat(reply: Reply) -> Json:
    """The body of `POST /v1/chat`."""
    calls = [{"name": call.name, "parameters": call.arguments} for call in reply.calls]
    return {
        "response_id": reply.id, "generation_id": "generation-1", "text": reply.text,
        "chat_history": [{"role": "CHATBOT", "message": reply.text}],
        "finish_reason": _cohere_reason(reply, "COMPLETE"),
        "meta": {"api_version": {"version": "1"}, **_cohere_usage(reply.usage)}, "tool_calls": calls or None,
    }  # fmt: skip


def cohere_chat_stream(reply: Reply, _: Json) -> Iterator[Json]:
    whole = cohere_chat(reply)
    yield {"event_type": "stream-start", "generation_id": whole["generation_id"], "is_finished": False}
    for piece in reply.pieces():
        yield {"event_type": "text-generation", "text": piece, "is_finished": False}
    if reply.calls:
        yield {"event_type": "tool-calls-generation", "tool_calls": whole["tool_calls"], "is_finished": False}
    reason = whole["finish_reason"]
    yield {"event_type": "stream-end", "finish_reason": reason, "response": whole, "is_finished": True}


def cohere_chat_v2(reply: Reply) -> Json:
    """The body of `POST /v2/chat`."""
    message: Json = {"role": "assistant", "content": []}
    if reply.reasoning:
        message["content"].append({"type": "thinking", "thinking": reply.reasoning})
    if reply.text:
        message["content"].append({"type": "text", "text": reply.text})
    if reply.calls:
        message |= {"tool_calls": [_openai_call(call) for call in reply.calls], "tool_plan": "I will search."}
    reason = _cohere_reason(reply, "TOOL_CALL")
    return {"id": reply.id, "message": message, "finish_reason": reason, "usage": _cohere_usage(reply.usage)}


def cohere_chat_v2_stream(reply: Reply, _: Json) -> Iterator[tuple[str, Json]]:
    whole = cohere_chat_v2(reply)
    start = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
    events: list[Json] = [{"type": "message-start", "id": reply.id, "delta": {"message": start}}]
    for index, block in enumerate(whole["message"]["content"]):
        kind = block["type"]
        parts = reply.pieces() if kind == "text" else [reply.reasoning]
        first = {"message": {"content": {"type": kind, kind: ""}}}
        events.append({"type": "content-start", "index": index, "delta": first})
        for part in parts:
            delta = {"message": {"content": {kind: part}}}
            events.append({"type": "content-delta", "index": index, "delta": delta})
        events.append({"type": "content-end", "index": index})
    for index, call in enumerate(whole["message"].get("tool_calls", ())):
        name = {**call, "function": {"name": call["function"]["name"], "arguments": ""}}
        arguments = {"function": {"arguments": call["function"]["arguments"]}}
        for kind, delta in (("tool-call-start", name), ("tool-call-delta", arguments)):
            events.append({"type": kind, "index": index, "delta": {"message": {"tool_calls": delta}}})
        events.append({"type": "tool-call-end", "index": index})
    end = {"finish_reason": whole["finish_reason"], "usage": whole["usage"]}
    events.append({"type": "message-end", "delta": end})
    for event in events:
        yield event["type"], event


def error(path: str, status: int) -> Json:
    """An error in the format of the vendor whose path it is."""
    kind, message = ("rate_limit_error", "Too many requests.") if status == 429 else ("api_error", "It broke.")
    if path.endswith("/messages"):
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}
    if path.endswith("/chat"):
        return {"message": message}
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}
