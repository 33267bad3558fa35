"""Says in OpenInference's names what a span says in OpenTelemetry's: Phoenix, for one, reads no others."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ragtrace import semconv
from ragtrace.capture.content import MAX_DOCUMENTS, Attributes, ContentPolicy, document_attributes, mime_type
from ragtrace.capture.parameters import openinference_provider
from ragtrace.capture.provider_replies import OI_COUNTS
from ragtrace.capture.request import MODEL_CALLS, SEARCHES, Run
from ragtrace.text.sanitizer import dumps

_MAX_FLAT = {semconv.OI_INPUT_MESSAGES: 56, semconv.OI_OUTPUT_MESSAGES: 24}
"""Flat attributes of a span's last messages at most: a span keeps 128. OpenTelemetry's JSON holds all messages."""
_MAX_TOOLS = 10
_MAX_VARIABLES = 10
_MAX_VARIABLE = 1_000
"""Characters of a prompt's variable: the context is in the messages, too, and there it is whole."""
_NAMES = {
    semconv.TOOL_NAME: semconv.OI_TOOL_NAME, semconv.TOOL_CALL_ID: semconv.OI_TOOL_ID,
    semconv.TOOL_DESCRIPTION: semconv.OI_TOOL_DESCRIPTION, semconv.CONVERSATION_ID: semconv.OI_SESSION,
    semconv.PROMPT_VERSION: semconv.OI_PROMPT_VERSION,
}  # fmt: skip
_MODEL = {semconv.OP_EMBEDDINGS: semconv.OI_EMBEDDING_MODEL, semconv.OP_RERANK: semconv.OI_RERANK_MODEL}


def openinference(capture: ContentPolicy, run: Run, standard: Mapping[str, Any], answer: str | None) -> Attributes:
    """The attributes of a run, whose OpenTelemetry ones are `standard`, in the order in which a limit drops them."""
    attributes: Attributes = {}
    rows = standard.get(semconv.RETRIEVAL_DOCUMENTS)
    if rows is not None:
        is_rerank = run.operation == semconv.OP_RERANK
        attributes.update(_documents(rows, semconv.OI_RERANK_OUT if is_rerank else semconv.OI_DOCUMENTS))
    if run.candidates is not None:
        candidates = document_attributes(capture, run.candidates)[semconv.RETRIEVAL_DOCUMENTS]
        attributes.update(_documents(candidates, semconv.OI_RERANK_IN))
    if capture.spans:
        attributes.update(_definitions(capture, run, standard))
    extra = {name: dumps(value) if isinstance(value, dict) else value for name, value in run.extra.items()}
    attributes.update(capture.sanitizer.attributes(extra))
    attributes.update(_named(capture, run, standard))
    if capture.spans:
        attributes.update(_content(capture, run, standard, answer))
    attributes[semconv.OI_KIND] = semconv.OI_KINDS[run.operation]
    return attributes


def _named(capture: ContentPolicy, run: Run, standard: Mapping[str, Any]) -> Attributes:
    """What has one value under another name: model, provider, tokens, tool, conversation, tags."""
    attributes = {name: standard[key] for key, name in _NAMES.items() if key in standard}
    model = standard.get(semconv.REQUEST_MODEL)
    if run.operation in MODEL_CALLS:
        # Backends know the price of the model that answered, but not that of a deployment's name.
        model = standard.get(semconv.RESPONSE_MODEL) or model
        attributes.update(openinference_provider(standard.get(semconv.PROVIDER)))
        attributes.update({name: standard[key] for key, name in OI_COUNTS.items() if key in standard})
        if run.finish_reason:
            attributes[semconv.OI_FINISH_REASON] = capture.text(run.finish_reason)
    if model and run.operation in {*MODEL_CALLS, *_MODEL}:
        attributes[_MODEL.get(run.operation, semconv.OI_MODEL)] = model
    request = run.request
    if request.tags:
        attributes[semconv.OI_TAGS] = tuple(capture.sanitizer.text(tag, 256) for tag in request.tags)
    if request.metadata and capture.spans:
        attributes[semconv.OI_METADATA] = capture.sanitizer.json(request.metadata)
    return attributes


