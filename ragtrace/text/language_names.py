"""Names of languages in a question: "Answer in German", "Übersetze das ins Englische", "用英语回答"."""

import re

_NAMES = dict(re.findall(r"(\w\w):\s([^;]+)", """
en: english englisch anglais inglés inglese inglês engels английский английском 英語 英语 英文 영어; de: german
deutsch allemand alemán tedesco alemão duits немецкий немецком 德語 德语 德文 ドイツ語 독일어; fr: french französisch
français francés francese francês frans французский французском 法語 法语 法文 フランス語; es: spanish castilian
spanisch espagnol español castellano spagnolo espanhol spaans испанском 西班牙语 スペイン語; it: italian italienisch
italien italiano italiaans итальянском 意大利语 イタリア語; pt: portuguese portugiesisch portugais portugués
portoghese português portugees португальском 葡萄牙语 ポルトガル語; nl: dutch niederländisch holländisch néerlandais
neerlandés holandés olandese holandês nederlands 荷兰语 オランダ語; zh: chinese mandarin chinesisch chinois chino
cinese chinês chinees китайском 中文 汉语 漢語 中国語 중국어; ja: japanese japanisch japonais japonés giapponese
japonês japans японском 日本語 日语 日文 일본어; ko: korean koreanisch coréen coreano koreaans корейском 한국어 韩语
韓国語; ru: russian russisch russe ruso russo русский русском 俄语 ロシア語; uk: ukrainian ukrainisch ukrainien
ucraniano ucraino oekraïens українською українська; pl: polish polnisch polonais polaco polacco polonês pools polski
polsku; cs: czech tschechisch tchèque checo ceco tcheco tsjechisch česky čeština češtině; sk: slovak slowakisch
slovaque eslovaco slovacco slowaaks slovensky slovenčina; sv: swedish schwedisch suédois sueco svedese zweeds svenska;
da: danish dänisch danois danés danese dinamarquês deens dansk; no: norwegian norwegisch norvégien noruego norvegese
norueguês noors norsk; fi: finnish finnisch finnois finlandés finlandese finlandês fins suomeksi suomi; hu: hungarian
ungarisch hongrois húngaro ungherese hongaars magyar magyarul; ro: romanian rumänisch roumain rumano rumeno romeno
roemeens română; bg: bulgarian bulgarisch bulgare búlgaro bulgaro bulgaars български; hr: croatian kroatisch croate
croata hrvatski hrvatskom; sr: serbian serbisch serbe serbio serbo srpski srpskom српски; el: greek griechisch grec
griego greco grego grieks ελληνικά; tr: turkish türkisch turc turco turks türkçe; ar: arabic arabisch arabe árabe
arabo العربية; he: hebrew hebräisch hébreu hebreo ebraico hebraico hebreeuws עברית; fa: persian farsi persisch persan
persa perzisch فارسی; hi: hindi हिन्दी हिंदी; th: thai thailändisch thaï tailandés ไทย; vi: vietnamese vietnamesisch
vietnamien vietnamita việt; id: indonesian indonesisch indonésien indonesio indonesiano indonésio indonesia; ca:
catalan katalanisch catalán catalano catalão catalaans català; la: latin lateinisch latein latín latino latim latijn
"""))  # fmt: skip
_ENDINGS = r"(?:e[mnrs]?|s|as?|os?)?"
_BEFORE = (
    r"(?:in|into|to|using|speaks?|write|auf|ins|im|aus dem \w+ ins|en|au|al|em|para o|para|nel|naar|in het|naar het|"
    r"in the|на|по|w|po|na|på|til|till|用|译成|翻译成)\s*"
)
_AFTER = (
    r"\s*(?:texts?|versions?|translations?|words?|terms?|names?|phrases?|wording|titles?|equivalents?|spelling|subtitles?|"
    r"language|bezeichnung|fassung|übersetzung|wort|begriff|で|に|版)"
)
_ENDS = (
    r"(?=\W*$|\s*[^\w\s]|\s+(?:please|and|or|to|for|about|of|on|how|what|why|when|who|the|an?|with|without|from|that|these|"
    r"this|my|your|our|it|not|instead|only|if|bitte|und|oder|für|an|über|zu|wie|was|das|die|den|et|ou|pour|sur|le|la|les|"
    r"por|para|y|o|sobre|e|per|su|en|voor|over)\b)"
)
"""What may follow "in German"; a noun may not, as in "in German cities"."""


def names_language(question: str, language: str) -> bool:
    """Whether a question names a language, for example "German cities" for `de`."""
    return language in _NAMES and re.search(_name(language), question, re.I) is not None


def asks_for_language(question: str, language: str) -> bool:
    """Whether a question asks for an answer in a language: "in German", "the German text"."""
    if language not in _NAMES:
        return False
    name = _name(language)
    return re.search(rf"(?<!\w){_BEFORE}{name}{_ENDS}|[用成]{name}|{name}{_AFTER}", question, re.I) is not None


def _name(language: str) -> str:
    """The names as a pattern. Scripts without blanks have no borders between words."""
    names = _NAMES[language].split()
    words = "|".join(name for name in names if name[0] < "\u2e80")
    signs = "|".join(name for name in names if name[0] >= "\u2e80")
    return rf"(?:\b(?:{words}){_ENDINGS}\b{'|' + signs if signs else ''})"
