"""How long ragtrace blocks an event loop that serves 200 requests at once.

    python benchmarks/event_loop.py [--tasks 200] [--rounds 9]

Each round asks so many streamed questions at once, untraced and then traced with evaluation and export, in one process,
after the background threads have done what the round before left to them. A step of the loop is one callback that
asyncio runs. Two figures say how long ragtrace blocks the loop:

- its own work in a step: a hook around the methods that the framework calls adds up the processor time of the loop's
  thread. This does not depend on what else the machine does.
- what a traced round has more than the untraced one before it, in time as it passed: this also holds what ragtrace's
  background threads cost while they have the interpreter's lock. Other programs make the steps of both longer, so the
  differences of pairs are given, with their range.
"""

import argparse
import asyncio
import functools
import gc
import math
import statistics
import tempfile
import time
from asyncio import events
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Steps:
    """The longest step of the loop, and ragtrace's longest part of a step, in seconds."""

    seconds: list[float] = field(default_factory=list)
    own: float = 0.0
    own_in_step: float = 0.0
    depth: int = 0

    def end(self, seconds: float) -> None:
        """Take up a step that has ended."""
        self.seconds.append(seconds)
        self.own, self.own_in_step = max(self.own, self.own_in_step), 0.0

    def slowest(self, share: float) -> float:
        """The duration, in seconds, that this share of the steps does not exceed; 1.0 gives the longest."""
        return sorted(self.seconds)[math.ceil(share * len(self.seconds)) - 1]


@contextmanager
def measured(steps: Steps) -> Iterator[None]:
    """Time each step of the loop."""
    run: Any = events.Handle._run

    def timed(handle: Any) -> None:
        started = time.perf_counter()
        run(handle)
        steps.end(time.perf_counter() - started)

    events.Handle._run = timed  # type: ignore[method-assign]
    try:
        yield
    finally:
        events.Handle._run = run  # type: ignore[method-assign]


def hook(owner: type, steps: list[Steps]) -> None:
    """Add the time of the methods that LangChain calls to the current step; calls within calls count once."""
    for name in [name for name in dir(owner) if name.startswith("on_")]:
        setattr(owner, name, _hooked(getattr(owner, name), steps))


def _hooked(method: Callable[..., Any], current: list[Steps]) -> Callable[..., Any]:
    @functools.wraps(method)
    def timed(*args: Any, **kwargs: Any) -> Any:
        steps = current[0]
        steps.depth += 1
        started = time.thread_time()
        try:
            return method(*args, **kwargs)
        finally:
            steps.depth -= 1
            if steps.depth == 0:
                steps.own_in_step += time.thread_time() - started

    return timed


def chain() -> Any:
    """A retriever with five passages of 2,000 characters, and a model that streams 60 characters one by one."""
    from langchain_core.documents import Document
    from langchain_core.language_models import FakeListChatModel
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import RunnablePassthrough

    class Passages(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            return [Document("The pump needs oil. " * 100, id=f"d{i}") for i in range(5)]

        async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            return [Document("The pump needs oil. " * 100, id=f"d{i}") for i in range(5)]

    prompt = ChatPromptTemplate.from_messages([("system", "Use {context}"), ("human", "{question}")])
    model = FakeListChatModel(responses=["The pump needs oil each month, and a new filter each year."])
    return {"context": Passages(), "question": RunnablePassthrough()} | prompt | model | StrOutputParser()


async def ask(assistant: Any, number: int) -> None:
    """One streamed question."""
    stream: AsyncIterator[str] = assistant.astream(f"What does pump {number} need?")
    async for _ in stream:
        await asyncio.sleep(0)


def round_of(assistant: Any, tasks: int, current: list[Steps]) -> Steps:
    """The steps of one round. Garbage is collected between the rounds: a collection belongs to no one callback."""

    async def together() -> None:
        await asyncio.gather(*(ask(assistant, number) for number in range(tasks)))

    current[0] = Steps()
    gc.collect()
    gc.disable()
    try:
        with measured(current[0]):
            asyncio.run(together())
    finally:
        gc.enable()
    return current[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    assistant, current = chain(), [Steps()]

    import ragtrace
    from ragtrace_langchain import RagtraceCallbackHandler
    from ragtrace_langchain.switch import switch

    hook(RagtraceCallbackHandler, current)
    with tempfile.TemporaryDirectory() as folder:
        ragtrace.init(
            evaluators=["refusal"], spans_file=str(Path(folder) / "spans.jsonl"), capture_content=True,
            frameworks=("langchain",), sample_per_second=0,
        )  # fmt: skip
        handler, pairs = switch.handler, []
        round_of(assistant, 10, current)
        for _ in range(options.rounds):
            ragtrace.flush(60)
            switch.handler = None
            untraced = round_of(assistant, options.tasks, current)
            switch.handler = handler
            pairs.append((untraced, round_of(assistant, options.tasks, current)))
        ragtrace.shutdown(30)
    _print(pairs)


def _print(pairs: list[tuple[Steps, Steps]]) -> None:
    rows: list[tuple[str, list[float]]] = [("ragtrace's own work in one step", [traced.own for _, traced in pairs])]
    for name, share in (("longest step", 1.0), ("99.9 % of the steps", 0.999), ("99 % of the steps", 0.99)):
        untraced = [before.slowest(share) for before, _ in pairs]
        rows.append((f"{name}, untraced", untraced))
        rows.append(
            (
                f"{name}, traced minus untraced",
                [t.slowest(share) - u for (_, t), u in zip(pairs, untraced, strict=True)],
            )
        )
    print(f"{'milliseconds':45}  median  lowest highest")
    for name, values in rows:
        cells = (statistics.median(values), min(values), max(values))
        print(f"{name:45} {' '.join(f'{value * 1000:7.2f}' for value in cells)}")


if __name__ == "__main__":
    main()
