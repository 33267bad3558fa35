"""What an answer has besides its statements: citation marks and lists of sources ("[1]", "Sources:"), how letters begin
and end, HTML tags, and the reasoning that some models write before the answer."""

import re

_NOUN = (
    r"(?:sources?|documents?|docs?|passages?|contexts?|chunks?|excerpts?|snippets?|pages?|pp?\.|sections?|sec\.|§|"
    r"chapters?|articles?|ref(?:erence)?s?\.?|citations?|footnotes?|figures?|fig\.|tables?|appendix|paragraphs?|"
    r"quellen?|dokumente?|seiten?|abschnitte?|fuentes?|documentos?|páginas?|fontes?|bronnen|bron|pagina|"
    r"出典|来源|资料|文档|文書|資料)"
)
_FILE = r"[\w/.-]{1,80}\.(?:pdf|docx?|txt|md|html?|pptx?|xlsx?|csv|json|rst)\b"
_PLACE = (
    rf"(?:{_FILE}|https?://[^\s)\]]{{1,200}}|(?:[\w-]+ )?{_NOUN}(?![^\W\d_]) ?"
    r"(?:no\.? ?|#)?(?:[\[(]?\d{1,4}(?:(?:,| and| ?[\u2013-]) ?\d{1,4}|\.\d{1,3})*|[:\uff1a“\"'«]|(?-i:[IVX]+|"
    r"[A-Z])\b))"
)
_TITLED_PLACE = rf"(?-i:[A-Z\u00c0-\u00de])[\w'&.-]*(?:,? [\w'&.-]+){{0,6}},? {_PLACE}"
_TITLE = (
    rf"(?:{_TITLED_PLACE}|(?:[\w'&.-]+ ){{0,6}}(?:polic(?:y|ies)|handbook|manual|guide(?:lines?)?|faqs?|agreement|"
    r"contract|terms|report|leaflet|brochure|data ?sheet|website|wiki|documentation|knowledge base)"
    r"(?: v?\d[\w.]{0,8})?(?=[\],;]))"
)
"""Where to read, by title: "Travel Policy, Section 4.2", "Employee Handbook"."""
_MARK = re.compile(
    r"\[\^?\d{1,3}(?:\s?[,;\u2013-]\s?\^?\d{1,3}){0,9}\](?![(:])"
    rf"|\[(?:see )?(?:{_FILE}|(?:{_NOUN}|cite)(?![^\W\d_])|{_TITLE})[^\[\]\n]{{0,80}}\](?!\()"
    r"|【[^【】\n]{1,80}】"
    rf"|\((?:see |cf\.? |from |in |source: ?|siehe |vgl\. )?(?:the )?(?:{_PLACE}|{_NOUN})[^()\n]{{0,100}}\)"
    rf"|\({_TITLED_PLACE}[^()\nA-Za-z]{{0,20}}\)"
    r"|<sup>[^<>\n]{1,20}</sup>|(?<=[^\W\d])[¹²³⁴-⁹]{1,2}(?=[\s.,;:]|$)|(?<=[.,;:])[¹²³⁴-⁹]{1,2}",
    re.I,
)
_STATES = re.compile(
    r"\b(?:is|are|was|were|has|have|had|do|does|did|can|cannot|could|will|would|may|might|must|should|shall|takes?|"
    r"costs?|lasts?|covers?|applies|apply|starts?|ends?|says?|states?|means?|requires?|needs?|gets?|pays?|works?)\b"
    r"|[%€$£¥]|\d ?(?:euros?|dollars?|pounds|percent|hours?|days?|weeks?|months?|years?)\b",
    re.I,
)
_SOURCE = re.compile(
    r"\[\^?\d{1,3}\]:|\W*(?:(?:data |primary )?sources?(?: used)?|references?|citations?|footnotes?|bibliography|"
    r"further reading|quellen?|fuentes?|fontes?|fonti|bronn?en|bron|出典|来源|参考(?:资料|文献)?)\W*(?:[:\uff1a]|$)",
    re.I,
)
_ENTRY = re.compile(r"\W*(?:\[?\d{1,3}[\].)]?|[-*•])?\s*\S")
_NUMBER = re.compile(r"\[\^?(\d{1,3})\]")
_FOOTNOTE = re.compile(rf"[ \t>*-]*{_NUMBER.pattern}")
_WORD = re.compile(r"[^\W_]+")


def without_marks(text: str) -> str:
    """The text with spaces in place of its citation marks: of the same length. Fenced code keeps its brackets."""
    if not any(c in text for c in "[(【<¹²³"):
        return text
    pieces = re.split(r"(```.*?(?:```|\Z))", text, flags=re.S)
    return "".join(p if i % 2 else _MARK.sub(_blank_reference, p) for i, p in enumerate(pieces))


def _blank_reference(mark: re.Match[str]) -> str:
    inside = mark.group()
    return inside if inside[0] in "([" and _STATES.search(inside) else " " * len(inside)


def is_source_heading(line: str) -> bool:
    """Whether a line begins a list of sources: "Sources:", "## References"."""
    heading = _SOURCE.match(line[:100])
    return heading is not None and not _WORD.search(line, heading.end())


def is_entry(line: str) -> bool:
    """Whether a line could be an entry of a list of sources: it states nothing."""
    return len(line) <= 300 and _ENTRY.match(line) is not None and _STATES.search(line) is None


