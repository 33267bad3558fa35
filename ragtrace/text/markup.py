"""What an answer has besides its words: HTML tags, and the reasoning that some models write before the answer."""

from __future__ import annotations

import re

REASONING_TAG = r"(?:\w{1,12}:)?(?:think(?:ing)?|thoughts?|reasoning|reflection|scratchpad|analysis)"
"""The name of the tags around a model's reasoning; some models write <seed:think>."""
OPEN, CLOSE = r"[<\[◁]", r"[>\]▷]"
"""The brackets of such a tag; some models write ◁think▷."""
_REASONING = re.compile(rf"\s*{OPEN}(?P<tag>{REASONING_TAG}){CLOSE}.*?{OPEN}/(?P=tag){CLOSE}", re.S | re.I)
_WITHOUT_BEGIN = re.compile(
    rf"(?:(?!{OPEN}/?{REASONING_TAG}{CLOSE}).)*+{OPEN}/{REASONING_TAG}{CLOSE}[ \t]*\n", re.S | re.I
)
"""Reasoning whose opening tag was a part of the prompt."""
_CODE = re.compile(r"(```.*?(?:```|\Z)|`[^`\n]*`)", re.S)
_BLOCK = r"p|br|hr|ul|ol|li|div|h[1-6]|table|thead|tbody|tr|blockquote|dl|dt|dd|section|article|header|footer"
_INLINE = r"b|strong|i|em|u|s|small|mark|span|font|a|td|th|cite|answer|final_answer|response|ref|sub"
_TAG = re.compile(rf"</?(?:(?P<block>{_BLOCK})|{_INLINE})(?:\s[^<>]{{0,300}})?/?>", re.I)
_IS_HTML = re.compile(rf"</(?:{_BLOCK}|{_INLINE})>|<br ?/?>", re.I)
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
