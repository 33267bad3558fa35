"""The handler that traces all calls of the process, while the instrumentor is switched on."""

import contextlib
import sys
from collections.abc import Callable
from typing import Any

from ragtrace.capture.adapters import instrumented_by

OTHERS = (
    ("openinference.instrumentation.langchain", "LangChainInstrumentor"),
    ("opentelemetry.instrumentation.langchain", "LangchainInstrumentor"),
    ("opentelemetry.instrumentation.genai.langchain", "LangChainInstrumentor"),
)
"""Instrumentors of other libraries (module, class)."""


class HandlerSwitch:
    """Takes the place of a ContextVar, of which LangChain calls only `get`: holds the handler while instrumented."""

    handler: Any = None
    _modules_without_others = 0
    """How many modules were loaded when none of the other instrumentors' was among them."""

    def __init__(self) -> None:
        self.at_first_run: list[Callable[[], None]] = []
        """What is done before the next run, once."""

    def get(self) -> Any:
        """Returns the handler, the same one in every thread and task; None while another library traces LangChain.
        LangChain calls this before every run."""
        while self.at_first_run:
            with contextlib.suppress(IndexError):  # another thread was faster
                self.at_first_run.pop()()
        if self.handler is None or len(sys.modules) == self._modules_without_others:
            return self.handler
        if instrumented_by(OTHERS):
            return None
        if not any(module in sys.modules for module, _ in OTHERS):
            self._modules_without_others = len(sys.modules)
        return self.handler


switch = HandlerSwitch()
"""The one of this process."""
