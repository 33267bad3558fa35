"""How the demo's assistants ask their model."""

from __future__ import annotations

from collections.abc import Sequence

SYSTEM = (
    "You answer questions about Python from the given passages only. Answer in one to three short sentences. "
    "If the passages do not answer the question, say that you do not know."
)


def user_message(question: str, passages: Sequence[str]) -> str:
    """The message that carries passages and question."""
    return "Passages:\n\n" + "\n\n".join(passages) + f"\n\nQuestion: {question}"
