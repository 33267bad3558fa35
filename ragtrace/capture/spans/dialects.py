"""The names that each tracing library writes on its spans. No other module holds such strings.

The names of OpenTelemetry's GenAI conventions and of OpenInference that ragtrace writes itself are in `semconv`."""

import re
from collections.abc import Mapping
from typing import Final

from ragtrace import semconv

# --- operations ----------------------------------------------------------------------------------
STEP: Final = "step"
"""A span of a framework's inside, e.g. of a prompt template. It is no request and no stage of one."""
TASK: Final = "task"
"""A step that is a request where nothing of the same library is above it."""


def _by_name(names: Mapping[str, str]) -> Mapping[str, str]:
    """Operations by the words for them, of which each operation has several between blanks."""
    return {word: operation for operation, words in names.items() for word in words.split()}


GEN_AI_OPERATIONS: Final = _by_name({
    semconv.OP_CHAT: "chat generate_content",
    semconv.OP_TEXT: "text_completion",
    semconv.OP_EMBEDDINGS: "embeddings embedding",  # the second is Spring AI's
    semconv.OP_RETRIEVAL: "retrieval vector_db_retrieve",  # the second is OpenLLMetry's, as `execute_task`
    semconv.OP_RERANK: "rerank", semconv.OP_TOOL: "execute_tool", semconv.OP_AGENT: "invoke_agent",
    semconv.OP_WORKFLOW: "invoke_workflow", TASK: "execute_task", semconv.OP_EVALUATION: "evaluation",
})  # fmt: skip
"""`gen_ai.operation.name`; others are steps."""
OPENINFERENCE_KINDS: Final = _by_name({
    semconv.OP_WORKFLOW: "CHAIN", semconv.OP_AGENT: "AGENT", semconv.OP_CHAT: "LLM", semconv.OP_RETRIEVAL: "RETRIEVER",
    semconv.OP_RERANK: "RERANKER", semconv.OP_EMBEDDINGS: "EMBEDDING", semconv.OP_TOOL: "TOOL",
    semconv.OP_EVALUATION: "EVALUATOR",
})  # fmt: skip
"""`openinference.span.kind`; others are steps."""
TRACELOOP_KINDS: Final = _by_name({
    semconv.OP_WORKFLOW: "workflow", TASK: "task", semconv.OP_AGENT: "agent", semconv.OP_TOOL: "tool",
})  # fmt: skip
"""`traceloop.span.kind`."""
TRACELOOP_REQUESTS: Final = _by_name({
    semconv.OP_CHAT: "chat", semconv.OP_TEXT: "completion", semconv.OP_RERANK: "rerank",
    semconv.OP_EMBEDDINGS: "embedding",
})  # fmt: skip
"""`llm.request.type` of OpenLLMetry's older releases."""
LANGFUSE_TYPES: Final = _by_name({
    semconv.OP_WORKFLOW: "span chain", semconv.OP_AGENT: "agent", semconv.OP_TOOL: "tool",
    semconv.OP_RETRIEVAL: "retriever", semconv.OP_CHAT: "generation", semconv.OP_EMBEDDINGS: "embedding",
    semconv.OP_EVALUATION: "evaluator",
})  # fmt: skip
"""`langfuse.observation.type`; others are steps."""
VERCEL_OPERATIONS: Final = _by_name({
    semconv.OP_WORKFLOW: "ai.generateText ai.streamText ai.generateObject ai.streamObject",
    semconv.OP_CHAT: "ai.generateText.doGenerate ai.streamText.doStream ai.generateObject.doGenerate "
    "ai.streamObject.doStream",
    semconv.OP_TOOL: "ai.toolCall", semconv.OP_EMBEDDINGS: "ai.embed.doEmbed ai.embedMany.doEmbed",
})  # fmt: skip
"""`ai.operationId` of Vercel's AI SDK; others are steps."""
MLFLOW_TYPES: Final = _by_name({
    semconv.OP_WORKFLOW: "CHAIN WORKFLOW", semconv.OP_AGENT: "AGENT", semconv.OP_CHAT: "LLM CHAT_MODEL",
    semconv.OP_RETRIEVAL: "RETRIEVER", semconv.OP_RERANK: "RERANKER", semconv.OP_EMBEDDINGS: "EMBEDDING",
    semconv.OP_TOOL: "TOOL", semconv.OP_EVALUATION: "EVALUATOR",
    TASK: "TASK UNKNOWN",  # unknown: a function that is traced without a type
})  # fmt: skip
"""`mlflow.spanType`, a text in JSON; others are steps."""
SPRING_KINDS: Final = _by_name({
    semconv.OP_WORKFLOW: "chat_client", semconv.OP_TOOL: "tool_call", semconv.OP_RETRIEVAL: "vector_store",
})  # fmt: skip
"""`spring.ai.kind`; others, e.g. advisors, are steps."""

