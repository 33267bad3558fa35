"""Reads what a server answers: a chat completion as litellm hands it on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Usage:
    """What asking cost. `cost` is in US dollars."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens, self.cost + other.cost
        )


@dataclass(frozen=True, slots=True)
class Completion:
    """What a server answered."""

    text: str
    finish: str
    usage: Usage
    top: tuple[tuple[str, float], ...] = ()


class NoReplyError(Exception):
    """The server's answer is no chat completion."""


def plausible(usage: Usage, most: Usage) -> Usage:
    """The tokens as the server says them; the most possible ones where a number cannot be."""
    pairs = ((usage.input_tokens, most.input_tokens), (usage.output_tokens, most.output_tokens))
    return Usage(*(count if 0 <= count <= limit else limit for count, limit in pairs))


def read_reply(response: Any) -> Completion:
    """The text and the usage of a chat completion. Raises NoReplyError."""
    try:
        choice = response["choices"][0]
        text = choice["message"]["content"] or ""
        usage = response.get("usage") or {}
        tokens = Usage(int(usage.get("prompt_tokens") or 0), int(usage.get("completion_tokens") or 0))
        finish = str(choice.get("finish_reason") or "")
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise NoReplyError(f"the server's answer is no chat completion ({type(error).__name__})") from error
    if not isinstance(text, str):
        raise NoReplyError("the server's answer holds no text")
    return Completion(text, finish, tokens, _top(choice))


def _top(choice: Any) -> tuple[tuple[str, float], ...]:
    """The alternatives at the first place where a token is more than blank."""
    try:
        for place in _of(_of(choice, "logprobs"), "content"):
            if _of(place, "token").strip():
                tokens = _of(place, "top_logprobs")
                return tuple((str(_of(t, "token")), float(_of(t, "logprob"))) for t in tokens)
    except (KeyError, TypeError, AttributeError, ValueError):
        pass
    return ()


def _of(value: Any, key: str) -> Any:
    """litellm mixes dictionaries and objects, by provider and by version."""
    return value[key] if isinstance(value, Mapping) else getattr(value, key)
