"""Named queues: who judges which logs; and questions of one's own, which their reviewers answer."""

from dataclasses import asdict, dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field, StringConstraints

from ragtrace.console import audit
from ragtrace.console.access import Admin, Reviewer, store_of
from ragtrace.console.api.inputs import Body, Evaluator, Short, TraceId, Value
from ragtrace.console.chatlogs.store_types import Filter
from ragtrace.console.review import named_queues, own_questions
from ragtrace.console.review.named_queues import NamedQueue
from ragtrace.console.review.own_questions import Category, OwnQuestion

router = APIRouter(prefix="/api", tags=["reviews"])
Name = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f/]+$")]
Instructions = Annotated[str, StringConstraints(max_length=2_000, pattern=r"^[^\x00]*$")]
Assignees = Annotated[list[Short], Field(max_length=200)]


class QueueFilter(Body):
    """Waiting logs that match all of it come into the queue; empty: only logs that somebody sends."""

    app: Short = ""
    env: Short = ""
    model: Short = ""
    prompt_version: Short = ""
    cause: Short = ""
    evaluator: Evaluator | None = None
    label: Short = ""

    def as_filter(self) -> Filter:
        """The same as the store takes it."""
        return Filter(**{name: value for name, value in self.model_dump().items() if value})


@dataclass(frozen=True, slots=True)
class QueueOut(NamedQueue):
    """A named queue with its reviewers and the numbers of its logs."""

    filter: QueueFilter  # type: ignore[assignment]


class QueueIn(Body):
    """A new queue."""

    name: Name
    instructions: Instructions = ""
    filter: QueueFilter = Field(default_factory=QueueFilter)
    assignees: Assignees = Field(default_factory=list, description="Names of its reviewers; empty for every reviewer")


class QueueChange(Body):
    """What changes of a queue; what is left out stays."""

    instructions: Instructions | None = None
    filter: QueueFilter | None = None
    assignees: Assignees | None = None
    closed: bool | None = None


class Logs(Body):
    """Logs for a queue."""

    trace_ids: Annotated[list[TraceId], Field(min_length=1, max_length=named_queues.MOST)]


class Sent(BaseModel):
    """How many logs wait in the queue because of it."""

    sent: int


def _out(queue: NamedQueue) -> QueueOut:
    fields = {name: value for name in named_queues.FILTER_FIELDS if (value := getattr(queue.filter, name))}
    return QueueOut(**{**asdict(queue), "filter": QueueFilter(**fields)})


@router.get("/review/queues")
def list_queues(request: Request, user: Reviewer) -> list[QueueOut]:
    """All named queues. A log in none of them is for every reviewer."""
    return [_out(queue) for queue in named_queues.load(store_of(request))]


@router.post("/review/queues", status_code=201)
def add_queue(request: Request, user: Admin, payload: QueueIn) -> QueueOut:
    """A new queue; waiting logs that match its filter come into it at once."""
    audit.note(request, object=payload.name, assignees=len(payload.assignees))
    values = payload.model_dump(include={"instructions", "assignees"})
    return _out(named_queues.create(store_of(request), payload.name, filter=payload.filter.as_filter(), **values))


@router.patch("/review/queues/{name}")
def change_queue(request: Request, user: Admin, name: Name, payload: QueueChange) -> QueueOut:
    """Change a queue. The waiting logs of a closed one are everybody's again."""
    audit.note(request, object=name, changed=sorted(payload.model_fields_set))
    values = payload.model_dump(include={"instructions", "assignees", "closed"})
    filter = payload.filter.as_filter() if payload.filter is not None else None
    return _out(named_queues.change(store_of(request), name, filter=filter, **values))


@router.post("/review/queues/{name}/logs")
def send_logs(request: Request, user: Reviewer, name: Name, payload: Logs) -> Sent:
    """Put stored logs into a queue. One that was judged already waits for one more review, by somebody else."""
    sent = named_queues.send(store_of(request), name, payload.trace_ids)
    audit.note(request, object=name, sent=sent)
    return Sent(sent=sent)


class CategoryIn(Body):
    """One of the answers to choose from."""

    label: Annotated[str, Field(min_length=1, max_length=60)]
    key: Annotated[str, Field(max_length=1)] = Field("", description="Its hot key in the console; empty: any")


class QuestionIn(Body):
    """A question of one's own."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,59}$", description="Names its answers in exports")]
    text: Annotated[str, Field(min_length=1, max_length=300, pattern=r"^[^\x00]+$")]
    kind: Literal["category", "number", "text"]
    queue: Short = Field("", description="Asked of this queue's logs only; empty: of every log")
    categories: Annotated[list[CategoryIn], Field(max_length=50)] = Field(default_factory=list)
    low: Value | None = Field(None, description="Least number, inclusive")
    high: Value | None = Field(None, description="Greatest number, inclusive")


class QuestionChange(Body):
    """A closed question is asked no more; its answers stay."""

    closed: bool


@router.get("/review/questions")
def list_questions(request: Request, user: Reviewer) -> list[OwnQuestion]:
    """All questions of one's own, with those that are asked no more."""
    return list(own_questions.load(store_of(request), closed=True))


@router.post("/review/questions", status_code=201)
def add_question(request: Request, user: Admin, payload: QuestionIn) -> OwnQuestion:
    """A new question to reviewers."""
    audit.note(request, object=payload.name)
    categories = tuple(Category(one.label, one.key) for one in payload.categories)
    question = OwnQuestion(**payload.model_dump(exclude={"categories"}), categories=categories)
    own_questions.create(store_of(request), question)
    return question


@router.patch("/review/questions/{name}", status_code=204)
def change_question(request: Request, user: Admin, name: Name, payload: QuestionChange) -> None:
    """Ask a question no more, or again."""
    audit.note(request, object=name, closed=payload.closed)
    own_questions.close(store_of(request), name, closed=payload.closed)
