"""Asking the judge: prompts in, validated answers out; retries, concurrency, the budget and what it all cost."""

import hashlib
import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ragtrace.base.lazy import Lazy
from ragtrace.errors import PARSE_FAILURE, EvaluationError, SettingError
from ragtrace.evaluate.judge import litellm_setup
from ragtrace.evaluate.judge.budget import NANO, current_score_key
from ragtrace.evaluate.judge.completions import Completion, NoReplyError, Usage, plausible, read_reply
from ragtrace.evaluate.judge.deadlines import remaining, within
from ragtrace.evaluate.judge.ledger import Ledger
from ragtrace.evaluate.judge.prompt_redaction import prompt_sanitizer
from ragtrace.evaluate.judge.prompts import FIELD_CHARS, Message, Prompt, again, render
from ragtrace.evaluate.judge.replies import Schema, UnreadableError, read
from ragtrace.evaluate.judge.shared_budget import SharedBudget, reservation_id
from ragtrace.settings import Settings, only
from ragtrace.settings.value_forms import is_server
from ragtrace.text.sanitizer import REDACTION_FAILED

_PER_MESSAGE = 32
"""Tokens that a chat template may add to a message, generously."""
RETRIES = 3
"""How often a request is tried again after a rate limit, a timeout or a server's error."""
_GRACE = 2.0
_CHAIN = 10
_WAIT = 20.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What the judge answered: an object valid under the prompt's schema, or the text where it has no such object."""

    value: dict[str, Any]
    text: str
    usage: Usage
    cut: bool = False
    """True where a field was too long and only its beginning was read."""
    top: tuple[tuple[str, float], ...] = ()
    """The likeliest first tokens with their natural log-probabilities, where they were asked for and given."""


class JudgeError(EvaluationError):
    """The judge gave nothing usable. `reason` is `parse_failure`, `judge_unavailable`, `judge_rate_limited`,
    `judge_timeout`, `judge_refused`, `judge_redaction` or `judge_budget`; `usage` is what was spent all the same."""

    def __init__(self, reason: str, message: str, usage: Usage | None = None) -> None:
        super().__init__(reason, message)
        self.usage = usage or Usage()


@dataclass(frozen=True, slots=True)
class JudgeRequest:
    """What is sent; `id` is that of its reservation, empty for a new one each time."""

    key: str
    """Under which the answer is remembered; also of the second try, whose messages differ."""
    messages: Sequence[Message]
    schema: Schema
    temperature: float
    top: int
    id: str


