"""Overlap of the answer with a reference text, by the libraries that others measure with; and labels against labels."""

from __future__ import annotations

import importlib.util
import warnings
from functools import lru_cache
from typing import Any

from ragtrace.errors import MissingExtraError
from ragtrace.evaluation import Evaluator, evaluator
from ragtrace.records import Score, Trace

_H2O = "H2O Eval Studio"
_CHARS = 100_000
_NEEDS = {"answer", "reference"}


def _need(module: str, package: str, purpose: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise MissingExtraError(package, "eval", purpose)


@lru_cache(maxsize=16)
def _words(text: str) -> tuple[str, ...]:
    from nltk.tokenize import NLTKWordTokenizer

    return tuple(NLTKWordTokenizer().tokenize(text[:_CHARS]))


def _bleu(n: int) -> Evaluator:
    def bleu(trace: Trace) -> float | None:
        _need("nltk", "nltk", "BLEU")
        from nltk.translate.bleu_score import sentence_bleu

        answer, reference = list(_words(trace.answer)), list(_words(trace.reference or ""))
        if not answer or not reference:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns where no n-gram matches: the score says so
            return min(1.0, float(sentence_bleu([reference], answer, weights=(1 / n,) * n)))

    bleu.__doc__ = (
        f"BLEU-{n} of the answer against the reference: brevity penalty x exp of the mean logarithm of the precisions "
        f"of 1- to {n}-grams, without smoothing; NLTK's, over NLTK's word tokens. The first 100,000 characters count."
    )
    return evaluator(
        name=f"bleu_{n}", needs=_NEEDS, threshold=0.75, source=f"Ejento evaluation metrics, 1.4; {_H2O}, BLEU Evaluator"
    )(bleu)


bleu_1, bleu_2, bleu_3, bleu_4 = (_bleu(n) for n in (1, 2, 3, 4))


@lru_cache(maxsize=4)
def _rouge_of(reference: str, answer: str) -> dict[str, Any]:
    from rouge_score.rouge_scorer import RougeScorer

    scores: dict[str, Any] = RougeScorer(["rouge1", "rouge2", "rougeL"]).score(reference[:_CHARS], answer[:_CHARS])
    return scores


def _rouge(kind: str, what: str) -> Evaluator:
    name = f"rouge_{kind.lower()}"

    def rouge(trace: Trace) -> Score:
        _need("rouge_score", "rouge-score", "ROUGE")
        score = _rouge_of(trace.reference or "", trace.answer)[f"rouge{kind}"]
        explanation = f"precision {score.precision:.4f}, recall {score.recall:.4f}"
        return Score(name, float(score.fmeasure), explanation=explanation)

    rouge.__doc__ = (
        f"ROUGE-{kind}: F1 of {what} of the answer and the reference, in rouge-score's tokens without stemming; the "
        "explanation has precision and recall. The first 100,000 characters count."
    )
    return evaluator(
        name=name, needs=_NEEDS, threshold=0.75, source=f"Ejento evaluation metrics, 1.5; {_H2O}, ROUGE Evaluator"
    )(rouge)


rouge_1 = _rouge("1", "the single words")
rouge_2 = _rouge("2", "the pairs of words")
rouge_l = _rouge("L", "the longest common subsequence of words")

_MARKS = "\"'`“”‘’«»*_.,;:!?()[]{} \t\n"  # noqa: RUF001 quotes are what it is about


def as_label(text: str) -> str:
    """A label as it is compared: case, blanks, quotes and punctuation around it do not count. Signs that tell labels
    apart (A+, C#, -1) do."""
    words = " ".join(text.split()).casefold()
    return words.strip(_MARKS) or words


@evaluator(needs=_NEEDS, threshold=0.75, source=f"{_H2O}, Classification Evaluator")
def classification(trace: Trace) -> Score:
    """Whether the answer is the label that was expected: 1 (pass) or 0 (fail). Case and marks around a label do not
    count. Over a data set the mean is the accuracy; the report adds precision, recall, F1 and the confusion matrix."""
    label, expected = as_label(trace.answer), as_label(trace.reference or "")
    return Score("classification", float(label == expected), explanation=f"{label[:100]} for {expected[:100]}")
