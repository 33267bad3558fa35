"""Reads the messages of a model call in each dialect: what the user asked, and what the model answered."""

from collections.abc import Mapping
from typing import Any

from ragtrace import semconv
from ragtrace.capture.spans import dialects, texts

_MAX_MESSAGES = 1_000
_MAX_PARTS = 32


def _gen_ai_messages(attributes: Mapping[str, Any]) -> tuple[str | None, str | None]:
    written = attributes.get(semconv.OUTPUT_MESSAGES)
    return (
        texts.user_text(texts.as_list(attributes.get(semconv.INPUT_MESSAGES))),
        None if written is None else texts.assistant_text(texts.as_list(written)),
    )


def _openinference_messages(attributes: Mapping[str, Any]) -> tuple[str | None, str | None]:
    read = _flat_messages(attributes, semconv.OI_INPUT_MESSAGES, ".message")
    written = _flat_messages(attributes, semconv.OI_OUTPUT_MESSAGES, ".message")
    answer = texts.assistant_text(written) if written else None
    output = texts.plain(attributes.get(semconv.OI_OUTPUT))
    if answer is None and isinstance(output, str):
        answer = texts.answer_in(output)
    return texts.user_text(read), answer


def _legacy_messages(attributes: Mapping[str, Any]) -> tuple[str | None, str | None]:
    read = _flat_messages(attributes, dialects.LEGACY_PROMPT, "")
    written = _flat_messages(attributes, dialects.LEGACY_COMPLETION, "")
    return texts.user_text(read), texts.assistant_text(written) if written else None


def plain_messages(attributes: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """One attribute for all messages: JSON of messages, or their texts alone, of which the last is the user's."""
    prompt, completion = attributes.get(dialects.LEGACY_PROMPT), attributes.get(dialects.LEGACY_COMPLETION)
    query = texts.message_text(texts.plain(prompt), texts.USERS) or next(reversed(texts.quoted_texts(prompt)), None)
    answer = texts.message_text(texts.plain(completion), texts.ASSISTANTS)
    return query, answer if answer is not None else next(iter(texts.quoted_texts(completion)), None)


def prompt_of(attributes: Mapping[str, Any]) -> str:
    """All texts that a model was shown, line by line."""
    flat = dialects.FLAT_PROMPTS
    prompts = [v for k, v in attributes.items() if k in dialects.PROMPTS or (k.startswith(flat) and isinstance(v, str))]
    return "\n".join(texts.strings_in(prompts))


def _flat_messages(attributes: Mapping[str, Any], prefix: str, infix: str) -> list[dict[str, Any]]:
    """Messages with one attribute for each field. A part of a list of contents is a text of its own."""
    messages: list[dict[str, Any]] = []
    for i in range(_MAX_MESSAGES):
        base = f"{prefix}.{i}{infix}"
        role, content = attributes.get(f"{base}.role"), attributes.get(f"{base}.content")
        part = None if content is not None else _parts(attributes, base)
        has_calls = f"{base}.tool_calls.0.tool_call.function.name" in attributes
        if not has_calls and (role, content, part) == (None, None, None):
            break
        parts = texts.plain(content)  # OpenLLMetry writes several as JSON
        types = (
            {each.get("type") if isinstance(each, dict) else "" for each in parts} if isinstance(parts, list) else {""}
        )
        content = parts if types and types <= texts.TEXT_PARTS | texts.OTHER_PARTS else content
        messages.append({"role": role or "", "content": content if content is not None else part or ""})
    return messages


def _parts(attributes: Mapping[str, Any], base: str) -> str | None:
    """The texts of a message whose contents have an attribute each; None where it has none."""
    contents = (f"{base}.contents.{i}.message_content" for i in range(_MAX_PARTS))
    parts = (attributes.get(f"{each}.text") for each in contents if attributes.get(f"{each}.type", "text") == "text")
    return "".join(text for text in parts if isinstance(text, str)) or None


def _langfuse_messages(attributes: Mapping[str, Any]) -> tuple[str | None, str | None]:
    if dialects.LANGFUSE_TYPE not in attributes:
        return None, None
    written = attributes.get(dialects.LANGFUSE_OUTPUT)
    value = texts.plain(written)
    answer = value if isinstance(value, str) or value is None else texts.assistant_text(value)
    return texts.user_text(attributes.get(dialects.LANGFUSE_INPUT)), answer


def _vercel_messages(attributes: Mapping[str, Any]) -> tuple[str | None, str | None]:
    answer = texts.as_text(texts.first_value(attributes, dialects.VERCEL_OUTPUTS))
    if answer is None and dialects.VERCEL_TOOL_CALLS in attributes:
        answer = ""
    return texts.user_text(attributes.get(dialects.VERCEL_MESSAGES)), answer


def _mlflow_messages(attributes: Mapping[str, Any]) -> tuple[str | None, str | None]:
    if dialects.MLFLOW_TYPE not in attributes:
        return None, None
    read, written = (texts.from_json(attributes.get(key)) for key in (dialects.MLFLOW_INPUT, dialects.MLFLOW_OUTPUT))
    for key in ("choices", "generations"):  # OpenAI's reply, and LangChain's
        while isinstance(written, Mapping) and isinstance(written.get(key), list) and written[key]:
            written = written[key][0]
    while isinstance(written, list) and len(written) == 1:
        [written] = written
    if isinstance(written, Mapping) and isinstance(written.get("message"), Mapping):
        written = written["message"]
    is_message = isinstance(written, Mapping) and "role" in written  # one that only calls tools has no text
    return texts.user_text(read), texts.assistant_text(written) if is_message else texts.answer_in(written)


def mlflow_reply(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """The reply of a model's client, which LlamaIndex has in `raw`; empty for any other output."""
    written = texts.from_json(attributes.get(dialects.MLFLOW_OUTPUT))
    reply = (written.get("raw") or written) if isinstance(written, Mapping) else None
    return reply if isinstance(reply, Mapping) else {}


MESSAGE_READERS = (
    _gen_ai_messages, _openinference_messages, _langfuse_messages, _vercel_messages, _mlflow_messages,
    _legacy_messages, plain_messages,
)  # fmt: skip
"""What reads the messages of a model call in each dialect."""
