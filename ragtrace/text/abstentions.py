"""Phrases by which an assistant declines to answer or reports that it has no answer, in nine languages.

The list is short, and each phrase is certain. The refusal classifier (`ragtrace.models.heads`) finds the others.
"""

from __future__ import annotations

import re

_TEXT = (
    r"(?:passages?|context|documents?|documentation|docs?|texts?|sources?|information|excerpts?|material|articles?|data|"
    r"snippets?|knowledge base|search results?|files?)"
)
_BOOK = (
    rf"(?:{_TEXT}|handbook|manual|polic(?:y|ies)|guide(?:lines?)?|leaflet|report|agreement|contract|faqs?|pages?|"
    r"website|records?|notes|instructions|brochure)"
)
_SAYS = r"(?:mention|specify|say|state|address|discuss|explain|indicate|describe|answer|tell|clarify|reveal|disclose)"
_NEWS = (
    r"(?:information|info|details?|data|mention|answers?|guidance|references?|results?|matches|evidence|indication|"
    r"knowledge|specifics|instructions|advice|clue|idea)"
)
_NOT = r"(?: not|n't)"
_KNOWLEDGE = (
    r"(?:(?= (?:\w+ ){0,4}(?:information|info|details?|mention|answers?|guidance|references?|specifics|indication|clue|"
    r"anything|(?:data|evidence|instructions?|advice) (?:about|on|regarding|for|that))\b)|(?=\W*$))"
)
"""Behind a verb: what the documents lack is knowledge. "The policy provides no coverage" is a fact about the policy."""
_ENDS = (
    r"(?!\W+(?!(?:about|on|regarding|concerning|in|within|from|available|provided|given|here|there|to (?:answer|"
    r"determine|say|suggest|indicate)|for|as|of|which|that (?:say|answer|explain|address|mention|would)|whether|how|"
    r"why|what|when|who|specific|related|mentioned|found|stated|at|i|we|and|but|so|or|beyond|because|since)\b)\w)"
)
"""What may follow "no information": not another noun ("no information desk"), nor a fact ("no evidence that")."""
_CANNOT = r"(?:cannot|can ?not|can'?t|could not|couldn'?t|(?:am|are|was|were|'m|'re)? ?(?:unable|not able) to)"
_ANY = r"(?:\w+ ){0,3}"
_ENGLISH = (
    # the speaker cannot, does not know, will not
    rf"\b(?:i|we) ?(?:really |simply |unfortunately |currently |also |truly |still )?{_CANNOT} (?:\w+ly )?"
    r"(?:find|locate|answer|determine|verify that|say (?:for|with)|tell (?:from|whether|if|you (?:that|this|more|"
    r"what))|"
    r"see (?:any|that|this|it) |comment|assist|respond|comply|fulfil|speculate|identify|infer|(?:help|discuss)\b)"
    rf"|\bi ?{_CANNOT} (?:\w+ly )?(?:provide|share|give|offer|disclose|engage|do (?:that|this)|create|write|generate|"
    r"support|recommend any|talk about|advise|address)\b"
    rf"|\bwe ?{_CANNOT} (?:\w+ly )?(?:provide|share|give|offer|disclose) {_ANY}{_NEWS}\b"
    rf"|\b(?:i|we) (?:\w+ )?(?:do|did){_NOT} (?:\w+ly )?(?:know\b|find (?:any|that|this|it|an? )|see (?:any|that|"
    r"this|it)"
    rf"|have (?:enough|sufficient|access|(?:the |any |that |this |such |specific |real-time |more ){{0,3}}{_NEWS}))"
    r"|\bi(?: have|'ve)? (?:\w+ )?(?:found|got|have|see) (?:no|nothing)\b|\bwe(?: have|'ve)? found (?:no|nothing)\b"
    rf"|\bwe (?:have|see) no (?:\w+ )?{_NEWS}\b{_ENDS}|\b(?:i|we) lack (?:\w+ ){{0,2}}{_NEWS}\b"
    r"|\bi (?:must|have to|need to|would like to|'ll|will) (?:respectfully |politely )?(?:decline|pass|refuse|"
    r"abstain)\b"
    r"|\bi(?:'d| would) (?:rather|prefer) not\b|\bi (?:won't|will not) (?:be able|\w+ (?:that|this|with))"
    r"|\b(?:i am|i'm|we are|we're) (?:only|just) (?:able|here|allowed|permitted) to"
    r"|\bi can only (?:help|discuss|answer|assist|talk|respond)(?! that\b)"
    r"|\b(?:i am|i'm) not (?:sure|certain|aware|allowed|permitted|in a position|comfortable|programmed|qualified)\b"
    rf"|^\W*(?:sorry,? )?(?:{_CANNOT}|did{_NOT}) (?:find|locate|answer|determine|help|say|tell)\b"
    # the documents do not say
    rf"|\b{_TEXT} (?:\w+ ){{0,2}}(?:does|do|did){_NOT} (?:\w+ ){{0,2}}(?:(?:contain|provide|include|cover|give|have|"
    rf"offer|list|hold){_KNOWLEDGE}|{_SAYS[3:-1]}\b)"
    rf"|\b{_BOOK} (?:\w+ ){{0,2}}(?:does|do|did){_NOT} (?:\w+ ){{0,2}}{_SAYS}\b"
    rf"|\b{_BOOK} (?:\w+ ){{0,2}}(?:is|are|was|were) (?:silent|unclear|unrelated|not (?:clear|relevant|related))\b"
    rf"|\b{_BOOK} (?:\w+ ){{0,2}}(?:contains?|gives?|provides?|offers?|has|have|holds?|makes?|includes?) "
    rf"(?:(?:no|insufficient){_KNOWLEDGE}|nothing(?= (?:about|on|regarding|that|of|relevant|related|to)\b|\W*$))"
    rf"|\b{_BOOK} (?:\w+ ){{0,2}}lacks?{_KNOWLEDGE}"
    rf"|(?:{_NOT}|nowhere|never) (?:\w+ )?(?:mentioned|provided|specified|covered|found|stated|included|addressed|"
    r"described|discussed|given|available|answered|contained|explained) (?:\w+ )?(?:in|by|from|within) "
    rf"(?:\w+ ){{0,3}}{_BOOK}"
    rf"|\bnothing (?:\w+ ){{0,2}}(?:in|within|from) (?:(?!(?:this|your|our) )\w+ ){{0,3}}{_BOOK}"
    r"(?! (?:forbids?|prohibits?|prevents?|requires?|limits?|restricts?|obliges?|stops?|bars?|excludes?|changes?)\b)"
    r"|\b(?:there (?:is|are|was|were|isn't|aren't)|there's) (?:no|not (?:any|enough)|any|insufficient) "
    rf"(?:\w+ ){{0,2}}{_NEWS}\b{_ENDS}"
    rf"|^\W*no (?:\w+ )?{_NEWS}(?: (?!(?:is|are|was|were|has|have|will|can|must|needs?)\b)\w+){{0,6}}\W*$"
    rf"|\bno (?:\w+ )?{_NEWS} (?:\w+ ){{0,6}}(?:is|are|was|were|could be|can be) "
    r"(?:available|provided|given|found|mentioned|included|contained|located)\b"
    rf"|^\W*not (?:specified|mentioned|stated|provided|available|found|covered|given|enough {_NEWS}|addressed)\b"
    rf"|(?:\b(?:is|are|was|were|have|has|provides?|contains?) |^\W*)(?:not enough|insufficient) (?:{_TEXT}|{_NEWS})\b"
    r"|\b(?:question|query|request|this|that|it|answer) (?:\w+ )?"
    r"(?:cannot|can'?t|could not|couldn'?t) be (?:\w+ )?(?:answered|determined|inferred|established|found in "
    rf"(?:\w+ ){{0,3}}{_BOOK})"
    r"|\bit (?:is|was) (?:\w+ly )?(?:not possible|impossible|unclear|not clear|"
    r"difficult) (?:for me )?(?:to (?:determine|answer|"
    r"say|tell|provide|identify|know|give|infer)|from the)\b"
    rf"|\b(?:not sufficient|insufficient|not enough|does{_NOT} suffice) to (?:answer|determine|provide|say|tell|"
    r"give)\b"
    r"|^\W*(?:cannot|can'?t) be (?:answered|determined)|^\W*(?:unknown|undetermined|unanswerable|n/a)\W*$"
    # out of scope
    r"|\b(?:outside|beyond|out of)(?: of)? (?:my (?:scope|knowledge|expertise|remit|area|capabilit)|what (?:i|we)|"
    rf"the scope of (?:(?:my|what|this (?:assistant|chat|bot|service))|(?:\w+ ){{0,3}}{_TEXT}))"
    r"|^\W*(?:(?:sorry|unfortunately),? )?(?:that|this|it|(?:your|the) question)(?:'s| is| falls| goes| lies) (?:\w+ )?"
    r"(?:outside|beyond|out of)(?: of)? (?:the |my )?(?:scope|knowledge|area)"
    r"|\b(?:unrelated|not (?:related|relevant)|irrelevant) to (?:your|the|this) (?:question|query|request)"
    r"|\bagainst my (?:policy|policies|guidelines|programming)\b"
    r"|\bas an ai\b.{0,60}\b(?:not|n't|cannot|unable)\b"
    r"|\b(?:is|are) (?:above my pay ?grade|(?:not|n't) something (?:that )?(?:i|we) (?:can|could|have|know|am|are))\b"
    r"|\b(?:that|this|it)(?:'s| is) confidential\b"
    r"|\bi(?:'m| am) afraid (?:that )?(?:i|we) (?:do not|don't|cannot|can't)\b"
    r"|\bi (?:refuse|decline)\b|\bi respectfully\b|\bi (?:won't|will not) (?:answer|discuss|help|comment|provide|"
    r"share)\b"
    r"|\b(?:i|we)(?: am| are| have been|'m|'re|'ve been)? (?:not allowed|not permitted|told not|instructed not) to\b"
    r"|\b(?:guidelines|rules|policy|policies|instructions|programming) (?:(?:do not|don't|does not|doesn't) (?:\w+ )?"
    r"(?:let|allow|permit) (?:me|us)|(?:prevent|forbid|prohibit)s? (?:\w+ )?(?:me|us))\b"
    r"|\bit would (?:be inappropriate|not be (?:right|appropriate))\b"
    rf"|\b(?:says?|said|mentions?) nothing (?:\w+ )?(?:about|on|regarding)\b|\bnothing is (?:said|mentioned|"
    rf"written(?=\W*$| (?:about|on|regarding|there|here)\b))\b"
    rf"|\b(?:none|neither|not one) (?:of )?(?:\w+ ){{0,2}}{_BOOK} (?:\w+ ){{0,2}}(?:{_SAYS[3:-1]}|deals?|"
    r"(?:is|are) (?:about|related|relevant|on))"
    rf"|\bnowhere (?:do|does|in) (?:\w+ ){{0,2}}{_BOOK}|\b(?:do|does){_NOT} (?:appear|come up|occur|feature) in "
    rf"(?:\w+ ){{0,3}}{_BOOK}\b"
    rf"|\bnothing (?:\w+ )?(?:about|on|regarding) .{{1,60}} in (?:what|the|my|any|these)\b|\bfound nothing\b"
    rf"|^\W*(?:nothing|no (?:\w+ ){{0,2}}(?:{_TEXT}|{_NEWS})) (?:was |were |is |are )?(?:found|available|given|"
    rf"retrieved)\b"
    rf"|^\W*not in (?:the|my|any|these) (?:\w+ )?{_BOOK}|\b(?:answer|information) (?:is|was) not (?:in|"
    rf"part of) (?:the|my)"
    rf"|\b{_NEWS} (?:\w+ ){{1,6}}(?:is|are|was|were|could) not (?:be )?(?:available|located|found|accessible|"
    rf"provided|included)\b"
    rf"|\b(?:is|are) missing from (?:the|my) (?:\w+ )?{_BOOK}|\bcontext is (?:insufficient|not sufficient|"
    rf"not enough)\b"
    rf"|\b(?:came up empty|without success|drew a blank|no idea|no clue)\b|\bi (?:do not|don't)\W*$|"
    rf"\bi can'?t(?: \w+)?\W*$"
    r"|\bit remains (?:unclear|open) (?:what|which|how|when|whether|who)\b|\bthey do not say"
    r"(?: (?:what|which|how|when|whether|who|where|if|why|anything)\b|\W*$)"
)
_GERMAN_NEWS = r"(?:informationen|angaben?|hinweise|antwort|auskunft|details)"
_OTHERS = (
    # German
    r"|\b(?:weiß|weiss) (?:ich |wir )?(?:das |es |darüber )?(?:leider )?nicht\b"
    r"|\b(?:ich (?:\w+ )?(?:kann|konnte|darf)|(?:kann|konnte|darf) ich)\b.{0,80}\bnicht (?:beantworten|finden|helfen|"
    r"sagen|weiterhelfen|ermitteln|beurteilen|bereitstellen|unterstützen)\b"
    r"|\b(?:wir (?:\w+ )?(?:können|konnten)|(?:können|konnten) wir)\b.{0,80}\bnicht (?:beantworten|helfen|sagen|"
    r"weiterhelfen|beurteilen)\b|\b(?:kann|können|konnte|konnten)\b.{0,80}\bnicht beantwortet werden\b"
    rf"|\bkeine(?:rlei)? (?:\w+ )?{_GERMAN_NEWS}(?:\W*$|.{{0,80}}\b(?:gefunden|vorhanden|enthalten|finden|verfügbar|"
    r"vor|hervor|geben|habe|haben|enthält|gibt|liefert|nennt)\W*$)|\bkeine daten\b.{0,60}\bvor\W*$"
    r"|\b(?:enthält|enthalten|findet sich|finden sich|geht|gibt es|liegen mir)\b.{0,40}\bkeine? (?:\w+ )?"
    rf"{_GERMAN_NEWS}\b"
    r"|\b(?:wird|werden|ist|sind|steht)\b.{0,60}\bnicht (?:\w+ )?(?:erwähnt|genannt|angegeben|beschrieben)\b"
    r"|\b(?:unterlagen|dokument|dokumenten|text|handbuch|quellen|kontext|hier)\b.{0,40}\bnicht behandelt\b"
    r"|\b(?:handbuch|text|kontext|dokumente?|unterlagen|quellen) (?:erwähn|nenn)(?:t|en)\b.{0,60}\bnicht\W*$"
    # French
    r"|\b(?:je ne (?:sais|peux|suis|dispose|trouve|connais)|nous ne savons)\b.{0,40}\b(?:pas|aucune?)\b"
    r"|\bnous ne (?:pouvons|disposons|trouvons)\b.{0,40}\b(?:pas|aucune?)\b.{0,40}"
    r"(?:répondre|aider|renseigner|information|réponse)"
    r"|\bje n'(?:ai|arrive)\b.{0,20}\b(?:pas|aucune?|trouvé)\b"
    r"|\b(?:document|texte|contexte|passage|source|extrait|information)s?\b.{0,30}\bn(?:e |').{0,30}"
    r"\b(?:pas|aucune?)\b.{0,40}(?:information|réponse|mention|détail|précis|indic|préci|question)"
    r"|\b(?:aucune|pas d') ?(?:information|réponse|mention|donnée)s?(?=\W*$| (?:sur|concernant|relative|disponible|"
    r"trouvée|pertinente|à (?:ce|son|leur|propos)|dans (?:le|la|les|ces|mes)|qui|pour répondre|"
    r"n'(?:est|a été) (?:disponible|trouvée|donnée|fournie|faite))\b)"
    r"|\bfait aucune mention\b"
    r"|\bn'est pas (?:mentionnée?|précisée?|indiquée?(?! (?:chez|pour|en cas|dans le))|spécifiée?)\b"
    # Spanish and Portuguese
    r"|\bno (?:puedo|sé|tengo|encuentro|dispongo|he encontrado|pude)\b.{0,40}"
    r"(?:responder|ayudar|información|respuesta|encontrar|sé\b|datos|eso|decir|nada|proporcionar|determinar|"
    r"contestar)"
    r"|\bno (?:podemos|sabemos|tenemos|encontramos|disponemos)\b.{0,40}(?:responder|ayudar|respuesta|contestar|"
    r"determinar|información (?:sobre|acerca|al respecto|suficiente|disponible))"
    r"|\bno lo sé\b|\bno sé\b|\bno (?:contienen?|mencionan?|incluyen?|ofrecen?|especifican?|indican?|hay|aparecen?|"
    r"proporcionan?)\b.{0,30}(?:información(?! (?:personal|confidencial))|respuesta|detalles|mención|"
    r"datos (?:sobre|acerca|al respecto|suficientes|disponibles))"
    r"|\bno (?:mencionan?|especifican?|indican?|aparecen?)\b.{0,30}(?:documento|contexto|texto|fuentes)"
    r"|\b(?:documentos?|contexto|textos?|fuentes?|fontes|manual)\b.{0,40}\b(?:no|não) (?:lo )?(?:menciona|"
    r"especifica|indica|dice|diz|responde|(?:contiene|incluye|contêm|contém|inclui|fornece)(?=\W*$|.{0,30}(?:inform|"
    r"resp|detal|menci|menç|es[oat]|iss[oa])))"
    r"|\bnão (?:sei|posso|consigo|tenho|encontrei|disponho)\b.{0,40}"
    r"(?:responder|ajudar|informaç|resposta|encontrar|sei\b|dados|isso|dizer|nada|determinar|acesso)|\bnão sei\b"
    r"|\bnão (?:podemos|temos|há|foi possível)\b.{0,40}(?:responder|ajudar|resposta|determinar|menção|encontrar "
    r"(?:inf|resp|a inf|a resp)|(?:informaç(?:ão|ões)|dados) (?:sobre|a respeito|suficiente|disponíve))"
    r"|\bnão (?:contém|contêm|mencionam?|incluem?|está|estão|é)\b.{0,30}(?:informaç|resposta|mencionad|especificad)"
    # Italian
    r"|\bnon (?:posso|so|ho|trovo|riesco|dispongo|sono in grado)\b.{0,50}"
    r"(?:rispondere|aiutar|informazion|risposta|trova|dati|dire|nulla|determinare|fornire|accesso)|\bnon lo so\b"
    r"|\bnon (?:possiamo|sappiamo|abbiamo|troviamo|disponiamo)\b.{0,50}(?:rispondere|aiutar|risposta|determinare|"
    r"informazioni (?:su|al|in|a ri|disponibili|sufficienti))"
    r"|\bnon (?:contiene|contengono|menziona|menzionano|include|fornisce|forniscono|specifica|indica|riporta|ci sono|"
    r"c'è|è|sono)\b.{0,40}(?:informazion\w(?! (?:personal|riservat))|risposta|dettagl|menzionat|specificat|"
    r"indicat\w(?! (?:per|in caso|nei)))"
    r"|\bnon (?:menzion|specific|indic|compar|appar)\w+ ne(?:l|i|lla|lle|gli) (?:contest|document|test|font)"
    # Dutch
    r"|\b(?:ik (?:\w+ )?(?:kan|kon)|(?:kan|kon) ik|(?:wij|we) (?:\w+ )?(?:kunnen|konden)|(?:kunnen|konden) (?:wij|we))"
    r"\b.{0,60}\bniet (?:beantwoorden|vinden|helpen|zeggen|bepalen|geven)\b|"
    r"\b(?:kan|kon|kunnen)\b.{0,60}\bniet (?:worden )?beantwoord\b|\bik (?:kan|mag) (?:\w+ )?geen (?:\w+ )?"
    r"(?:informatie|antwoord|gegevens|details|instructies|advies)\b"
    r"|\bweet (?:ik )?(?:het|dat) niet\b|\bik weet (?:het |dat )?niet\b"
    r"|\b(?:handleiding|tekst|context|document(?:en)?|bron(?:nen)?) (?:vermeld|noem)(?:t|en)?\b.{0,60}\bniet\W*$"
    r"|\bgeen (?:\w+ )?(?:informatie|antwoord|details|gegevens)(?=\W*$| (?:over|gevonden|beschikbaar|om|die|"
    r"gegeven|hierover|bekend|vinden|geven|(?:in|op) (?:de|het|deze|dit|mijn|je|uw|die))\b)"
    r"|\bniet (?:vermeld|genoemd|gespecificeerd|beschreven) in\b"
    r"|\b(?:unterlagen|dokumenten?|text|handbuch|quellen|kontext)\b.{0,40}\bnichts\b|"
    r"\bnichts\b.{0,30}\b(?:unterlagen|"
    r"dokumenten?|text|handbuch|quellen|kontext)\b|\bkann ich (?:\w+ ){0,3}(?:nichts|nicht) sagen\b|"
    r"^\W*keine angaben?\W*$"
    r"|\bgeht\b.{0,40}\bnicht hervor\b|\bdarf ich\b.{0,30}\b(?:keine|nicht|nichts)\b"
    r"|\bne (?:dit|disent|mentionne|mentionnent) rien\b|\brien (?:dans|sur)\b.{0,40}(?:document|manuel|texte|"
    r"contexte)"
    r"|\b(?:information|réponse) n'est pas (?:disponible|connue)|\bdépasse mes (?:compétences|connaissances)"
    r"|\bsort de mon domaine|\bje ne suis pas (?:en mesure|autorisée?)"
    r"|\bno (?:dicen?|menciona|mencionan) nada\b|\bnada en (?:el|los|la|las) (?:manual|documento|texto|contexto)"
    r"|\b(?:información|respuesta) no está disponible|\bno se (?:encontró|encontraron|ha encontrado|menciona|"
    r"especifica)\b"
    r"|\bfuera de mi (?:alcance|competencia|conocimiento)|\bno (?:tengo permitido|estoy en condiciones|"
    r"estoy autorizad)"
    r"|\bnon dicono nulla\b|\bnon dice nulla\b|^\W*nessuna (?:risposta|informazione)|\bnel (?:manuale|documento|"
    r"testo)"
    r" non (?:c'è|si)\b|\b(?:informazione|risposta) non è disponibile|\bva oltre le mie\b|\bnon posso (?:parlare|"
    r"aiutar)"
    r"|\bnon mi è (?:permesso|consentito)|\bnão dizem nada\b|\bnão diz nada\b|^\W*nenhuma (?:resposta|informação)"
    r"|\bnada n[oa]s? (?:manual|documento|texto|contexto)|\b(?:informação|resposta) não está disponível"
    r"|\bfora do meu (?:alcance|conhecimento)|\bnão (?:posso falar|tenho permissão)|\bzeggen niets\b|\bzegt niets\b"
    r"|\bin de (?:handleiding|documenten|tekst)\b.{0,30}\bniets\b|\binformatie is niet beschikbaar"
    r"|\bbuiten mijn (?:kennis|bereik)|\bdaar\b.{0,20}\b(?:niet (?:mee )?helpen|niets over zeggen)\b|"
    r"\bdat weet ik niet\b"
    r"|\bdocument(?:en)?\b.{0,20}\b(?:bevat|bevatten)\b.{0,30}\bniet\b|\bik beschik niet over\b"
    # Chinese and Japanese
    r"|(?:没有|沒有)(?:\S{0,10})(?:的)?(?:内容|資料|(?:数据|记录)(?=[。.,，;；!！]|$))|超出(?:了)?(?:我|本)\S{0,6}(?:范围|能力|知识)|帮不了"
    r"|找不到\S{0,6}(?:答案|信息|资料)|我不能(?:讨论|谈|回答)|不便(?:透露|回答)"
    r"|(?:書かれて|載って|触れられて|示されて)(?:い|お)り?ません|情報が不足|(?:お話し|お伝え)(?:することは|は)?(?:でき|いたしかね|しかね)"
    r"|(?:知識|回答|対応)の範囲外|該当する\S{0,8}(?:ありません|見つかりません)"
    r"|(?:无法|不能|没法|沒有辦法|無法)(?:\S{0,6})(?:回答|找到\S{0,12}(?:信息|答案|资料|内容)|确定|確定|协助|帮助|判断|满足|答复|"
    r"提供\S{0,25}(?:信息|答案|资料|内容|建议|帮助|協助|协助|说明|指导))|我(?:无法|不能|没法|無法)\S{0,6}(?:提供|找到)"
    r"|(?:没有|沒有|未|并未|並未|没)(?!\S{0,6}个人)(?:\S{0,10})(?:信息|資訊|资料|提到|提及|答案|说明|找到|涉及|相关内容|記載|记载)"
    r"|(?:手册|手冊|文档|文件|资料|说明书)\S{0,3}没有?写|(?:我|我们)?(?:不知道|不清楚|不了解)(?:\S{0,12})[。.!]?$"
    r"|(?:わかり|分かり|判り|存じ上げ|見つかり|見つけられ|見当たり)ません|不明です"
    r"|(?:お答え|回答|お手伝い|ご案内|(?:質問|要望|依頼|内容|リクエスト)\S{0,6}対応|お応え|(?<!第三者に)提供|確認|特定|判断)(?:すること(?:が|は))?(?:は)?(?:でき|いたしかね|しかね|致しかね)(?:ません|ます)"
    r"|(?:記載|(?<!個人)情報|言及|説明(?![会書])|回答|記述|答え)(?:\S{0,6})(?:ありません|ございません|含まれていません|されていません|見つかりませんでした|"
    r"含まれておりません|されておりません|ない)"
)
_ABSTENTION = re.compile(_ENGLISH + _OTHERS, re.I)
READ = 600
"""Characters of a sentence that are searched for phrases."""


