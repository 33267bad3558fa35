"""A request and its runs while they are in progress."""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN, Span, SpanContext

from ragtrace import semconv
from ragtrace.capture.content import Attributes
from ragtrace.capture.model_messages import ModelMessage, PromptTemplate, ToolDefinition
from ragtrace.records import Document

MODEL_CALLS = frozenset({semconv.OP_CHAT, semconv.OP_TEXT})
SEARCHES = frozenset({semconv.OP_RETRIEVAL, semconv.OP_RERANK})
"""Operations whose results are documents."""
MAX_STEPS = 200
"""Tool calls of a request that its trace lists."""


@dataclass(slots=True, weakref_slot=True, eq=False)
class Run:
    """One operation in progress with a span of its own. Only adapters and the recorder change it."""

    key: Hashable
    request: Request
    parent: Run | None
    span: Span
    operation: str
    name: str
    started: int
    """Unix nanoseconds."""
    recording: bool
    title: str
    """The name of the span as it leaves."""
    query: str | None = None
    answer: str | None = None
    attributes: Attributes = field(default_factory=dict)
    """Further attributes from the adapter; they are written when the span ends."""
    extra: Attributes = field(default_factory=dict)
    """What OpenInference has a name for, and OpenTelemetry has not."""
    documents: Sequence[Document] | None = None
    candidates: Sequence[Document] | None = None
    """The documents that a reranker received."""
    messages: Sequence[ModelMessage] = ()
    reply: Sequence[ModelMessage] = ()
    """What the model generated, one message for each choice; empty where the text is all that is known."""
    instructions: str | None = None
    """The system prompt, where it is separate from the messages."""
    tools: Sequence[ToolDefinition] = ()
    """The tools that the model or the agent may call; of a tool's own run, its definition."""
    prompt: PromptTemplate | None = None
    """The template of which the messages were made."""
    embedded: Sequence[str] = ()
    """The texts that were embedded."""
    chunks: list[str] = field(default_factory=list)
    first_chunk: int = 0
    finish_reason: str | None = None
    state: Any = None
    """What the adapter keeps of the run while it is in progress."""
    reports_end: bool = True
    """False where the framework does not say when the run ends: it ends with its request, and is not cancelled."""
    owner: object = None
    """The handler that opened the run. Where two handlers see the same run, only this one changes it."""
    failure: str | None = None
    """Type name of the error that ended the run."""
    place: Place | None = None
    """What OpenTelemetry's context holds while this run's code works."""

    def above(self) -> Iterator[Run]:
        """The runs above, the nearest first."""
        run = self.parent
        while run is not None:
            yield run
            run = run.parent


def agent_of(run: Run | None) -> str | None:
    """The name of the nearest agent: of the run itself or above it."""
    runs = () if run is None else (run, *run.above())
    return next((each.attributes.get(semconv.AGENT_NAME) for each in runs if each.operation == semconv.OP_AGENT), None)


@dataclass(frozen=True, slots=True)
class Before:
    """What a request did before it asked a person: documents that its model saw, retrievals, `Facts.steps`."""

    documents: Sequence[Document] = ()
    retrievals: int = 0
    steps: tuple[Mapping[str, str], ...] = ()


@dataclass(slots=True, eq=False)
class Request:
    """The state of one request: everything below one root run."""

    common: Attributes = field(default_factory=dict)
    session: str | None = None
    user: str | None = None
    service: tuple[str, str] = ("", "")
    """Name and environment of the service, where several come together: ids of sessions are each one's own."""
    tags: Sequence[str] = ()
    metadata: Mapping[str, object] = field(default_factory=dict)
    open: dict[Hashable, Run | None] = field(default_factory=dict)
    """Keys of all runs that have not ended, in the order of their starts; None for a run without a span."""
    broken: list[Hashable] = field(default_factory=list)
    """Keys of runs that failed or were cancelled, of which a thread may go on."""
    retrieved: list[Run] = field(default_factory=list)
    model_calls: list[Run] = field(default_factory=list)
    preparation: bool = False
    """The run prepares an index and answers nobody: a fragment, although it is a model call or a workflow."""
    sources: Sequence[Document] | None = None
    """The documents that the model received, where the framework reports them itself."""
    passed: list[tuple[int, Sequence[Document]]] = field(default_factory=list)
    """Documents that a step or tool gave, and how many model calls came before; one more for a state at the end."""
    fragments: Sequence[Run] = ()
    """Of a model that is called directly: the fragments before it (see `fragments`)."""
    tool_calls: list[Run] = field(default_factory=list)
    stage_times: list[tuple[str, int]] = field(default_factory=list)
    """Stage and nanoseconds of each span that has ended."""
    finished: list[tuple[Run, int]] = field(default_factory=list)
    """The runs that ended first, with their ends in Unix nanoseconds."""
    prompts: dict[Hashable, PromptTemplate] = field(default_factory=dict)
    """Templates that were filled in and not yet sent to a model, by the key of the run that will send them."""
    interrupt: str | None = None
    """What the application asked a person, where it stopped to ask."""
    calls_before: int = 0
    """Model calls that had started by then."""
    before: Before = field(default_factory=Before)
    is_resumption: bool = False
    graph: tuple[str, ...] | None = None
    """Thread and name of the graph that runs, its tenant and memory."""
    frame: FrameType | None = None
    """The frame of LangGraph's own loop around the graph; what it holds at the end says whether the graph has ended."""
    prompt_version: object = None
    """The prompt version in the metadata of a model call."""
    reference: str | None = None
    tables: list[dict[Hashable, Any]] = field(default_factory=list)
    """The runs of each recorder that knows runs of this request: of each framework, and of what is recorded by hand."""
    outside: Span = INVALID_SPAN
    """The span that was current when the request started."""
    ended: bool = False


NO_CONTEXT: tuple[Context | None, Context] = (None, Context())
"""What a place holds before its run is attached, and after its request."""


class Place:
    """Where code of the application runs: inside which run, and which span was current outside the request.

    Long-lived tasks keep the context in which they were created, so the run is referenced weakly: its texts must not
    live as long as they do."""

    __slots__ = ("_run", "latest", "outside", "span_context")

    def __init__(self, run: Run) -> None:
        self._run = weakref.ref(run)
        self.span_context: SpanContext = run.span.get_span_context()
        self.outside: Span = run.request.outside
        self.latest: tuple[Context | None, Context] = NO_CONTEXT
        """A context, and the one that was made of it with the run's span: a chain's steps start from one."""

    @property
    def run(self) -> Run | None:
        """The run, as long as its request is open."""
        run = self._run()
        return run if run is not None and not run.request.ended else None
