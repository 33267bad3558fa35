"""How long ragtrace blocks an event loop that serves 200 requests at once.

    python benchmarks/event_loop.py [--tasks 200] [--rounds 5]

Each round asks so many streamed questions at once, first untraced, then traced with evaluation and export, in one
process. A step of the loop is one callback that asyncio runs. A hook around the methods that the framework calls adds
up ragtrace's own time in each step: the longest sum is the longest block by ragtrace. Time is given twice: as it
passed, which holds what other threads and programs took meanwhile, and as processor time of the loop's thread.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import gc
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

    longest: float = 0.0
    own: float = 0.0
    own_processor: float = 0.0
    sums: list[float] = field(default_factory=lambda: [0.0, 0.0])
    depth: int = 0

    def end(self, seconds: float) -> None:
        """Take up a step that has ended."""
        self.longest = max(self.longest, seconds)
        self.own, self.own_processor = max(self.own, self.sums[0]), max(self.own_processor, self.sums[1])
        self.sums[:] = 0.0, 0.0


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
        started, processor = time.perf_counter(), time.thread_time()
        try:
            return method(*args, **kwargs)
        finally:
            steps.depth -= 1
            if steps.depth == 0:
                steps.sums[0] += time.perf_counter() - started
                steps.sums[1] += time.thread_time() - processor

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
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    assistant, current = chain(), [Steps()]
    round_of(assistant, 10, current)
    untraced = [round_of(assistant, options.tasks, current) for _ in range(options.rounds)]

    import ragtrace
    from ragtrace_langchain import RagtraceCallbackHandler

    hook(RagtraceCallbackHandler, current)
    with tempfile.TemporaryDirectory() as folder:
        ragtrace.init(
            evaluators=["refusal"],
            spans_file=str(Path(folder) / "spans.jsonl"),
            capture_content=True,
            llama_index=False,
            sample_per_second=0,
        )
        round_of(assistant, 10, current)
        traced = [round_of(assistant, options.tasks, current) for _ in range(options.rounds)]
        ragtrace.shutdown(30)
    _print(untraced, traced)


def _print(untraced: list[Steps], traced: list[Steps]) -> None:
    rows: list[tuple[str, list[float]]] = [
        ("longest step, untraced", [steps.longest for steps in untraced]),
        ("longest step, traced", [steps.longest for steps in traced]),
        ("longest block by ragtrace, as it passed", [steps.own for steps in traced]),
        ("longest block by ragtrace, processor time", [steps.own_processor for steps in traced]),
    ]
    print(f"{'milliseconds':42}  median   worst")
    for name, values in rows:
        print(f"{name:42} {statistics.median(values) * 1000:7.2f} {max(values) * 1000:7.2f}")


if __name__ == "__main__":
    main()