_IDIOM = re.compile(r"\b(?:can't|cannot|couldn't) (?:(?:\w+ ){1,6}enough|wait|go wrong|help but|agree more)\b", re.I)


def is_idiom(clause: str) -> bool:
    """Whether a clause only sounds like an abstention: "I can't recommend it enough"."""
    return _IDIOM.search(clause[:READ].replace("\u2019", "'")) is not None


_CONDITION = re.compile(r"^\W*(?:if|whenever|unless|in case|once|until)\b", re.I)
_QUOTED = re.compile(
    r"\"[^\"\n]{4,200}\"|\u201c[^\u201d\n]{4,200}\u201d|\u201e[^\u201c\u201d\n]{4,200}[\u201c\u201d]|"
    r"\u00ab[^\u00bb\n]{4,200}\u00bb|\u300c[^\u300d\n]{2,200}\u300d"
)
_REPORTED = re.compile(
    r"\b(?:said|says|stated|states|replied|testified|admitted|insisted|answered|claimed|wrote|told \w+(?: \w+)?)"
    r"(?: that)? (?:he|she|they)\b",
    re.I,
)
_LETTER = re.compile(r"[^\W\d_]")


def abstains(clause: str) -> bool:
    """Whether a clause declines to answer or reports that there is no answer, in its first 600 characters. A condition
    does not ("If we are unable to locate the parcel" is part of a rule), nor does what somebody else said."""
    text = clause[:READ].replace("\u2019", "'")
    own = _QUOTED.sub(" ", text)
    text = own if _LETTER.search(own) else text  # an answer in quotation marks is the assistant's own
    return _ABSTENTION.search(text) is not None and not _CONDITION.match(text) and not _REPORTED.search(text)
