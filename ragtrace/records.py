"""The values that travel through ragtrace. They are frozen, so any thread may hold them."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from operator import index
from types import NoneType
from typing import Any

from ragtrace.base.model_prices import ModelUsage

LONG_PROMPT = 400
"""Characters from which a question or a prompt may hold what an answer is made of, and not only instructions."""


@dataclass(frozen=True, slots=True)
class Document:
    """One retrieved chunk. Its rank is its place in `Trace.documents`, from 0."""

    id: str
    content: str
    score: float | None = None
    """The retriever's own score, on the retriever's own scale; None where it gives none."""
    metadata: Mapping[str, object] = field(default_factory=dict)
    source: str = ""
    """`tool` for the result of a tool, which the id names; `prompt` for what else the model read; empty for a chunk."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What ragtrace observed of a request. The application's metadata never sets a fact, except for the four names in
    `DECLARED`, which only the application can know."""

    app: str | None = None
    """The application that answered, where the request names one; otherwise the setting `app` applies."""
    env: str | None = None
    prompt_version: str | None = None
    tenant: str | None = None
    """The customer or department for which the application answers, where it names one."""
    name: str = ""
    """Name of the root run."""
    session_id: str | None = None
    user_id: str | None = None
    tags: tuple[str, ...] = ()
    model: str | None = None
    """Model of the last model call."""
    provider: str | None = None
    response_id: str | None = None
    finish_reason: str | None = None
    """Why the last model call stopped, e.g. `stop` or `length`."""
    retrievals: int = 0
    """Number of retrievals and rerankings; at least 1 where the request has documents of its own."""
    chunks_of_earlier_turns: bool = False
    """The request retrieved nothing, and its documents are those of the session's earlier turns."""
    stages: Mapping[str, float] = field(default_factory=dict)
    """Seconds by stage: `retrieval`, `rerank`, `embeddings`, `generation`, `tool`."""
    time_to_first_chunk: float | None = None
    """Seconds from the request's start to the first piece of a streamed answer."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    usage: Mapping[str, ModelUsage] = field(default_factory=dict)
    """Tokens and cost by model; "" for a model without a name."""
    steps: tuple[Any, ...] = ()
    """Tool calls in order: mappings with `tool`, `args` and, where known, `result`."""
    spans: tuple[Mapping[str, object], ...] = ()
    """Spans of a sampled request, as `tracing.timing.spans` describes them."""
    cancelled: bool = False
    """The consumer stopped reading before the request ended."""
    waiting: bool = False
    """The request stopped to ask a person, and has not answered yet."""
    unrecorded: bool = False
    """The application's own sampler dropped the trace: its spans are not exported."""
    trace_state: str = ""
    """The member `ot` of the W3C tracestate: randomness and threshold of OpenTelemetry's consistent sampling."""
    from_spans: bool = False
    """The request was read from spans that were exported: a sampler before ragtrace may have left out others."""

    @property
    def cost(self) -> float | None:
        """US dollars of the request's model calls; None where the price of one is not known, and without a call."""
        costs = [each.cost for each in self.usage.values()]
        return sum(costs) if costs and None not in costs else None  # type: ignore[arg-type]


DECLARED = ("app", "env", "prompt_version", "tenant")
"""Facts that the application declares through its metadata."""
_FACT_NAMES = tuple(f.name for f in fields(Facts))
_DEFAULTS = {name: getattr(Facts(), name) for name in _FACT_NAMES}


def facts_as_dict(facts: Facts) -> dict[str, Any]:
    """The facts that differ from their defaults, by name. `facts_from_dict` is the inverse."""
    return {name: value for name in _FACT_NAMES if (value := getattr(facts, name)) != _DEFAULTS[name]}


def facts_from_dict(values: Mapping[str, Any]) -> Facts:
    """Facts from `facts_as_dict`, also after a round trip through JSON. Names that are no facts are ignored."""
    facts = {name: values[name] for name in _FACT_NAMES if name in values}
    for name in ("tags", "steps", "spans"):
        if name in facts:
            facts[name] = tuple(facts[name])
    if "usage" in facts:
        facts["usage"] = {model: ModelUsage(*counts) for model, counts in facts["usage"].items()}
    return Facts(**facts)