# --- keys that say what a span is ----------------------------------------------------------------
TRACELOOP_KIND: Final = "traceloop.span.kind"
TRACELOOP_REQUEST: Final = "llm.request.type"
LANGFUSE_TYPE: Final = "langfuse.observation.type"
VERCEL_OPERATION: Final = "ai.operationId"
MLFLOW_TYPE: Final = "mlflow.spanType"
SPRING_KIND: Final = "spring.ai.kind"
OPERATIONS: Final = (
    (semconv.OI_KIND, OPENINFERENCE_KINDS), (LANGFUSE_TYPE, LANGFUSE_TYPES), (VERCEL_OPERATION, VERCEL_OPERATIONS),
    (MLFLOW_TYPE, MLFLOW_TYPES), (SPRING_KIND, SPRING_KINDS),
)  # fmt: skip
"""The keys whose values alone say what a span did, the first that is there."""

# --- OpenLLMetry ---------------------------------------------------------------------------------
TRACELOOP_INPUT: Final = "traceloop.entity.input"
TRACELOOP_OUTPUT: Final = "traceloop.entity.output"
TRACELOOP_NAME: Final = "traceloop.entity.name"
TRACELOOP_PROPERTY: Final = "traceloop.association.properties."
TRACELOOP_CHUNK: Final = "gen_ai.content.completion.chunk"
"""An event for each piece of a streamed answer."""
LEGACY_PROMPT: Final = "gen_ai.prompt"
LEGACY_COMPLETION: Final = "gen_ai.completion"
"""Prefixes of `.<n>.role` and `.<n>.content` in older releases; by themselves, what OpenTelemetry's conventions of 2024
and Spring AI have: JSON of messages, or texts in quotation marks between brackets."""
LEGACY_EVENTS: Final = ("gen_ai.content.prompt", "gen_ai.content.completion")
"""Events that have these two as attributes."""

# --- Langfuse ------------------------------------------------------------------------------------
LANGFUSE_INPUT: Final = "langfuse.observation.input"
LANGFUSE_OUTPUT: Final = "langfuse.observation.output"
LANGFUSE_MODEL: Final = "langfuse.observation.model.name"
LANGFUSE_USAGE: Final = "langfuse.observation.usage_details"
LANGFUSE_FIRST_CHUNK: Final = "langfuse.observation.completion_start_time"
LANGFUSE_LEVEL: Final = "langfuse.observation.level"
LANGFUSE_METADATA: Final = "langfuse.observation.metadata."
LANGFUSE_TRACE_NAME: Final = "langfuse.trace.name"
LANGFUSE_TRACE_METADATA: Final = "langfuse.trace.metadata."
LANGFUSE_TAGS: Final = "langfuse.trace.tags"

# --- Vercel's AI SDK ----------------------------------------------------------------------------
VERCEL_INPUT: Final = "ai.prompt"
VERCEL_MESSAGES: Final = "ai.prompt.messages"
VERCEL_OUTPUTS: Final = ("ai.response.text", "ai.response.object")
VERCEL_TOOL_CALLS: Final = "ai.response.toolCalls"
VERCEL_TOOL: Final = "ai.toolCall.name"
VERCEL_ARGUMENTS: Final = "ai.toolCall.args"
VERCEL_RESULT: Final = "ai.toolCall.result"
VERCEL_FUNCTION: Final = "ai.telemetry.functionId"
VERCEL_FIRST_CHUNK: Final = "ai.response.msToFirstChunk"
VERCEL_METADATA: Final = "ai.telemetry.metadata."