class Footnotes:
    """The lines of an answer that begin with a mark which the text above them has: "[1] Employee Handbook"."""

    def __init__(self, answer: str) -> None:
        self._answer = answer
        self._first: dict[str, int] = {}
        for mark in _NUMBER.finditer(answer):
            self._first.setdefault(mark[1], mark.start())

    def has(self, sentence: tuple[int, int]) -> bool:
        """Whether a sentence is such a line's first one, and states nothing."""
        start, end = sentence
        begin = self._answer.rfind("\n", 0, start) + 1
        mark = _FOOTNOTE.match(self._answer, begin, end)
        is_repeated = mark is not None and self._first[mark[1]] < begin
        return is_repeated and is_entry(self._answer[start:end])


# --- letters ----------------------------------------------------------------------------------------------------------

_CLOSING = re.compile(
    r"\W*(?:(?:with )?(?:my |our )?(?:kind(?:est)?|best|warm(?:est)?|many) (?:regards|wishes)|regards|best,|warmly|"
    r"(?:yours )?(?:sincerely|faithfully|truly)(?: yours)?|cheers|thanks|thank you|mit (?:freundlichen|besten) grüßen|"
    r"(?:viele|liebe|beste|freundliche) grüße|cordialement|bien à vous|(?:bien )?cordialmente|atentamente|"
    r"(?:un )?(?:cordial )?saludos?(?: cordiales)?|(?:cordiali|distinti) saluti|atenciosamente|"
    r"met vriendelijke groet(?:en)?)\W*",
    re.I,
)
_SIGNED = re.compile(r"[\s>*_]*[\u2013\u2014-]{1,2} ?(?:the |your )?(?:[\w'&-]+ ){0,4}team[\s.!*_]*", re.I)
_SIGNATURE = re.compile(r"(?:[^\W\d_][\w'&.-]*(?:,? |,?\W*$)){1,6}")
_MOST = 60
"""Characters of a line of a signature."""


def is_closing(line: str) -> bool:
    """Whether a line is how a letter ends: "Kind regards,", "— Your support team"."""
    return len(line) <= _MOST and (_CLOSING.fullmatch(line) or _SIGNED.fullmatch(line)) is not None


def is_signature(line: str) -> bool:
    """Whether a line below the closing phrase could be a name, a role or a company: a few words without a number."""
    words = line.strip(" *_|\t")
    return len(words) <= _MOST and _SIGNATURE.fullmatch(words) is not None and not words.endswith((":", "?"))


# --- markup -----------------------------------------------------------------------------------------------------------

REASONING_TAG = r"(?:\w{1,12}:)?(?:think(?:ing)?|thoughts?|reasoning|reflection|scratchpad|analysis)"
"""The name of the tags around a model's reasoning; some models write <seed:think>."""
OPEN, CLOSE = r"[<\[◁]", r"[>\]▷]"
"""The brackets of such a tag; some models write ◁think▷."""
_REASONING = re.compile(rf"\s*{OPEN}(?P<tag>{REASONING_TAG}){CLOSE}.*?{OPEN}/(?P=tag){CLOSE}", re.S | re.I)
_WITHOUT_BEGIN = re.compile(
    rf"(?:(?!{OPEN}/?{REASONING_TAG}{CLOSE}).)*{OPEN}/{REASONING_TAG}{CLOSE}[ \t]*\n", re.S | re.I
)
"""Reasoning whose opening tag was a part of the prompt. Possessive groups match wrongly before Python 3.11.5."""
_CODE = re.compile(r"(```.*?(?:```|\Z)|`[^`\n]*`)", re.S)
_BLOCK_TAGS = r"p|br|hr|ul|ol|li|div|h[1-6]|table|thead|tbody|tr|blockquote|dl|dt|dd|section|article|header|footer"
_INLINE_TAGS = r"b|strong|i|em|u|s|small|mark|span|font|a|td|th|cite|answer|final_answer|response|ref|sub"
_TAG = re.compile(rf"</?(?:(?P<block>{_BLOCK_TAGS})|{_INLINE_TAGS})(?:\s[^<>]{{0,300}})?/?>", re.I)
_IS_HTML = re.compile(rf"</(?:{_BLOCK_TAGS}|{_INLINE_TAGS})>|<br ?/?>", re.I)
"""One of these makes an answer HTML: a single "<b>" may be what a sentence is about."""


def without_markup(text: str) -> str:
    """The text with spaces in place of a model's reasoning and of HTML tags, and a line break in place of a tag that
    begins a new line: of the same length. Code keeps its tags."""
    if "<" not in text and "[/" not in text and "◁" not in text:
        return text
    reasoning = _REASONING.match(text) or _WITHOUT_BEGIN.match(text)
    at = reasoning.end() if reasoning is not None and text[reasoning.end() :].strip() else 0
    rest = text[at:]
    if _IS_HTML.search(rest):
        rest = "".join(p if i % 2 else _TAG.sub(_blank_tag, p) for i, p in enumerate(_CODE.split(rest)))
    return " " * at + rest


def _blank_tag(tag: re.Match[str]) -> str:
    return ("\n" if tag["block"] else " ") + " " * (len(tag.group()) - 1)
