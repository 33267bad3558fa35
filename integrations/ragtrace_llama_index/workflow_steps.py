"""What the steps of a workflow say of its request: the agent whose turn it is, a question to a person and the person's
answer, and documents.

A step has a LlamaIndex span and no span of ours. It is recognised by its event, which is one of its arguments."""

from dataclasses import dataclass
from inspect import BoundArguments
from typing import Any

from ragtrace import semconv
from ragtrace.capture.recorder import Recorder
from ragtrace.capture.request import SEARCHES, Run
from ragtrace_llama_index import conversion


@dataclass(slots=True)
class WorkflowState:
    """What is kept of a workflow in progress."""

    turn: Run | None = None
    """The agent of an AgentWorkflow that is at work."""
    request_to_person: str | None = None
    """What a workflow that waits has asked a person."""


def enter(recorder: Recorder, id_: str, parent: str, bound: BoundArguments) -> None:
    """Handles the start of an internal span below `parent`; only steps of a workflow are looked at."""
    above = recorder.near(parent)
    events = (value for value in bound.arguments.values() if conversion.has_base(value, "Event"))
    if above is None or not isinstance(above.state, WorkflowState) or (event := next(events, None)) is None:
        recorder.follow(id_, parent)
        return
    if conversion.has_base(event, "HumanResponseEvent"):
        above.state.request_to_person = None
        above.query = above.query or conversion.request_text(event)
    turn = _turn(recorder, above, id_, event)
    recorder.follow(id_, parent if turn is None else turn.key)


def _turn(recorder: Recorder, root: Run, id_: str, event: Any) -> Run | None:
    """Returns the run of the agent at work, and starts it when the event names another agent than before."""
    name = getattr(event, "current_agent_name", None)
    turn: Run | None = root.state.turn
    if root.operation == semconv.OP_AGENT or not isinstance(name, str) or (turn is not None and turn.name == name):
        return turn
    if turn is not None:
        recorder.end(turn.key)
    turn = recorder.start(f"{id_}-turn", root.key, semconv.OP_AGENT, name)
    if turn is not None:
        turn.attributes[semconv.AGENT_NAME] = name
        turn.query = conversion.last_question(getattr(event, "input", None))
        turn.reports_end = False  # the last turn ends with its workflow
    root.state.turn = turn
    return turn


def leave(run: Run, result: Any) -> None:
    """Handles the result of an internal span below `run`."""
    if result is None or isinstance(result, str):
        return
    if isinstance(result, (list, tuple)):
        pass
    elif conversion.has_base(result, "InputRequiredEvent"):
        _note_question(run, result)
    elif conversion.has_base(result, "AgentOutput") and run.operation == semconv.OP_AGENT and run.parent is not None:
        run.answer = conversion.answer_of(result)
    # What passes inside a search is not yet what it returns.
    documents = [] if run.operation in SEARCHES else conversion.documents_within(result)
    if documents:
        run.request.passed.append((len(run.request.model_calls), documents))


def wait(run: Run, signal: BaseException) -> None:
    """Handles a step that stops until an event arrives."""
    event = getattr(getattr(signal, "add", None), "waiter_event", None)
    if event is not None:
        _note_question(run, event)


def _note_question(run: Run, event: Any) -> None:
    state = next((each.state for each in (run, *run.above()) if isinstance(each.state, WorkflowState)), None)
    if state is not None:
        state.request_to_person = conversion.request_text(event)
