"""For tests of ragtrace and of what people build on it: requests recorded in memory, and public fakes. No mocks, no
clocks that run by themselves. docs/testing.md shows how to use it."""

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ragtrace.records import Document, Evaluation, Trace

if TYPE_CHECKING:
    from ragtrace.live.memory_recorder import Recording, record

__all__ = ["Capture", "Clock", "Recording", "ScriptedJudge", "make_trace", "record"]


def __getattr__(name: str) -> Any:
    # It needs OpenTelemetry's SDK and the frameworks' adapters, which the fakes do not.
    if name in ("Recording", "record"):
        from ragtrace.live import memory_recorder

        return getattr(memory_recorder, name)
    raise AttributeError(f"module 'ragtrace.testing' has no attribute {name!r}")


def make_trace(
    query: str = "How long is the pump covered?",
    documents: Sequence[str | Document] = ("The pump is covered for 24 months from delivery.",),
    answer: str = "The pump is covered for 24 months.",
    **fields: Any,
) -> Trace:
    """A trace with ids of its own; documents may be plain texts, which get the ids d0, d1, …"""
    fields.setdefault("trace_id", 0x0AF7651916CD43DD8448EB211C80319C)
    fields.setdefault("span_id", 0xB7AD6B7169203331)
    chunks = tuple(d if isinstance(d, Document) else Document(f"d{i}", d) for i, d in enumerate(documents))
    return Trace(query=query, documents=chunks, answer=answer, **fields)


class Capture:
    """A sink that keeps what it gets."""

    def __init__(self) -> None:
        self.evaluations: list[Evaluation] = []
        self._arrived = threading.Condition()

    def __call__(self, evaluation: Evaluation) -> None:
        """Keep one evaluation."""
        with self._arrived:
            self.evaluations.append(evaluation)
            self._arrived.notify_all()

    def wait(self, count: int, timeout: float = 10.0) -> list[Evaluation]:
        """The evaluations once there are `count` of them. Raises TimeoutError after `timeout` seconds."""
        with self._arrived:
            if not self._arrived.wait_for(lambda: len(self.evaluations) >= count, timeout):
                raise TimeoutError(f"{len(self.evaluations)} of {count} evaluations after {timeout} s")
            return list(self.evaluations)


class ScriptedJudge:
    """A judge whose answers are written down: `use_judge(ScriptedJudge({...}))`. No model, no network, no cost."""

    model = "scripted"
    concurrency = 1
    gives_logprobs = True

    def __init__(self, answers: Mapping[str, Any]) -> None:
        """`answers` maps a prompt's name to the object that is answered, to a text, to an exception that is raised, to
        a list of these for one call after the other, or to (likeliest tokens, …) as `Answer.top` has them."""
        from ragtrace.evaluate.judge.ledger import Ledger

        self.answers = dict(answers)
        self.asked: list[tuple[str, dict[str, str], int]] = []
        """Name, fields and sample of each question."""
        self.store = Ledger(hour=float("inf"), day=float("inf"))

    def headroom(self) -> float:
        """See `Judge.headroom`."""
        return self.store.headroom()

    def ask(
        self, prompt: Any, fields: Mapping[str, str], *, sample: int = 0, temperature: float = 0.0, top: int = 0
    ) -> Any:
        """See `ragtrace.evaluate.judge.Judge.ask`. Raises KeyError for a prompt that nothing is written down for."""
        from ragtrace.evaluate.judge import Answer, Usage

        self.asked.append((prompt.name, dict(fields), sample))
        answer = self.answers[prompt.name]
        if isinstance(answer, list):
            answer = answer.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        usage = Usage(100, 10, 0.001)
        if isinstance(answer, tuple):
            return Answer({}, answer[0][0], usage, top=answer)
        return Answer({}, answer, usage) if isinstance(answer, str) else Answer(dict(answer), "", usage)


class Clock:
    """A clock that moves only when `advance` is called. Call it for the time in seconds."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        """The time, in seconds."""
        return self.now

    def tick(self, seconds: float) -> None:
        """Move on by `seconds` (back, when negative)."""
        self.now += seconds
