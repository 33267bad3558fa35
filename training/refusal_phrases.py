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
Hierzu findet sich im Handbuch nichts.
Der Text macht dazu keine Aussage.
Zu {t} äußert sich das Dokument nicht.
Das wird im Text nicht erwähnt.
Das lässt sich den Quellen nicht entnehmen.
Mir fehlen die Angaben, um das zu beantworten.
Ich fürchte, da muss ich passen.
Da bin ich überfragt.
Dazu möchte ich mich nicht äußern.
Das liegt außerhalb meines Wissens.
Ich bin nicht befugt, über {t} zu sprechen.
Hierauf habe ich leider keine Antwort.
Entschuldigung, das kann ich nicht.
Damit kann ich nicht dienen.
Nichts gefunden.
Es tut mir leid, hier komme ich nicht weiter.""",
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
Cette question sort de mon domaine.
Le texte ne dit rien à ce propos.
Le document ne parle pas de {t}.
Le passage ne donne pas cette précision.
Les extraits n'indiquent pas la réponse.
Il n'est fait aucune mention de {t}.
Ce point n'est pas abordé.
Rien n'est dit sur {t}.
Je regrette, je n'ai pas d'éléments pour répondre.
J'ai bien peur de ne pas savoir.
Je n'en sais rien.
Je ne souhaite pas m'exprimer sur {t}.
Je n'ai pas le droit de parler de {t}.
Navré, mais cela m'est impossible.
Je ne saurais le dire.""",
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
No tengo permitido hablar de {t}.
El texto no dice nada al respecto.
El documento no habla de {t}.
El fragmento no aclara este punto.
Las fuentes no indican la respuesta.
No se hace mención de {t}.
Ese punto no se trata.
Me faltan datos para responder.
Me temo que no lo sé.
Ni idea.
No quiero pronunciarme sobre {t}.
No me está permitido comentar {t}.
Disculpe, pero eso no me es posible.
No sabría decirle.
Nada se dice sobre {t}.""",
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
Mi dispiace, non posso parlare di {t}.
Il testo non dice nulla al riguardo.
Il documento non parla di {t}.
Il brano non chiarisce questo punto.
Le fonti non indicano la risposta.
Non si fa menzione di {t}.
Questo punto non viene trattato.
Mi mancano i dati per rispondere.
Temo di non saperlo.
Non ne ho idea.
Preferirei non parlare di {t}.
Non mi è permesso commentare {t}.
Mi spiace, ma non mi è possibile.
Non saprei dire.
Nulla è indicato su {t}.""",
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
Desculpe, não posso falar sobre {t}.
O texto não diz nada a esse respeito.
O documento não fala sobre {t}.
O trecho não esclarece este ponto.
As fontes não indicam a resposta.
Não é feita menção a {t}.
Este ponto não é abordado.
Faltam-me dados para responder.
Receio não saber.
Não faço ideia.
Prefiro não comentar {t}.
Não me é permitido falar sobre {t}.
Lamento, mas não me é possível.
Não saberia dizer.
Nada é dito sobre {t}.""",
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
Het spijt me, daar mag ik niets over zeggen.
De tekst zegt hier niets over.
Het document gaat niet in op {t}.
De passage maakt dit niet duidelijk.
De bronnen geven geen antwoord.
Er wordt geen melding gemaakt van {t}.
Dit punt wordt niet behandeld.
Ik mis de gegevens om dit te beantwoorden.
Ik vrees dat ik het niet weet.
Geen idee.
Ik wil me niet uitlaten over {t}.
Ik mag niet praten over {t}.
Sorry, maar dat kan ik niet.
Dat zou ik niet kunnen zeggen.
Hier kom ik helaas niet uit.""",
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
我不能讨论{t}。
文本没有对此作出说明。
文件未涉及{t}。
这段话没有讲清楚这一点。
来源中找不到答案。
文中并未提及{t}。
我缺少回答所需的资料。
恐怕我不知道。
我不太清楚。
我不想对{t}发表意见。
我无权谈论{t}。
抱歉,这个我做不到。
很遗憾,我帮不上您。
我答不上来。
这一点没有写明。""",
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
それは私の知識の範囲外です。
本文では触れられていません。
文書は{t}について述べていません。
この箇所からは読み取れません。
資料に答えは見当たりません。
{t}についての言及はありません。
お答えするための情報がございません。
残念ながら存じません。
ちょっと分かりかねます。
{t}についての発言は控えます。
{t}について話すことは許されていません。
すみませんが、それはできかねます。
ご期待に沿えず申し訳ございません。
私には判断しかねます。
何も書かれていません。""",
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
It is unclear who owned the painting before the war, the museum said.
The forms are not available in Spanish.
The files must not be sent by post.
You do not have to give any details.
There is no data roaming on ferries.
The information sheet is not printed any more.
The lease does not allow subletting.""",
    "de": """Geöffnete Ware kann nicht zurückgegeben werden.