class Judge:
    """One model with its limits. Safe to use from many threads."""

    def __init__(self, settings: Settings, store: Ledger | None = None) -> None:
        """Raises SettingError where there is no model, no price or no key for it, MissingExtraError without litellm."""
        if not settings.judge_model:
            raise SettingError("judge_model is not set; give the name of a model as litellm knows it, e.g. gpt-4o-mini")
        self._litellm = litellm_setup.load()
        self.model = settings.judge_model
        self._settings = settings
        self._sanitizer = prompt_sanitizer(settings)
        self._prices = litellm_setup.prices(self._litellm, settings)
        litellm_setup.check_provider(self._litellm, settings)
        self._key = litellm_setup.key(self._litellm, settings)
        self.store = store or _ledger(settings)
        self.concurrency = settings.judge_concurrency
        self._slots = threading.BoundedSemaphore(settings.judge_concurrency)
        self._form = self._first_form()
        self._proven = False
        self.gives_logprobs = True
        """False once the server has shown that it gives no log-probabilities."""

    def ask(
        self, prompt: Prompt, fields: Mapping[str, str], *, sample: int = 0, temperature: float = 0.0, top: int = 0
    ) -> Answer:
        """Ask once, and once more where the answer cannot be read. Blocks.

        `sample` tells apart independent answers to one question. `top` asks for that many likeliest tokens at each
        place. An answer given before to the same model, prompt and input is not paid for again. Raises JudgeError."""
        fields = self._redacted(fields)
        messages, cut = render(prompt, fields)
        more = (sample, temperature, top)
        what = (self.model, self._settings.judge_api_base, prompt.name, prompt.version, messages, more)
        key = hashlib.sha256(json.dumps(what).encode("utf-8", "replace")).hexdigest()
        stored = self.store.get(key)
        if stored is not None:
            saved = json.loads(stored)
            return Answer(saved["value"], saved["text"], Usage(), cut, tuple((t, p) for t, p in saved["top"]))
        id = reservation_id(current_score_key(), key)
        spent = Usage()
        problem = ""
        for _ in range(2):
            try:
                reply = self._send(JudgeRequest(key, messages, prompt.schema, temperature, top, id))
            except JudgeError as error:
                raise JudgeError(error.reason, str(error), spent + error.usage) from error
            spent += reply.usage
            try:
                if reply.finish == "length" and prompt.schema:
                    raise UnreadableError("it breaks off: judge_max_tokens is too small for it")
                value = read(reply.text, prompt.schema, fields.values()) if prompt.schema else {}
                if not prompt.schema and not reply.text.strip():
                    raise UnreadableError("it is empty")
            except UnreadableError as error:
                problem = str(error)
                messages = again(messages, reply.text, problem)
                continue
            saved = json.dumps({"value": value, "text": reply.text, "top": reply.top})
            self._remember(key, saved)
            return Answer(value, reply.text, spent, cut, reply.top)
        raise JudgeError(PARSE_FAILURE, f"the judge's answer cannot be read: {problem}", spent)

    def headroom(self) -> float:
        """How much of the budget is left, in [0, 1]: see `Ledger.headroom`."""
        return self.store.headroom()

    def _remember(self, key: str, saved: str) -> None:
        self.store.put(key, saved)

    def _redacted(self, fields: Mapping[str, str]) -> Mapping[str, str]:
        """The fields as they may leave. Raises JudgeError if one could not be redacted: it is not asked about."""
        if self._sanitizer.redact is None:
            return fields
        redacted = {name: self._sanitizer.text(value, FIELD_CHARS) for name, value in fields.items()}
        if failed := sorted(name for name, text in redacted.items() if text == REDACTION_FAILED):
            raise JudgeError("judge_redaction", f"the redact function failed for {', '.join(failed)}; nothing was sent")
        return redacted

    def _first_form(self) -> str:
        # A server of one's own most likely takes a schema, and steps back where it does not.
        own = bool(self._settings.judge_api_base)
        return "schema" if own or self._litellm.supports_response_schema(self.model) else "object"

    def _send(self, request: JudgeRequest) -> Completion:
        import tenacity

        attempts = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(RETRIES + 1), wait=_pause,
            retry=tenacity.retry_if_exception(self._passing), reraise=True,
        )  # fmt: skip
        lost = [Usage()]
        try:
            reply: Completion = attempts(self._attempt, request, lost)
        except EvaluationError as error:  # also the budget's
            raise JudgeError(error.reason, str(error), lost[0]) from error
        except Exception as error:
            what = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"[:300]
            raise JudgeError(self._reason(error), what, lost[0]) from error
        return replace(reply, usage=reply.usage + lost[0])

    def _attempt(self, request: JudgeRequest, lost: list[Usage]) -> Completion:
        """One try, and once more without what the server refuses."""
        while True:
            options = self._options(request.schema, request.top)
            try:
                with self._slots:
                    reply = self._once(request, options, lost)
            except Exception as error:
                if not self._steps_back(error, options):
                    raise
                continue
            self._proven = True
            if "logprobs" in options and not reply.top:
                self.gives_logprobs = False
            return reply

    def _options(self, schema: Schema, top: int) -> dict[str, Any]:
        options: dict[str, Any] = {}
        if schema and self._form == "object":
            options["response_format"] = {"type": "json_object"}
        elif schema and self._form == "schema":
            form = {"name": "verdict", "schema": dict(schema), "strict": True}
            options["response_format"] = {"type": "json_schema", "json_schema": form}
        if top and self.gives_logprobs:
            options.update(logprobs=True, top_logprobs=top)
        return options

    def _once(self, request: JudgeRequest, options: Mapping[str, Any], lost: list[Usage]) -> Completion:
        seconds = self._settings.judge_timeout + _GRACE
        most = self._most(request.messages, options)
        left = remaining()
        # Waiting for room in the budget must leave the time to ask.
        patience = seconds if left is None else left - seconds
        reserved = self.store.reserve(self._nano(most), seconds, patience, request.id)
        try:
            reply = read_reply(within(seconds, lambda: self._complete(request.messages, request.temperature, options)))
        except Exception as error:
            # What the server turned away costs nothing. Where it may have answered unheard, the money counts as spent.
            spent = 0 if self._turned_away(error) else reserved.nano
            self.store.settle(reserved, spent)
            lost[0] += Usage(cost=spent / NANO)
            raise
        usage = self._with_cost(reply.usage, most)
        self.store.settle(reserved, round(usage.cost * NANO))
        return replace(reply, usage=usage)

    def _steps_back(self, error: Exception, options: Mapping[str, Any]) -> bool:
        """Whether the server may have refused the options rather than the question; if so they are asked for less.

        Some servers refuse a form that they do not know with a status of 500. That counts as long as no answer has
        come in that form; where the server fails without it, too, it was down, and the form is tried again."""
        ours = self._litellm
        refused = isinstance(error, ours.BadRequestError) and not isinstance(error, ours.ContextWindowExceededError)
        broke = isinstance(error, ours.InternalServerError) and self._turned_away(error) and not self._proven
        if not (refused or broke):
            return False
        if "response_format" in options:
            self._form = "object" if options["response_format"]["type"] == "json_schema" else "none"
            return True
        if broke:
            self._form = self._first_form()
            return False
        if "logprobs" in options:
            self.gives_logprobs = False
            return True
        return False

    def _complete(self, messages: Sequence[Message], temperature: float, options: Mapping[str, Any]) -> Any:
        settings = self._settings
        access = {"api_base": settings.judge_api_base, "api_key": self._key}
        return self._litellm.completion(
            model=self.model, messages=list(messages), temperature=temperature, max_tokens=settings.judge_max_tokens,
            timeout=settings.judge_timeout, num_retries=0, max_retries=0, drop_params=True, **options,
            **{name: value for name, value in access.items() if value},
        )  # fmt: skip

    def _most(self, messages: Sequence[Message], options: Mapping[str, Any]) -> Usage:
        """The most tokens that a request can have: no tokenizer makes more tokens than bytes."""
        size = sum(len(m["content"].encode("utf-8", "replace")) + _PER_MESSAGE for m in messages)
        return Usage(size + len(json.dumps(options)), self._settings.judge_max_tokens)

    def _nano(self, usage: Usage) -> int:
        """The price of so many tokens, in billionths of a dollar."""
        return round((usage.input_tokens * self._prices[0] + usage.output_tokens * self._prices[1]) * NANO)

    def _with_cost(self, usage: Usage, most: Usage) -> Usage:
        """What a request cost. A server that does not say it, or says what cannot be, has used the most."""
        if usage == Usage():
            return Usage(cost=self._nano(most) / NANO)
        usage = plausible(usage, most)
        return replace(usage, cost=self._nano(usage) / NANO)

    def _turned_away(self, error: BaseException | None) -> bool:
        """Whether the server answered with an error. litellm calls a broken connection a server's error, too: what
        tells them apart is whether there was a status to be raised for."""
        ours = self._litellm
        plain = (ours.RateLimitError, ours.AuthenticationError, ours.BadRequestError, ours.NotFoundError)
        for _ in range(_CHAIN):
            if isinstance(error, plain) or type(error).__name__ == "HTTPStatusError":
                return True
            if error is None:
                break
            error = error.__cause__ or error.__context__
        return False

    def _passing(self, error: BaseException) -> bool:
        """Whether another try may fare better."""
        ours = self._litellm
        if isinstance(error, ours.NotFoundError):
            return False
        kinds = (
            TimeoutError, NoReplyError, ours.RateLimitError, ours.Timeout, ours.APIConnectionError,
            ours.InternalServerError, ours.ServiceUnavailableError, ours.BadGatewayError,
        )  # fmt: skip
        return isinstance(error, kinds)

    def _reason(self, error: Exception) -> str:
        ours = self._litellm
        if isinstance(error, ours.RateLimitError):
            return "judge_rate_limited"
        if isinstance(error, (TimeoutError, ours.Timeout)):
            return "judge_timeout"
        if isinstance(error, (ours.AuthenticationError, ours.BadRequestError, ours.NotFoundError)):
            return "judge_refused"
        return "judge_unavailable"


