"""The batches of a provider with OpenAI's API, through litellm: files of requests, their start, their end."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ragtrace.errors import SettingError
from ragtrace.settings import Settings

_PROVIDERS = ("openai", "litellm_proxy")
"""Those of litellm whose batches are files of OpenAI's chat completions; others have formats of their own."""
_ENDED = ("completed", "failed", "expired", "cancelled")
_TIMEOUT = 600.0
"""Seconds for a file."""
_LISTED = 100
"""Batches that are looked through for one that may have been started."""


class BatchApiError(SettingError):
    """The provider did not do what it was asked for. `is_refused`: it answered, and nothing was started;
    `may_pass`: another try may fare better."""

    def __init__(self, message: str, *, is_refused: bool, may_pass: bool) -> None:
        super().__init__(message)
        self.is_refused, self.may_pass = is_refused, may_pass


@dataclass(frozen=True, slots=True)
class BatchState:
    """What the provider says of a batch."""

    status: str
    files: tuple[str, ...]
    """Ids of the files with replies and with errors."""
    message: str
    """Why it failed as a whole."""

    @property
    def is_ended(self) -> bool:
        """Whether no more replies will come."""
        return self.status in _ENDED


class BatchApi:
    """Batches of the judge's provider."""

    def __init__(self, litellm: Any, settings: Settings, key: str | None) -> None:
        """Raises SettingError for a provider whose batches are not OpenAI's."""
        base = settings.judge_api_base or None
        self.model, self.provider, *_ = litellm.get_llm_provider(settings.judge_model, api_base=base)
        if self.provider not in _PROVIDERS:
            raise SettingError(
                f"--judge-batch: judge_model is {settings.judge_model!r}, whose provider {self.provider} has no "
                f"batches in OpenAI's form; leave --judge-batch away, or use a model of {' or '.join(_PROVIDERS)}"
            )
        self._litellm = litellm
        self._where = settings.judge_api_base or self.provider
        access = {"api_base": base, "api_key": key}
        # No retries of the client's own: a request whose answer was lost would start a second batch.
        self._more = {"custom_llm_provider": self.provider, "max_retries": 0, "timeout": _TIMEOUT}
        self._more |= {name: value for name, value in access.items() if value}

    def upload(self, lines: bytes) -> str:
        """The id of a new file of requests. Raises BatchApiError."""
        file = ("ragtrace-judge.jsonl", lines)
        return str(self._call(self._litellm.create_file, file=file, purpose="batch").id)

    def start(self, file: str) -> str:
        """The id of a new batch. Raises BatchApiError."""
        create = self._litellm.create_batch
        return str(self._call(create, completion_window="24h", endpoint="/v1/chat/completions", input_file_id=file).id)

    def find(self, file: str) -> str:
        """The id of the batch of a file among the newest ones; empty if no batch has it. Raises BatchApiError."""
        for batch in self._call(self._litellm.list_batches, limit=_LISTED).data:
            if batch.input_file_id == file:
                return str(batch.id)
        return ""

    def state(self, batch: str) -> BatchState:
        """What the provider says of a batch. Raises BatchApiError."""
        answer = self._call(self._litellm.retrieve_batch, batch_id=batch)
        files = tuple(id for id in (answer.output_file_id, answer.error_file_id) if id)
        errors = getattr(getattr(answer, "errors", None), "data", None) or []
        return BatchState(str(answer.status), files, str(errors[0].message if errors else "")[:300])

    def replies(self, file: str) -> list[Mapping[str, Any]]:
        """The lines of a file of replies or errors that are JSON objects. Raises BatchApiError."""
        content: bytes = self._call(self._litellm.file_content, file_id=file).content
        return [line for line in map(_parsed, content.splitlines()) if isinstance(line, dict)]

    def _call(self, function: Callable[..., Any], **options: Any) -> Any:
        try:
            return function(**options, **self._more)
        except Exception as error:
            status = getattr(error, "status_code", None)
            # litellm gives a broken connection the status 500, too; it has no response of a server.
            is_refused = isinstance(status, int) and 400 <= status < 500 and status not in (408, 409)
            what = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"[:300]
            if status in (404, 405, 501):
                message = (
                    f"--judge-batch: {self._where} has no such file or batch, or no batches at all ({what}); leave "
                    "--judge-batch away to ask the judge at once"
                )
            else:
                message = (
                    f"--judge-batch: {self._where} did not answer {function.__name__}: {what}; run the command again"
                )
            raise BatchApiError(message, is_refused=is_refused, may_pass=not is_refused or status == 429) from error


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
