"""Reads one span in whatever dialect it was written: what it did, what it was asked, what it answered."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from ragtrace import semconv
from ragtrace.capture.adapters import content_id
from ragtrace.capture.parameters import provider_name
from ragtrace.capture.request import MODEL_CALLS, SEARCHES
from ragtrace.capture.spans import dialects, texts
from ragtrace.capture.spans.message_dialects import MESSAGE_READERS, mlflow_reply, plain_messages
from ragtrace.capture.spans.span_record import SpanRecord
from ragtrace.records import Document
from ragtrace.text.sanitizer import dumps

_MAX_DOCUMENTS = 1_000


@dataclass(slots=True)
class SpanFacts:
    """What one span says, as far as its dialect carries it."""

    operation: str
    """One of `semconv.OP_*`, or `dialects.TASK` or `STEP`."""
    name: str
    query: str | None = None
    """Of a model call, the last thing that the user question."""
    answer: str | None = None
    documents: tuple[Document, ...] | None = None
    attributes: dict[str, Any] = field(default_factory=dict)
    """Model, provider, tokens and response id, under `semconv`'s names."""
    finish_reason: str | None = None
    first_chunk: int = 0
    """Unix nanoseconds."""
    error: str | None = None
    """Type name."""
    cancelled: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether a model call has neither tokens, an answer nor an error: a framework's preparation of a call."""
        return self.answer is None and self.error is None and semconv.OUTPUT_TOKENS not in self.attributes

    @property
    def asks_for_tools(self) -> bool:
        """Whether a model call only asks for tools."""
        return not self.answer and self.error is None and self.finish_reason in dialects.TOOL_REASONS


def operation_of(attributes: Mapping[str, Any], name: str) -> str | None:
    """What a span did; None for a span of no generative application. A few look-ups: it is asked of every span."""
    for key, operations in dialects.OPERATIONS:
        if key in attributes:
            writes = attributes.get(dialects.SPRING_STORE_OPERATION) in dialects.SPRING_WRITES
            if writes and key == dialects.SPRING_KIND:
                return dialects.STEP
            return operations.get(_word(attributes[key]).strip('"'), dialects.STEP)
    operation = dialects.GEN_AI_OPERATIONS.get(_word(attributes.get(semconv.OPERATION)))
    kind = dialects.TRACELOOP_KINDS.get(_word(attributes.get(dialects.TRACELOOP_KIND)))
    if kind is not None:
        return _of_traceloop(kind, operation, attributes, name)
    if operation is not None:
        return operation
    if semconv.OPERATION in attributes:
        return dialects.STEP
    return dialects.TRACELOOP_REQUESTS.get(_word(attributes.get(dialects.TRACELOOP_REQUEST)))


def _word(value: Any) -> str:
    """A value that should be a word; "" for any other, which may not even be a key of a dictionary."""
    return value if isinstance(value, str) else ""


def _of_traceloop(kind: str, operation: str | None, attributes: Mapping[str, Any], name: str) -> str:
    """OpenLLMetry writes the same kind on all parts of a framework, and calls every chain of LangChain an agent."""
    if operation not in (None, semconv.OP_AGENT, dialects.TASK):
        return operation
    component = str(attributes.get(dialects.TRACELOOP_NAME) or name)
    if kind == dialects.TASK and dialects.RETRIEVERS.search(component):
        return semconv.OP_RETRIEVAL
    if kind == dialects.TASK and dialects.RERANKERS.search(component):
        return semconv.OP_RERANK
    return kind


def facts_of(record: SpanRecord) -> SpanFacts | None:
    """The facts of a span; None for a span of no generative application."""
    attributes = record.attributes
    operation = operation_of(attributes, record.name)
    if operation is None:
        return None
    facts = SpanFacts(operation, _name(record))
    if operation in MODEL_CALLS:
        _read_model_call(facts, record)
    elif operation in SEARCHES:
        _read_retrieval(facts, attributes)
    elif operation == semconv.OP_TOOL:
        _read_tool(facts, attributes)
    elif operation == semconv.OP_EMBEDDINGS:
        _read_model(facts, record)
    else:
        _read_container(facts, attributes)
    _read_error(facts, record)
    return facts


