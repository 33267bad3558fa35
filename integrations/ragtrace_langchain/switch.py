"""The handler that traces all calls of the process, while the instrumentor is switched on."""

from __future__ import annotations

from typing import Any


class HandlerSwitch:
    """Takes the place of a ContextVar, of which LangChain calls only `get`: holds the handler while instrumented."""

    handler: Any = None

    def get(self) -> Any:
        """Returns the handler, the same one in every thread and task. LangChain calls this before every run."""
        return self.handler


switch = HandlerSwitch()
"""The one of this process."""
