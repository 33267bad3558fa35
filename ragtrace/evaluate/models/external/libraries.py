"""What all models that a setting names share: their packages, the errors of loading them, the texts that they take."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from ragtrace.errors import ModelError, package

EXTRA = "sentence-transformers"
"""The extra of ragtrace-otel that brings transformers, torch and sentence-transformers."""
_LONGEST_REASON = 300
"""Characters of a library's error: some are pages."""
RUN = 8
"""Pairs or texts that a model is given at once."""


def clean(text: str) -> str:
    """The text without the lone surrogates on which tokenizers raise; as long as before."""
    return text.encode("utf-8", "replace").decode("utf-8")


def is_local(name: str) -> bool:
    """Whether the name is a folder, which is read from the disk alone."""
    return Path(name).is_dir()


@contextlib.contextmanager
def load_errors(what: str) -> Iterator[None]:
    """Whatever a library raises while it loads a model, as a ModelError that names the model."""
    try:
        yield
    except ModelError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:_LONGEST_REASON]
        raise ModelError(f"{what} cannot be loaded: {reason}") from error


def device() -> str:
    """The device for a model: the first GPU, or the processor."""
    torch = package("torch", EXTRA, "A model that a setting names")
    return "cuda" if torch.cuda.is_available() else "cpu"
