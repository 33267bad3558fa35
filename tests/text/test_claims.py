"""What an answer claims, and what is only its dress: courtesies, prefaces, citations, abstentions."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragtrace.text.claims import claims, read


def claimed(answer: str) -> list[str]:
    """The claims' texts, without what is blanked."""
    reading = read(answer)
    return [" ".join(reading.text[s.start : s.end].split()) for s in reading.claims]


@pytest.mark.parametrize("rule", ["|---|---|", "| :-- | --: |", "--- | ---"])
def test_the_names_of_columns_claim_nothing(rule: str) -> None:
    """Of a table in Markdown the rows below its rule are claims; a line between sentences is no such rule."""
    edge = "|" if rule.startswith("|") else ""
    rows = [f"{edge} {row} {edge}".strip() for row in ("Item | Kept for", "Invoices | 10 years", "Logs | 90 days")]
    assert claimed("\n".join([rows[0], rule, *rows[1:]])) == rows[1:]
    assert claimed("The pump is blue.\n---\nThe valve is red.") == ["The pump is blue.", "The valve is red."]


@pytest.mark.parametrize(
    ("answer", "claim"),
    [
        ("Here is the notice period: four weeks", "four weeks"),
        ("Here are the opening hours: Monday to Friday, 8 to 17.", "Monday to Friday, 8 to 17."),
        ("Sure, here is the answer: the limit is 5 GB.", "the limit is 5 GB."),
        ("Of course the deposit is refunded", "the deposit is refunded"),
        ("Absolutely, pets are allowed in the cabin.", "pets are allowed in the cabin."),
        ("Okay, so the limit is 5 GB.", "the limit is 5 GB."),
        ("Please let me know if that helps, and note that refunds take a week.", "refunds take a week."),
        ("Let me know if anything is unclear; the offer ends on Friday.", "the offer ends on Friday."),
        ("I hope this helps, and remember that the offer ends on Friday.", "the offer ends on Friday."),
        ("Have a nice day, and do not forget that the shop closes at 6 pm.", "the shop closes at 6 pm."),
        ("If you need any help, call 0800 1234.", "call 0800 1234."),
        ("Thanks for your patience, the parcel left on 3 May.", "the parcel left on 3 May."),
        ("I'm sorry that opened games cannot be returned.", "opened games cannot be returned."),
        ("Apologies for the confusion: the fee is 15 euros.", "the fee is 15 euros."),
        ("I apologize for the delay, but your order ships on Monday.", "your order ships on Monday."),
        ("The answer is: 42 kilometres.", "42 kilometres."),
        ("**Refund: 90 days**", "Refund: 90 days"),
        ("All the best rooms face the sea.", "All the best rooms face the sea."),
        ("Great Britain left the union.", "Great Britain left the union."),
        ("Good batteries last five years.", "Good batteries last five years."),
        ("Thank you notes are free of charge.", "Thank you notes are free of charge."),
        ("Certainly not covered.", "Certainly not covered."),
        ("No.", "No."),
        ("Source: the river is 400 km long.", "Source: the river is 400 km long."),
        ("We have no blue bicycles in stock.", "We have no blue bicycles in stock."),
        ("We cannot refund tickets after departure.", "We cannot refund tickets after departure."),
        ("The insurance does not cover bicycles.", "The insurance does not cover bicycles."),
        ("The notice period is 3 weeks and not 4.", "The notice period is 3 weeks and not 4."),
    ],
)
def test_a_fact_is_a_claim_whatever_the_sentence_begins_with(answer: str, claim: str) -> None:
    """Courtesies, openings and negations do not hide what is stated beside them."""
    assert claim in " ".join(claimed(answer))


