"""Where else an answer that abstains sends its reader: "Ask your bank.", "The support team can help you with that."

A clause is a redirect where it has the form of one and each of its words belongs to a redirect, beside the topic of the
question ("about parental leave") and a contact. An amount, a date, a reason or another statement needs words of its
own: with these the clause stays a claim.
"""

from __future__ import annotations

import re

from ragtrace.text.abstentions import READ

_WORDS = """
a an the your our my their his her its this these those such it them they you i we he she us me and or but so also
then instead alternatively otherwise however perhaps maybe if in on at by via from with for to of as about regarding
into up out back who someone somebody anyone any some all each other another one only own be is are was would will can
could may might should must have has had do does been being able please kindly always directly further need want wish
like try consider recommend suggest advise encourage feel i'd you'd you'll we'd it's they'll i'll let's again let more
most better best right good wise worth helpful advisable recommended safest option way place thing bet idea case doubt
ask contact consult check reach get touch refer referring speak talk turn call phone visit see look search read review
browse go open seek find follow write message inquire enquire connect transfer forward put hand pass redirect escalate
direct provide providing share sharing give giving tell help assist answer know explain clarify confirm inform guide
point offer reply respond specify rephrase rephrasing reword upload team manager supervisor boss doctor physician
pharmacist nurse vet veterinarian lawyer attorney solicitor notary advisor adviser consultant accountant bank insurer
employer landlord dealer retailer seller vendor supplier manufacturer maker provider carrier agent broker
representative rep colleague staff department desk helpdesk office administrator admin authority authorities embassy
consulate police expert specialist professional technician engineer electrician plumber mechanic teacher school
university library librarian hotel restaurant store shop airline company organisation organization agency council
partner person people support hr it human operator reception receptionist service officer author owner developer
maintainer coordinator organiser organizer host union clinic hospital customer care client sales billing business live
website site page webpage homepage web internet portal intranet hotline helpline chat forum community documentation
docs document manual handbook guide guideline contract policy policies agreement label package packaging invoice
receipt faq source resource article book google catalogue catalog brochure leaflet datasheet app base center centre
number line email mail e-mail address link channel listing schedule timetable terms conditions register publication
news section chapter product user information info detail details assistance advice guidance clarification
confirmation specifics instruction recommendation update question query queries insight explanation context data
matter topic issue situation request concern circumstances official relevant appropriate local nearest additional
specific detailed accurate latest current up-to-date reliable trusted trustworthy qualified licensed medical legal
financial tax technical professional original full complete different online personal exact precise reputable
healthcare real-time responsible corresponding respective usually typically often normally generally sometimes
probably likely possibly commonly frequently vary varies depend differ change found listed printed shown available
stated included specified given time over price rate fee cost rule regulation law requirement availability country
countries region state location account member ring have a look take drop note happy glad welcome opening hour pricing
notice without between emergency attached payslip
"""
_WORDS_OF_REDIRECTS = frozenset(_WORDS.split())
_NEWS = (
    r"(?:information|info|details?|help|assistance|advice|guidance|clarification|support|answers?|confirmation|"
    r"specifics|instructions|recommendations|updates?|insights?|explanation|more\W*$)"
)
_OFTEN = r"(?:usually|typically|often|normally|generally|sometimes|probably|likely|possibly|commonly|frequently)"
_OPENING = (
    r"^\W*(?:(?:so|and|but|or|instead|alternatively|otherwise|perhaps|maybe|however|then|for [^,]{1,80},|"
    r"to [^,]{1,80},|(?:in|if|when) [^,]{1,60},),? )*"
)
_ADVICE = (
    r"(?:please |kindly |you(?:'d|'ll|'re| are welcome)? (?:\w+ ){0,4}?(?:to )?|"
    r"(?:i|we)(?:'d| would| can)? (?:\w+ )?(?:suggest|recommend|advise|encourage)\b(?: that)?(?: you)?(?: to)? |"
    r"(?:it|that)(?:'s| is| may be| might be| would be) .{0,24}?to |try |consider |"
    r"(?:the|your) (?:best|safest) \w+ (?:is|would be) to )"
)
_ADDRESS = (
    r"(?:contact|consult|ask|check|see|call|phone|visit|reach|refer|speak|talk|turn(?:ing)? to|look|search|read|review|"
    r"email|e-mail|write|seek|find|get in touch|go to|try|let me|ring|(?:have|take) a look|drop (?:us|them) a)"
)
_ASK_BACK = (
    r"(?:provid|(?:shar(?:e|ing)|giv(?:e|ing)|tell(?:ing)?)(?: it)?(?: with)? (?:me|us)\b|clarify|specify|rephras|"
    r"reword|upload)"
)
_VARIES = r"(?:by|with|across|depending on|from (?=(?:one )?\w+ to ))"
_FORM = re.compile(
    rf"{_OPENING}(?:{_ADVICE}?{_ADDRESS}|{_ADVICE}{_ASK_BACK}"
    # who can help
    r"|(?:[\w'-]+ ){1,6}?(?:can|could|may|might|will|would|should|'ll|(?:is|are) (?:happy|glad|able) to) "
    r"(?:\w+ ){0,3}?(?:help|assist|advise|tell|answer|know|explain|clarify|confirm|"
    r"get back|(?:be|get) in touch|contact(?! you (?:about|regarding|on|with))|respond|"
    r"reply|reach out|follow up|"
    rf"(?:have|provide|give|offer|share)\b(?=.*\b{_NEWS}))"
    r"|only (?:[\w'-]+ ){1,4}?knows?\b"
    r"|(?:[\w'-]+ ){1,6}?(?:is|are|would be|may be|might be) the (?:best|right) \w+"
    # an answer that depends on what the reader did not tell
    rf"|(?:[\w'-]+ ){{1,3}}?(?:(?:may|might|can|could|will|{_OFTEN}) (?:\w+ )?(?:vary|depend|differ|change)s?|vary|"
    rf"varies|differs?|depends?|changes?)(?= (?:on|over|between|without|{_OFTEN}|{_VARIES})\b|\W*$)"
    # where such a thing is written
    rf"|(?:it|they|this|that|these|(?:(?:this|that|these|those|such|the) )?(?:[\w-]+ )?{_NEWS}) (?:(?:is|are) {_OFTEN}|"
    r"(?:can|may|might|could) (?:\w+ )?be)(?: (?:found|listed|printed|shown|stated|specified|given))? (?:on|in|at)\b)",
    re.I,
)
_OWN_STATEMENT = (
    r"(?:because|since|as|although|though|while|whereas|which|that|who|so|but|is|are|was|were|has|have|had|does|did|can|"
    r"could|will|would|may|might|must|should|shall|cannot|and \w+(?:s|ed) \w+)\b"
)
_TOPIC = re.compile(
    rf"\b(?:about|regarding|concerning|on|with|(?:vary|varies|differs?|changes?) {_VARIES}|"
    r"to (?:find out|learn|know|confirm|check|determine|verify|clarify|discuss|understand|answer))"
    rf"(?: (?!{_OWN_STATEMENT})[\w'/-]+){{1,10}}"
    r"|\b(?:whether|how|what|(?<=ask )if)"
    r"(?: (?!(?:because|since|although|though|while|whereas|so|but)\b)[\w'/-]+){1,14}",
    re.I,
)
"""What the question is about: "about parental leave", "whether pets are allowed". It ends where another statement could
begin."""
_NAME = re.compile(
    r"(?i:\b(?:contact|ask|consult|call|email|visit|(?:speak|talk)(?:ing)? (?:to|with)|reach(?:ing)? out to|"
    r"check(?:ing)? with|write to|writing to)(?:ing)?(?: the| your| our)?)(?: [A-Z][\w&'-]*){1,3}"
    r"|(?:\b[A-Z][\w&'-]* ){1,3}(?=(?i:website|site|page|portal|support|team|help|customer|service|forum)\b)"
)
_THAT = re.compile(
    r"\b(?:recommend|suggest|advise) that you\b|\bthat(?= (?:information|detail|question|topic|matter|case)\b|\W*$|,)|"
    r"^that\b",
    re.I,
)
_FACT = re.compile(
    r"[\d@$€£¥%]|://|www\.|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|"
    r"(?:twen|thir|for|fif|six|seven|eigh|nine)ty|hundreds?|thousands?|millions?|billions?|dozen|half|twice|double|"
    r"percent|lifetime|lifelong|unlimited|never|(?<!feel )free|"
    r"(?:an?|one|per|each|every) (?:second|minute|hour|day|week|month|year|decade)|"
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)day|january|february|april|june|july|august|september|october|november|"
    r"december|in may|in march|today|tomorrow|tonight)s?\b",
    re.I,
)
_CONTACT = re.compile(
    r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+|(?:https?://|www\.)[^\s,;)]*[^\s,;).!?]"
    r"|(?P<call>\b(?:call|phone|ring|dial|text|contact|reach)(?: [^\W\d]+){0,5}? )"
    r"(?!\d{4}-\d\d-|\d{1,2}-\d{1,2}-\d{4}\b)[+(]?\d[\d ()-]{4,}\d\b"
    r"(?!\S*\w| ?[%€£$]| (?:percent|euros?|eur|dollars?|usd|pounds|times|hours?|days?|weeks?|months?|years?)\b)",
    re.I,
)
"""E-mail addresses, links, and the phone number that the reader is to call. Whether the chunks hold them is what
`pii_leakage` tells."""
_WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")
_ENDINGS = ("", "s", "es", "ing", "'s")
_OTHER_LANGUAGES = re.compile(
    r"^.{0,40}?(?:\b(?:wenden sie sich|wende dich|veuillez (?:contacter|consulter)|contactez|póngase en contacto|"
    r"contacte|consulte|contattare|contatti|entre em contato|neem (?:dan |a\.u\.b\. )?contact op)\b|"
    r"请(?:您)?(?:联系|咨询)|(?:お問い合わせ|ご連絡|ご確認)ください)",
    re.I,
)
_OTHER_STATEMENT = re.compile(
    r"[,;:–—]\s*(?!(?:bitte|wenden|wende|um|für|wenn|falls|veuillez|contactez|pour|si|póngase|contacte|consulte|para|"
    r"por favor|per|se|contatta|entre|caso|neem|om|als|voor|indien)\b)\w",
    re.I,
)
"""A comma that neither the redirect nor its purpose or condition follows."""


def is_redirect(clause: str) -> bool:
    """Whether a clause says only where else to ask, what to tell, or what the answer depends on."""
    clause = _CONTACT.sub(r"\g<call> ", clause[:READ].replace("’", "'"))
    if _FACT.search(clause):
        return False
    if _OTHER_LANGUAGES.match(clause):
        return _OTHER_STATEMENT.search(clause) is None
    if not _FORM.match(clause):
        return False
    rest = _THAT.sub(" ", _TOPIC.sub(" ", _NAME.sub(" ", clause)))
    return all(map(_belongs, _WORD.findall(rest.lower())))


def _belongs(word: str) -> bool:
    return any(word.removesuffix(ending) in _WORDS_OF_REDIRECTS for ending in _ENDINGS)
