"""Whether ragtrace records in this process: the setting `enabled`."""

from ragtrace.settings import is_enabled

_on: bool | None = None
"""None until something asks: before `ragtrace.init`, RAGTRACE_ENABLED decides."""


def is_on() -> bool:
    """Whether requests are recorded and frameworks are instrumented."""
    if _on is None:
        switch(is_enabled())
    return bool(_on)


def switch(on: bool | None) -> bool | None:
    """Set it for the process, and return what it was; None lets RAGTRACE_ENABLED decide."""
    global _on
    before, _on = _on, on
    return before
