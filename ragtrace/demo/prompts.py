"""How the demo's assistants ask their model: the same messages in both frameworks."""

from __future__ import annotations

from collections.abc import Sequence

SYSTEM = (
    "You answer questions about Python from the given passages only. Answer in one to three short sentences. "
    "If the passages do not answer the question, say that you do not know."
)
MAX_TOKENS = 160
STOP = ("\n",)
"""One paragraph: what a small model adds after it is lists without end."""


def user_message(question: str, passages: Sequence[str]) -> str:
    """The message that carries passages and question."""
    return "Passages:\n\n" + "\n\n".join(passages) + f"\n\nQuestion: {question}"
