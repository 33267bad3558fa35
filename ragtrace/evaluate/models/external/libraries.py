"""What all models that a setting names share: their packages, the errors of loading them, the texts that they take."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


class PretrainedModel:
    """A model of transformers with its tokenizer, on the first GPU, or on the processor."""

    def __init__(self, name: str, loader: str, *, trust: bool = False, **options: Any) -> None:
        """`loader` is a class of transformers, and `options` are its; `trust` runs the code that comes with the
        weights. Raises MissingExtraError without transformers, ModelError for a model that cannot be loaded."""
        transformers, torch = (package(p, EXTRA, f"models.entailment {name!r}") for p in ("transformers", "torch"))
        access = {"local_files_only": is_local(name), "trust_remote_code": trust}
        with load_errors(f"the model {name!r}"):
            self.device = "cuda" if torch.cuda.is_available() else "cpu"
            self.tokenizer: Any = transformers.AutoTokenizer.from_pretrained(name, **access)
            model: Any = getattr(transformers, loader).from_pretrained(name, **options, **access)
            self.model: Any = model.to(self.device).eval()

    def tokens(self, text: str) -> int:
        """Tokens of a text."""
        return len(self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])