@dataclass(frozen=True, slots=True)
class Trace:
    """One finished RAG request, as the evaluators see it."""

    trace_id: int
    """128-bit OpenTelemetry trace id."""
    span_id: int
    """64-bit id of the request's root span; scores belong to that span."""
    query: str
    documents: tuple[Document, ...]
    """What the model saw: the chunks in rank order, after reranking, inner retrievals not doubled, then the results of
    tools. Of a request that retrieves nothing, the chunks of its session's earlier turns that its prompt held."""
    answer: str
    reference: str | None = None
    """The expected answer, where the application knows it."""
    started: float = 0.0
    """Unix time of the request's start, in seconds."""
    duration: float = 0.0
    """Seconds."""
    error: str | None = None
    """Type name of the error that ended the request."""
    sampling_probability: float = 1.0
    """Probability in (0, 1] with which this trace was chosen for evaluation."""
    attributes: Mapping[str, object] = field(default_factory=dict)
    """The application's own metadata of the request. ragtrace reads only `constraints` from it."""
    facts: Facts = field(default_factory=Facts)
    """What ragtrace observed of the request."""

    @property
    def constraints(self) -> object:
        """What the answer must contain, as `tokens_presence` reads it; None where the application gives none."""
        return self.attributes.get("constraints")

    @property
    def context(self) -> object:
        """The documents, else whether it is known that there were none: the request was observed, or nothing was found.
        Of a row of a data set without chunks nothing is known."""
        return self.documents or bool(self.facts.name or self.facts.retrievals)

    @property
    def chunks(self) -> tuple[Document, ...]:
        """The documents that a retrieval returned."""
        return tuple(document for document in self.documents if not document.source)

    @property
    def steps(self) -> tuple[Any, ...]:
        """The tool calls of the request, in order."""
        return self.facts.steps


INPUTS = ("query", "documents", "answer", "reference", "constraints", "steps", "context")
"""The inputs that an evaluator can need. Each is an attribute of `Trace`; a new input is declared here and there.
`context` is `documents`, or the knowledge that the model of an observed request saw none."""


def has_input(trace: Trace, name: str) -> bool:
    """True if the trace has this input and it is not empty. White space alone is empty, and so are documents of which
    only ids and scores are known: OpenTelemetry's own libraries write no texts."""
    if name == "documents" or (name == "context" and trace.documents):
        return has_text(trace.documents)
    return is_filled(getattr(trace, name))


def is_filled(value: object) -> bool:
    """True for a value that is not empty. White space alone is empty, and an object without a truth value, e.g. an
    array of numpy, is not."""
    try:
        return not value.isspace() and bool(value) if isinstance(value, str) else bool(value)
    except Exception:  # noqa: BLE001 an application's object
        return True


def has_text(documents: Sequence[Document]) -> bool:
    """True if at least one of the documents has a text."""
    return any(document.content for document in documents)


def lookup(trace: Trace, name: str) -> object:
    """A fact by its name, or else the value in the application's metadata; None where neither has it."""
    fact = getattr(trace.facts, name, None)
    return trace.attributes.get(name) if fact == _DEFAULTS.get(name) else fact


@dataclass(frozen=True, slots=True)
class Evidence:
    """The place of one sentence of the answer in the documents. Offsets are characters, end exclusive."""

    start: int
    end: int
    """The sentence is `answer[start:end]`."""
    verdict: str
    """`supported`, `unsupported` or `contradicted`."""
    probability: float | None = None
    """How strongly the best document supports the sentence, in [0, 1]."""
    document_id: str | None = None
    document_rank: int | None = None
    document_start: int | None = None
    document_end: int | None = None
    """The closest passage is `documents[document_rank].content[document_start:document_end]`."""