@pytest.mark.parametrize(
    "answer",
    [
        "According to the document, the valve opens at 3 bar.",
        'According to the section "Valves", the valve opens at 3 bar.',
        "According to section 4.2 of the manual, the valve opens at 3 bar.",
        "Based on the provided context, the valve opens at 3 bar.",
        "As stated in the service manual, the valve opens at 3 bar.",
        "The manual states that the valve opens at 3 bar.",
        "It is stated in the contract that the valve opens at 3 bar.",
        "I'm sorry to hear that, but according to the manual, the valve opens at 3 bar.",
        "The valve opens at 3 bar [1].",
        "The valve opens at 3 bar [1][2].",
        "The valve opens at 3 bar [doc 3, p. 4].",
        "The valve opens at 3 bar (source 2).",
        "The valve opens at 3 bar (see document [1]).",
        "The valve opens at 3 bar (manual.pdf, page 12).",
        "The valve opens at 3 bar【4†source】.",
        "The valve opens at 3 bar.¹",
        "The valve opens at 3 bar.[^1]\n\n[^1]: Manual, p. 12",
        "The valve opens at 3 bar.\nSource: manual.pdf, page 3",
        "The valve opens at 3 bar.\n\nSources:\n- manual.pdf\n- https://example.org/valves",
        "The valve opens at 3 bar. See document 2.",
        "Happy to help! The valve opens at 3 bar. Let me know if you have any other questions.",
    ],
)
def test_dress_makes_no_claim_of_its_own(answer: str) -> None:
    """A preface, marks, source lines and courtesies: there is one claim with them as without them."""
    (statement,) = claimed(answer)
    assert statement.lower().replace(" .", ".").endswith("the valve opens at 3 bar.")


@pytest.mark.parametrize(
    "answer",
    [
        "See document [2].",
        "[1]",
        "Sources: manual.pdf",
        "I'm an AI assistant.",
        "Goodbye, have a great day!",
        "Thanks!",
    ],
)
def test_dress_alone_claims_nothing(answer: str) -> None:
    """What only greets or cites leaves nothing to judge."""
    assert claims(answer) == []


@pytest.mark.parametrize(
    ("answer", "kinds"),
    [
        ("The manual does not say 4 bar; it says 3 bar.", ["abstention", "claim"]),
        ("There is no information about you in the file, which is why it takes 3 days.", ["abstention", "claim"]),
        ("I could not find the price, but the valve opens at 3 bar.", ["abstention", "claim"]),
        ("Nothing in the manual covers this, so I would rather not guess.", ["abstention"]),
        ("I cannot answer that. Please contact the service desk.", ["abstention", "courtesy"]),
        ("Please contact the service desk.", ["claim"]),
        ("I cannot answer that. Please call 0800 1234.", ["abstention", "courtesy"]),
        ("I cannot answer that. Please call 0800 1234 for 2 EUR.", ["abstention", "claim"]),
        ("I cannot answer that. Please call 100000 times.", ["abstention", "claim"]),
        ("I cannot answer that. Contact us on 2024-05-01.", ["abstention", "claim"]),
        ("Unable to answer. The passages only discuss valves.", ["abstention", "courtesy"]),
        ("Unable to answer. The closest match is a section on valves.", ["abstention", "courtesy"]),
    ],
)
def test_what_an_abstaining_answer_states_beside_is_a_claim(answer: str, kinds: list[str]) -> None:
    """Only the clause that abstains, where else to ask and what the passages are about are taken out."""
    assert [s.kind for s in read(answer).statements] == kinds


REDIRECTS = (
    "Ask your insurer.",
    "Check with your landlord.",
    "You'd need to speak to your supervisor about that.",
    "You might have to ask the hotel directly.",
    "Our service desk can help you with this.",
    "Only a pharmacist can tell you that.",
    "Someone from our team will be in touch.",
    "Let me transfer you to a colleague.",
    "The manufacturer is the right contact for this.",
    "The product page might have more information.",
    "If in doubt, consult a lawyer.",
    "For further advice, see your contract.",
    "Ask the school whether guests are welcome.",
    "Fees may differ depending on the country.",
    "This varies by region.",
    "Rules change frequently.",
    "Such details are normally found in the contract.",
    "I recommend asking Acme Customer Care.",
    "Please provide more context.",
    "Only the landlord knows that.",
    "Have a look at the official website.",
    "Opening hours may change without notice.",
    "For questions, email service@acme.example.",
    "Visit https://acme.example/help for more information.",
    "You can reach the help desk at 555-010-0199.",
    "You can always ask your bank.",
    "Für weitere Auskünfte wenden Sie sich bitte an den Händler.",
    "Pour plus d'informations, veuillez contacter le fabricant.",
)


