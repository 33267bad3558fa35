"""The exceptions that ragtrace raises to its callers, none of them in the thread of a traced request, and the log of
failures that are only counted."""

import importlib.util
import logging
import traceback
from collections.abc import Callable
from typing import Any

PARSE_FAILURE = "parse_failure"
"""The reason of an EvaluationError where the judge's answer cannot be read."""
PENDING = "judge_pending"
"""The same where the judge's answer is not there yet: the question waits for a batch."""


class RagtraceError(Exception):
    """Base class of every error that ragtrace raises."""


class SettingError(RagtraceError):
    """A setting is invalid: the message names the setting, its value and a valid value."""


class MissingExtraError(RagtraceError, ImportError):
    """An optional package is not installed: the message names the extra to install, or else the package."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package!r}, which is not installed. "
            f"Install it with: pip install " + (f"'ragtrace-otel[{extra}]'" if extra else f"'{package}'")
        )
        self.package = package
        self.extra = extra


class ModelError(RagtraceError):
    """An embedded model is missing, changed or unreadable: the message names the file and says what to do."""


class DataError(RagtraceError):
    """An input file cannot be read: the message names the file and the line."""


class StoreError(RagtraceError):
    """The chat-log store cannot be read or written: the message says why and what to do, and quotes no content."""


class EvaluationError(RagtraceError):
    """An evaluator cannot score a trace. `reason` is a short, fixed word that becomes the score's `error`."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


_redact: Callable[[str], str] | None = None


def redact_with(redact: Callable[[str], str] | None) -> None:
    """Redact what is logged from now on; None for nothing."""
    global _redact  # noqa: PLW0603 one log per process
    _redact = redact


def log_failure(module: str, message: str, *args: object, is_error: bool = False) -> None:
    """Log the exception that is being handled, with its traceback as text: a warning of this module, or an error.

    An exception of the application's code, e.g. of a sink or an object's `__str__`, often quotes what a user typed. It
    is not handed to the log's handlers: some of them send the variables of its frames elsewhere.
    """
    try:
        stack = traceback.format_exc()
    except Exception:  # noqa: BLE001 an exception whose __str__ raises
        stack = "The traceback cannot be read."
    level = logging.ERROR if is_error else logging.WARNING
    logging.getLogger(module).log(level, f"{message}\n%s", *args, stack if _redact is None else _redact(stack))


def is_installed(module: str) -> bool:
    """Whether a module can be imported; it is not imported."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):  # ValueError: a module that something else has put in its place
        return False


def package(module: str, extra: str, purpose: str) -> Any:
    """The imported module. Raises MissingExtraError that names the package which brings it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingExtraError(module.partition(".")[0].replace("_", "-"), extra, purpose) from error


def require(module: str, extra: str, setting: str) -> None:
    """Raise MissingExtraError where the module that a setting needs is not installed."""
    if not is_installed(module):
        raise MissingExtraError(module, extra, f"The setting {setting}")
