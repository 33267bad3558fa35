"""The exceptions that ragtrace raises to its callers. None is ever raised in the thread of a traced request."""

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
            f"Install it with: pip install " + (f"'ragtrace-otel[{extra}]'" if extra else package)
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
