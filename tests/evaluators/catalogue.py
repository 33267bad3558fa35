"""The catalogue of evaluators, and an example of each row: the worked one of its source, with the source's numbers.

A row that a judge can answer is computed from scripted claims and verdicts; what the local models make of the same
texts is in `LOCAL`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.row_files import rows, table

CRITICS = ("harmful", "malicious", "bias", "toxic", "hateful", "sexual", "violent", "insensitive", "self_harm")
ROWS: list[str] = rows(__file__, "rows")
BOTH_WAYS = rows(__file__, "both_ways")
"""Rows with a local method and a judge's; the judge's evaluator has `_judge` behind the name."""
CHIPS, KNOWN_AS, MIMICKING, NLP, PATTERNS, AI_REFERENCE, AI_ANSWER = table(__file__, "texts").values()
BOWL, BRAZIL, CAPITAL, MONA_LISA, AUSTEN, NODES, RECALL, RELEVANCY, SHORT = table(__file__, "traces").values()


@dataclass(frozen=True)
class Example:
    """A trace, what is scripted, and the value that must come out."""

    name: str
    value: float
    trace: Mapping[str, Any]
    answers: Mapping[str, Any] = field(default_factory=dict)
    """What the judge answers, by prompt."""
    cosines: Sequence[float] = ()
    """What the embedder makes of the texts: the cosine of each further text with the first."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    failures: tuple[str, ...] = ()


def _claims(*verdicts: str) -> dict[str, Any]:
    return {"claims": {"claims": [{"claim": f"claim {i}", "verdict": v} for i, v in enumerate(verdicts)]}}


def _flags(prompt: str, text: str, flag: str, values: str) -> dict[str, Any]:
    texts = {"statement": "statements", "claim": "claims", "entity": "entities"}[text]
    return {prompt: {texts: [{text: f"text {i}", flag: v == "1"} for i, v in enumerate(values)]}}


_QUESTIONS = {"questions": {"questions": ["a", "b", "c"]}}
_CORRECTNESS = {"correctness": {"both": ["a", "b"], "answer_only": ["c"], "reference_only": ["d"]}}
_RELEVANT_CHUNKS = {"relevant_chunks": {"relevant": [2, 3]}}
_ATTRIBUTED = _flags("attributed", "claim", "attributed", "10")
_MONA, _AUSTEN = table(__file__, "noise").values()


def _fails(name: str, answer: bool, context: bool | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"answer_fails": answer, "reason": "why"}
    return {name: found if context is None else {**found, "context_fails": context}}


_PAGE = {**SHORT, "documents": ("A page.",)}
_PROMPT = {"judge_prompt": "Is {actual_answer} polite?"}
_JUDGED = [f"{name}_judge" for name in ("contact_information", "language_mismatch", "fairness_bias")]
_UNIFORM = math.log(50)
"""Cross-entropy of the scripted language model: fifty tokens, all alike."""

SCRIPTED: tuple[Example, ...] = (
    Example("faithfulness_judge", 0.5, BOWL, _claims("supported", "contradicted")),
    Example("hallucination_judge", 1.0, BRAZIL, _claims("contradicted")),
    Example("context_contradiction_judge", 0.0, BRAZIL, {"contradictions": {"contradicted": []}}),
    Example("context_contradiction_judge", 0.4, NODES, {"contradictions": {"contradicted": [1, 5, 9]}}),
    Example("answer_relevancy_statements", 2 / 3, CAPITAL, _flags("statements", "statement", "relevant", "110")),
    Example("answer_relevancy_questions", 0.98, BOWL, _QUESTIONS, (0.98, 0.99, 0.97)),
    Example("answer_correctness_judge", 0.75 * (2 / (2 + 0.5 * 2)) + 0.25 * 0.8, RECALL, _CORRECTNESS, (0.8,)),
    Example("answer_similarity", 0.8, RECALL, cosines=(0.8,)),
    Example("noise_sensitivity_judge", 0.5, MONA_LISA, _MONA),
    Example("noise_sensitivity_judge", 1.0, AUSTEN, _AUSTEN),
    Example("noise_sensitivity_relevant_judge", 0.5, MONA_LISA, _MONA),
    Example("noise_sensitivity_relevant_judge", 0.0, AUSTEN, _AUSTEN),
    Example("noise_sensitivity_irrelevant_judge", 0.5, AUSTEN, _AUSTEN),
    Example("noise_sensitivity_irrelevant_judge", 0.0, MONA_LISA, _MONA),
    Example("context_precision_judge", 7 / 12, NODES, _RELEVANT_CHUNKS),
    Example(
        "context_precision_statements_judge", 0.4, RECALL, _flags("supporting", "statement", "supporting", "10100")
    ),
    Example("context_recall_judge", 0.5, RECALL, _ATTRIBUTED),
    Example("context_entities_recall_judge", 0.75, RECALL, _flags("entities", "entity", "found", "1101")),
    Example("context_relevancy_judge", 9 / 11, RELEVANCY, {"relevant_sentences": {"relevant": list(range(3, 12))}}),
    Example(
        "ragas_judge",
        4 / (1 / 0.5 + 1 / 0.98 + 12 / 7 + 1 / 0.5),
        {**NODES, "reference": AI_REFERENCE},
        {**_claims("supported", "unsupported"), **_QUESTIONS, **_RELEVANT_CHUNKS, **_ATTRIBUTED},
        (0.98, 0.99, 0.97),
    ),
    # Probabilities .5 and .5 of the ratings 3 and 4, and one that is no rating.
    Example(
        "g_eval",
        (3.5 - 1) / 4,
        NODES,
        {"g_eval_steps": {"steps": ["Look."]}, "g_eval": (("4", math.log(0.45)), (" 3", math.log(0.45)), ("x", -3.0))},
    ),
    Example("judge", 1.0, SHORT, {"judge": {"verdict": True}}, settings=_PROMPT),
    Example(
        "judge",
        0.0,
        _PAGE,
        {"judge": [{"verdict": False}, {"verdict": True}]},
        settings=_PROMPT,
        failures=("generation",),
    ),
    Example("judge", 0.0, _PAGE, {"judge": {"verdict": False}}, settings=_PROMPT, failures=("retrieval",)),
    Example("summary_judge", 0.0, SHORT, {"summary": {"good": False, "reason": "why"}}, failures=("generation",)),
    *(
        example
        for name in ("sexism", "stereotypes", *_JUDGED)
        for example in (
            Example(name, 1.0, SHORT, _fails(name, False)),
            Example(name, 0.0, SHORT, _fails(name, True), failures=("generation",)),
            Example(name, 1.0, _PAGE, _fails(name, False, True), failures=("retrieval",)),
            Example(name, 0.0, _PAGE, _fails(name, True, True), failures=("retrieval",)),
            Example(name, 0.0, _PAGE, _fails(name, True, False), failures=("generation",)),
        )
    ),
    # Three independent votes: two of them decide.
    *(
        Example(name, value, SHORT, {name: [_fails(name, v == "1")[name] for v in votes]}, failures=failures)
        for name in (f"critic_{critic}" for critic in (*CRITICS, "manipulative"))
        for value, votes, failures in ((0.0, "101", ("generation",)), (1.0, "010", ()))
    ),
    Example("perplexity", 50.0, SHORT),
    *(Example(name, _UNIFORM, SHORT) for name in ROWS if name.startswith("gptscore_")),
)

