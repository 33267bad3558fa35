"""Reads the content of a message as vendors' APIs and LangChain write it: a text, or a list of texts and mappings.

The shapes are those of OpenAI (chat and Responses), Anthropic, Bedrock Converse, Gemini, Cohere, and LangChain's own
standard blocks. A block of an unknown shape is left out, except for its text."""

import base64
import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from ragtrace.capture.model_messages import (
    MediaPart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolDefinition,
    ToolResultPart,
    media_part,
    modality_of,
    part_text,
    text_or_none,
)
from ragtrace.text.sanitizer import sendable

Block = Mapping[str, Any]


def parts_of(content: object) -> list[Part]:
    """Returns the parts of a message's content. Never raises for an odd shape."""
    if isinstance(content, str):
        return [TextPart(content)] if content else []
    if isinstance(content, Mapping):
        content = [content]
    if not isinstance(content, (list, tuple)):
        return []
    parts: list[Part] = []
    for block in content:
        if isinstance(block, str):
            parts.extend([TextPart(block)] if block else [])
        elif isinstance(block, Mapping):
            with contextlib.suppress(Exception):  # an application's mapping: it must not hide its neighbours
                parts.extend(_block(block))
    return parts


def text_or_parts(content: object) -> str | list[Part]:
    """Returns the content as one text where it is no more than that, else its parts."""
    if isinstance(content, str):
        return content
    parts = parts_of(content)
    if all(isinstance(part, TextPart) for part in parts) and len(parts) < 2:
        return "".join(part.text for part in parts if isinstance(part, TextPart))
    return parts


def _block(block: Block) -> list[Part]:
    kind = block.get("type")
    if not isinstance(kind, str):
        # Bedrock Converse and Gemini name a block by its only key.
        kind = next((key for key in block if key in _READERS), "text")
    reader = _READERS.get(kind)
    part = reader(block) if reader is not None else _unknown(block)
    return [part] if part is not None else []


def _unknown(block: Block) -> Part | None:
    kind = str(block.get("type"))
    if kind.endswith("_tool_result"):  # Anthropic's web search and code execution
        return ToolResultPart(block.get("content"), text_or_none(block.get("tool_use_id")), "server")
    if kind.endswith("_call") and isinstance(block.get("id"), str):  # OpenAI's own tools: `web_search_call`
        fields = {key: value for key, value in block.items() if key not in {"type", "id", "status"}}
        return ToolCallPart(kind.removesuffix("_call"), fields, block["id"], "server")
    return _text(block)


def _text(block: Block) -> Part | None:
    text = block.get("text", block.get("content", block.get("refusal")))
    text = "\n".join(map(part_text, parts_of(text))) if isinstance(text, (list, tuple)) else text  # a search result's
    return TextPart(text) if isinstance(text, str) and text else None


def _reasoning(block: Block) -> Part:
    """Anthropic's `thinking`, OpenAI's `reasoning` with its summary, LangChain's `reasoning`, Bedrock's."""
    inner = block.get("reasoning_content", block.get("reasoningContent", block))
    inner = inner if isinstance(inner, Mapping) else {"text": inner}
    inner = inner.get("reasoningText", inner)
    text = inner.get("thinking") or inner.get("reasoning") or inner.get("text")
    if not isinstance(text, str):
        summary = inner.get("summary") or inner.get("content") or ()
        text = "".join(str(s.get("text") or "") for s in summary if isinstance(s, Mapping))
    return ReasoningPart(text)


def reasoning_beside(extra: Mapping[str, Any], *names: str) -> list[Part]:
    """Returns the reasoning that integrations pass beside the content, under the first of these names that has some."""
    for value in map(extra.get, names):
        if isinstance(value, str) and value:
            return [ReasoningPart(value)]
        if isinstance(value, Mapping) and value:
            return parts_of({"type": "reasoning", **value})
    return []


def _image(block: Block) -> Part | None:
    """OpenAI's `image_url` and `input_image`, Anthropic's `image` with a source, LangChain's, Bedrock's."""
    place = block.get("image_url", block.get("image"))
    if isinstance(place, Mapping):
        place = place.get("url") or _source(place, "image")
    if isinstance(place, MediaPart):
        return place
    if place is not None:
        return media_part("image", place, block.get("mime_type"))
    return _source(block, "image")


def _source(block: Block, modality: str) -> MediaPart | None:
    """A block with its data, its URL or its file's id in itself, or in `source`."""
    inner = block.get("source")
    source: Block = inner if isinstance(inner, Mapping) else block
    mime = block.get("mime_type") or source.get("media_type") or source.get("mime_type")
    if mime is None and isinstance(block.get("format"), str):
        mime = f"{'application' if modality == 'document' else modality}/{block['format']}"
    name = block.get("title") or block.get("filename") or block.get("name")
    data = source.get("base64") or source.get("data") or source.get("bytes") or source.get("file_data")
    if isinstance(data, bytes):
        data = base64.b64encode(data).decode()
    uri = source.get("url") or source.get("uri") or source.get("file_uri") or source.get("file_url")
    file_id = source.get("file_id") or (source.get("id") if not data and not uri else None)
    if isinstance(data, str) and not data.startswith("data:"):
        return MediaPart(modality, data=data, mime_type=text_or_none(mime), name=text_or_none(name))
    if not data and not uri and not file_id:
        return None
    return media_part(modality, uri or data, mime, name, file_id)