def _read_tool(facts: SpanFacts, attributes: Mapping[str, Any]) -> None:
    names = (semconv.TOOL_NAME, semconv.OI_TOOL_NAME, dialects.VERCEL_TOOL, dialects.SPRING_TOOL)
    facts.name = str(texts.first_value(attributes, names) or facts.name)
    if dialects.MLFLOW_TYPE in attributes:
        facts.name = str(texts.from_json(attributes.get(dialects.MLFLOW_TOOL)) or facts.name)
    arguments = (semconv.TOOL_ARGUMENTS, dialects.VERCEL_ARGUMENTS, dialects.SPRING_ARGUMENTS)
    facts.query = _tool_text(texts.first_value(attributes, arguments))
    facts.query = facts.query or _tool_text(_input(attributes))
    facts.answer = _tool_result(attributes)
    if dialects.VERCEL_RESULT in attributes:  # this library has no retrievers: applications search with tools
        facts.documents = texts.documents_in(attributes[dialects.VERCEL_RESULT]) or None


def _input(attributes: Mapping[str, Any]) -> Any:
    names = (
        semconv.OI_INPUT, dialects.LANGFUSE_INPUT, dialects.TRACELOOP_INPUT, dialects.VERCEL_INPUT,
        dialects.SPRING_INPUT,
    )  # fmt: skip
    return texts.first_value(attributes, names) or texts.from_json(attributes.get(dialects.MLFLOW_INPUT))


def _output(attributes: Mapping[str, Any]) -> Any:
    names = (semconv.OI_OUTPUT, dialects.LANGFUSE_OUTPUT, dialects.TRACELOOP_OUTPUT, *dialects.VERCEL_OUTPUTS)
    return texts.first_value(attributes, names) or texts.from_json(attributes.get(dialects.MLFLOW_OUTPUT))


def _tool_text(value: Any) -> str | None:
    """A tool's arguments: as they are written, or out of the envelope of OpenLLMetry."""
    inner = texts.plain(value)
    if isinstance(inner, Mapping):
        inner = inner.get("inputs") or inner.get("input_str") or inner.get("kwargs") or inner
        return texts.as_text(inner if isinstance(inner, str) else dumps(inner))
    return texts.as_text(value)


def _tool_result(attributes: Mapping[str, Any]) -> str | None:
    result = texts.first_value(attributes, (semconv.TOOL_RESULT, dialects.VERCEL_RESULT, dialects.SPRING_RESULT))
    value = texts.plain(result)
    if result is None or (isinstance(value, Mapping) and set(value) <= {"output", "kwargs"}):  # OpenLLMetry's envelope
        return texts.as_text(texts.answer_in(_output(attributes) if result is None else value))
    return texts.as_text(result)


def _name(record: SpanRecord) -> str:
    """The component's name, without what libraries put around it."""
    attributes = record.attributes
    names = (
        semconv.WORKFLOW_NAME, dialects.TRACELOOP_NAME, semconv.AGENT_NAME, dialects.LANGFUSE_TRACE_NAME,
        dialects.VERCEL_FUNCTION,
    )  # fmt: skip
    name = texts.first_value(attributes, names)
    return dialects.SUFFIXES.sub("", dialects.PREFIXES.sub("", str(name or record.name)))


# --- parts of a request --------------------------------------------------------------------------


def _read_container(facts: SpanFacts, attributes: Mapping[str, Any]) -> None:
    facts.query = texts.question_in(_input(attributes))
    if facts.query is None and dialects.SPRING_KIND in attributes:
        facts.query = plain_messages(attributes)[0]
    if facts.query is None:
        # A stream of LangChain begins with an empty input, which OpenTelemetry's library writes as the question.
        question = texts.user_text(attributes.get(semconv.INPUT_MESSAGES))
        facts.query = texts.question_in(question) if question else None
    facts.answer = texts.answer_in(_output(attributes))
    if facts.answer is None and semconv.OUTPUT_MESSAGES in attributes:
        facts.answer = texts.assistant_text(attributes[semconv.OUTPUT_MESSAGES]) or None