Haustiere sind nicht erlaubt.
Das ist nicht im Preis enthalten.
Die Versicherung deckt das nicht ab.
Nein, eine Verlängerung ist nicht möglich.
Es gibt keine Rabatte für Studenten.
Leider endet die Frist nach {n} Tagen.
Es tut mir leid, das zu hören.
Die Garantie beträgt {n} Monate.
Ohne Ausweis kann niemand eintreten.
Der Tarif enthält kein Datenvolumen im Ausland.
Für {t} gibt es keine Frist.
Das Formular muss nicht unterschrieben werden.
Der Schlüssel kann nicht nachgemacht werden.
Die Folie lässt sich nicht wieder ablösen.
Mitarbeiter dürfen private Geräte nicht anschließen.
Man braucht keinen Termin.
Sie benötigen dafür kein Visum.
Sie können {t} nicht online ändern.
Es gibt im Haus keine Küche.
In der Filiale gibt es leider keinen Geldautomaten.
Es besteht keine Pflicht zur Anmeldung.
Auf gebrauchte Geräte wird keine Gewährleistung gegeben.
Der Kurs findet im August nicht statt.
Das Ticket gilt nicht im Fernverkehr.
Ein Umtausch ist ausgeschlossen.
Die Kosten werden nicht erstattet.
Nein, der Mietwagen darf nicht ins Ausland gefahren werden.
Das Mittel wirkt nicht gegen Viren.
Die Tabletten sollten nicht mit Milch eingenommen werden.
Der Preis enthält keine Mehrwertsteuer.
Die Datei darf nicht größer als {n} MB sein.
Wir nehmen keine Schecks an.
Wir haben montags nicht geöffnet.
Der Stecker passt nicht in britische Dosen.
Die Kamera hat keinen Zoom.
Vor {n} Uhr ist kein Einlass möglich.
Rückfragen sind nicht nötig.
Der Artikel ist derzeit nicht lieferbar.
Anhänger dürfen dort nicht parken.
Der Pachtvertrag lässt keine Untervermietung zu.
Die Formulare sind nicht auf Englisch erhältlich.
Der Bericht wurde nicht unterschrieben.
Auskünfte über Kunden werden nicht erteilt.
Die Garantie schließt keine Akkus ein.
Wir können die Rate nicht stunden.
Das gilt nicht für {t}.""",
    "fr": """Les articles ouverts ne peuvent pas être retournés.
