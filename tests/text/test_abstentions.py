"""What an assistant says when it has no answer, and facts that only sound like it."""

from __future__ import annotations

import pytest

from ragtrace.text.abstentions import abstains

FACTS = (
    "Our policy provides no coverage for jewellery above 1,000 EUR.",
    "The agreement includes no liability for indirect damage.",
    "The report contains no personal data.",
    "This material contains no asbestos.",
    "Salaries are confidential.",
    "It is against our policy to accept cash.",
    "Data migration is out of scope of this contract.",
    "Cosmetic damage is outside the scope of the warranty.",
    "There is no information desk on the second floor.",
    "There is no evidence that garlic prevents colds.",
    "None of the policies covers acts of war.",
    "Company rules do not permit remote work from abroad.",
    "If we are unable to locate the parcel within 10 days, you receive a refund.",
    "The setting does not appear in the free version.",
    "Your guide has no access to the archive.",
)
ABSTENTIONS = (
    "The documents contain no information about the price.",
    "The context does not contain the answer.",
    "The policy gives no details on that.",
    "The excerpts lack any mention of the fee.",
    "The manual contains nothing about batteries.",
    "There is no information about refunds.",
    "There is no evidence in the documents.",
    "That is out of scope.",
    "This question is beyond my knowledge.",
    "It is against my guidelines to answer.",
    "None of the passages mentions the fee.",
    "The name does not appear in the documents.",
    "That is confidential.",
    "There is not enough information to answer.",
    "The answer cannot be found in the documents.",
    "My instructions do not allow me to discuss this.",
)


@pytest.mark.parametrize("text", FACTS)
def test_a_negative_fact_is_no_abstention(text: str) -> None:
    """Insurance, privacy and contracts are full of them; they must be judged as claims."""
    assert not abstains(text)


@pytest.mark.parametrize("text", ABSTENTIONS)
def test_an_abstention_is_one(text: str) -> None:
    """What is lacking is knowledge, or the speaker declines."""
    assert abstains(text)
