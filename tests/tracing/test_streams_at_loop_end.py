"""Asynchronous streams that are open when the event loop ends, each in a process that has had no stream before."""

import subprocess
import sys

import pytest

BY_HAND = """
import ragtrace

@ragtrace.generation
async def ask(question):
    try:
        for word in ("For ", "24 ", "months."):
            yield word
    finally:
        await asyncio.sleep(0)  # a clean-up takes a turn of the loop

def open_stream():
    return ask("How long?")
"""
LANGCHAIN = """
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda

def open_stream():
    model = GenericFakeChatModel(messages=iter([AIMessage("For 24 months.")]))
    return (RunnableLambda(lambda question: question) | model).astream("How long?")
"""
MAIN = """
import asyncio, time
from ragtrace import testing
{application}
open_streams = []

async def main():
    for _ in range(8):
        open_streams.append(open_stream())
        await anext(open_streams[-1])

with testing.record() as recording:
    asyncio.run(main())
    open_streams.clear()
    deadline = time.monotonic() + 20
    while len(recording.traces) < 8 and time.monotonic() < deadline:
        time.sleep(0.01)
for trace in recording.traces:
    print(trace.answer.strip(), trace.facts.cancelled, trace.error)
"""


@pytest.mark.process
@pytest.mark.parametrize("application", [BY_HAND, LANGCHAIN], ids=["by hand", "LangChain"])
def test_streams_at_the_end_of_the_loop(application: str) -> None:
    program = MAIN.format(application=application)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert (done.stderr, done.stdout.splitlines()) == ("", ["For True None"] * 8)
