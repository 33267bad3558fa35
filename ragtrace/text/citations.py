"""Marks, lines and phrases that say where an answer comes from: "[1]", "(source 2)", "Source: policy.pdf, page 3"."""

from __future__ import annotations

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
_MARK = re.compile(
    r"\[\^?\d{1,3}(?:\s?[,;\u2013-]\s?\^?\d{1,3}){0,9}\](?![(:])"
    rf"|\[(?:see )?(?:{_FILE}|{_NOUN}\b[^\[\]\n]{{0,80}})\](?!\()"
    r"|【[^【】\n]{1,80}】"
    rf"|\((?:see |cf\.? |from |in |source: ?|siehe |vgl\. )?(?:the )?(?:{_PLACE}|{_NOUN})[^()\n]{{0,100}}\)"
    r"|<sup>[^<>\n]{1,20}</sup>|(?<=[^\W\d])[¹²³⁴-⁹]{1,2}(?=[\s.,;:]|$)|(?<=[.,;:])[¹²³⁴-⁹]{1,2}",
    re.I,
)
_STATES = re.compile(
    r"\b(?:is|are|was|were|has|have|had|do|does|did|can|cannot|could|will|would|may|might|must|should|shall|takes?|"
    r"costs?|lasts?|covers?|applies|apply|starts?|ends?|says?|states?|means?|requires?|needs?|gets?|pays?|works?)\b"
    r"|[%€$£¥]",
    re.I,
)
_SOURCE = re.compile(
    r"\[\^?\d{1,3}\]:|\W*(?:(?:data |primary )?sources?(?: used)?|references?|citations?|footnotes?|bibliography|"
    r"further reading|"
    r"quellen?|fuentes?|fontes?|fonti|bronn?en|bron|出典|来源|参考(?:资料|文献)?)\W*(?:[:\uff1a]|$)",
    re.I,
)
_POINTER = re.compile(
    r"\W*(?:please )?(?:see|refer to|cf\.?|compare|siehe|vgl\.|voir|véase|vedi|zie) (?:also )?(?:the )?"
    rf"(?:{_PLACE}|[\[(]? )",
    re.I,
)
_PLACE_ALONE = re.compile(rf"\W*(?:in )?(?:the )?{_PLACE}(?:\W+\w+){{0,6}}\W*$", re.I)
_PLACES = re.compile(_PLACE, re.I)
_ENTRY = re.compile(r"\W*(?:\[?\d{1,3}[\].)]?|[-*•])?\s*\S")
_WORD = re.compile(r"[^\W_]+")
_MAX_WORDS = 30


def without_marks(text: str) -> str:
    """The text with spaces in place of its citation marks: of the same length. Fenced code keeps its brackets."""
    if not any(c in text for c in "[(【<¹²³"):
        return text
    pieces = re.split(r"(```.*?(?:```|\Z))", text, flags=re.S)
    return "".join(p if i % 2 else _MARK.sub(_blank_reference, p) for i, p in enumerate(pieces))


def _blank_reference(mark: re.Match[str]) -> str:
    inside = mark.group()
    return inside if inside[0] == "(" and _STATES.search(inside) else " " * len(inside)


def is_source(sentence: str) -> bool:
    """Whether a sentence or line says only where to read: "Source: policy.pdf, page 3", "See document 2.",
    "Sources:". One that has a verb or an amount says more."""
    head = sentence[:400]
    if len(sentence) > len(head) or len(_WORD.findall(head)) > _MAX_WORDS or _STATES.search(head):
        return False
    if _SOURCE.match(head):
        return True
    points = _POINTER.match(head) or _PLACE_ALONE.match(head[:100])
    return points is not None and not any(c.isdigit() for c in _PLACES.sub(" ", head))


def is_source_heading(line: str) -> bool:
    """Whether a line begins a list of sources: "Sources:", "## References"."""
    heading = _SOURCE.match(line[:100])
    return heading is not None and not _WORD.search(line, heading.end())


def is_entry(line: str) -> bool:
    """Whether a line could be an entry of a list of sources: it states nothing."""
    return len(line) <= 300 and _ENTRY.match(line) is not None and _STATES.search(line) is None