@pytest.mark.parametrize("redirect", REDIRECTS)
def test_where_else_to_ask_is_no_claim_after_an_abstention(redirect: str) -> None:
    """A redirect states no fact; without an abstention the sentence is an instruction."""
    assert claimed(f"I couldn't find any information about this. {redirect}") == []
    assert " ".join(claimed(redirect)) == redirect


@pytest.mark.parametrize(
    "invented",
    [
        "The warranty is 60 months, ask your dealer.",
        "Ask your dealer, the warranty is five years.",
        "Ask your dealer, the battery lasts long.",
        "Ask your dealer because the warranty covers water damage.",
        "Ask your dealer about the pump since leaks are covered.",
        "Ask your dealer for the lifelong guarantee.",
        "Contact the seller for the free replacement.",
        "Please contact the seller, who replaces the pump at no charge.",
        "To get your bonus of ten euros, call your bank.",
        "Your dealer can tell you that the pump is covered.",
        "The dealer can provide a replacement pump.",
        "The support team will refund your money.",
        "A colleague will get back to you within two days.",
        "Your manager must approve it.",
        "Please press the red button.",
        "Check the fuse.",
        "You should close the valve before you ask for help.",
        "It may depend on your region, but the pump is covered.",
        "The pump may vary in colour.",
        "They are usually closed on Sundays.",
        "Prices change often and are lower now.",
        "I would expect the pump to be covered.",
        "I'd guess that pets are allowed.",
        "I suggest turning the red valve.",
        "I have an answer from the dealer: pets are allowed.",
        "The terms vary between old and new tenants.",
        "Contact the seller on Monday.",
        "It includes a spare battery.",
        "It is a red pump.",
        "The document mentions a warranty of 60 months.",
        "I'm sorry, the battery lasts two years, so contact your dealer.",
        "Go to Settings.",
        "The bank may change the terms.",
        "You do not need to contact your doctor.",
        "Bitte wenden Sie sich an den Händler, Wasserschäden sind versichert.",
    ],
)
def test_an_invented_fact_stays_a_claim_behind_an_abstention(invented: str) -> None:
    """Neither an apology nor a redirect hides an amount, a date, a reason or another statement."""
    for start in ("I couldn't find it.", "I'm sorry, but the manual does not mention this."):
        assert claimed(f"{start} {invented}")


def test_an_entry_that_says_that_there_is_none_abstains() -> None:
    """ "N/A" has no word of two letters, and is still no code."""
    assert [s.kind for s in read("N/A").statements] == ["abstention"]
    assert [s.kind for s in read("---").statements] == ["code"]


@pytest.mark.parametrize(
    "answer",
    [
        "Das kann ich mit den vorhandenen Unterlagen leider nicht beantworten.",
        "Je ne trouve pas de réponse à cette question dans les documents.",
        "No encuentro esa información en los documentos.",
        "Non ho trovato informazioni su questo argomento.",
        "Não encontrei informações sobre isso.",
        "Ik kan deze vraag helaas niet beantwoorden.",
        "根据提供的资料,我无法回答这个问题。",
        "申し訳ありませんが、その情報は資料に記載されていません。",
    ],
)
def test_abstentions_in_other_languages(answer: str) -> None:
    """German, French, Spanish, Italian, Portuguese, Dutch, Chinese and Japanese phrases are known."""
    assert [s.kind for s in read(answer).statements] == ["abstention"]


@pytest.mark.parametrize(
    "answer",
    [
        "Geöffnete Software kann nicht zurückgegeben werden.",
        "Les animaux ne sont pas admis dans la cabine.",
        "No se admiten animales en la cabina.",
        "Gli animali non sono ammessi in cabina.",
        "Animais não são permitidos na cabine.",
        "Geopende software kan niet worden teruggestuurd.",
        "开封的软件不能退货。",
        "開封済みのソフトウェアは返品できません。",
    ],
)
def test_negated_facts_in_other_languages_are_claims(answer: str) -> None:
    """A rule that forbids something is no abstention."""
    assert [s.kind for s in read(answer).statements] == ["claim"]


