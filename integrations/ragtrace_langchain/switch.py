"""The handler that traces all calls of the process, while the instrumentor is switched on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from ragtrace.tracing.adapters import instrumented_by


class HandlerSwitch:
    """Takes the place of a ContextVar, of which LangChain calls only `get`: holds the handler while instrumented."""

    handler: Any = None
    others: tuple[tuple[str, str], ...] = ()
    """Instrumentors of other libraries (module, class)."""

    def __init__(self) -> None:
        self.at_first_run: list[Callable[[], None]] = []
        """What is done before the next run, once."""

    def get(self) -> Any:
        """Returns the handler, the same one in every thread and task; None while another library traces LangChain.
        LangChain calls this before every run."""
        while self.at_first_run:
            with contextlib.suppress(IndexError):  # another thread was faster
                self.at_first_run.pop()()
        return None if self.handler is None or instrumented_by(self.others) else self.handler


switch = HandlerSwitch()
"""The one of this process."""
