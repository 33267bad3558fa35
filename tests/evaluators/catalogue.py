"""The catalogue of evaluators, and an example of each row: the worked one of its source, with the source's numbers.

A row that a judge can answer is computed from scripted claims and verdicts; what the local models make of the same
texts is in `LOCAL`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

CRITICS = ("harmful", "malicious", "bias", "toxic", "hateful", "sexual", "violent", "insensitive", "self_harm")
ROWS: tuple[str, ...] = (
    # generation
    "faithfulness", "hallucination", "context_contradiction", "hallucination_cross_encoder", "groundedness",
    "answer_relevance", "answer_relevance_cosine", "answer_relevance_max",
    "answer_relevancy_questions", "answer_relevancy_statements",
    "answer_correctness", "answer_similarity", "bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_1", "rouge_2", "rouge_l",
    "noise_sensitivity", "noise_sensitivity_relevant", "noise_sensitivity_irrelevant", "perplexity",
    "looping_unique_sentences", "looping_repeated_substring", "looping_compression_ratio", "language_mismatch",
    "tokens_presence", "g_eval", "judge",
    *(f"gptscore_qa_{a}" for a in ("interest", "engagement", "understandability", "relevance", "specific",
                                   "correctness", "semantically_appropriate", "fluency")),
    *(f"gptscore_translation_{a}" for a in ("accuracy", "fluency", "mqm")),
    *(f"gptscore_summary_ref_{a}" for a in ("semantic_coverage", "factuality", "informativeness", "coherence",
                                            "relevance", "fluency")),
    *(f"gptscore_summary_{a}" for a in ("semantic_coverage", "factuality", "consistency", "informativeness",
                                        "coherence", "relevance", "fluency")),
    "summary_completeness", "summary_faithfulness_zs", "summary_faithfulness_conv", "summary_judge", "ragas",
    "classification",
    # retrieval
    "context_precision", "context_precision_statements", "context_recall", "context_entities_recall",
    "context_relevancy", "context_relevancy_recall", "context_relevancy_precision",
    # privacy
    "pii_leakage", "sensitive_data_leakage", "contact_information",
    # safety and fairness
    "toxicity", "toxicity_severe", "toxicity_obscene", "toxicity_threat", "toxicity_insult",
    "toxicity_identity_attack", "fairness_bias", "sexism", "stereotypes",
    *(f"critic_{c}" for c in (*CRITICS, "manipulative")),
)  # fmt: skip
BOTH_WAYS = (
    "faithfulness", "hallucination", "context_contradiction", "answer_correctness", "noise_sensitivity",
    "noise_sensitivity_relevant", "noise_sensitivity_irrelevant", "language_mismatch", "context_precision",
    "context_precision_statements", "context_recall", "context_entities_recall", "context_relevancy",
    "contact_information", "fairness_bias", "ragas",
)  # fmt: skip
"""Rows with a local method and a judge's; the judge's evaluator has `_judge` behind the name."""

AI = "What is AI?"
LEARNING = "Machine Learning is the study of algorithms which learn with more data."
KNOWN_AS = "AI is known as Artificial Intelligence."
MIMICKING = (
    "Artificial intelligence refers to machines mimicking human intelligence, like problem-solving and learning. AI "
    "includes applications like virtual assistants, robotics, and autonomous vehicles. It's evolving rapidly with "
    "advancements in machine learning and deep learning."
)
NLP = (
    "NLP is a branch of AI that enables computers to understand, interpret, and generate human language. Techniques "
    "include tokenization, stemming, and sentiment analysis. Applications range from chatbots to language translation "
    "services."
)
PATTERNS = (
    "Machine learning is a field of artificial intelligence focused on enabling systems to learn patterns from data. "
    "Algorithms analyze past data to make predictions or classify information. Popular applications include "
    "recommendation systems and image recognition."
)
CHIPS, BATTLE = "NVIDIA makes chips for AI.", "Google and Microsoft are battling out the market share for AI Chatbots."
AI_REFERENCE = (
    "AI, also known as Artificial Intelligence, is used to build complex systems for applications like virtual "
    "assistants, robotics, and autonomous vehicles."
)
AI_ANSWER = (
    "AI refers to machines mimicking human intelligence, including problem-solving and learning. AI has applications "
    "like virtual assistants, robotics, and autonomous vehicles."
)
BOWL = {
    "query": "When was the first Super Bowl held?",
    "documents": (
        "The First AFL-NFL World Championship Game, later known as Super Bowl I, was played on January 15, 1967, at "
        "the Los Angeles Memorial Coliseum.",
    ),
    "answer": "The first Super Bowl was held on January 15, 1967, in Florida.",
}
BRAZIL = {
    "query": "What is the capital of Brazil?",
    "documents": ("Brazil is a country in South America. Its capital is Brasília.",),
    "answer": "The capital of Brazil is Florida.",
}
CAPITAL = {
    "query": "What is the capital city of Brazil?",
    "documents": (),
    "answer": "The capital city of Brazil is Brasília. It replaced Rio de Janeiro as the capital in 1960. Florida is a "
    "state in the USA.",
}
MONA_LISA = {
    "query": "Who painted the Mona Lisa and in what century was it painted?",
    "reference": "Leonardo da Vinci painted the Mona Lisa in the 16th century.",
    "documents": (
        "The Mona Lisa is a famous portrait painted by Leonardo da Vinci. It is believed to have been started in the "
        "early 1500s. Some art historians date its completion to around 1519, placing it firmly in the 15th century "
        "according to certain periodizations.",
    ),
    "answer": "Leonardo da Vinci painted the Mona Lisa, and it was painted in the 15th century.",
}
AUSTEN = {
    "query": "Who wrote the novel 'Pride and Prejudice'?",
    "reference": "Jane Austen wrote 'Pride and Prejudice.'",
    "documents": (
        "Jane Austen published 'Pride and Prejudice' in 1813, a classic romance novel.",
        "Charlotte Brontë, a renowned author, is best known for her novel 'Jane Eyre,' published in 1847.",
    ),
    "answer": "Charlotte Brontë wrote 'Pride and Prejudice,' and she is famous for 'Jane Eyre.'",
}
NODES = {"query": AI, "documents": (LEARNING, KNOWN_AS, MIMICKING, NLP, PATTERNS), "answer": AI_ANSWER}
RECALL = {
    "query": AI,
    "documents": (CHIPS, "AI is an acronym for Artificial Intelligence."),
    "reference": AI_REFERENCE,
    "answer": AI_ANSWER,
}
RELEVANCY = {"query": AI, "documents": (CHIPS, BATTLE, MIMICKING, NLP, PATTERNS), "answer": AI_ANSWER}
SHORT = {"query": "Is it?", "documents": (), "answer": "It is.", "reference": "It is."}


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
_MONA = {
    "noise": {
        "claims": [
            {"claim": "Leonardo da Vinci painted the Mona Lisa", "correct": True, "contexts": [1]},
            {"claim": "It was painted in the 15th century", "correct": False, "contexts": [1]},
        ],
        "relevant_contexts": [1],
    }
}
_AUSTEN = {
    "noise": {
        "claims": [
            {"claim": "Charlotte Brontë wrote 'Pride and Prejudice'", "correct": False, "contexts": []},
            {"claim": "Charlotte Brontë is famous for 'Jane Eyre'", "correct": False, "contexts": [2]},
        ],
        "relevant_contexts": [1],
    }
}


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


@dataclass(frozen=True)
class Local:
    """What a local evaluator must make of a source's example."""

    name: str
    trace: Mapping[str, Any]
    low: float
    high: float
    says: str = ""
    """Words of the explanation."""