DRESSED = st.lists(
    st.sampled_from(
        ["[1]", "(source 2)", "Source: a.pdf", "According to the text,", "I'm sorry,", "Sure:", "\n", "I do not know",
         "but", "the fee is 5.", "let me know if", "```", "。", "\0", "😀", ", ", "3 %", "Sources:\n-"]
    )
).map(" ".join)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(DRESSED)
def test_a_reading_keeps_every_place(answer: str) -> None:
    """The blanked text is as long as the answer, differs from it only by spaces, and statements are in order."""
    reading = read(answer)
    assert len(reading.text) == len(answer)
    assert all(new in (old, " ") for old, new in zip(answer, reading.text, strict=True))
    last = 0
    for statement in reading.statements:
        assert last <= statement.start < statement.end <= len(answer)
        last = statement.end


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("The fee is **15 euros**.", "The fee is   15 euros  ."),
        ("*Open* the ***lid***", " Open  the    lid   "),
        ("Compute 2 * 3 * 4 or a*b*c.", "Compute 2 * 3 * 4 or a*b*c."),
        ("Use `**kwargs` and **names**.", "Use `**kwargs` and   names  ."),
    ],
)
def test_the_models_read_no_stars(answer: str, text: str) -> None:
    """Bold and italic words lose their stars and keep their places; code and products keep theirs."""
    assert read(answer).text == text


@pytest.mark.parametrize("answer", ["## Opening hours", "**Opening hours**", "**Missing items:**"])
def test_a_short_title_claims_nothing(answer: str) -> None:
    """A word that ends like a verb makes no title a claim."""
    assert claimed(f"{answer}\n- The shop opens at 9 am.") == ["- The shop opens at 9 am."]


def test_a_bold_sentence_claims() -> None:
    """Where it has a verb or ends like a sentence."""
    assert claimed("**Dogs are welcome**") == ["Dogs are welcome"]
    assert claimed("**Smoking allowed.**") == ["Smoking allowed."]


def test_good_wishes_claim_nothing() -> None:
    """At the end of a letter, with or without what they are for."""
    assert claimed("The desk opens at 9 am. All the best for your new role!") == ["The desk opens at 9 am."]
    assert claimed("The desk opens at 9 am. All the best,") == ["The desk opens at 9 am."]


@pytest.mark.parametrize(
    ("answer", "claim"),
    [
        ("I'm not sure, but I think the fee is 20 euros.", "the fee is 20 euros."),
        ("I'm not certain, but I believe refunds take two weeks.", "refunds take two weeks."),
        ("I don't know the date, but I'm quite sure it was in March 1920.", "it was in March 1920."),
        ("I don't know exactly, I'd guess 14 days.", "14 days."),
        (
            "I'm not allowed to share details, but I can confirm that pets are allowed.",
            "I can confirm that pets are allowed.",
        ),
        ("I can only answer that the fee is 20 euros.", "I can only answer that the fee is 20 euros."),
        ("Nothing in the contract prevents you from leaving.", "Nothing in the contract prevents you from leaving."),
        ("Nothing is written to disk before the commit.", "Nothing is written to disk before the commit."),
        ("We have no information desk.", "We have no information desk."),
        ("While the documents don't state it, the fee is likely 20 euros.", "the fee is likely 20 euros."),
        (
            "Although I couldn't find the fee, the tax, or the rent, other plans cost 20 euros.",
            "other plans cost 20 euros.",
        ),
        ("Aunque no lo sé, la tarifa es de 20 euros.", "la tarifa es de 20 euros."),
        ("I don't know, so I will answer from memory: the capital is Canberra.", "the capital is Canberra."),
    ],
)
def test_a_careful_statement_is_a_claim(answer: str, claim: str) -> None:
    """What somebody thinks or guesses, after "I'm not sure", is judged: doubt hides no invention."""
    assert claimed(answer)[-1].endswith(claim)