Les animaux ne sont pas admis.
Ce n'est pas compris dans le prix.
L'assurance ne couvre pas ce cas.
Non, une prolongation n'est pas possible.
Il n'y a pas de remise pour les étudiants.
Malheureusement, le délai expire après {n} jours.
La garantie est de {n} mois.
Sans badge, personne ne peut entrer.
Le forfait n'inclut pas de données à l'étranger.
Il n'y a pas de délai pour {t}.
Le formulaire n'a pas besoin d'être signé.
La clé ne peut pas être reproduite.
Les salariés ne doivent pas brancher d'appareils privés.
Il ne faut pas de rendez-vous.
Vous n'avez pas besoin de visa.
Vous ne pouvez pas modifier {t} en ligne.
Il n'y a pas de cuisine dans l'immeuble.
L'agence n'a malheureusement pas de distributeur.
Aucune inscription n'est nécessaire.
Les appareils d'occasion ne sont pas garantis.
Le cours n'a pas lieu en août.
Le billet n'est pas valable dans les trains rapides.
Les frais ne sont pas remboursés.
Non, la voiture ne doit pas quitter le pays.
Ce produit n'agit pas contre les virus.
Les comprimés ne doivent pas être pris avec du lait.
Le prix ne comprend pas la TVA.
Le fichier ne doit pas dépasser {n} Mo.
Nous n'acceptons pas les chèques.
Nous ne sommes pas ouverts le lundi.
L'appareil photo n'a pas de zoom.
Le nom ne doit pas contenir de chiffres.
L'article n'est pas livrable actuellement.
Personne ne peut entrer avant {n} heures.
Le contrat ne peut pas être cédé.
Vous ne pouvez pas cumuler deux remises.
Elle n'est pas étanche.
Rien n'est facturé à l'avance.
Le bail n'autorise aucune sous-location.
Les formulaires ne sont pas disponibles en anglais.
Le rapport n'a pas été signé.
La garantie n'inclut pas les batteries.
Nous ne pouvons pas différer le paiement.
Le statut n'admet aucun retard.
Cela ne vaut pas pour {t}.""",
    "es": """Los artículos abiertos no se pueden devolver.
No se admiten mascotas.
No está incluido en el precio.
El seguro no cubre este caso.
No, no es posible ampliarla.
No hay descuentos para estudiantes.
Lamentablemente, el plazo termina a los {n} días.
La garantía es de {n} meses.
Sin tarjeta no puede entrar nadie.
La tarifa no incluye datos en el extranjero.
No hay plazo para {t}.
El formulario no tiene que firmarse.
La llave no se puede copiar.
Los empleados no deben conectar aparatos privados.
No se necesita cita.
No necesita visado.
No puede modificar {t} por internet.
No hay cocina en el edificio.
La oficina no tiene cajero.
No es obligatorio inscribirse.
Los aparatos usados no tienen garantía.
El curso no se celebra en agosto.
El billete no vale en trenes rápidos.
Los gastos no se reembolsan.
No, el coche no puede salir del país.
Este producto no actúa contra los virus.
Las pastillas no deben tomarse con leche.
El precio no incluye el IVA.
El archivo no puede superar los {n} MB.
No aceptamos cheques.
No abrimos los lunes.
La cámara no tiene zoom.
El nombre no puede llevar cifras.
El artículo no está en venta actualmente.
Nadie puede entrar antes de las {n}.
No, el contrato no se puede ceder.
No se pueden acumular dos descuentos.
No es sumergible.
No se cobra nada por adelantado.
El alquiler no permite subarrendar.
Los formularios no están disponibles en inglés.
El informe no fue firmado.
La garantía no incluye las baterías.
No podemos aplazar el pago.
El reglamento no admite retrasos.
No tenemos tienda en el centro.
No hace falta enviar recibos.
Esto no se aplica a {t}.""",
    "it": """Gli articoli aperti non possono essere restituiti.
