"""What an assistant says when it has no answer, and facts that only sound like it."""

from __future__ import annotations

import pytest

from ragtrace.text.claims import read

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
    "Es werden keine Daten im Ausland gespeichert.",
    "Für den Besuch sind keine Angaben zur Person nötig.",
    "Der Scanner kann beschädigte Etiketten nicht finden.",
    "Warzen werden mit diesem Pflaster nicht behandelt.",
    "Wir können die Ware nicht kostenlos bereitstellen.",
    "Nous ne pouvons pas expédier de liquides.",
    "Nous ne disposons pas d'ascenseur.",
    "Aucune donnée n'est vendue.",
    "Ce spray n'est pas indiqué en cas d'asthme.",
    "No hay datos de clientes en la copia.",
    "No tenemos acceso a sus mensajes.",
    "La caja no contiene plomo, y el manual no incluye planos.",
    "Não há dados de clientes na cópia.",
    "Não temos acesso às suas mensagens.",
    "Non abbiamo accesso ai suoi messaggi.",
    "Non sono richiesti documenti.",
    "Non è indicato in caso di asma.",
    "Wij verkopen geen gegevens aan bedrijven.",
    "De scanner kan beschadigde etiketten niet vinden.",
    "我们不能提供免费停车。",
    "合同没有包含搬家费。",
    "设备上没有数据线接口。",
    "この機種は五ギガには対応できません。",
    "住所を第三者に提供することはできません。",
    "製品に個人情報は含まれていません。",
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
    "The docs do not say.",
    "Dazu liegen mir keine Informationen vor.",
    "In den Unterlagen habe ich keine Angaben gefunden.",
    "Hierzu liegen keine Daten vor.",
    "Das kann ich leider nicht beantworten.",
    "Der Text nennt den Preis nicht.",
    "Nous ne pouvons pas répondre à cette question.",
    "Aucune information sur ce point.",
    "Il n'est fait aucune mention du prix.",
    "Le prix n'est pas indiqué.",
    "No tenemos información sobre el precio.",
    "El manual no contiene esa información.",
    "No hay datos sobre el precio.",
    "Não temos informações sobre o preço.",
    "Não há dados disponíveis.",
    "Non abbiamo informazioni sul prezzo.",
    "Il prezzo non è indicato.",
    "Ik kan geen informatie geven over de prijs.",
    "De handleiding noemt de prijs niet.",
    "Er is geen informatie over de prijs.",
    "我无法提供相关信息。",
    "文档没写价格。",
    "そのご質問には対応できません。",
    "価格の情報はありません。",
)

REPORTED = (
    'The caller answered "I do not know the reason" and hung up.',
    "The page \u201cI cannot help you with that\u201d appears after the third failed attempt.",
    "The guard testified that he had no idea who opened the door.",
    "Der Schalter zeigt \u201eDas kann ich nicht beantworten\u201c, wenn der Dienst steht.",
    "\u5ba2\u670d\u53f0\u4f1a\u663e\u793a\u300c\u6211\u65e0\u6cd5\u63d0\u4f9b\u76f8\u5173\u4fe1\u606f\u300d\u3002",
)


def kinds(text: str) -> set[str]:
    """What the parts of a text do."""
    return {s.kind for s in read(text).statements}


@pytest.mark.parametrize("text", REPORTED)
def test_what_somebody_else_said_is_no_abstention(text: str) -> None:
    """The message of a program is none either."""
    assert "claim" in kinds(text)


def test_an_answer_that_is_quoted_as_a_whole_is_the_assistants_own() -> None:
    """Nothing is beside the quotation marks."""
    assert kinds('"I do not know the reason."') == {"abstention"}


@pytest.mark.parametrize("text", FACTS)
def test_a_negative_fact_is_no_abstention(text: str) -> None:
    """Insurance, privacy and contracts are full of them; they must be judged as claims."""
    assert "claim" in kinds(text)


@pytest.mark.parametrize("text", ABSTENTIONS)
def test_an_abstention_is_one(text: str) -> None:
    """What is lacking is knowledge, or the speaker declines."""
    assert "abstention" in kinds(text)
    assert "claim" not in kinds(text)
