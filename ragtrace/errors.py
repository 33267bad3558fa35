"""What ragtrace raises at its boundary. Nothing here is ever raised in a traced request's thread."""


class RagtraceError(Exception):
    """Base of every error that ragtrace raises."""


class SettingError(RagtraceError):
    """A setting is wrong: the message names the setting, its value and what would be right."""


class MissingExtraError(RagtraceError, ImportError):
    """An optional package is absent: the message names the extra that brings it, or the package where none does."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package!r}, which is not installed. "
            f"Install it with: pip install " + (f"'ragtrace-otel[{extra}]'" if extra else package)
        )
        self.package = package
        self.extra = extra


class ModelError(RagtraceError):
    """An embedded model is missing, altered or unreadable: the message says which file and what to do."""


class DataError(RagtraceError):
    """An input file cannot be read: the message names the file and the line."""


class StoreError(RagtraceError):
    """The store of chat logs cannot be read or written now: the message says why and what to do, without content."""


class EvaluationError(RagtraceError):
    """An evaluator cannot say anything of a trace. `reason` becomes the score's `error`: a short, fixed word."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
