"""Creates files that hold what users typed: only their owner can read them."""

from __future__ import annotations

import os
from pathlib import Path


def private_opener(path: str, flags: int) -> int:
    """An `opener` for `open`: a new file has mode 0600. An existing file keeps its mode."""
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def create_private(path: Path) -> None:
    """Create an empty file of mode 0600, for a library that opens files itself; an existing one keeps its mode."""
    os.close(private_opener(str(path), os.O_WRONLY | os.O_CREAT))