def _pause(state: Any) -> float:
    """Seconds before the next try: what the server asks for, else doubling with jitter."""
    import tenacity
    from urllib3.exceptions import InvalidHeader
    from urllib3.util import Retry

    error = state.outcome.exception() if state.outcome is not None else None
    try:
        seconds = Retry().get_retry_after(getattr(error, "response"))  # noqa: B009 httpx' response has headers, too
    except (AttributeError, InvalidHeader):
        seconds = None
    return min(_WAIT, tenacity.wait_random_exponential(multiplier=0.5)(state) if seconds is None else seconds)


def _ledger(settings: Settings) -> Ledger:
    hour, day = settings.judge_budget_hour, settings.judge_budget_day
    if not is_server(settings.judge_ledger):
        return Ledger(settings.judge_store, settings.judge_ledger, hour=hour, day=day)
    shared = SharedBudget(settings.judge_ledger, hour=hour, day=day)
    return Ledger(settings.judge_store, hour=hour, day=day, shared=shared)


_judges: Lazy[Judge] = Lazy(Judge)
_OF_JUDGE = ("judge_", "model_prices", "redact")
"""The beginnings of the settings that a judge has."""


def get_judge(settings: Settings) -> Judge:
    """The judge of these settings, made on first use: one in a process for all that have the same settings of judge and
    redaction. Raises what `Judge` raises."""
    return _judges.get(only(settings, _OF_JUDGE))


def close_judge(settings: Settings) -> None:
    """Forget the judge of these settings, and close its store."""
    judge = _judges.forget(only(settings, _OF_JUDGE))
    if judge is not None:
        judge.store.close()


def use_judge(judge: Judge | None) -> None:
    """Use this judge whatever the settings are; None for those that the settings name."""
    _judges.use(None if judge is None else lambda _: judge)
