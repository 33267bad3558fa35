"""Every attribute, event, metric and operation name that ragtrace writes. No other module holds such strings.

The `gen_ai.*` conventions are in status Development and live outside the core OpenTelemetry packages, so they
are plain strings here; a test compares them with what `opentelemetry-util-genai` emits.
"""

from typing import Final

# --- OpenTelemetry GenAI: operations -------------------------------------------------------------
OP_WORKFLOW: Final = "invoke_workflow"
OP_AGENT: Final = "invoke_agent"
OP_RETRIEVAL: Final = "retrieval"
OP_RERANK: Final = "rerank"  # custom value: no standard operation yet
OP_EMBEDDINGS: Final = "embeddings"
OP_CHAT: Final = "chat"
OP_TEXT: Final = "text_completion"
OP_TOOL: Final = "execute_tool"
OP_PROMPT: Final = "format_prompt"  # custom value, as the next one: a template or a parser outside of a chain
OP_PARSER: Final = "parse_output"
OP_INGESTION: Final = "ingestion"  # custom value: documents are prepared for an index
OP_EVALUATION: Final = "evaluation"  # custom value: proposed upstream

# --- OpenTelemetry GenAI: attributes -------------------------------------------------------------
GENAI_PREFIX: Final = "gen_ai."
OPERATION: Final = "gen_ai.operation.name"
WORKFLOW_NAME: Final = "gen_ai.workflow.name"
AGENT_NAME: Final = "gen_ai.agent.name"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
SYSTEM_INSTRUCTIONS: Final = "gen_ai.system_instructions"
TOOL_DEFINITIONS: Final = "gen_ai.tool.definitions"
PROMPT_VERSION: Final = "gen_ai.prompt.version"
RETRIEVAL_QUERY: Final = "gen_ai.retrieval.query.text"
RETRIEVAL_DOCUMENTS: Final = "gen_ai.retrieval.documents"
RETRIEVAL_TOP_K: Final = "gen_ai.retrieval.top_k"
DATA_SOURCE_ID: Final = "gen_ai.data_source.id"
PROVIDER: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_TEMPERATURE: Final = "gen_ai.request.temperature"
REQUEST_MAX_TOKENS: Final = "gen_ai.request.max_tokens"
REQUEST_TOP_P: Final = "gen_ai.request.top_p"
REQUEST_TOP_K: Final = "gen_ai.request.top_k"
REQUEST_STOP: Final = "gen_ai.request.stop_sequences"
REQUEST_SEED: Final = "gen_ai.request.seed"
REQUEST_FREQUENCY_PENALTY: Final = "gen_ai.request.frequency_penalty"
REQUEST_PRESENCE_PENALTY: Final = "gen_ai.request.presence_penalty"
REQUEST_CHOICES: Final = "gen_ai.request.choice.count"
REQUEST_STREAM: Final = "gen_ai.request.stream"
RESPONSE_MODEL: Final = "gen_ai.response.model"
RESPONSE_ID: Final = "gen_ai.response.id"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
TIME_TO_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS: Final = "gen_ai.usage.cache_write.input_tokens"
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
AUDIO_INPUT_TOKENS: Final = "gen_ai.usage.audio.input_tokens"
AUDIO_OUTPUT_TOKENS: Final = "gen_ai.usage.audio.output_tokens"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_DESCRIPTION: Final = "gen_ai.tool.description"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"
EMBEDDING_DIMENSIONS: Final = "gen_ai.embeddings.dimension.count"
CONVERSATION_ID: Final = "gen_ai.conversation.id"
USER_ID: Final = "user.id"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
ERROR_TYPE: Final = "error.type"

# --- OpenTelemetry GenAI: events -----------------------------------------------------------------
EVENT_INFERENCE: Final = "gen_ai.client.inference.operation.details"
EVENT_EVALUATION: Final = "gen_ai.evaluation.result"
EVALUATION_NAME: Final = "gen_ai.evaluation.name"
EVALUATION_SCORE_VALUE: Final = "gen_ai.evaluation.score.value"
EVALUATION_SCORE_LABEL: Final = "gen_ai.evaluation.score.label"
EVALUATION_EXPLANATION: Final = "gen_ai.evaluation.explanation"
EVALUATOR_ID: Final = "gen_ai.evaluation.evaluator.id"  # proposed upstream, as the next two
EVALUATOR_VERSION: Final = "gen_ai.evaluation.evaluator.version"
EVALUATOR_TYPE: Final = "gen_ai.evaluation.evaluator.type"
SCORE_PREFIX: Final = "gen_ai.evaluation"
"""Prefix of `<prefix>.<evaluator>.score|label|explanation` on the root span: our documented extension."""

