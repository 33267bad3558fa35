"""The assistants' models, and the messages that they get from both assistants."""

from collections.abc import Sequence
from dataclasses import dataclass

SYSTEM = (
    "You answer questions about Python from the given passages only. Answer in one to three short sentences. "
    "If the passages do not answer the question, say that you do not know."
)
SMOLLM2 = "SmolLM2-135M-Instruct"


@dataclass(frozen=True, slots=True)
class Model:
    """The name of an assistant's model."""

    name: str
    provider: str


RECORDED = {
    "langchain": Model("written-by-hand", "ragtrace-demo"),
    "llama_index": Model(SMOLLM2, "llama_cpp"),
}
"""Whose recorded answers each assistant gives: a person's, from the passages, and those of a small model."""


def user_message(question: str, passages: Sequence[str]) -> str:
    """The message with the passages and the question."""
    return "Passages:\n\n" + "\n\n".join(passages) + f"\n\nQuestion: {question}"