_POLITE = {**SHORT, "answer": "The pump is covered for 24 months."}

LOCAL: tuple[Local, ...] = (
    Local("faithfulness", BOWL, 0.0, 0.89, "Florida"),
    Local("faithfulness", {**NODES, "documents": (MIMICKING, NLP, PATTERNS)}, 0.95, 1.0),
    Local("hallucination", BRAZIL, 0.25, 1.0, "Florida"),
    Local("hallucination_cross_encoder", BRAZIL, 0.0, 0.6),
    Local("groundedness", BOWL, 0.0, 0.79, "Florida"),
    Local("context_contradiction", {**NODES, "documents": (MIMICKING, PATTERNS)}, 0.0, 0.0),
    Local("answer_relevance", CAPITAL, 0.5, 1.0),
    Local("answer_relevance_cosine", CAPITAL, 0.4, 0.75),
    Local("answer_relevance_max", CAPITAL, 0.8, 1.0),
    Local("answer_correctness", {**MONA_LISA, "answer": MONA_LISA["reference"]}, 0.99, 1.0),
    Local("answer_correctness", AUSTEN, 0.0, 0.5),
    Local("noise_sensitivity", MONA_LISA, 0.5, 0.5, "1 of 2"),
    Local("noise_sensitivity", AUSTEN, 1.0, 1.0, "2 of 2"),
    Local("noise_sensitivity_relevant", AUSTEN, 0.0, 0.0),
    # The source says 0.5: the embedded model also takes the chunk on Brontë for support of her having written it.
    Local("noise_sensitivity_irrelevant", AUSTEN, 0.5, 1.0),
    Local("context_precision", NODES, 0.5, 0.7),
    Local("context_precision_statements", {**RECALL, "documents": (AI_REFERENCE, CHIPS)}, 0.5, 0.5, "1 of 2"),
    Local("context_recall", RECALL, 0.0, 0.5),
    Local("context_recall", {**RECALL, "documents": (AI_REFERENCE,)}, 0.9, 1.0),
    Local("context_entities_recall", {**MONA_LISA, "reference": "Leonardo da Vinci lived in Amboise."}, 0.5, 0.5),
    Local("context_relevancy", RELEVANCY, 0.2, 0.6, "of 11"),
    Local("context_relevancy_recall", RELEVANCY, 0.75, 1.0),
    Local("context_relevancy_precision", RELEVANCY, 0.4, 0.75),
    Local("ragas", {**NODES, "reference": KNOWN_AS, "documents": (KNOWN_AS,), "answer": KNOWN_AS}, 0.8, 1.0),
    Local("summary_faithfulness_zs", {"query": MIMICKING, "documents": (), "answer": AI_ANSWER}, 0.9, 1.0),
    Local("summary_faithfulness_zs", {"query": NLP, "documents": (), "answer": BRAZIL["answer"]}, 0.0, 0.6),
    Local("summary_faithfulness_conv", {"query": MIMICKING, "documents": (), "answer": AI_ANSWER}, 0.75, 1.0),
    Local("summary_completeness", {"query": MIMICKING, "documents": (), "answer": AI_ANSWER}, 0.75, 1.0),
    Local("summary_completeness", {"query": NLP, "documents": (), "answer": BRAZIL["answer"]}, 0.0, 0.0),
    Local("contact_information", {**SHORT, "answer": "Call Jane Miller at +1 212 555 0147."}, 0.0, 0.0),
    Local("contact_information", {**SHORT, "answer": "Jane Austen wrote it."}, 1.0, 1.0),
    Local("toxicity", {**SHORT, "answer": "You are a stupid idiot and I hate you."}, 0.75, 1.0),
    Local("toxicity_insult", {**SHORT, "answer": "You are a stupid idiot and I hate you."}, 0.2, 1.0),
    *(Local(f"toxicity_{label}", _POLITE, 0.0, 0.5) for label in ("severe", "obscene", "threat", "identity_attack")),
    Local("fairness_bias", _POLITE, 0.0, 0.5),
)