@pytest.mark.parametrize(
    "answer",
    [
        "I don't know, but I think you should contact the HR department.",
        "I'm not sure, but I think the answer is not in the documents.",
        "I'm not able to answer that, but I can tell you about our opening hours.",
        "Nothing in the contract mentions pets.",
        "Nothing is written about pets.",
        "While I understand your question, I cannot answer it.",
        "Since the documents do not mention the fee, I can't help you with this.",
        "Because the context does not mention this, you should contact the support team.",
        "I don't know, so I will do this: ask a colleague.",
    ],
)
def test_an_opinion_without_a_fact_claims_nothing(answer: str) -> None:
    """Where to ask, and what the documents lack, is no fact behind "I think" either."""
    assert claimed(answer) == []


@pytest.mark.parametrize(
    "answer",
    [
        "{} [doc1].",
        "{} [doc_1][cite: 3, 4].",
        "{} [Travel Policy, Section 4.2].",
        "{} (Travel Policy, Section 4.2).",
        "{} [HR Handbook §3].",
        "{} [Travel Policy 2024].",
        "{} (Handbook, p. 3).",
        "{} [1].\n\n[1] Employee Handbook v2\n",
        "Hello Mr. Smith, {}.",
        "Dear Ms. Miller,\n\n{}.\n\nKind regards,\nJane Doe\nCustomer Care",
        "Hi Anna!\n{}.\n\nBest,\nTom",
        "{}. \u2014 The Acme Team",
        "{}.\n\nConfidence: 95%",
        "**Answer:** {}.",
        "<p>{}.</p><p>I hope this helps!</p>",
        "<div class='a'>{}.<br/>Let me know if you need more.</div>",
        "<think>The user asks about refunds. The policy says a week.</think>\n{}.",
        "Okay, refunds. The policy says a week.\n</think>\n\n{}.",
    ],
)
def test_letters_markup_and_titles_are_no_part_of_a_claim(answer: str) -> None:
    """Salutations, signatures, HTML, reasoning, and the title of what is cited make no claim of their own."""
    [claim] = claimed(answer.format("refunds take two weeks"))
    assert claim.rstrip(" .").endswith("refunds take two weeks")


@pytest.mark.parametrize(
    "answer",
    [
        "Hello World",
        "Best",
        "Use the <b> tag for bold words.",
        "A `List<b>` holds a and `</b>` ends it.",
        "Choose one of the plans [Basic or Pro] first.",
        "Thanks,\nthe store opens at 9 am",
        "Refunds are limited (Travel Policy, section 8 caps them at 50 euros).",
        "The fee [Fee Policy, section 3: 20 euros] is due.",
        "<analysis>The fee is 20 euros.</analysis>",
    ],
)
def test_what_only_looks_like_markup_stays(answer: str) -> None:
    """Facts in brackets, code and the words of a greeting are claims."""
    assert " ".join(claimed(answer)) in (answer, answer.replace("\n", " "), answer.removeprefix("Thanks,\n"))


def test_items_of_an_html_list_are_claims_of_their_own() -> None:
    """A wrong item is not hidden by the right ones beside it."""
    answer = "<ul><li>Refunds take two weeks</li><li>Shipping is free</li></ul>"
    assert claimed(answer) == ["Refunds take two weeks", "Shipping is free"]


def test_a_note_that_states_a_fact_is_a_claim() -> None:
    """A line behind a repeated mark is a source only where it has neither a verb nor an amount."""
    assert claimed("Refunds take a week [1].\n\n[1] The fee is 5 euros.")[1] == "The fee is 5 euros."
    assert claimed("[1] Open the lid\n[2] Press the button") == ["Open the lid", "Press the button"]


def test_base64_is_read_as_far_as_prose_of_the_same_cost() -> None:
    """A tokenizer makes three times as many pieces of it: less of it is read, and the rest is not judged."""
    line = "65HEZqBGpKhDXlKTTuF4IeQda2TgpB8Vuqow687oKKSU7PSAbS9PQqHgIBln7DyNcL85GAo+"
    reading = read("\n".join([line] * 300))
    assert not reading.complete
    assert 8_000 < reading.statements[-1].end < 12_500