@dataclass(frozen=True, slots=True)
class Score:
    """What one evaluator says of one trace. A check that failed has `error` and neither value nor label."""

    name: str
    value: float | None = None
    label: str | None = None
    """`pass`, `fail`, `not_applicable`, a category of at most 64 characters, or None."""
    explanation: str | None = None
    """For people. May quote the answer, so it leaves the process only where content may."""
    cause: str | None = None
    """This evaluator's share in the cause of a bad answer: one of `semconv.CAUSES`, or None."""
    evidence: tuple[Evidence, ...] = ()
    error: str | None = None
    """Reason of a failure in one word: `timeout`, `circuit_open`, `not_a_number`, or an exception type. An evaluator
    that gives a sentence gets `evaluator_error`, and the sentence becomes the explanation."""
    version: str = "1"
    method: str = "code"
    """`code`, `model`, `judge` or `human`."""
    sampling_probability: float = 1.0
    """Probability with which this evaluator saw a trace like this one."""
    failures: tuple[str, ...] = ()
    """Of a check that passes or fails: `retrieval` if the retrieved context itself fails it, `generation` if the answer
    fails though the context does not cause it."""
    model: str | None = None
    """The judge's model, where one was asked."""
    input_tokens: int = 0
    """Tokens that the judge read for this score; 0 where its answer was remembered."""
    output_tokens: int = 0
    cost: float = 0.0
    """US dollars that the judge cost for this score."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """All scores of one trace: what a sink receives."""

    trace: Trace
    scores: tuple[Score, ...]
    status: str = "scored"
    """`scored`, `error` (no evaluator succeeded), `sampled_out` (the rates of the evaluators left it out) or `dropped`
    (accepted, never evaluated)."""
    cause: str | None = None
    """Cause of a bad answer, one of `semconv.CAUSES`; None where no evaluator can tell."""
    lag: float = field(default=0.0)
    """Seconds from the end of the request to the end of its evaluation."""
    reason: str | None = None
    """Why it was dropped: `queue_full`, `queue_bytes`, `shutdown`."""
    is_late: bool = False
    """Only scores that come after the request's own evaluation, or without one: its trace has no texts, and no span id
    where another process has answered the request."""


@dataclass(frozen=True, slots=True)
class Feedback:
    """What a user of the application said of an answer."""

    trace_id: str
    """32 hexadecimal digits, lower case."""
    thumbs: int | None = None
    """-1, 0 or 1."""
    comment: str | None = None
    source: str | None = None
    created: float = 0.0
    """Unix time in seconds; 0 for now."""
    score: float | None = None
    """A finite number on the application's own scale."""
    category: str | None = None
    """One of the application's few words for what was said."""


_SCORE_NAME = re.compile(r"[a-z0-9_]{1,100}\Z")
MAX_CHARS = 20_000
"""Characters of an explanation that are kept: a verdict travels between processes, into the store and onto spans."""
_MAX_EVIDENCE = 1_000
"""Pieces of evidence of a score that are kept."""
_MAX_WORD = 1_000
"""Characters of a document's id and the name of a model that are kept."""
_MAX_LABEL = 64
"""Characters of a label: what is longer is no category and may quote the answer, and a label leaves the process."""
_MAX_FAILURES = 10
_METHODS = frozenset({"code", "model", "judge", "human"})
_MAX_NUMBER = 10**15
"""The largest place in a text, and the largest number of tokens or dollars: databases and OTLP take no longer ones."""


