"""Sentences that decline and sentences that only look like it, written for training the refusal head.

`{t}` stands for a topic of the language. They are templates, no data set's text.
"""

from __future__ import annotations

import itertools
import random

TOPICS = {
    "en": (
        "the return policy|parental leave|the price of the premium plan|dental cover|the SLA|release dates|competitors|"
        "your salary|the warranty on batteries|parking permits|the cancellation fee|travel insurance|the new office|"
        "opening hours|side effects|interest rates|the roof rack|data retention|the CEO|tax advice|medical questions|"
        "the delivery time|student discounts|visa rules|the emergency number|legal matters|individual employees"
    ),
    "de": "die Garantie|den Urlaub|die Rückgabe|den Preis|die Lieferzeit|Parkplätze|die Kündigungsfrist|Rabatte",
    "fr": "la garantie|le congé parental|le retour des articles|le prix|le délai de livraison|les remises|le parking",
    "es": "la garantía|las vacaciones|la devolución|el precio|el plazo de entrega|los descuentos|el aparcamiento",
    "it": "la garanzia|le ferie|il reso|il prezzo|i tempi di consegna|gli sconti|il parcheggio",
    "pt": "a garantia|as férias|a devolução|o preço|o prazo de entrega|os descontos|o estacionamento",
    "nl": "de garantie|het verlof|de retourzending|de prijs|de levertijd|de korting|parkeren",
    "zh": "保修期|退货|价格|送货时间|停车|折扣|年假",
    "ja": "保証期間|返品|価格|配送時間|駐車場|割引|休暇",
}