Gli animali non sono ammessi.
Non è incluso nel prezzo.
L'assicurazione non copre questo caso.
No, non è possibile prolungarla.
Non ci sono sconti per gli studenti.
Purtroppo il termine scade dopo {n} giorni.
La garanzia è di {n} mesi.
Senza tessera non può entrare nessuno.
La tariffa non include dati all'estero.
Non c'è una scadenza per {t}.
Il modulo non deve essere firmato.
La chiave non può essere copiata.
I dipendenti non devono collegare apparecchi privati.
Non serve un appuntamento.
Non ha bisogno del visto.
Non può modificare {t} online.
Nell'edificio non c'è una cucina.
La filiale non ha uno sportello automatico.
Non è obbligatorio iscriversi.
Gli apparecchi usati non hanno garanzia.
Il corso non si tiene in agosto.
Il biglietto non vale sui treni veloci.
Le spese non vengono rimborsate.
No, l'auto non può uscire dal paese.
Questo prodotto non agisce contro i virus.
Le compresse non vanno prese con il latte.
Il prezzo non comprende l'IVA.
La polizza non copre i furti.
Il file non può superare {n} MB.
Non accettiamo assegni.
Non apriamo il lunedì.
La fotocamera non ha lo zoom.
Il nome non può contenere cifre.
L'articolo non è in vendita al momento.
Nessuno può entrare prima delle {n}.
Non si possono cumulare due sconti.
Non è subacqueo.
Non si paga nulla in anticipo.
L'affitto non permette di subaffittare.
I moduli non sono disponibili in inglese.
Il rapporto non è stato firmato.
La garanzia non include le batterie.
Non possiamo rinviare il pagamento.
Lo statuto non ammette ritardi.
Non abbiamo un negozio in centro.
Non servono ricevute.
Non è adatto alle donne in gravidanza.
Questo non vale per {t}.""",
    "pt": """Os artigos abertos não podem ser devolvidos.
Não são permitidos animais.
Não está incluído no preço.
O seguro não cobre este caso.
Não, não é possível prolongar.
Não há descontos para estudantes.
Infelizmente, o prazo termina após {n} dias.
A garantia é de {n} meses.
Sem cartão ninguém pode entrar.
O tarifário não inclui dados no estrangeiro.
Não há prazo para {t}.
O formulário não precisa de ser assinado.
A chave não pode ser copiada.
Os funcionários não devem ligar aparelhos privados.
Não é preciso marcar hora.
Não precisa de visto.
Não pode alterar {t} pela internet.
O edifício não tem cozinha.
A agência não tem caixa automática.
Não é obrigatório inscrever-se.
Os aparelhos usados não têm garantia.
O curso não se realiza em agosto.
O bilhete não é válido nos comboios rápidos.
As despesas não são reembolsadas.
Não, o carro não pode sair do país.
Este produto não atua contra vírus.
Os comprimidos não devem ser tomados com leite.
O preço não inclui o IVA.
O ficheiro não pode exceder {n} MB.
Não aceitamos cheques.
Não abrimos à segunda-feira.
A câmara não tem zoom.
O nome não pode ter algarismos.
O artigo não está à venda de momento.
Ninguém pode entrar antes das {n}.
Não se podem acumular dois descontos.
Não é submersível.
Nada é cobrado antecipadamente.
O quarto não tem varanda.
O arrendamento não permite subalugar.
Os formulários não estão disponíveis em inglês.
O relatório não foi assinado.
A garantia não abrange as baterias.
Não podemos adiar o pagamento.
O regulamento não admite atrasos.
Não temos loja no centro.
Não é preciso enviar recibos.
Isto não se aplica a {t}.""",
    "nl": """Geopende artikelen kunnen niet worden teruggestuurd.
