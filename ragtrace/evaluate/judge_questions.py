"""How an evaluator is made of questions to the judge."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ragtrace.errors import PARSE_FAILURE, PENDING, EvaluationError, MissingExtraError, SettingError
from ragtrace.evaluate.arithmetic import share
from ragtrace.evaluate.judge import Answer, Judge, JudgeError, Usage, deadline, gather, get_judge, paying_for
from ragtrace.evaluate.judge.prompts import Prompt, places, prompt_of
from ragtrace.evaluation import NOT_APPLICABLE, Evaluator, evaluator
from ragtrace.records import Document, Score, Trace
from ragtrace.settings import Settings

TIMEOUT = 180.0
"""Seconds for a micro-batch of questions to the judge, with all tries."""


class Asker:
    """Asks the judge on behalf of one evaluator about one trace, and adds up what that cost."""

    def __init__(self, judge: Judge, settings: Settings) -> None:
        self.settings = settings
        self.judge = judge
        self.usage = Usage()
        self.cut = False

    def __call__(
        self, prompt: Prompt, fields: Mapping[str, str], *, sample: int = 0, temperature: float = 0.0, top: int = 0
    ) -> Answer:
        """See `Judge.ask`."""
        try:
            answer = self.judge.ask(prompt, fields, sample=sample, temperature=temperature, top=top)
        except EvaluationError as error:
            self.usage += getattr(error, "usage", Usage())
            raise
        self.usage += answer.usage
        self.cut = self.cut or answer.cut
        return answer

    def of(self, name: str, trace: Trace, **texts: str) -> dict[str, Any]:
        """The reply to the prompt of this name in prompts.toml; `texts` are those that are no part of the request."""
        prompt = prompt_of(name)
        all_texts = texts_of(trace) | texts
        return self(prompt, {place: all_texts[place] for place in places(prompt)}).value


Ask = Callable[[Trace, Asker], Score | None]


def judged(*, name: str | None = None, version: str = "1", **options: Any) -> Callable[[Ask], Evaluator]:
    """Make an evaluator of a function that asks the judge about one trace. A micro-batch is asked about concurrently.
    `options` are further ones of `evaluator`.

    Whatever the judge cannot answer is a score with `error`; every score says what it cost."""

    def make(ask: Ask) -> Evaluator:
        called = name or ask.__name__

        def check(traces: Sequence[Trace], *, settings: Settings) -> list[Any]:
            try:
                judge = get_judge(settings)
            except (SettingError, MissingExtraError) as error:
                score = Score(called, error="no_judge", explanation=str(error), method="judge")
                return [score for _ in traces]
            with deadline(TIMEOUT):
                return gather(
                    lambda trace: _asked(called, version, ask, Asker(judge, settings), trace),
                    list(traces),
                    judge.concurrency,
                )

        check.__doc__ = ask.__doc__
        return evaluator(
            name=called, version=version, method="judge", asks_judge=True, batch=True, timeout=TIMEOUT, **options
        )(check)

    return make


def _asked(name: str, version: str, ask: Ask, asker: Asker, trace: Trace) -> Score:
    try:
        with paying_for(f"{trace.trace_id:032x}/{trace.span_id:016x}/{name}/{version}"):
            score = ask(trace, asker) or Score(name, label=NOT_APPLICABLE)
    except EvaluationError as error:
        score = Score(name, error=error.reason, explanation=str(error))
    except Exception as error:  # noqa: BLE001 one trace's failure must not become its batch's
        score = Score(name, error=type(error).__name__, explanation=str(error))
    if asker.cut and score.error is None:
        score = replace(score, explanation=f"{score.explanation or ''} (only the first part of a long text was read)")
    return replace(
        score, name=name, method="judge", model=asker.judge.model, input_tokens=asker.usage.input_tokens,
        output_tokens=asker.usage.output_tokens, cost=asker.usage.cost,
    )  # fmt: skip


def portion(flags: Sequence[bool], explanation: str | None = None) -> Score | None:
    """The share of true flags as the score of the check that returns it; None for no flags."""
    value = share(flags)
    return None if value is None else Score("", value, explanation=explanation)


def portion_of(verdicts: Sequence[tuple[str, bool]], bad: str = "", *, count_bad: bool = False) -> Score | None:
    """The share of the statements that are good as the score of the check that returns it; with `count_bad` the share
    of the others. None for no statements.

    The explanation quotes the bad ones after the word `bad`. A statement that the judge calls both good and bad counts
    once, as bad, and the explanation says that the judge contradicts itself."""
    doubtful = contradictions(verdicts)
    single = {key(text): (text, False) for text, _ in verdicts if key(text) in doubtful}
    rest = [(text, good) for text, good in verdicts if key(text) not in doubtful]
    final = [*rest, *single.values()]
    quotations = quoted([text for text, good in final if not good], bad) if bad else None
    return portion([good != count_bad for _, good in final], marked(quotations, doubtful))


def key(statement: str) -> str:
    """A statement without what its wording may vary in: case, white space, the full stop."""
    return " ".join(statement.casefold().split()).rstrip(".")


def contradictions(verdicts: Iterable[tuple[str, bool]]) -> list[str]:
    """The statements, as `key` gives them, on which one reply of the judge has two verdicts."""
    first: dict[str, bool] = {}
    both = [key(text) for text, verdict in verdicts if first.setdefault(key(text), verdict) != verdict]
    return list(dict.fromkeys(both))


def marked(explanation: str | None, doubtful: Sequence[str]) -> str | None:
    """The explanation, with the statements on which the judge contradicts itself."""
    return "; ".join(filter(None, (quoted(doubtful, "the judge contradicts itself"), explanation))) or None


def readable(ask: Callable[[int], Answer], samples: Iterable[int]) -> Iterator[Answer]:
    """The answers of independent samples; those that cannot be read are left out, and a judge that cannot be asked is
    not asked on. Raises JudgeError where none was read: that of the judge, or of the last sample. Where answers wait
    for a batch, all samples are asked before that is raised."""
    is_any = False
    unreadable: JudgeError | None = None
    pending: JudgeError | None = None
    for sample in samples:
        try:
            answer = ask(sample)
        except JudgeError as error:
            if error.reason == PENDING:
                pending = error
            elif error.reason == PARSE_FAILURE:
                unreadable = error
            elif is_any:
                break  # what was answered, and paid for, counts
            else:
                raise
            continue
        is_any = True
        yield answer
    if pending is not None:
        raise pending
    if unreadable is not None and not is_any:
        raise unreadable


def numbered(texts: Iterable[str]) -> str:
    """Texts under the numbers 1, 2, …"""
    return "\n\n".join(f"[{i}] {text}" for i, text in enumerate(texts, 1))


def texts_of(trace: Trace) -> dict[str, str]:
    """The texts of a request by the places that prompts have for them."""
    context = chunks(trace.documents)
    return {
        "question": trace.query, "answer": trace.answer, "reference": trace.reference or "", "context": context,
        "contexts": context,
    }  # fmt: skip


def chunks(documents: Sequence[Document]) -> str:
    """The retrieved chunks under their numbers."""
    return numbered(d.content for d in documents)


def quoted(texts: Sequence[str], what: str) -> str | None:
    """`what: “…”, “…”` of the first few texts; None for no texts."""
    return f"{what}: " + ", ".join(f"“{t}”" for t in texts[:5]) if texts else None
