"""Texts are masked before they are cut, so that no half of a secret is exported."""

from __future__ import annotations

import pytest

from ragtrace import plugins
from ragtrace.capture.spans.texts import document_of
from ragtrace.evaluation import EvaluationError, evaluator, run
from ragtrace.records import Facts, Trace
from ragtrace.testing import make_trace
from ragtrace.text.redaction import mask_pii
from ragtrace.text.sanitizer import Sanitizer
from ragtrace_otlp.scores import ScoreFormat

SECRET = "sk-proj-Ab3dEfGh1jKlMn0pQrStUvWxYz12345678"
FORM = ScoreFormat(explanations=True, sanitizer=Sanitizer(mask_pii))


@evaluator(needs={"answer"})
def quotes(trace: Trace) -> float:
    """Fails with the answer as the reason."""
    raise EvaluationError("broken", trace.answer)


def test_ids_of_other_libraries_spans_have_no_half_of_a_secret() -> None:
    document = document_of({"id": f"{'word ' * 49} {SECRET}", "content": "The pump runs."})
    assert document is not None
    assert "sk-proj" not in Sanitizer(mask_pii).text(document.id, 256)


@pytest.mark.parametrize("name", ["groundedness", "groundedness_lexical", "groundedness_cosine", "quotes"])
@pytest.mark.parametrize("cut", [40, 80, 200, 300, 1_000])
def test_explanations_have_no_half_of_a_secret(name: str, cut: int) -> None:
    """Evaluators return whole texts; what leaves is masked, and then cut."""
    check = quotes if name == "quotes" else plugins.load(name)
    for shift in (2, 12, 30):
        words = "the pump runs very well and " * 50
        answer = f"{words[: cut - shift]} {SECRET} {words}."
        trace = make_trace("What?", answer=answer, documents=["The valve is red."], facts=Facts(name="x"))
        ((score,),) = run(check, [trace])
        left = FORM.explanation(score) or ""
        assert left, score
        assert not any(SECRET[:n] in left for n in range(10, len(SECRET)))