def _definitions(capture: ContentPolicy, run: Run, standard: Mapping[str, Any]) -> Attributes:
    """The tools and the prompt's template of a model or an agent, and the arguments that a tool takes."""
    attributes: Attributes = {}
    for i, tool in enumerate(json.loads(standard.get(semconv.TOOL_DEFINITIONS, "[]"))[:_MAX_TOOLS]):
        schema = {"type": tool.pop("type"), "function": tool}
        attributes[f"{semconv.OI_TOOLS}.{i}.{semconv.OI_TOOL_SCHEMA}"] = _json(schema)
    if run.operation == semconv.OP_TOOL and run.tools and run.tools[0].parameters is not None:
        attributes[semconv.OI_TOOL_PARAMETERS] = capture.sanitizer.json(run.tools[0].parameters)
    if run.prompt is not None and run.prompt.template:
        attributes[semconv.OI_PROMPT_TEMPLATE] = capture.text(run.prompt.template)
    variables = list((run.prompt.variables or {}).items())[:_MAX_VARIABLES] if run.prompt is not None else ()
    if variables:
        texts = {capture.text(name): capture.sanitizer.text(value, _MAX_VARIABLE) for name, value in variables}
        attributes[semconv.OI_PROMPT_VARIABLES] = _json(texts)
    return attributes


def _content(capture: ContentPolicy, run: Run, standard: Mapping[str, Any], answer: str | None) -> Attributes:
    """What a span was asked and what it answered."""
    attributes: Attributes = {}
    prompt, reply = standard.get(semconv.INPUT_MESSAGES), standard.get(semconv.OUTPUT_MESSAGES)
    if run.operation in MODEL_CALLS:
        messages = [json.loads(texts) if texts else [] for texts in (prompt, reply)]
        attributes.update(_numbered(map(_message, messages[0]), semconv.OI_INPUT_MESSAGES))
        attributes.update(_numbered(map(_message, messages[1]), semconv.OI_OUTPUT_MESSAGES))
        is_text = len(messages[1]) == 1 and not any("tool_call" in part["type"] for part in messages[1][0]["parts"])
        question = run.query if run.parent is None else None
        return attributes | _in_and_out(capture, question, prompt, answer if is_text else None, reply)
    if run.operation == semconv.OP_EMBEDDINGS:
        return _embeddings(capture, run, standard)
    if run.operation == semconv.OP_RERANK and run.query:
        attributes[semconv.OI_RERANK_QUERY] = capture.text(run.query)
    rows = standard.get(semconv.RETRIEVAL_DOCUMENTS) if run.operation in SEARCHES else None
    if rows is not None:
        # A text is called `page_content`, as LangChain calls it: MLflow draws documents only under this name.
        items = [{"page_content" if key == "content" else key: row[key] for key in row} for row in json.loads(rows)]
        reply = _json(items)
    return attributes | _in_and_out(capture, run.query, None, answer if rows is None else None, reply)


def _in_and_out(
    capture: ContentPolicy, question: str | None, prompt: str | None, answer: str | None, reply: str | None
) -> Attributes:
    """Input and output of a span: each is a text, or the JSON of OpenTelemetry's attribute, which is redacted."""
    attributes: Attributes = {}
    sides = (
        (semconv.OI_INPUT, semconv.OI_INPUT_MIME, question, prompt),
        (semconv.OI_OUTPUT, semconv.OI_OUTPUT_MIME, answer, reply),
    )
    for key, mime, text, other in sides:
        if text is not None:
            attributes |= {key: capture.text(text), mime: mime_type(text)}
        elif other is not None:
            attributes |= {key: other, mime: semconv.MIME_JSON}
    return attributes


def _embeddings(capture: ContentPolicy, run: Run, standard: Mapping[str, Any]) -> Attributes:
    """The texts that were embedded, and how many vectors of which size they gave."""
    texts = run.embedded or ((run.query,) if run.query is not None else ())
    values = [capture.text(text) for text in texts[:MAX_DOCUMENTS]]
    attributes: Attributes = {
        f"{semconv.OI_EMBEDDINGS}.{i}.{semconv.OI_EMBEDDING_TEXT}": text for i, text in enumerate(values)
    }
    if not values:
        return {}
    if len(texts) == 1:
        attributes |= {semconv.OI_INPUT: values[0], semconv.OI_INPUT_MIME: semconv.MIME_TEXT}
    else:
        attributes |= {semconv.OI_INPUT: _json(values), semconv.OI_INPUT_MIME: semconv.MIME_JSON}
    if (size := standard.get(semconv.EMBEDDING_DIMENSIONS)) is not None:
        result = json.dumps({"vectors": len(texts), "dimensions": size})
        attributes |= {semconv.OI_OUTPUT: result, semconv.OI_OUTPUT_MIME: semconv.MIME_JSON}
    return attributes