def _audio(block: Block) -> Part | None:
    """OpenAI's `input_audio`, the `audio` of its answers, and LangChain's."""
    inner = block.get("input_audio", block.get("audio"))
    inner = inner if isinstance(inner, Mapping) else block
    part = _source(inner, "audio")
    if part is None and not inner.get("transcript"):
        return None
    part = part or MediaPart("audio")
    return MediaPart(
        "audio", part.uri, part.data, part.file_id, part.mime_type, part.name, text_or_none(inner.get("transcript"))
    )


def _file(block: Block) -> Part | None:
    """A file of any type: OpenAI's `file` and `input_file`, Anthropic's `document`, Gemini's `media`."""
    inner = block.get("file", block.get("document"))
    inner = inner if isinstance(inner, Mapping) else block
    source = inner.get("source")
    if isinstance(source, Mapping) and source.get("type") == "text" and isinstance(source.get("data"), str):
        return TextPart(source["data"])
    mime = inner.get("mime_type") or inner.get("media_type")
    if isinstance(inner.get("text"), str):  # LangChain's `text-plain`
        return TextPart(inner["text"])
    return _source(inner, modality_of(mime))


def _call(block: Block) -> Part:
    """Anthropic's `tool_use`, OpenAI's and Gemini's `function_call`, LangChain's `tool_call`, Bedrock's `toolUse`."""
    inner = _inner(block, "toolUse", "functionCall", "function_call")
    arguments = next((inner[key] for key in ("input", "args", "arguments") if inner.get(key) is not None), None)
    identity = inner.get("call_id") or inner.get("id") or inner.get("toolUseId") or inner.get("tool_use_id")
    identity = identity or (None if inner is block else inner.get("name"))  # Gemini's calls have no id
    kind = "server" if str(block.get("type")).startswith("server_") else "tool"
    return ToolCallPart(
        str(inner.get("name") or ""), arguments, text_or_none(identity), kind, text_or_none(inner.get("error"))
    )


def _result(block: Block) -> Part:
    """Anthropic's `tool_result`, OpenAI's `function_call_output`, Bedrock's `toolResult`, Gemini's own."""
    inner = _inner(block, "toolResult", "functionResponse", "function_response")
    content = next((inner[key] for key in ("content", "output", "response") if inner.get(key) is not None), "")
    names = ("tool_use_id", "call_id", "toolUseId", "tool_call_id", "id", "name")
    identity = next((inner[key] for key in names if isinstance(inner.get(key), str)), None)
    kind = "server" if str(block.get("type")).startswith("server_") else "tool"
    return ToolResultPart(result_content(content), identity, kind)


def _inner(block: Block, *keys: str) -> Block:
    return next((block[key] for key in keys if isinstance(block.get(key), Mapping)), block)


def result_content(content: object) -> object:
    """Returns a tool's result as text, as parts, or as it is."""
    if isinstance(content, (list, tuple)) and content and all(isinstance(b, (str, Mapping)) for b in content):
        parts = text_or_parts(content)
        return parts or sendable(content)
    return content


_READERS: dict[str, Callable[[Block], Part | None]] = {
    "text": _text, "input_text": _text, "output_text": _text, "refusal": _text,
    "reasoning": _reasoning, "thinking": _reasoning, "redacted_thinking": _reasoning,
    "reasoning_content": _reasoning, "reasoningContent": _reasoning,
    "image": _image, "image_url": _image, "input_image": _image,
    "audio": _audio, "input_audio": _audio,
    "video": lambda block: _source(block.get("video", block), "video"),
    "file": _file, "input_file": _file, "document": _file, "media": _file, "text-plain": _file,
    "tool_use": _call, "tool_call": _call, "function_call": _call, "toolUse": _call, "functionCall": _call,
    "server_tool_use": _call, "server_tool_call": _call, "invalid_tool_call": _call,
    "tool_result": _result, "function_call_output": _result, "toolResult": _result, "functionResponse": _result,
    "function_response": _result, "server_tool_result": _result,
    # Pieces of a call while it is streamed, and marks without content.
    **dict.fromkeys(
        ("input_json_delta", "tool_call_chunk", "server_tool_call_chunk", "cachePoint", "cache_point"), lambda _: None
    ),
}  # fmt: skip


# --- tools ---------------------------------------------------------------------------------------


def tool_definitions(tools: object) -> list[ToolDefinition]:
    """Returns the tools of a request, in the shape of any vendor: OpenAI's `function`, Anthropic's `input_schema`,
    Bedrock's `toolSpec`, Gemini's `function_declarations`, and the tools that a provider runs itself."""
    definitions: list[ToolDefinition] = []
    for tool in tools if isinstance(tools, (list, tuple)) else ():
        with contextlib.suppress(Exception):  # as in `parts_of`
            declared = tool.get("function_declarations") if isinstance(tool, Mapping) else None
            for item in declared if isinstance(declared, (list, tuple)) else (tool,):
                if isinstance(item, Mapping) and (definition := _definition(item)) is not None:
                    definitions.append(definition)
    return definitions


def _definition(tool: Block) -> ToolDefinition | None:
    inner = next((tool[key] for key in ("function", "toolSpec") if isinstance(tool.get(key), Mapping)), tool)
    kind = tool.get("type")
    name = inner.get("name") or kind
    if not isinstance(name, str):
        return None
    schema = next((inner[key] for key in _SCHEMAS if isinstance(inner.get(key), Mapping)), None)
    if schema is not None and isinstance(schema.get("json"), Mapping):
        schema = schema["json"]
    own = kind if isinstance(kind, str) and schema is None and inner is tool else "function"
    return ToolDefinition(name, text_or_none(inner.get("description")), schema, own)


_SCHEMAS = ("parameters", "input_schema", "inputSchema", "parameter_definitions", "parametersJsonSchema")
