"""Texts of a chat log made fit to be shown. They are data: nothing in them is markup, a link of another kind than http,
or able to hide or reverse the text beside it."""

import re
import unicodedata
from urllib.parse import urlsplit

from markupsafe import Markup, escape

MAX_CHARS = 100_000
"""Characters of one text that a page holds; what comes after is counted, not shown."""

# Controls but for tab and line feed; a carriage return that ends no line; what turns the direction of text; what has
# no width (joiners apart, which scripts and emoji need); tags, which spell an invisible text; what is no
# character; halves of surrogate pairs, which UTF-8 cannot say.
_UNSEEN = (
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e007f"
)
_RUN = re.compile(f"([{_UNSEEN}]|\r(?!\n))\\1*")
_CLEAN = re.compile(f"[{_UNSEEN}]|\r(?!\n)")
_LONGEST_URL = 2_000


def visible(text: object) -> Markup:
    """A text as markup in which every character is seen: what has no shape of its own is shown as its code point, in a
    `span` of class `ctl`; a run of the same one is shown once, with its length, which is `data-n`: the page counts
    characters by it. Any string will do, lone surrogates among them."""
    string = str(text)
    if len(string) > MAX_CHARS:
        left = len(string) - MAX_CHARS
        return visible(string[:MAX_CHARS]) + Markup(' <span class="ctl">{:,} more characters</span>').format(left)
    parts, at = [], 0
    for run in _RUN.finditer(string):
        parts += [_escaped(string[at : run.start()]), _coded(run[1], len(run[0]))]
        at = run.end()
    return Markup("").join([*parts, _escaped(string[at:])])


def _escaped(text: str) -> Markup:
    # Browsers read the two characters of such a line end as one; the span stands for the other.
    return Markup(str(escape(text)).replace("\r\n", '<span data-n="1"></span>\n'))


def _coded(character: str, count: int) -> Markup:
    name = unicodedata.name(character, "surrogate" if "\ud800" <= character <= "\udfff" else "control character")
    times = f" \N{MULTIPLICATION SIGN} {count:,}" if count > 1 else ""
    return Markup('<span class="ctl" data-n="{}" title="{}">U+{:04X}{}</span>').format(
        count, name.lower(), ord(character), times
    )


def printable(text: str) -> str:
    """A text for attributes, titles and pictures, where no markup is possible: each unseen character becomes U+FFFD."""
    return _CLEAN.sub("\N{REPLACEMENT CHARACTER}", text)


def clip(text: object, length: int = 160) -> str:
    """One line of at most `length` characters."""
    line = printable(" ".join(str(text)[: 4 * length].split()))
    return line if len(line) <= length else line[: length - 1].rstrip() + "…"


def web_address(value: object) -> str | None:
    """The text itself if it is an http or https URL with a host, without a name and a password and without anything
    unseen; None for all else."""
    if not isinstance(value, str) or len(value) > _LONGEST_URL or re.search(r"\s", value) or _CLEAN.search(value):
        return None
    try:
        parts = urlsplit(value)
        parts.port  # noqa: B018 raises ValueError for an invalid port
    except ValueError:
        return None
    plain = parts.scheme.lower() in ("http", "https") and parts.hostname and "@" not in parts.netloc
    return value if plain and "\\" not in value else None


def link(value: object) -> Markup:
    """A value, as a link where it is a web address: with its host before it, leading nowhere by itself and telling
    nobody where one comes from."""
    url = web_address(value)
    if url is None:
        return visible(clip(value, 500))
    host = urlsplit(url).hostname or ""
    return Markup('<a href="{}" rel="noopener noreferrer" target="_blank"><b>{}</b> <span>{}</span></a>').format(
        url, host, clip(url, 200)
    )
