"""The messages to the model; both assistants send the same ones."""

from __future__ import annotations

from collections.abc import Sequence

SYSTEM = (
    "You answer questions about Python from the given passages only. Answer in one to three short sentences. "
    "If the passages do not answer the question, say that you do not know."
)
MAX_TOKENS = 160
STOP = ("\n",)
"""The answer is one paragraph: small models continue with endless lists."""


def user_message(question: str, passages: Sequence[str]) -> str:
    """The message with the passages and the question."""
    return "Passages:\n\n" + "\n\n".join(passages) + f"\n\nQuestion: {question}"