def _documents(rows: str, prefix: str) -> Attributes:
    """Documents as one attribute for each value."""
    attributes: Attributes = {}
    for i, row in enumerate(json.loads(rows)[:MAX_DOCUMENTS]):
        for name, value in row.items():
            text = _json(value) if name == "metadata" else value
            attributes[f"{prefix}.{i}.document.{name}"] = text
    return attributes


def _numbered(messages: Iterable[Attributes], prefix: str) -> Attributes:
    """Numbers the flat attributes of the last messages, as many as a span has room for; of the last one, always."""
    flat = list(messages)
    room, first = _MAX_FLAT[prefix], len(flat)
    while first and (first == len(flat) or len(flat[first - 1]) <= room):
        first -= 1
        room -= len(flat[first])
    return {f"{prefix}.{i}.{key}": value for i, message in enumerate(flat[first:]) for key, value in message.items()}


def _message(message: Mapping[str, Any]) -> Attributes:
    attributes: Attributes = {semconv.OI_MESSAGE_ROLE: message["role"]}
    if "name" in message:
        attributes[semconv.OI_MESSAGE_NAME] = message["name"]
    return attributes | _parts(message["parts"])


def _parts(parts: Sequence[Mapping[str, Any]]) -> Attributes:
    """A text alone is the message's content; several contents, and contents that are no text, are a list."""
    attributes: Attributes = {}
    contents, calls = [], []
    for part in parts:
        kind = part["type"]
        if kind in ("tool_call", "server_tool_call"):
            arguments = part.get("server_tool_call", part).get("arguments")
            calls.append(
                {semconv.OI_TOOL_CALL_ID: part.get("id"), semconv.OI_TOOL_CALL_NAME: part["name"]}
                | {semconv.OI_TOOL_CALL_ARGUMENTS: _as_text(arguments)}
            )
        elif kind == "tool_call_response":
            attributes |= {semconv.OI_MESSAGE_TOOL_CALL_ID: part["id"]} if "id" in part else {}
            response = part["response"]
            is_parts = isinstance(response, list) and all(isinstance(one, dict) and "type" in one for one in response)
            attributes |= _parts(response) if is_parts else {semconv.OI_MESSAGE_CONTENT: _as_text(response)}
        elif kind != "server_tool_call_response":
            content = {semconv.OI_CONTENT_TYPE: kind, semconv.OI_CONTENT_TEXT: part.get("content")}
            contents.append(content if kind in ("text", "reasoning") else _media_content(part))
    if len(contents) == 1 and contents[0][semconv.OI_CONTENT_TYPE] == "text":
        attributes[semconv.OI_MESSAGE_CONTENT] = contents[0][semconv.OI_CONTENT_TEXT]
        contents = []
    for prefix, items in ((semconv.OI_MESSAGE_CONTENTS, contents), (semconv.OI_MESSAGE_TOOL_CALLS, calls)):
        for i, item in enumerate(items):
            attributes.update({f"{prefix}.{i}.{key}": value for key, value in item.items() if value or value == ""})
    return attributes


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _media_content(part: Mapping[str, Any]) -> Attributes:
    modality, uri = part["modality"], part.get("uri")
    if part["type"] == "blob" and part["content"]:
        uri = f"data:{part.get('mime_type') or 'application/octet-stream'};base64,{part['content']}"
    values = {"url": uri}
    if modality == "audio":
        values |= {"mime_type": part.get("mime_type"), "transcript": part.get("transcript")}
    elif modality == "document":
        values |= {"mime_type": part.get("mime_type"), "name": part.get("name"), "id": part.get("file_id")}
    place = f"{semconv.OI_CONTENT_PREFIX}.{modality}.{modality}"
    flat = {f"{place}.{key}": value for key, value in values.items() if value}
    return {semconv.OI_CONTENT_TYPE: modality, **flat}
