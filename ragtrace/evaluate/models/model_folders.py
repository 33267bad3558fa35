"""What is wrong with the folder or the name that a setting gives for a model, as far as its files tell."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_HUB_NAME = re.compile(r"[\w.-]{1,96}(?:/[\w.-]{1,96})?")
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin", "*.safetensors.index.json")
_TOKENIZER = (
    "tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.txt", "vocab.json", "spiece.model",
    "sentencepiece.bpe.model",
)  # fmt: skip
_OWN_CODE = "HHEM"
"""The kind of model whose own code names its tokenizer."""
# A library adds a head with random weights to these, and the scores are random, too.
_HEADLESS = ("Model", "ForMaskedLM", "ForPreTraining", "ForQuestionAnswering")


def name_problem(name: str) -> str:
    """Why a name is neither a folder nor a model's name on the hub; empty where it may be one."""
    path = Path(name)
    if path.is_dir():
        return ""
    if path.is_file():
        return "is a file; give the folder of the model"
    if path.is_absolute() or name.startswith((".", "~")) or "\\" in name or name.count("/") > 1:
        return "is not a folder"
    return "" if _HUB_NAME.fullmatch(name) else "is neither a folder nor the name of a model"


def folder_problem(name: str) -> str:
    """What a model's folder lacks, or why its model gives no scores of pairs; empty where `name` is no folder."""
    folder = Path(name)
    if not folder.is_dir():
        return ""
    config = read_config(folder)
    if not config:
        return "has no config.json that can be read"
    if not any(any(folder.glob(pattern)) for pattern in _WEIGHTS):
        return f"has no weights ({', '.join(_WEIGHTS[:2])})"
    if not str(config.get("model_type")).startswith(_OWN_CODE) and not any((folder / n).exists() for n in _TOKENIZER):
        return f"has no tokenizer ({', '.join(_TOKENIZER[:2])}, …)"
    return headless(architectures(config))


def read_config(folder: Path) -> dict[str, Any]:
    """The configuration in a model's folder; empty if it cannot be read."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return config if isinstance(config, dict) else {}


def architectures(config: dict[str, Any]) -> list[str]:
    """The classes of transformers with which a model was saved."""
    names = config.get("architectures")
    return [str(name) for name in names] if isinstance(names, list) else []


def headless(names: Sequence[str]) -> str:
    """Why models of these classes give no scores of pairs of texts; empty where they may."""
    if names and all(name.endswith(_HEADLESS) for name in names):
        return f"is a {names[0]}, which was not trained to compare two texts; give a cross-encoder"
    return ""
