"""What LangGraph adds to a run: agents below agents, the node, and the resumption of an interrupted graph."""

import sys
from collections.abc import Hashable, Mapping
from contextlib import suppress
from types import FrameType
from typing import Any

from opentelemetry.trace import SpanContext

from ragtrace import semconv
from ragtrace.capture.finish import before_question
from ragtrace.capture.request import Before, Run, agent_of
from ragtrace.text.sanitizer import sendable

_MAX_THREADS = 1_000
"""Conversations whose interrupt is remembered, the latest."""

_CALLBACKS = ("langchain_core.callbacks", "ragtrace_langchain")

GRAPH, ELSEWHERE = "graph", "elsewhere"
"""The state of a graph, and of one that stopped in another process."""

_Waiting = tuple[SpanContext, str | None, Before]
"""An interrupted graph: its root span, its question, and what it did before it asked a person."""
_interrupted: dict[tuple[str, ...], dict[str | None, _Waiting]] = {}
"""The interrupted graphs by `Request.graph` and user. Single operations are atomic; inner dictionaries are replaced."""


def is_agent(name: str, metadata: Mapping[str, Any]) -> bool:
    """Returns True for an agent: LangChain's, its older executor, or what the application's metadata calls one."""
    return (
        "lc_agent_name" in metadata
        or "agent_name" in metadata
        or metadata.get("ls_integration") == "langchain_create_agent"
        or name == "AgentExecutor"
    )


def names_of(name: str, metadata: Mapping[str, Any], is_agent: bool, *, is_root: bool) -> tuple[str, str | None]:
    """Returns the names of a run and of its agent; of the agent None where the run is not one, or has only the name
    that LangGraph gives to every graph. The application's metadata, which all runs below get, names the root."""
    if is_root and (workflow := metadata.get("workflow_name")):
        name = sendable(workflow)
    if not is_agent:
        return name, None
    if own := metadata.get("lc_agent_name") or (metadata.get("agent_name") if is_root else None):
        return name, sendable(own)
    return name, None if name == "LangGraph" else name


def begins_agent(inputs: Any, kwargs: Mapping[str, Any], above: Run) -> bool:
    """Returns True for an internal run that is a named agent below another run: where the name changes that LangGraph
    passes on. A named graph with a conversation is an agent, too: the older `create_react_agent` says no more."""
    metadata = kwargs.get("metadata") or {}
    name = metadata.get("lc_agent_name")
    if name is not None:
        # The node of an agent that is part of a graph has the name of the agent, but not yet in its metadata.
        return bool(name != agent_of(above))
    own = kwargs.get("name")
    if own == "LangGraph" or "run_type" in kwargs or not isinstance(inputs, dict) or "messages" not in inputs:
        return False
    return own != agent_of(above) and is_called_by_graph()


def is_called_by_graph() -> bool:
    """Returns True in a callback of a graph itself, False in one of its nodes or of a chain: they report the same."""
    caller = _caller()
    return caller is not None and caller.f_globals.get("__name__", "").startswith("langgraph.pregel")


def _caller() -> FrameType | None:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_CALLBACKS):
        frame = frame.f_back
    return frame