# --- OpenInference -------------------------------------------------------------------------------
OI_KIND: Final = "openinference.span.kind"
OI_INPUT: Final = "input.value"
OI_INPUT_MIME: Final = "input.mime_type"
OI_OUTPUT: Final = "output.value"
OI_OUTPUT_MIME: Final = "output.mime_type"
OI_DOCUMENTS: Final = "retrieval.documents"
OI_RERANK_IN: Final = "reranker.input_documents"
OI_RERANK_OUT: Final = "reranker.output_documents"
OI_RERANK_QUERY: Final = "reranker.query"
OI_RERANK_MODEL: Final = "reranker.model_name"
OI_RERANK_TOP_K: Final = "reranker.top_k"
OI_INPUT_MESSAGES: Final = "llm.input_messages"
OI_OUTPUT_MESSAGES: Final = "llm.output_messages"
OI_MESSAGE_ROLE: Final = "message.role"  # the names of a message's fields follow its place
OI_MESSAGE_NAME: Final = "message.name"
OI_MESSAGE_CONTENT: Final = "message.content"
OI_MESSAGE_CONTENTS: Final = "message.contents"
OI_MESSAGE_TOOL_CALLS: Final = "message.tool_calls"
OI_MESSAGE_TOOL_CALL_ID: Final = "message.tool_call_id"
OI_TOOL_CALL_ID: Final = "tool_call.id"
OI_TOOL_CALL_NAME: Final = "tool_call.function.name"
OI_TOOL_CALL_ARGUMENTS: Final = "tool_call.function.arguments"
OI_CONTENT_PREFIX: Final = "message_content"  # followed by the modality and its fields
OI_CONTENT_TYPE: Final = "message_content.type"
OI_CONTENT_TEXT: Final = "message_content.text"
OI_FINISH_REASON: Final = "llm.finish_reason"
OI_PARAMETERS: Final = "llm.invocation_parameters"
OI_TOOLS: Final = "llm.tools"
OI_TOOL_SCHEMA: Final = "tool.json_schema"
OI_PROMPT_TEMPLATE: Final = "llm.prompt_template.template"
OI_PROMPT_VARIABLES: Final = "llm.prompt_template.variables"
OI_PROMPT_VERSION: Final = "llm.prompt_template.version"
OI_MODEL: Final = "llm.model_name"
OI_PROVIDER: Final = "llm.provider"
OI_SYSTEM: Final = "llm.system"
OI_TOKENS_PROMPT: Final = "llm.token_count.prompt"
OI_TOKENS_COMPLETION: Final = "llm.token_count.completion"
OI_TOKENS_TOTAL: Final = "llm.token_count.total"
OI_TOKENS_CACHE_READ: Final = "llm.token_count.prompt_details.cache_read"
OI_TOKENS_CACHE_WRITE: Final = "llm.token_count.prompt_details.cache_write"
OI_TOKENS_REASONING: Final = "llm.token_count.completion_details.reasoning"
OI_TOKENS_AUDIO_INPUT: Final = "llm.token_count.prompt_details.audio"
OI_TOKENS_AUDIO_OUTPUT: Final = "llm.token_count.completion_details.audio"
OI_EMBEDDING_MODEL: Final = "embedding.model_name"
OI_EMBEDDINGS: Final = "embedding.embeddings"
OI_EMBEDDING_TEXT: Final = "embedding.text"
OI_TOOL_NAME: Final = "tool.name"
OI_TOOL_ID: Final = "tool.id"
OI_TOOL_DESCRIPTION: Final = "tool.description"
OI_TOOL_PARAMETERS: Final = "tool.parameters"
OI_GRAPH_NODE: Final = "graph.node.id"
OI_GRAPH_NODE_NAME: Final = "graph.node.name"
OI_SESSION: Final = "session.id"
OI_METADATA: Final = "metadata"
OI_TAGS: Final = "tag.tags"
OI_EVALUATIONS: Final = "evaluations"
MIME_TEXT: Final = "text/plain"
MIME_JSON: Final = "application/json"

ANNOTATOR_KINDS: Final = {"judge": "LLM", "human": "HUMAN"}
"""OpenInference's kinds of annotators by `Score.method`; all others are `CODE`."""
OI_KINDS: Final = {
    OP_WORKFLOW: "CHAIN", OP_AGENT: "AGENT", OP_RETRIEVAL: "RETRIEVER", OP_RERANK: "RERANKER",
    OP_EMBEDDINGS: "EMBEDDING", OP_CHAT: "LLM", OP_TEXT: "LLM", OP_TOOL: "TOOL", OP_PROMPT: "PROMPT",
    OP_PARSER: "CHAIN", OP_INGESTION: "CHAIN", OP_EVALUATION: "EVALUATOR",
}  # fmt: skip

# --- ragtrace's own ------------------------------------------------------------------------------
DOCUMENTS_COUNT: Final = "ragtrace.retrieval.documents.count"
INPUT_LENGTH: Final = "ragtrace.input.length"
OUTPUT_LENGTH: Final = "ragtrace.output.length"
TAG_PREFIX: Final = "ragtrace.tag."
TENANT: Final = "ragtrace.tenant"
"""A keyed hash."""
CANCELLED: Final = "ragtrace.cancelled"
SAMPLED: Final = "ragtrace.evaluation.sampled"
STATUS: Final = "ragtrace.evaluation.status"
PROBABILITY: Final = "ragtrace.sampling.probability"
FAILURE_CAUSE: Final = "ragtrace.failure.cause"
EVIDENCE: Final = "ragtrace.evidence"

TRACE_STATE_MEMBER: Final = "ot"
"""OpenTelemetry's member of the W3C tracestate."""
STATUSES: Final = ("scored", "pending_timeout", "sampled_out", "error", "dropped", "waiting")
CAUSES: Final = (
    "nothing_retrieved", "answered_without_context", "irrelevant_context", "contradicts_context", "unsupported",
    "wrong_refusal", "right_refusal", "no_answer", "truncated", "leak_from_context", "leak_by_model", "none",
)  # fmt: skip
CAUSE_TOLD_BY: Final = {"irrelevant_context": "unsupported"}  # derived from the one that a score has
