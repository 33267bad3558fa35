"""Rewords a question by rules that keep its meaning. English only."""

import random
import re

_CONTRACTIONS = {
    "what is": "what's", "where is": "where's", "who is": "who's", "how is": "how's", "that is": "that's",
    "is not": "isn't", "are not": "aren't", "was not": "wasn't", "were not": "weren't", "does not": "doesn't",
    "do not": "don't", "did not": "didn't", "has not": "hasn't", "have not": "haven't", "will not": "won't",
    "would not": "wouldn't", "could not": "couldn't", "should not": "shouldn't", "i am": "I'm", "i have": "I've",
    "we are": "we're", "it is": "it's",
}  # fmt: skip
_LONG = {short.lower(): long for long, short in _CONTRACTIONS.items()}
_ANY = re.compile(r"(?<![\w'\u2019-])(" + "|".join([*_CONTRACTIONS, *_LONG]) + r")(?![\w'\u2019-])(?=\s+\w)", re.I)
"""Inside a sentence only: a short form cannot end a sentence ("what it's")."""

_NOUN = (
    r"(?:the|a|an|my|your|our|their|his|her|its|this|that|these|those)"
    r"(?:\s+(?!(?:is|are|was|were|be|been|do|does|did|has|have|had|can|will|that|which|who|how|what|when|where|why|if|as)\b)"
    r"(?!\S*(?:ed|ing)\b)"
    r"(?!(?:held|made|kept|found|put|sent|paid|built|sold|taken|given|written|done|known|left|like|about|for|by)\?)"
    r"[^\s?,;:.!]+){1,8}"
)
"""A subject that starts with a determiner and contains no verb: "What is causing this?" has no such subject, and "Where
is the meeting held?" cannot be rephrased."""
_FRAMES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(rf"(what|who|where)\s+(is|are|was|were)\s+({_NOUN})\?", re.I), "{0} {2} {1}?"),
    (re.compile(r"how\s+do\s+i\s+([^?]+)\?", re.I), "how to {0}?"),
    (re.compile(r"how\s+can\s+i\s+([^?]+)\?", re.I), "how I can {0}?"),
)
_OPENINGS = ("Can you tell me", "Could you tell me", "I would like to know")
_ORDER = re.compile(
    r"(?:list|name|explain|describe|give|show|tell|summari[sz]e|compare|find|write|identify|provide|define)\s", re.I
)
_POLITE = ("Please answer this question: ", "I have a question: ", "Could you help me with this? ")
_ENGLISH = re.compile(
    r"(?:what|who|whom|whose|where|when|why|which|how|is|are|was|were|do|does|did|can|could|should|would|will|has|have)(?:['\u2019]s|n['\u2019]t)?\s",
    re.I,
)
_SIGNS = re.compile(r"\b(?:the|of|and|to|is|are|was|does|do|did|for|with|how|what|which|who)\b", re.I)


def paraphrase(query: str, rng: random.Random) -> str | None:
    """The reworded question, or None if no rule applies: the question is empty or not English.

    One of the rules that apply is drawn: contractions are expanded or contracted ("What's" - "What is"); the question
    becomes an indirect one ("What is the limit?" - "Can you tell me what the limit is?"); a polite phrase is put in
    front. Negations, names, numbers and quotations do not change."""
    text = query.strip()
    if not text or not (_ORDER.match(text) or (_ENGLISH.match(text) and _SIGNS.search(text))):
        return None
    options = [new for new in (_contracted(text), _framed(text, rng), _polite(text, rng)) if new and new != text]
    return rng.choice(options) if options else None


def _contracted(text: str) -> str | None:
    if any(mark in text for mark in '"“”`'):
        return None  # a quotation must not change
    return _ANY.sub(_other_form, text)


def _other_form(match: re.Match[str]) -> str:
    text = match.group()
    key = " ".join(text.lower().split())
    other = _CONTRACTIONS.get(key) or _LONG[key]
    return other[0].upper() + other[1:] if text[0].isupper() or other.startswith("i ") else other


def _framed(text: str, rng: random.Random) -> str | None:
    for pattern, frame in _FRAMES:
        if match := pattern.fullmatch(text):
            parts = [part.strip() for part in match.groups()]
            parts[0] = parts[0].lower() if len(parts) > 1 else parts[0]
            opening = rng.choice(_OPENINGS)
            question = f"{opening} {frame.format(*parts)}"
            return question if opening.startswith("C") else question.rstrip("?") + "."
    return None


def _polite(text: str, rng: random.Random) -> str:
    if _ORDER.match(text):
        return f"Please {text[0].lower()}{text[1:]}"
    return rng.choice(_POLITE) + text