# --- MLflow, whose values are JSON ---------------------------------------------------------------
MLFLOW_INPUT: Final = "mlflow.spanInputs"
MLFLOW_OUTPUT: Final = "mlflow.spanOutputs"
MLFLOW_USAGE: Final = "mlflow.chat.tokenUsage"
MLFLOW_MODEL: Final = "mlflow.llm.model"
MLFLOW_PROVIDER: Final = "mlflow.llm.provider"
MLFLOW_TOOL: Final = "name"
"""Of a tool of LlamaIndex, whose span has the name of its method."""
MLFLOW_CHUNKS: Final = ("mlflow.chunk.item.0", "new_token")
"""Events of the first piece of a streamed answer: of a model's client, and of LangChain."""
MLFLOW_TAG: Final = "mlflow.traceTag."

# --- Spring AI -----------------------------------------------------------------------------------
SPRING_INPUT: Final = "spring.ai.chat.client.user.text"
SPRING_SESSION: Final = "spring.ai.chat.client.conversation.id"
SPRING_NO_SESSION: Final = "default"
"""The id of every conversation whose application names none."""
SPRING_TOOL: Final = "spring.ai.tool.definition.name"
SPRING_ARGUMENTS: Final = "spring.ai.tool.call.arguments"
SPRING_RESULT: Final = "spring.ai.tool.call.result"
SPRING_QUERY: Final = "db.vector.query.content"
SPRING_DOCUMENTS: Final = "db.vector.query.response.documents"
SPRING_STORE_OPERATION: Final = "db.operation.name"
SPRING_WRITES: Final = ("add", "delete")
"""Of a vector store; its other operation is `query`."""

# --- OpenInference -------------------------------------------------------------------------------
OI_PARAMETERS: Final = "llm.invocation_parameters"
OI_FINISH_REASON: Final = "llm.finish_reason"
OI_FIRST_CHUNK: Final = "First Token Stream Event"

# --- OpenTelemetry -------------------------------------------------------------------------------
LEGACY_PROVIDER: Final = "gen_ai.system"
EXCEPTION: Final = "exception"
EXCEPTION_TYPE: Final = "exception.type"
ENDUSER: Final = "enduser.id"

# --- one fact under several names, the best first -------------------------------------------------
INPUT_TOKENS: Final = (semconv.INPUT_TOKENS, semconv.OI_TOKENS_PROMPT, "gen_ai.usage.prompt_tokens")
OUTPUT_TOKENS: Final = (semconv.OUTPUT_TOKENS, semconv.OI_TOKENS_COMPLETION, "gen_ai.usage.completion_tokens")
CACHE_READ: Final = (
    semconv.CACHE_READ_TOKENS, semconv.OI_TOKENS_CACHE_READ, "gen_ai.usage.cache_read_input_tokens",
)  # fmt: skip
CACHE_WRITE: Final = (
    semconv.CACHE_WRITE_TOKENS, semconv.OI_TOKENS_CACHE_WRITE, "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.cache_creation_input_tokens",
)  # fmt: skip
USAGE_CACHE_READ: Final = ("input_cached_tokens", "input_cache_read", "cache_read_input_tokens")
USAGE_CACHE_WRITE: Final = ("input_cache_creation", "cache_creation_input_tokens")
USAGE_INPUT: Final = ("input", "prompt_tokens", "input_tokens")
USAGE_OUTPUT: Final = ("output", "completion_tokens", "output_tokens")
"""Keys of Langfuse's usage."""
PROVIDERS: Final = (semconv.PROVIDER, LEGACY_PROVIDER, semconv.OI_PROVIDER, semconv.OI_SYSTEM)
SESSIONS: Final = (
    semconv.OI_SESSION, semconv.CONVERSATION_ID, f"{TRACELOOP_PROPERTY}session_id", f"{TRACELOOP_PROPERTY}thread_id",
    f"{TRACELOOP_PROPERTY}conversation_id", "langfuse.session.id", f"{VERCEL_METADATA}sessionId", SPRING_SESSION,
)  # fmt: skip
USERS: Final = (
    semconv.USER_ID, f"{TRACELOOP_PROPERTY}user_id", "langfuse.user.id", ENDUSER, f"{VERCEL_METADATA}userId",
)  # fmt: skip
FRAMEWORK_METADATA: Final = ("ls_", "langgraph_", "lc_", "__", "checkpoint_", "is_langchain_")
"""Beginnings of metadata keys that a framework writes."""
FRAMEWORK_TAGS: Final = ("seq:step", "map:key", "graph:step")