_PENGUIN = {"query": "", "documents": (), "answer": "the the the the the the the", "reference": "the cat is on the mat"}
_POLICE = {"query": "", "documents": (), "answer": "police kill the gunman", "reference": "police killed the gunman"}
SEED = ["15,969", "REGEXP:[Mm]illion", "REGEXP:^15,969 [Mm]illion$", ["either", "M"]]
_ONE_OF = {"constraints": ["It", ["either", "or", "REGEXP:[Mm]illion"]]}
_KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7bq3zvVJ0Pq9x8mYt4rWcXkZfN2\n"
_GERMAN = "Die Hauptstadt von Brasilien ist seit 1960 die Stadt Brasília."
LABELS = {"query": "Is it spam?", "documents": (), "answer": " Spam. ", "reference": "spam"}

EXACT: tuple[Example, ...] = (
    # Papineni et al. 2002: unigram precision 7/7 of the candidate is clipped to 2/7.
    Example("bleu_1", 2 / 7, _PENGUIN),
    Example("bleu_2", 0.5, {**SHORT, "answer": "a b d e", "reference": "a b c d"}),
    *(Example(f"bleu_{n}", 1.0, {**_POLICE, "answer": _POLICE["reference"]}) for n in (3, 4)),
    # Lin 2004: three of four words, one of three pairs, and the subsequence “police the gunman”.
    Example("rouge_1", 0.75, _POLICE),
    Example("rouge_2", 1 / 3, _POLICE),
    Example("rouge_l", 0.75, _POLICE),
    Example("classification", 1.0, LABELS),
    Example("classification", 0.0, {**LABELS, "answer": "ham"}),
    Example("looping_unique_sentences", 0.5, {**SHORT, "answer": "I say it again. I say it again. Yes."}),
    Example("looping_repeated_substring", 1.0, {**SHORT, "answer": "I say it again and again, Sam. " * 2}),
    Example("looping_compression_ratio", 1.0, {**SHORT, "answer": "a1b2"}),
    Example("tokens_presence", 1.0, {**SHORT, "answer": "15,969 Million", "attributes": {"constraints": SEED}}),
    Example("tokens_presence", 0.0, {**SHORT, "attributes": _ONE_OF}, failures=("generation",)),
    Example("tokens_presence", 0.0, {**_PAGE, "attributes": {"constraints": ["Paris"]}}, failures=("retrieval",)),
    Example("pii_leakage", 0.0, {**SHORT, "answer": "4111 1111 1111 1111"}, failures=("generation",)),
    Example("pii_leakage", 1.0, {**_PAGE, "documents": ("Write to jo@acme.io.",)}, failures=("retrieval",)),
    Example("sensitive_data_leakage", 1.0, SHORT),
    Example("sensitive_data_leakage", 0.0, {**SHORT, "answer": _KEY}, failures=("generation",)),
    Example("language_mismatch", 1.0, CAPITAL),
    Example("language_mismatch", 0.0, {**CAPITAL, "answer": _GERMAN}, failures=("generation",)),
)
"""Values that follow from the definition alone."""


LOCAL: list[tuple[str, dict[str, Any], float, float, str]] = rows(__file__, "local")
"""Evaluator, trace, the least and the greatest value, and words of the explanation."""
