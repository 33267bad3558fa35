"""Finds words in prose that CONTRIBUTING.md replaces by plainer ones, and, in pages, sentences without a verb.

python tools/plain_words.py [PAGE or MODULE ...]

Of a module it reads docstrings, comments and texts, so that errors, log lines and help texts are read, too.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "SECURITY.md", ROOT / "CODE_OF_CONDUCT.md",
    ROOT / "grafana" / "README.md", *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("README.md")),
]  # fmt: skip
MODULES = sorted(
    path for room in ("ragtrace", "integrations", "exporters", "grafana/source") for path in (ROOT / room).rglob("*.py")
)
DEFINITIONS = ("evaluators.md",)
"""Pages that define values, whose definitions are no sentences."""
PLAINER = {
    r"(?:is|are) (?-i:none)": "is not one; is missing", r"there (?:is|are) (?-i:none)": "without one; it is missing",
    r"whoever": "the person, the caller", r"dear(?:er)?": "expensive", r"(?:stands?|stood)(?! for\b)": "is, are",
    r"(?:is|are) (?:said|told)": "is reported, is shown", r"told": "distinguished, reported",
    r"gets to know": "receives", r"what (?:becomes|became)": "how it ended", r"anew": "again",
    r"lies? (?:in|beside)": "is in, is beside", r"to be had": "available", r"slip of the pen": "typing error",
}  # fmt: skip
"""Words that readers must look up, and what to write instead."""
_BANNED = [(re.compile(rf"\b{words}\b", re.I), better) for words, better in PLAINER.items()]
_AUXILIARIES = """
am is are was were be been has have had do does did can could cannot may might must shall should will would isn't aren't
doesn't don't can't won't
"""
_IRREGULAR = """
became began begun bent bound bought brought built came chose chosen cut did drew drawn fell found forgot gave given
goes gone got grew grown held hid hidden kept knew known laid led left lent let lost made meant met paid put ran read
rose said sat saw seen sent set shown shut spent spoke split spread stood stuck taken thought told took understood went
won wore written wrote
"""
_VERBS = """
accept adapt add agree alarm allow announce answer appear apply arrive ask assert attend avoid become begin belong
block break bring build calibrate call capture carry cause change charge check choose close collect combine come
compare compute configure contain contradict copy correct cost count cover crash create decide decline decode delete
deliver depend deploy derive describe detect die differ disable disagree distinguish do double draw drop empty enable
encode encrypt end ensure entail escape evaluate evict exclude exist expect expire explain export fail fall fill find
finish fit flow follow forget fork gather generate get give go group grow guess handle hang happen have help hide hold
host identify ignore import include influence inspect install instrument join keep know lack last lead learn leave let
limit link list listen live load lock look lose lower make manage mark mask match matter mean measure meet miss
monitor move multiply name need nest observe occur offer open overlap override page parse pass paste pay pick prepare
prevent print produce protect prove provoke publish pull push put question quote raise range rank reach read rebuild
receive recognise record redact reduce refer refuse register reject rely remain remember remove repeat replace reply
report represent reproduce request require resemble rest restart restore retrieve return review revoke rewrite rise
roll round run save say scale scrape search see seem send separate serve set share show sign simulate skip sleep speak
spill split start state stay stop store stream subscribe succeed suffer sum support survive switch take talk tell
think touch trace translate treat trust try turn type understand undo upgrade use validate wait wake want warn watch
weigh win work wrap write yield
"""
_NO_SENTENCE = re.compile(r"^(?:#|\||!\[|\[|:::|<|\*\*Next|Next:|ragtrace-otel )")
_LIST_ITEM = re.compile(r"^ *(?:[-*]|\d+\.) +")


def _forms(verb: str) -> Iterator[str]:
    yield verb
    yield verb + ("es" if verb.endswith(("s", "sh", "ch", "x", "o")) else "s")
    if verb.endswith("y") and verb[-2] not in "aeiou":
        yield from (verb[:-1] + "ies", verb[:-1] + "ied")
    yield verb + ("d" if verb.endswith("e") else "ed")
    yield verb + verb[-1] + "ed"


_WORDS = {*_AUXILIARIES.split(), *_IRREGULAR.split(), *(form for verb in _VERBS.split() for form in _forms(verb))}


def banned(text: str) -> Iterator[tuple[int, str, str]]:
    """Yields (line, words, what to write instead) of each phrase of PLAINER outside of code."""
    prose = re.sub(r"^ *```.*?^ *```|`[^`\n]*`|<!--.*?-->", _blank, text, flags=re.S | re.M)
    for pattern, better in _BANNED:
        for match in pattern.finditer(prose):
            yield text.count("\n", 0, match.start()) + 1, match[0], better


def verbless(text: str) -> Iterator[str]:
    """Yields each sentence of four words or more that ends with a full stop and has no word that can be a verb."""
    for sentence in sentences(text):
        words = re.findall(r"[A-Za-z][\w'-]+", sentence)
        if len(words) > 3 and sentence.endswith(".") and not any(word.lower() in _WORDS for word in words):
            yield sentence


def sentences(text: str) -> Iterator[str]:
    """Yields the sentences of a page's paragraphs and list items, without code, tables, headings and pictures."""
    prose = re.sub(r"^ *```.*?^ *```|<!--.*?-->", "", text, flags=re.S | re.M)
    for paragraph in re.split(r"\n\s*\n|\n(?= *(?:[-*]|\d+\.) )", prose):
        line = " ".join(_LIST_ITEM.sub("", paragraph.strip("\n")).split())
        if _NO_SENTENCE.match(line):
            continue
        line = re.sub(r"^\*\*[^*]+[.?]\*\*", "", line)  # the title of a paragraph
        line = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "`", line)).replace("*", "")
        yield from re.split(r"(?<=[.!?]) (?=[A-Z`])", line)


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def findings(page: Path) -> list[str]:
    """Returns what is wrong with the words of a page. A list of definitions need not have verbs."""
    text = page.read_text(encoding="utf-8")
    words = [f"{line}: {phrase!r}: write {better}" for line, phrase, better in banned(text)]
    return words + ([] if page.name in DEFINITIONS else [f"no verb: {sentence}" for sentence in verbless(text)])


def module_findings(module: Path) -> list[str]:
    """Returns the words of a module that have plainer ones.

    Regular expressions are not read. Prompts of the judge are in prompts.toml, which is not read either.
    """
    text = module.read_text(encoding="utf-8")
    prose = [*_comments(text), *_texts(text)]
    return [
        f"{line + offset - 1}: {phrase!r}: write {better}"
        for line, words in sorted(prose)
        for offset, phrase, better in banned(words)
    ]


def _comments(text: str) -> Iterator[tuple[int, str]]:
    """Yields (line, text) of each comment; lines of one comment that follow each other are one text."""
    first, lines = 0, [""]
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        if token.start[0] != first + len(lines):
            yield first, "\n".join(lines)
            first, lines = token.start[0], []
        lines.append(token.string.lstrip("# "))
    yield first, "\n".join(lines)


def _texts(text: str) -> Iterator[tuple[int, str]]:
    """Yields (line, text) of each constant text with a blank that is not a regular expression."""
    for node in ast.walk(ast.parse(text)):
        text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
        if " " in text and not re.search(r"\\b|\(\?", text):
            yield node.lineno, text


def main(paths: list[str]) -> int:
    is_wrong = False
    for path in [Path(path) for path in paths] or [*PAGES, *MODULES]:
        for finding in (module_findings if path.suffix == ".py" else findings)(path):
            is_wrong = True
            print(f"{path}:{finding}")
    return int(is_wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