def _read_retrieval(facts: SpanFacts, attributes: Mapping[str, Any]) -> None:
    query = texts.first_value(attributes, (semconv.RETRIEVAL_QUERY, semconv.OI_RERANK_QUERY, dialects.SPRING_QUERY))
    facts.query = query or texts.question_in(_input(attributes))
    prefix = semconv.OI_DOCUMENTS if facts.operation == semconv.OP_RETRIEVAL else semconv.OI_RERANK_OUT
    flat = _flat_documents(attributes, prefix)
    if not flat and semconv.RETRIEVAL_DOCUMENTS in attributes:
        flat = texts.documents_in(texts.as_list(attributes[semconv.RETRIEVAL_DOCUMENTS])) or ()
    if not flat and dialects.SPRING_DOCUMENTS in attributes:
        chunks = texts.quoted_texts(attributes[dialects.SPRING_DOCUMENTS])
        flat = tuple(Document(content_id(chunk), chunk) for chunk in chunks)
    if flat and f"{prefix}.0.document.id" in attributes:
        facts.documents = flat
    else:
        facts.documents = _with_ids(flat, texts.documents_in(_output(attributes)))


def _with_ids(documents: tuple[Document, ...], written: tuple[Document, ...] | None) -> tuple[Document, ...] | None:
    """The documents with the ids of the same ones in the span's output, where OpenInference has ids for LangChain."""
    if not documents or not written:
        return documents or written
    if [document.content for document in documents] != [document.content for document in written]:
        return documents
    return tuple(replace(one, id=other.id) for one, other in zip(documents, written, strict=True))


def _flat_documents(attributes: Mapping[str, Any], prefix: str) -> tuple[Document, ...]:
    """OpenInference's documents, one attribute for each field."""
    documents = []
    for i in range(_MAX_DOCUMENTS):
        base = f"{prefix}.{i}.document."
        item = {
            key: attributes[base + key] for key in ("id", "score", "content", "metadata") if base + key in attributes
        }
        if not item:
            break
        if (document := texts.document_of(item)) is not None:
            documents.append(document)
    return tuple(documents)


# --- model calls ---------------------------------------------------------------------------------


def _read_model_call(facts: SpanFacts, record: SpanRecord) -> None:
    attributes = _with_events(record)
    _read_model(facts, record)
    for read_messages in MESSAGE_READERS:
        query, answer = read_messages(attributes)
        facts.query = query if facts.query is None else facts.query
        facts.answer = answer if facts.answer is None else facts.answer
    reason = texts.first_value(
        attributes, (semconv.FINISH_REASONS, dialects.OI_FINISH_REASON, f"{dialects.LANGFUSE_METADATA}finish_reason")
    )
    if reason is None:
        choices = mlflow_reply(attributes).get("choices")
        first = choices[0] if isinstance(choices, list) and choices else None
        reason = first.get("finish_reason") if isinstance(first, Mapping) else None
    if isinstance(reason, (list, tuple)):
        reason = reason[0] if reason else None
    facts.finish_reason = None if reason is None else str(reason).strip('"')
    facts.first_chunk = _first_chunk(record)


def _with_events(record: SpanRecord) -> Mapping[str, Any]:
    """The attributes, with the messages that OpenTelemetry's conventions of 2024 have in events."""
    events = [event.attributes for event in record.events if event.name in dialects.LEGACY_EVENTS]
    return {**record.attributes, **{k: v for each in events for k, v in each.items()}} if events else record.attributes


def _read_model(facts: SpanFacts, record: SpanRecord) -> None:
    """Model, provider, tokens and response id."""
    attributes = record.attributes
    usage = texts.plain(texts.first_value(attributes, (dialects.LANGFUSE_USAGE, dialects.MLFLOW_USAGE))) or {}
    provider = texts.first_value(attributes, dialects.PROVIDERS) or _metadata_value(attributes, "ls_provider")
    provider = provider or texts.from_json(attributes.get(dialects.MLFLOW_PROVIDER))
    if provider is not None and dialects.VERCEL_OPERATION in attributes:
        provider = str(provider).partition(".")[0]  # `openai.chat`
    values = {
        semconv.REQUEST_MODEL: _request_model(attributes),
        semconv.PROVIDER: None if provider is None else provider_name(str(provider)),
        semconv.RESPONSE_ID: _response_id(attributes),
        semconv.INPUT_TOKENS: _count(attributes, dialects.INPUT_TOKENS, usage, dialects.USAGE_INPUT),
        semconv.OUTPUT_TOKENS: _count(attributes, dialects.OUTPUT_TOKENS, usage, dialects.USAGE_OUTPUT),
        semconv.CACHE_READ_TOKENS: _count(attributes, dialects.CACHE_READ, usage, dialects.USAGE_CACHE_READ),
        semconv.CACHE_WRITE_TOKENS: _count(attributes, dialects.CACHE_WRITE, usage, dialects.USAGE_CACHE_WRITE),
    }
    facts.attributes = {name: value for name, value in values.items() if value is not None}