DECLINES = {
    "en": """I don't know anything about {t}.
I do not have enough information to answer this.
I have no data on {t}.
I can't help with {t}.
I'm not able to discuss {t}.
I must decline to talk about {t}.
I'd rather not speculate about {t}.
I would prefer not to comment on {t}.
I'm only able to talk about {t}.
I can only answer questions about {t}.
This is beyond my knowledge.
That is beyond what I can tell you.
{t} is outside my area.
That falls outside what I was built for.
That's not something I can answer.
That is not something I'm allowed to share.
That's above my pay grade, I'm afraid.
I'm afraid I don't have an answer to that.
I'm afraid that is all I know, and {t} is not part of it.
I'm not sure about {t}.
No idea, sorry.
No clue.
Your guess is as good as mine.
Beats me.
Couldn't find that.
Couldn't locate {t} anywhere.
Found nothing on {t}.
Nothing found.
No answer found.
No results for {t}.
No relevant passages were found.
No such information.
Not in the documents.
Not specified.
Not mentioned anywhere.
Not covered by the material.
Unable to answer.
Cannot say.
The documents are silent on {t}.
The manual says nothing about {t}.
The handbook offers no guidance on {t}.
The handbook is quiet about {t}.
The policy leaves {t} open.
The texts leave that open.
The retrieved passages are unrelated to your question.
The retrieved passages have nothing to do with {t}.
None of the passages mentions {t}.
None of the sources is about {t}.
Neither document deals with {t}.
Nothing in the knowledge base touches on {t}.
Nowhere do the documents speak of {t}.
My sources do not go into {t}.
My documents stop short of {t}.
{t} does not appear in the provided text.
{t} is not addressed in the documents.
{t} isn't something the documents cover.
There is nothing about {t} in what I was given.
There's no mention of {t}.
There is no answer to that in the context.
The answer is not in the context.
The context is insufficient.
It is unclear from the text.
It remains unclear what applies to {t}.
It can't be determined from the passages.
Details about {t} are missing from the documents.
Information on {t} is not available to me.
Information about {t} could not be located.
I searched the documents, without success.
I looked, but {t} does not come up.
My search for {t} came up empty.
I drew a blank on {t}.
I lack the details to answer that.
I lack access to {t}.
I have been told not to talk about {t}.
I'm not permitted to give advice on {t}.
I won't answer questions about {t}.
I will not help with that.
I refuse to do that.
I respectfully decline.
I have to pass on that.
I'll have to skip this one.
Let me stay with the documents: they do not say.
Our guidelines do not let me talk about {t}.
My guidelines prevent me from answering this.
It would be inappropriate for me to answer.
It would not be right for me to do that.
Against our policy, so no.
Company rules forbid me to discuss {t}.
For privacy reasons I cannot share that.
That request is against my guidelines.
That information is confidential.
That question is out of scope.
Out of scope.
Regrettably, the guide offers nothing on {t}.
Unfortunately, nothing is said about {t}.
Unfortunately this is not covered.
Sadly I can't tell.
Hmm, the manual does not go there.
Please ask a person who knows about {t}; I do not.
You would have to ask somebody else about {t}.
I wish I could tell you more about {t}, but I can't.
As a language model I have no view on {t}.
As an assistant I do not have access to {t}.""",
    "de": """Dazu kann ich leider nichts sagen.
Über {t} steht nichts in den Unterlagen.
In den Dokumenten steht dazu nichts.
Leider liegen mir dazu keine Informationen vor.
Ich habe keine Angaben über {t} gefunden.
Das weiß ich leider nicht.
Diese Frage kann ich nicht beantworten.
Dabei kann ich Ihnen nicht helfen.
Das geht aus dem Text nicht hervor.
Die Dokumente enthalten dazu keine Angaben.
Dazu darf ich keine Auskunft geben.
Keine Angabe.
Keine Antwort gefunden.
Hierzu findet sich im Handbuch nichts.""",
    "fr": """Je ne sais pas.
Je n'ai trouvé aucune information sur {t}.
Je ne peux pas répondre à cette question.
Les documents ne disent rien sur {t}.
Le document ne contient pas cette information.
Je ne dispose pas de données sur {t}.
Je ne suis pas en mesure de vous aider.
Aucune réponse trouvée.
Rien dans le manuel ne concerne {t}.
Désolé, cette information n'est pas disponible.
Cela dépasse mes compétences.
Cette question sort de mon domaine.""",
    "es": """No lo sé.
No he encontrado información sobre {t}.
No puedo responder a esa pregunta.
Los documentos no dicen nada sobre {t}.
El documento no contiene esa información.
No dispongo de datos sobre {t}.
No estoy en condiciones de ayudarle.
No se encontró respuesta.
Nada en el manual trata sobre {t}.
Esa información no está disponible.
Eso queda fuera de mi alcance.
No tengo permitido hablar de {t}.""",
    "it": """Non lo so.
Non ho trovato informazioni su {t}.
Non posso rispondere a questa domanda.
I documenti non dicono nulla su {t}.
Il documento non contiene questa informazione.
Non dispongo di dati su {t}.
Non sono in grado di aiutarla.
Nessuna risposta trovata.
Nel manuale non c'è nulla su {t}.
Questa informazione non è disponibile.
Questo va oltre le mie competenze.
Mi dispiace, non posso parlare di {t}.""",
    "pt": """Não sei.
Não encontrei informações sobre {t}.
Não posso responder a essa pergunta.
Os documentos não dizem nada sobre {t}.
O documento não contém essa informação.
Não disponho de dados sobre {t}.
Não consigo ajudar com isso.
Nenhuma resposta encontrada.
Nada no manual trata de {t}.
Essa informação não está disponível.
Isso está fora do meu alcance.
Desculpe, não posso falar sobre {t}.""",
    "nl": """Dat weet ik niet.
Ik heb geen informatie over {t} gevonden.
Ik kan deze vraag niet beantwoorden.
De documenten zeggen niets over {t}.
Het document bevat deze informatie niet.
Ik beschik niet over gegevens over {t}.
Daar kan ik u niet mee helpen.
Geen antwoord gevonden.
In de handleiding staat niets over {t}.
Deze informatie is niet beschikbaar.
Dat valt buiten mijn kennis.
Het spijt me, daar mag ik niets over zeggen.""",
    "zh": """我不知道。
抱歉,我无法回答这个问题。
文档中没有提到{t}。
资料里没有关于{t}的内容。
没有找到相关信息。
我没有关于{t}的数据。
这超出了我的知识范围。
对不起,这方面我帮不了您。
根据现有资料无法确定。
手册没有说明{t}。
很遗憾,找不到答案。
我不能讨论{t}。""",
    "ja": """わかりません。
申し訳ありませんが、お答えできません。
資料には{t}についての記載がありません。
{t}に関する情報は見つかりませんでした。
その質問には回答いたしかねます。
提供された文書からは判断できません。
その件についてはお手伝いできません。
マニュアルには書かれていません。
情報が不足しています。
{t}についてはお話しできません。
該当する情報はありません。
それは私の知識の範囲外です。""",
}