PROMPTS: Final = (
    semconv.SYSTEM_INSTRUCTIONS, semconv.INPUT_MESSAGES, LANGFUSE_INPUT, VERCEL_MESSAGES, MLFLOW_INPUT, LEGACY_PROMPT,
)  # fmt: skip
"""Attributes of a model call with what the model was shown."""
FLAT_PROMPTS: Final = (f"{semconv.OI_INPUT_MESSAGES}.", f"{LEGACY_PROMPT}.")
"""Beginnings of such attributes, one for each field of each message."""

# --- texts in JSON -------------------------------------------------------------------------------
QUESTION_KEYS: Final = (
    "inputs", "question", "query", "query_str", "user_msg", "input", "message", "user_input", "user_query",
    "str_or_query_bundle", "query_bundle", "prompt", "text",
)  # fmt: skip
ANSWER_KEYS: Final = (
    "outputs", "answer", "output", "result", "response", "output_text", "text", "content", "generation", "raw_output",
)  # fmt: skip
DOCUMENT_TEXTS: Final = ("page_content", "content", "text")
SCORES: Final = ("score", "relevance_score", "similarity_score", "_score", "similarity")
TOOL_REASONS: Final = ("tool_calls", "tool-calls", "tool_call", "tool_use", "function_call")
"""Finish reasons of a model call that only asks for tools."""
NO_TEXT: Final = re.compile(
    r'\w*Event\(|AgentOutput\(|AgentChatResponse\(|StreamingResponse\(|<[\w.]+ object|[{\[]["{]'
)
"""The beginning of what is no text: a Python object's repr, and JSON that was cut and cannot be read."""

# --- names of spans ------------------------------------------------------------------------------
PREFIXES: Final = re.compile(r"^(invoke_workflow|invoke_agent|execute_task|execute_tool|vector_db_retrieve|retrieval) ")
SUFFIXES: Final = re.compile(r"\.(workflow|task|agent|tool)$")
"""What libraries add to the name of a component."""
FRAGMENTS: Final = re.compile(r"(Parser|Prompt\w*Template|PromptTemplate|Splitter|Extractor|Passthrough)(\.\w+)?$")
"""Components that an application calls by themselves without anybody having asked: parsers, templates, indexing."""
RETRIEVERS: Final = re.compile(r"Retriever(\.\w+)?$")
RERANKERS: Final = re.compile(r"(Rerank\w*|Postprocessor)(\.\w+)?$")

# --- libraries -----------------------------------------------------------------------------------
OWN_SCOPE: Final = "ragtrace"
OWN_SCOPES: Final = frozenset({OWN_SCOPE, "ragtrace_langchain", "ragtrace_llama_index"})
LANGFUSE_SCOPE: Final = "langfuse-sdk"
PLAIN_SCOPES: Final = ("opentelemetry.instrumentation.", "opentelemetry.distro")
GENERATIVE_SCOPES: Final = re.compile(
    r"\.(genai|openai|langchain|llamaindex|anthropic|bedrock|cohere|google|gemini|vertexai|groq|mistral|ollama|together|"
    r"replicate|sagemaker|alephalpha|watsonx|transformers|haystack|crewai|agno|mcp|chromadb|pinecone|qdrant|weaviate|"
    r"milvus|lancedb|marqo|writer|voyageai)"
)
"""Libraries below `opentelemetry.instrumentation` whose spans may belong to a generative application."""
SCOPES: Final = {
    "openinference.instrumentation.langchain": ("langchain", 0),
    "opentelemetry.instrumentation.langchain": ("langchain", 1),
    "opentelemetry.instrumentation.genai.langchain": ("langchain", 2),
    "openinference.instrumentation.llama_index": ("llama_index", 0),
    "opentelemetry.instrumentation.llamaindex": ("llama_index", 1),
    "opentelemetry.instrumentation.genai.llama_index": ("llama_index", 2),
    "openinference.instrumentation.openai": ("openai", 0), "opentelemetry.instrumentation.openai.v1": ("openai", 1),
    "opentelemetry.instrumentation.openai.v0": ("openai", 1),
    "opentelemetry.instrumentation.genai.openai": ("openai", 2),
    "opentelemetry.instrumentation.openai_v2": ("openai", 3),
}  # fmt: skip
"""Framework and rank by instrumentation scope: of several libraries that trace one framework, the first is read."""
