"""The requests of a demo run, with the recorded answers of the models."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragtrace.records import Document

if TYPE_CHECKING:
    from ragtrace.batch.demo.corpus import Index

_RECORDED = Path(__file__).with_name("answers.jsonl")
ANSWERABLE, UNANSWERABLE = (
    part.splitlines() for part in Path(__file__).with_name("questions.txt").read_text(encoding="utf-8").split("\n\n")
)
"""Questions about Python, and some that a language reference does not answer."""
QUESTIONS = (*ANSWERABLE, *UNANSWERABLE)
_FIRST = 6
"""Requests to the first assistant before each one to the second, whose small model is mostly wrong."""


@dataclass(frozen=True, slots=True)
class Labels:
    """What somebody who read a recorded answer with its question and passages says of it."""

    supported: bool | None
    """Whether the passages say all that the answer says; None where it says nothing."""
    relevant: bool | None
    """Whether it is about the question, right or wrong; None for a refusal."""
    refusal: bool


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's answer."""

    text: str
    finish_reason: str = "stop"
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """One request of the demo."""

    assistant: str
    """`langchain` or `llama_index`."""
    question: str
    reply: Reply
    """The recorded answer."""
    session: str = ""
    user: str = ""


current: ContextVar[Call] = ContextVar("ragtrace_demo_call")
"""The current request; its model returns the recorded answer."""


def current_reply() -> Reply:
    """The recorded reply of the current request."""
    return current.get().reply


def documents_for(query: str, index: Index, k: int) -> list[Document]:
    """The k passages of the corpus that are closest to the query."""
    return [Document(chunk.id, chunk.text, score, {"topic": chunk.topic}) for chunk, score in index.search(query, k)]


def _rows() -> list[dict[str, Any]]:
    with _RECORDED.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def recorded() -> dict[tuple[str, str], Reply]:
    """The recorded answers, by assistant and question."""
    return {
        (row["assistant"], row["question"]): Reply(
            row["answer"], row["finish_reason"], row["input_tokens"], row["output_tokens"]
        )
        for row in _rows()
    }


def labels() -> dict[tuple[str, str], Labels]:
    """The labels of the recorded answers, by question and answer."""
    return {
        (row["question"], row["answer"]): Labels(row["supported"], row["relevant"], row["refusal"]) for row in _rows()
    }


def questions_for(assistants: Sequence[str], count: int) -> list[Call]:
    """`count` requests in an order that is always the same. The first assistant gets every question, and the second one
    a question after each six of them, so that most answers are right, as those of real assistants are."""
    answers = recorded()
    chance = random.Random(7)
    queues = []
    for assistant in assistants:
        queue = [(assistant, question) for question in QUESTIONS]
        chance.shuffle(queue)
        queues.append([call for call in queue if call in answers])
    calls = queues[0]
    seldom = len(calls) // _FIRST
    for i, call in enumerate(queues[1][:seldom] if len(queues) > 1 else ()):
        calls.insert(_FIRST * (i + 1) + i, call)
    requests = []
    for i in range(count or len(calls)):
        assistant, question = call = calls[i % len(calls)]
        requests.append(Call(assistant, question, answers[call], f"session-{i // 3}", f"user-{i // 3 % 20}"))
    return requests