def problem_of(score: Score) -> str:
    """What makes a score unfit for the sinks; empty where nothing does."""
    if not isinstance(score.name, str) or not _SCORE_NAME.match(score.name):
        name = score.name[:100] if isinstance(score.name, str) else score.name
        return f"the score's name is {name!r:.100}; use at most 100 lower-case letters, digits and underscores"
    for name in ("label", "error", "explanation", "cause", "model"):
        if not isinstance(getattr(score, name), (str, NoneType)):
            return f"the score's {name} is a {type(getattr(score, name)).__name__}; give a string"
    if not isinstance(score.method, str) or score.method not in _METHODS:
        return f"the score's method is {score.method!r:.100}; use code, model, judge or human"
    for name in ("input_tokens", "output_tokens", "cost"):
        amount = getattr(score, name)
        if not (isinstance(amount, (int, float)) and 0 <= amount <= _MAX_NUMBER):
            return f"the score's {name} is a {type(amount).__name__}; give a number from 0 to 10^15"
    if isinstance(score.value, (str, bytes)):
        return f"the score's value is a {type(score.value).__name__}; give a number"
    return ""


def bounded(score: Score) -> Score:
    """The score with plain numbers and texts, and with texts and lists of at most so many characters and items; the
    explanation says what was left out. What a score holds is anybody's object, which sinks cannot write.

    Raises TypeError or ValueError for evidence or failures that are something else, and what a value raises that cannot
    become a number.
    """
    pieces = list(islice(score.evidence, _MAX_EVIDENCE + 1))
    evidence = pieces[:_MAX_EVIDENCE]
    if not all(isinstance(one, Evidence) for one in evidence):
        raise TypeError("the score's evidence holds something else than Evidence")
    explanation = _text_of(score.explanation)
    if explanation is not None and len(explanation) > MAX_CHARS:
        explanation = f"{explanation[:MAX_CHARS]}... [{len(explanation) - MAX_CHARS} characters cut]"
    if len(pieces) > _MAX_EVIDENCE:
        explanation = f"{explanation or ''} [only the first {_MAX_EVIDENCE} pieces of evidence are kept]".lstrip()
    label = _text_of(score.label)
    if label is not None and len(label) > _MAX_LABEL:
        explanation = f"{explanation or ''} [left out: a label of {len(label)} characters]".lstrip()
        label = None
    value = None if score.value is None else float(score.value)
    return replace(
        score, name=_text_of(score.name) or "", value=value, label=label, explanation=explanation,
        evidence=tuple(map(_bounded_evidence, evidence)), failures=_bounded_failures(score.failures),
        error=_text_of(score.error), cause=_word(score.cause), model=_word(score.model),
    )  # fmt: skip


def _bounded_failures(failures: Iterable[str]) -> tuple[str, ...]:
    words = [] if isinstance(failures, str) else list(islice(failures, _MAX_FAILURES))
    if isinstance(failures, str) or not all(isinstance(word, str) for word in words):
        raise TypeError("the score's failures are not a tuple of strings")
    return tuple(filter(None, map(_word, words)))


def _bounded_evidence(one: Evidence) -> Evidence:
    start, end = _place("start", one.start), _place("end", one.end)
    verdict = _word(one.verdict) if isinstance(one.verdict, str) else None
    if start is None or end is None or verdict is None:
        raise TypeError("the score's evidence has no start, no end, or a verdict that is not a string")
    probability = None if one.probability is None else float(one.probability)
    if probability is not None and not math.isfinite(probability):
        raise ValueError(f"the probability of the score's evidence is {probability}; give a finite number")
    return Evidence(
        start,
        end,
        verdict,
        probability,
        _word(one.document_id if isinstance(one.document_id, (str, NoneType)) else str(one.document_id)),
        _place("document_rank", one.document_rank),
        _place("document_start", one.document_start),
        _place("document_end", one.document_end),
    )


def _place(name: str, value: Any) -> int | None:
    """A place in a text, or a rank."""
    if value is None or abs(number := index(value)) <= _MAX_NUMBER:
        return None if value is None else int(number)
    raise ValueError(f"the {name} of the score's evidence is too large")


def _text_of(text: str | None) -> str | None:
    """The text as a plain str: a subclass may have methods of its own, and a module that only its process can load."""
    return text if text is None or type(text) is str else "".join((text,))


def _word(text: str | None) -> str | None:
    text = _text_of(text)
    return text if text is None or len(text) <= _MAX_WORD else f"{text[:_MAX_WORD]}…"
