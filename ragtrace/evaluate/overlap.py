"""Overlap of the answer with a reference text, by the libraries that others measure with; and labels against labels."""

import warnings
from functools import lru_cache
from itertools import islice
from typing import Any
from unicodedata import normalize

from ragtrace.errors import package
from ragtrace.evaluation import Evaluator, evaluator
from ragtrace.records import Score, Trace

_H2O = "H2O Eval Studio"
_CHARS = 100_000
_LCS_WORDS = 2_000
_NEEDS = {"answer", "reference"}


@lru_cache(maxsize=16)
def _words(text: str) -> tuple[str, ...]:
    from nltk.tokenize import NLTKWordTokenizer

    return tuple(NLTKWordTokenizer().tokenize(text[:_CHARS]))


def _bleu(n: int) -> Evaluator:
    def bleu(trace: Trace) -> float | None:
        sentence_bleu = package("nltk.translate.bleu_score", "eval", "BLEU").sentence_bleu
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


_WORD = r"(?:[^\W_]|\p{M})+"


class _Tokenizer:
    """rouge-score's words, and those of other scripts."""

    def tokenize(self, text: str) -> list[str]:
        import regex

        return list(regex.findall(_WORD, normalize("NFC", text.lower())))


@lru_cache(maxsize=4)
def _rouge_of(kind: str, reference: str, answer: str) -> Any:
    from rouge_score.rouge_scorer import RougeScorer

    if kind == "L":
        # Its table has a cell for each pair of words: 4 GB for two texts of 10,000 words.
        reference, answer = (text[: _end_of_word(text, _LCS_WORDS)] for text in (reference, answer))
    name = f"rouge{kind}"
    return RougeScorer([name], tokenizer=_Tokenizer()).score(reference[:_CHARS], answer[:_CHARS])[name]


def _end_of_word(text: str, number: int) -> int:
    """The offset at which the word with this number ends; the text's length if it has fewer."""
    import regex

    match = next(islice(regex.finditer(_WORD, text), number - 1, None), None)
    return len(text) if match is None else match.end()


def _rouge(kind: str, what: str, limit: str = "100,000 characters") -> Evaluator:
    name = f"rouge_{kind.lower()}"

    def rouge(trace: Trace) -> Score:
        package("rouge_score", "eval", "ROUGE")
        score = _rouge_of(kind, trace.reference or "", trace.answer)
        explanation = f"precision {score.precision:.4f}, recall {score.recall:.4f}"
        return Score(name, float(score.fmeasure), explanation=explanation)

    rouge.__doc__ = (
        f"ROUGE-{kind}: F1 of {what} of the answer and the reference, by rouge-score, in words without stemming; the "
        f"explanation has precision and recall. The first {limit} count."
    )
    return evaluator(
        name=name, needs=_NEEDS, threshold=0.75, version="3",
        source=f"Ejento evaluation metrics, 1.5; {_H2O}, ROUGE Evaluator",
    )(rouge)  # fmt: skip


rouge_1 = _rouge("1", "the single words")
rouge_2 = _rouge("2", "the pairs of words")
rouge_l = _rouge("L", "the longest common subsequence of words", f"{_LCS_WORDS:,} words")

_MARKS = "\"'`“”„‘’‚«»‹›*_.,;:!?¡¿…。、！？「」।؟،()[]{} \t\n"  # noqa: RUF001 quotes are what it is about


def as_label(text: str) -> str:
    """A label as it is compared: case, blanks, and marks around it do not count, but for A+, C# and -1."""
    words = " ".join(normalize("NFC", text).split()).casefold()
    return words.strip(_MARKS) or words


@evaluator(needs=_NEEDS, threshold=0.75, version="3", source=f"{_H2O}, Classification Evaluator")
def classification(trace: Trace) -> Score:
    """Whether the answer is the label that was expected: 1 (pass) or 0 (fail). Case and marks around a label do not
    count. Over a data set the mean is the accuracy; the report adds precision, recall, F1 and the confusion matrix."""
    label, expected = as_label(trace.answer), as_label(trace.reference or "")
    return Score("classification", float(label == expected), explanation=f"{label} for {expected}")