def node_attributes(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Returns the graph's node that a run belongs to, as OpenInference names it."""
    node = metadata.get("langgraph_node")
    return {semconv.OI_GRAPH_NODE: node, semconv.OI_GRAPH_NODE_NAME: node} if isinstance(node, str) else {}


def root_of(run: Run) -> Run | None:
    """Returns the root that waits where this run does: itself, or chains and what is recorded by hand around it."""
    above = run.parent
    while above is not None and (above.owner is None or is_chain(above)):
        run, above = above, above.parent
    return run if above is None else None


def is_chain(run: Run) -> bool:
    """Returns True for a chain or a function, which may hold a graph, and waits with it; False for a graph."""
    return run.operation == semconv.OP_WORKFLOW and run.state not in (GRAPH, ELSEWHERE)


def asking_root(run: Run | None, key: Hashable) -> Run | None:
    """Returns the root that waits where the run with this key asks, which has no span inside of a chain."""
    return None if run is None or (run.key != key and run.state == GRAPH) else root_of(run)


def _thread(root: Run) -> tuple[str, ...]:
    """Returns what names a graph, first its thread: a session may have several threads, and those several graphs."""
    request = root.request
    if request.graph is not None:
        return request.graph
    return str(request.metadata.get("thread_id") or request.session or ""), root.name


def begin(root: Run, graph: Run, thread: object, inputs: Any) -> None:
    """Notes which graph a root runs; one that goes on gets what it had before. New inputs end what it had asked."""
    caller, request = _caller(), root.request
    own = caller.f_locals.get("self") if caller is not None else None
    saver = getattr(own, "checkpointer", None)
    # What is only in memory is this graph's own, whatever others call their threads.
    is_in_memory = any(kind.__name__ in ("InMemorySaver", "MemorySaver") for kind in type(saver).__mro__)
    name, memory = str(getattr(own, "name", graph.name)), str(id(saver)) if is_in_memory else ""  # a run's may differ
    request.graph, request.frame = (str(thread), name, sendable(request.metadata.get("tenant", "")), memory), caller
    resumes = getattr(inputs, "resume", None) is not None
    if not resumes and inputs is not None:
        _forget(root)
    elif not link_resumption(root) and resumes:
        graph.state = ELSEWHERE


def note_breakpoint(graph: Run) -> None:
    """Remembers a graph that `interrupt_before` or `interrupt_after` has stopped: it asks nothing, and waits."""
    root = root_of(graph) if graph.state == GRAPH else None
    if root is None or (frame := root.request.frame) is None:
        return
    root.request.frame = None
    status = str(getattr(frame.f_locals.get("loop"), "status", ""))
    if status.startswith("interrupt_") and root.request.interrupt is None:
        root.request.interrupt = ""
        remember_interrupt(root)


def begin_inside(run: Run, thread: object, inputs: Any) -> None:
    """Notes the thread of a graph without a span of its own that runs inside of a chain, and whether it goes on."""
    root = root_of(run)
    if root is not None:
        root.request.graph = root.request.graph or (str(thread), root.name)
        if getattr(inputs, "resume", None) is not None:
            link_resumption(root)


def go_on(run: Run, outputs: Any) -> None:
    """Notes that a chain has answered, although a graph inside of it stopped: it does not say what that asked."""
    question, answer = run.request.interrupt, run.answer or ""
    holds = isinstance(outputs, dict) and "__interrupt__" in outputs
    if question is not None and run.parent is None and is_chain(run) and not holds and question not in answer:
        run.request.interrupt = None


def complete_interrupt(root: Run | None) -> bool:
    """Makes what a graph asks a person the answer of its root, and remembers it. False for any other run."""
    if root is None or root.parent is not None or root.request.interrupt is None:
        return False
    root.answer = root.request.interrupt
    if (waiting := _waiting(root)) is not None and waiting[0] == root.span.get_span_context():
        remember_interrupt(root)  # unless it goes on already
    return True


def remember_interrupt(root: Run) -> None:
    """Remembers a graph that stops to ask a person: its root, question and what its model saw."""
    thread, root.request.calls_before = _thread(root), len(root.request.model_calls)
    if not thread[0]:
        return
    users = _interrupted.pop(thread, {})  # to the end: the oldest goes first
    waiting = (root.span.get_span_context(), root.query, before_question(root))
    _interrupted[thread] = dict([*(users | {root.request.user: waiting}).items()][-16:])  # of few users in any case
    while len(_interrupted) > _MAX_THREADS:
        with suppress(KeyError, RuntimeError, StopIteration):  # another thread was faster
            del _interrupted[next(iter(_interrupted))]


def forget_interrupt(root: Run | None) -> None:
    """Forgets the interrupted graph that this root has brought to its answer."""
    if root is not None and root.request.is_resumption and root.request.interrupt is None:
        _forget(root)


def _waiting(root: Run) -> _Waiting | None:
    """The interrupted graph of this root's thread and user; of a root without a user the only one of its thread."""
    users, user = _interrupted.get(_thread(root), {}), root.request.user
    if user is None and len(users) == 1:
        return next(iter(users.values()))
    return users.get(user) or users.get(None)


def _forget(root: Run) -> None:
    waiting, users = _waiting(root), _interrupted.pop(_thread(root), {})
    if others := {user: other for user, other in users.items() if other is not waiting}:
        _interrupted[_thread(root)] = others


def link_resumption(root: Run) -> bool:
    """Links the root of a graph that goes on to that of the run that was interrupted, whose question and context it
    gets; whether that is known. It stays remembered until this one answers: a resumption that fails is repeated."""
    request, interrupted = root.request, _waiting(root)
    request.interrupt = None
    if interrupted is not None:
        request.is_resumption = True
        span, question, before = interrupted
        root.query = question or root.query
        if span != root.span.get_span_context():  # else it goes on in the request by hand in which it asked
            request.before = before
            root.span.add_link(span)
    return interrupted is not None