def _request_model(attributes: Mapping[str, Any]) -> Any:
    """The model that was asked for. OpenInference and Langfuse name the model that answered, often a dated version."""
    if semconv.REQUEST_MODEL in attributes:
        return attributes[semconv.REQUEST_MODEL]
    parameters = texts.plain(attributes.get(dialects.OI_PARAMETERS))
    if isinstance(parameters, Mapping) and isinstance(parameters.get("model"), str):
        return parameters["model"]
    inputs = texts.from_json(attributes.get(dialects.MLFLOW_INPUT))
    model = inputs.get("model") if isinstance(inputs, Mapping) else _metadata_value(attributes, "ls_model_name")
    names = ("llm.request.model_name", semconv.OI_MODEL, dialects.LANGFUSE_MODEL, semconv.OI_EMBEDDING_MODEL)
    return model or texts.first_value(attributes, names) or texts.from_json(attributes.get(dialects.MLFLOW_MODEL))


def _metadata_value(attributes: Mapping[str, Any], key: str) -> Any:
    """A value that LangChain put into the metadata of a model call, as Langfuse writes it: as JSON."""
    value = attributes.get(f"{dialects.LANGFUSE_METADATA}{key}")
    return value.strip('"') if isinstance(value, str) else None


def _response_id(attributes: Mapping[str, Any]) -> Any:
    identity = attributes.get(semconv.RESPONSE_ID)
    if identity is None and semconv.OI_KIND in attributes:
        output = texts.plain(attributes.get(semconv.OI_OUTPUT))
        reply = output.get("llm_output", output) if isinstance(output, Mapping) else None  # LangChain's, OpenAI's own
        if isinstance(reply, Mapping) and (reply is not output or "choices" in reply):
            identity = reply.get("id")
    return mlflow_reply(attributes).get("id") if identity is None else identity


def _count(attributes: Mapping[str, Any], names: Iterable[str], usage: Any, keys: Iterable[str]) -> int | None:
    value = texts.first_value(attributes, names)
    if value is None and isinstance(usage, Mapping):
        value = texts.first_value(usage, keys)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _first_chunk(record: SpanRecord) -> int:
    """When the first piece of a streamed answer came, in Unix nanoseconds; 0 where the span does not say."""
    for name, nanoseconds in ((semconv.TIME_TO_FIRST_CHUNK, 1e9), (dialects.VERCEL_FIRST_CHUNK, 1e6)):
        waited = record.attributes.get(name)
        if isinstance(waited, (int, float)) and waited >= 0:
            return record.started + int(waited * nanoseconds)
    for event in record.events:
        if event.name in (dialects.OI_FIRST_CHUNK, dialects.TRACELOOP_CHUNK, *dialects.MLFLOW_CHUNKS):
            return event.time
    moment = record.attributes.get(dialects.LANGFUSE_FIRST_CHUNK)
    with suppress(ValueError):
        return int(datetime.fromisoformat(moment.strip('"')).timestamp() * 1e9) if isinstance(moment, str) else 0
    return 0


# --- errors --------------------------------------------------------------------------------------


def _read_error(facts: SpanFacts, record: SpanRecord) -> None:
    """The error's type name. A stream that its reader closed, and a cancelled task, are no errors."""
    if record.status != "ERROR" and record.attributes.get(dialects.LANGFUSE_LEVEL) != "ERROR":
        return
    raised = (
        event.attributes.get(dialects.EXCEPTION_TYPE) for event in record.events if event.name == dialects.EXCEPTION
    )
    kind = record.attributes.get(semconv.ERROR_TYPE) or next((name for name in raised if name), None) or "error"
    name = str(kind).rpartition(".")[2]
    if name in ("GeneratorExit", "CancelledError"):
        facts.cancelled = True
    else:
        facts.error = name