Huisdieren zijn niet toegestaan.
Dat is niet bij de prijs inbegrepen.
De verzekering dekt dit niet.
Nee, verlengen is niet mogelijk.
Er zijn geen kortingen voor studenten.
Helaas eindigt de termijn na {n} dagen.
De garantie is {n} maanden.
Zonder pas kan niemand naar binnen.
Het tarief bevat geen data in het buitenland.
Er is geen termijn voor {t}.
Het formulier hoeft niet te worden ondertekend.
De sleutel kan niet worden nagemaakt.
Medewerkers mogen geen eigen apparaten aansluiten.
Een afspraak is niet nodig.
U heeft geen visum nodig.
U kunt {t} niet online wijzigen.
Er is geen keuken in het gebouw.
Het filiaal heeft helaas geen geldautomaat.
U hoeft zich niet aan te melden.
Op gebruikte apparaten zit geen garantie.
De cursus gaat in augustus niet door.
Het kaartje is niet geldig in sneltreinen.
De kosten worden niet vergoed.
Nee, de auto mag het land niet uit.
Dit middel werkt niet tegen virussen.
De tabletten mogen niet met melk worden ingenomen.
De prijs is zonder btw.
Het bestand mag niet groter zijn dan {n} MB.
Wij nemen geen cheques aan.
Wij zijn maandag niet open.
De camera heeft geen zoom.
De naam mag geen cijfers bevatten.
Het artikel is momenteel niet leverbaar.
Niemand mag voor {n} uur naar binnen.
Twee kortingen kunnen niet worden gecombineerd.
Het is niet waterproof.
Er wordt niets vooraf in rekening gebracht.
U hoeft niets te doen.
De huur staat geen onderverhuur toe.
De formulieren zijn niet in het Engels verkrijgbaar.
Het rapport is niet ondertekend.
De garantie omvat geen accu's.
Wij kunnen de betaling niet uitstellen.
Wij hebben geen winkel in het centrum.
Bonnetjes zijn niet nodig.
Dit geldt niet voor {t}.""",
    "zh": """开封的商品不能退货。
不允许携带宠物。
价格中不包含此项。
保险不承保这种情况。
不,无法延长{n}个月以上。
学生没有折扣。
很遗憾,期限在{n}天后结束。
保修期为{n}个月。
没有证件不能进入。
套餐不包含境外流量。
{t}没有期限。
表格不需要签名。
钥匙不能复制。
员工不得连接私人设备。
不需要预约。
您不需要签证。
您不能在网上更改{t}。
大楼里没有厨房。
分行没有自动取款机。
不必登记。
二手设备没有保修。
课程八月不举行。
此票不适用于快车。
费用不予报销。
租来的车不能开出国境。
这种药对病毒无效。
药片不能与牛奶同服。
价格不含税。
文件不能超过{n}兆。
我们不接受支票。
我们星期一不营业。
相机没有变焦功能。
名称不能含有数字。
商品目前缺货。
{n}点之前不能入场。
两个优惠不能同时使用。
手表不防水。
不预先收费。
没有收据不能报销。
租约不允许转租。
表格没有英文版。
报告没有签字。
保修不包括电池。
我们不能延期付款。
规定不允许迟到。
我们没有市中心的门店。
不需要寄送收据。
这不适用于{t}。""",
    "ja": """開封済みの商品は返品できません。
ペットは同伴できません。
料金には含まれていません。
保険の対象外です。
いいえ、延長はできません。
学生割引はありません。
残念ながら期限は{n}日で終了します。
保証期間は{n}か月です。
社員証がないと入れません。
料金に海外データ通信は含まれません。
{t}に期限はありません。
用紙への署名は必要ありません。
鍵は複製できません。
従業員は私物の機器を接続してはいけません。
予約は不要です。
ビザは必要ありません。
{t}はオンラインで変更できません。
建物に台所はありません。
支店にATMはありません。
登録する必要はありません。
中古品に保証は付きません。
講座は八月には開かれません。
この切符は特急では使えません。
費用は払い戻されません。
車で国外に出ることはできません。
この薬はウイルスには効きません。
錠剤は牛乳と一緒に飲まないでください。
価格に税は含まれていません。
ファイルは{n}MBを超えることはできません。
小切手は受け付けておりません。
月曜日は営業しておりません。
カメラにズーム機能はありません。
名前に数字を使うことはできません。
商品は現在販売されていません。
{n}時前には入場できません。
二つの割引を併用することはできません。
時計は防水ではありません。
前払いは必要ありません。
追加の費用は発生しません。
賃貸では転貸は認められていません。
用紙の英語版はありません。
報告書は署名されていません。
保証に電池は含まれません。
支払いの延期はできません。
規則では遅刻は認められません。
市内に店舗はありません。
領収書を送る必要はありません。
{t}には適用されません。""",
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
