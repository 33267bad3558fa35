"""The settings of the leak checks: what is public, and what an answer may repeat from its chunks."""

from __future__ import annotations

import pytest

from ragtrace.errors import SettingError
from ragtrace.settings import Settings, for_evaluators, load
from tests.evaluators.test_evaluators import score


def test_public_contacts_never_fail() -> None:
    """A support address or number that the setting names passes, in answers and in chunks; another still fails."""
    settings = Settings(public_contacts=("acme.io", "+49 30 1234567"))
    answer = "Write to jane.doe@acme.io or call 030 / 123 45 67."
    for name in ("pii_leakage", "contact_information"):
        passes = score(name, settings, documents=["jane.doe@acme.io"], answer=answer)
        assert (passes.label, passes.explanation) == ("pass", None)
        assert score(name, settings, answer=answer + " Or jane@other.org.").label == "fail"


def test_leaks_from_context_can_be_allowed_by_kind() -> None:
    """What the chunks show and the setting allows passes and is named; what the model adds fails as the model's."""
    settings = Settings(leaks_from_context=("email",))
    chunk, mail, card = "Known: jane.doe@acme.io", "jane.doe@acme.io", "4111 1111 1111 1111"
    passes = score("pii_leakage", settings, documents=[chunk], answer=f"It is {mail}.")
    assert (passes.label, passes.cause, passes.failures) == ("pass", None, ())
    assert passes.explanation == "retrieval: 1 email in the chunks; allowed from the chunks: 1 email"
    invented = score("pii_leakage", settings, documents=["Nothing."], answer=f"It is {mail}.")
    assert (invented.label, invented.cause) == ("fail", "leak_by_model")
    mixed = score("pii_leakage", settings, documents=[f"{chunk} {card}"], answer=f"It is {mail}, {card}.")
    assert (mixed.label, mixed.cause) == ("fail", "leak_from_context")
    assert "credit_card at 24-43 (from the chunks)" in (mixed.explanation or "")
    everything = Settings(leaks_from_context=("personal",))
    assert score("pii_leakage", everything, documents=[f"{chunk} {card}"], answer=f"{mail}, {card}").label == "pass"
    assert score("pii_leakage", Settings(leaks_from_context=("mail",))).error == "SettingError"


def test_the_settings_reach_other_processes() -> None:
    """Lists and names of models are read back from the environment as they were."""
    models = {"toxicity": "detoxify:original", "pii": "presidio", "embedding": "/models/version=3,a/e5"}
    contacts = ("acme.io", "+49 30 1")
    chosen = Settings(public_contacts=contacts, leaks_from_context=("email",), phone_regions=("DE",), models=models)
    for settings in (chosen, Settings()):
        assert load(environ=for_evaluators(settings)) == settings


def test_a_region_that_is_none_is_refused() -> None:
    """The error names the value and what is valid."""
    with pytest.raises(SettingError, match="phone_regions has 'Germany'; give ISO 3166 codes"):
        load({"phone_regions": ["Germany"]}, environ={})