ANSWERS = {
    "en": """We don't have the {n} one.
We do not sell {t} separately.
The policy does not cover {t}.
The warranty does not include {t}.
{t} is not covered.
{t} is not included in the price.
{t} is excluded.
{t} cannot be changed after {n} days.
You can't return {t}.
You cannot cancel after {n} days.
You must not open the case.
You should decline the update.
You may refuse the delivery.
You are not allowed to park there.
It is not possible to extend {t} beyond {n} months.
It is not possible to pay in cash.
It isn't free: it costs {n} euros.
There is no fee for {t}.
There are no discounts for students.
There is no limit on {t}.
No details about the customer are stored.
No answer is needed: it takes {n} days.
No, {t} is not part of the basic plan.
No documents are required for {t}.
No information is passed on to third parties.
Nobody may enter the server room without a badge.
None of the plans includes {t}.
Neither plan includes {t}.
Nothing is charged for {t}.
Nothing has to be paid in advance.
Unfortunately not: {t} ends after {n} days.
Unfortunately, {t} costs {n} euros more.
I'm sorry to hear that.
I can't recommend it enough: {n} stars.
I meant {n} months, not {n}2.
The document does not say {n}2 months but {n}.
The company declined to comment on {t}.
The bank refuses cards without a chip.
The court was unable to reach a verdict.
The app cannot find your phone when Bluetooth is off.
The device does not know the time after a reset.
The form does not mention your name.
The customer does not have to answer.
Employees do not have access to {t}.
Support cannot see your password.
Support does not know your password and will never ask for it.
He did not know the answer and lost.
She could not find her keys.
They were not able to attend.
If you don't know the code, ask the front desk within {n} days.
If no answer arrives within {n} days, the request counts as declined.
The request is denied after {n} days without a reply.
Requests outside the opening hours are not answered.
Transfers are not free.
Pets are not permitted.
The information desk is open until {n}.
The answer must be given within {n} days.
The question is answered on page {n}.
The unknown caller is blocked.
{t} is limited to {n} hours.
{t} takes {n} business days.
{t} was introduced in March.
Maria Keller is responsible for {t}.
Glass, tyres and {t} are excluded.
It depends on {t}: up to {n} days are possible.
Yes, that is possible.
No.
Only employees can use {t}.
The data are not sufficient evidence for a recall, the agency ruled.
Scientists do not know why whales sing.
It is unclear who owned the painting before the war, the museum said.""",
    "de": """Geöffnete Ware kann nicht zurückgegeben werden.
Haustiere sind nicht erlaubt.
Das ist nicht im Preis enthalten.
Die Versicherung deckt das nicht ab.
Nein, eine Verlängerung ist nicht möglich.
Es gibt keine Rabatte für Studenten.
Leider endet die Frist nach {n} Tagen.
Es tut mir leid, das zu hören.
Die Garantie beträgt {n} Monate.
Ohne Ausweis kann niemand eintreten.""",
    "fr": """Les articles ouverts ne peuvent pas être retournés.
Les animaux ne sont pas admis.
Ce n'est pas compris dans le prix.
L'assurance ne couvre pas ce cas.
Non, une prolongation n'est pas possible.
Il n'y a pas de remise pour les étudiants.
Malheureusement, le délai expire après {n} jours.
La garantie est de {n} mois.
Sans badge, personne ne peut entrer.""",
    "es": """Los artículos abiertos no se pueden devolver.
No se admiten mascotas.
No está incluido en el precio.
El seguro no cubre este caso.
No, no es posible ampliarla.
No hay descuentos para estudiantes.
Lamentablemente, el plazo termina a los {n} días.
La garantía es de {n} meses.
Sin tarjeta no puede entrar nadie.""",
    "it": """Gli articoli aperti non possono essere restituiti.
Gli animali non sono ammessi.
Non è incluso nel prezzo.
L'assicurazione non copre questo caso.
No, non è possibile prolungarla.
Non ci sono sconti per gli studenti.
Purtroppo il termine scade dopo {n} giorni.
La garanzia è di {n} mesi.
Senza tessera non può entrare nessuno.""",
    "pt": """Os artigos abertos não podem ser devolvidos.
Não são permitidos animais.
Não está incluído no preço.
O seguro não cobre este caso.
Não, não é possível prolongar.
Não há descontos para estudantes.
Infelizmente, o prazo termina após {n} dias.
A garantia é de {n} meses.
Sem cartão ninguém pode entrar.""",
    "nl": """Geopende artikelen kunnen niet worden teruggestuurd.
Huisdieren zijn niet toegestaan.
Dat is niet bij de prijs inbegrepen.
De verzekering dekt dit niet.
Nee, verlengen is niet mogelijk.
Er zijn geen kortingen voor studenten.
Helaas eindigt de termijn na {n} dagen.
De garantie is {n} maanden.
Zonder pas kan niemand naar binnen.""",
    "zh": """开封的商品不能退货。
不允许携带宠物。
价格中不包含此项。
保险不承保这种情况。
不,无法延长{n}个月以上。
学生没有折扣。
很遗憾,期限在{n}天后结束。
保修期为{n}个月。
没有证件不能进入。""",
    "ja": """開封済みの商品は返品できません。
ペットは同伴できません。
料金には含まれていません。
保険の対象外です。
いいえ、延長はできません。
学生割引はありません。
残念ながら期限は{n}日で終了します。
保証期間は{n}か月です。
社員証がないと入れません。""",
}


def sentences(seed: int = 14, copies: int = 4) -> list[tuple[str, int, str]]:
    """Sentences with label (1 declines) and template, by which they must not be split."""
    chance = random.Random(seed)
    rows: list[tuple[str, int, str]] = []
    for label, by_language in ((1, DECLINES), (0, ANSWERS)):
        for language, templates in by_language.items():
            topics = TOPICS[language].split("|")
            for template in templates.split("\n"):
                for _ in itertools.repeat(None, copies if "{" in template else 2):
                    text = template.replace("{t}", chance.choice(topics)).replace("{n}", str(chance.randint(2, 90)))
                    rows.append((text[0].upper() + text[1:], label, template))
    return rows
