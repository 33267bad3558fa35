"""A judge that collects its questions, sends them as batches of OpenAI's API, and answers from the replies."""

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

from ragtrace.base.lazy import groups_of
from ragtrace.batch.rescore.batch_file import BatchFile, SavedReply, SentBatch, WaitingRequest
from ragtrace.errors import PENDING, EvaluationError, SettingError
from ragtrace.evaluate.judge.budget import NANO, Reservation
from ragtrace.evaluate.judge.client import Judge, JudgeError, JudgeRequest
from ragtrace.evaluate.judge.completions import Completion, NoReplyError, Usage, read_reply
from ragtrace.settings import Settings
from ragtrace.settings.value_forms import is_server

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


_MOST_REQUESTS, _MOST_BYTES = 5_000, 20_000_000
"""Of one batch. OpenAI takes 50,000 and 200 MB; these are held in memory."""
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
"""Seconds between two looks at a batch."""
_TRIES = 10
"""Looks in a row that may fail."""
_OPEN_SECONDS = 25 * 3600.0
"""For which a shared budget holds the money of a batch."""

Say = Callable[[str], None]


class BatchJudge(Judge):
    """Asks in batches. First each question that has no reply is collected (`judge_pending`), then `send` sends them and
    waits; with `is_final` no question is collected any more."""

    def __init__(self, settings: Settings, file: BatchFile, share: float, say: Say) -> None:
        """`share`, in (0, 1], is the price of a batch in relation to that of single calls. Raises as `Judge` does, and
        SettingError for a provider without batches."""
        super().__init__(settings)
        self.is_final = False
        self._file, self._share, self._say = file, share, say
        self._api = BatchApi(self._litellm, settings, self._key)
        self._headroom = file.first_headroom(self.store.headroom())
        self._is_durable = bool(settings.judge_store or settings.judge_ledger)
        """Whether the spending of an earlier process is still counted."""
        self._own: set[Reservation] = set()
        self._seconds = _OPEN_SECONDS if is_server(settings.judge_ledger) else 0.0

    def headroom(self) -> float:
        """That of the beginning: in each pass the same questions must be asked."""
        return self._headroom

    def _remember(self, key: str, saved: str) -> None:
        # An earlier pass leaves the cost of an answer to the score, which the last one makes.
        if self.is_final:
            super()._remember(key, saved)

    def _send(self, request: JudgeRequest) -> Completion:
        id = hashlib.sha256(json.dumps([request.key, list(request.messages)]).encode()).hexdigest()
        options = self._options(request.schema, request.top)
        most = self._most(request.messages, options)
        reply = self._file.reply(id)
        if reply is None:
            if not self.is_final:
                body = json.dumps(self._body(request, options), ensure_ascii=False)
                self._file.add(WaitingRequest(id, body, self._nano(most)))
            raise JudgeError(PENDING, "the question waits for a batch")
        if reply.error:
            raise JudgeError("judge_refused", f"the batch has no reply: {reply.error}")
        try:
            completion = read_reply(json.loads(reply.text))
        except NoReplyError as error:
            raise JudgeError("judge_unavailable", str(error), Usage(cost=self._nano(most) / NANO)) from error
        if request.top and not completion.top:
            self.gives_logprobs = False
        return replace(completion, usage=self._with_cost(completion.usage, most))

    def _body(self, request: JudgeRequest, options: Mapping[str, Any]) -> dict[str, Any]:
        """What a single call would send."""
        parameters = self._litellm.utils.get_optional_params(
            model=self._api.model, custom_llm_provider=self._api.provider, temperature=request.temperature,
            max_tokens=self._settings.judge_max_tokens, drop_params=True, **options,
        )  # fmt: skip
        unsent = ("extra_body", "max_retries", "stream")
        parameters = {name: value for name, value in parameters.items() if name not in unsent}
        return {"model": self._api.model, "messages": list(request.messages), **parameters}

    def _nano(self, usage: Usage) -> int:
        return round(super()._nano(usage) * self._share)

    def send(self) -> int:
        """Sends all collected questions, waits until their batches have ended, and returns their number. Raises
        SettingError where the budget has no room for them, and where the provider takes or gives no batch."""
        total = self._reserve()
        self.wait()
        return total

    def _reserve(self) -> int:
        """Makes batches of what was collected. All money is set aside before anything is sent."""
        reserved: list[Reservation] = []
        total = 0
        with self._file.transaction():
            requests = ((r.id, r.nano, len(r.body.encode("utf-8", "replace"))) for r in self._file.waiting())
            for part in list(groups_of(requests, itemgetter(2), _MOST_BYTES, _MOST_REQUESTS)):
                ids, nano = [id for id, _, _ in part], sum(nano for _, nano, _ in part)
                digest = hashlib.sha256("".join(ids).encode()).hexdigest()[:32]
                try:
                    reserved.append(self.store.reserve(nano, self._seconds, 0.0, digest))
                except EvaluationError as error:
                    for one in reserved:
                        self.store.settle(one, 0)
                    raise SettingError(
                        f"--judge-batch: {total + len(part):,} questions may cost up to "
                        f"{(sum(one.nano for one in reserved) + nano) / NANO:.2g} US dollars in a batch, and {error}; "
                        "they were not sent: raise the budget, wait for its next window, or choose fewer logs"
                    ) from error
                self._file.assign(ids, reserved[-1])
                total += len(part)
        self._own.update(reserved)
        return total

    def wait(self) -> None:
        """Sends what was not sent, and waits until all batches have ended."""
        for batch in self._file.open_batches():
            self._start(batch)
        pause, failures = _FIRST_PAUSE, 0
        while batches := self._file.open_batches():
            for batch in batches:
                try:
                    state = self._api.state(batch.batch)
                    if state.is_ended:
                        self._end(batch, state)
                    failures = 0
                except BatchApiError as error:
                    failures += 1
                    if not error.may_pass or failures >= _TRIES:
                        raise
            if self._file.open_batches():
                time.sleep(pause)
                pause = min(_LONGEST_PAUSE, pause * 1.5)

    def _start(self, batch: SentBatch) -> None:
        if batch.batch:
            self._say(f"batch {batch.batch} was sent by an earlier run; waiting for its end")
            return
        file, requests = batch.file, self._file.requests(batch.number)
        # An earlier run may have ended between the start of the batch and the note of its id.
        id = self._api.find(file) if file else ""
        try:
            if not file:
                file = self._api.upload(b"".join(map(_line, requests)))
                self._file.note(batch.number, "file", file)
            id = id or self._api.start(file)
        except BatchApiError as error:
            if error.is_refused:
                self._settle_batch(batch, 0)
                self._file.withdraw(batch.number)
            raise
        self._file.note(batch.number, "batch", id)
        self._say(
            f"batch {id} with {len(requests):,} questions was sent; it may take up to 24 hours. After Ctrl-C or a kill "
            "the same command goes on with it"
        )

    def _end(self, batch: SentBatch, state: BatchState) -> None:
        replies = {id: reply for file in state.files for id, reply in _replies(self._api.replies(file))}
        requests = self._file.requests(batch.number)
        missing = SavedReply("", f"the batch is {state.status}{': ' * bool(state.message)}{state.message}")
        saved = [(one.id, replies.get(one.id, missing)) for one in requests]
        # Replies first: after a kill before the settlement too much counts as spent, never too little.
        self._file.end(batch.number, saved)
        spent = sum(self._spent(reply, request) for (_, reply), request in zip(saved, requests, strict=True))
        self._settle_batch(batch, spent)
        errors = [reply.error for _, reply in saved if reply.error]
        first = f", {len(errors):,} of them without a reply, the first one because: {errors[0]}" if errors else ""
        self._say(
            f"batch {batch.batch} is {state.status}: {len(saved):,} questions{first}; {spent / NANO:.2g} US dollars"
        )

    def _spent(self, reply: SavedReply, request: WaitingRequest) -> int:
        if reply.error:
            return 0
        try:
            usage = read_reply(json.loads(reply.text)).usage
        except NoReplyError:
            return request.nano
        return request.nano if usage == Usage() else max(0, min(self._nano(usage), request.nano))

    def _settle_batch(self, batch: SentBatch, nano: int) -> None:
        # What an earlier process has set aside in its memory alone is no longer counted, and is not given back.
        if batch.reserved in self._own or (self._is_durable and batch.reserved.id):
            self.store.settle(batch.reserved, nano)


def _line(request: WaitingRequest) -> bytes:
    head = json.dumps({"custom_id": request.id, "method": "POST", "url": "/v1/chat/completions"})
    return f'{head[:-1]}, "body": {request.body}}}\n'.encode("utf-8", "replace")


def _replies(lines: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, SavedReply]]:
    for line in lines:
        response = line.get("response")
        body = response.get("body") if isinstance(response, dict) else None
        if isinstance(response, dict) and response.get("status_code") == 200 and isinstance(body, dict):
            yield str(line.get("custom_id")), SavedReply(json.dumps(body), "")
            continue
        errors = [body.get("error") if isinstance(body, dict) else None, line.get("error")]
        texts = [str(one.get("message") or one.get("code")) for one in errors if isinstance(one, dict)]
        status = response.get("status_code") if isinstance(response, dict) else None
        yield str(line.get("custom_id")), SavedReply("", (texts or [f"status {status}"])[0][:300])
