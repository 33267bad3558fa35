"""Checks of texts that have the form of personal data or of a secret: check digits, ranges, entropy."""

from __future__ import annotations

import math
import re
from collections import Counter


def is_luhn_valid(number: str) -> bool:
    """Whether the check digit of a card number is right (ISO/IEC 7812-1, annex B)."""
    digits = [int(c) for c in number if c.isdigit()]
    doubled = [d if i % 2 == 0 else sum(divmod(2 * d, 10)) for i, d in enumerate(reversed(digits))]
    return sum(doubled) % 10 == 0


def is_iban(text: str) -> bool:
    """Whether the check digits of an account number are right (ISO 13616, mod 97 = 1)."""
    compact = text.replace(" ", "").upper()
    if not 15 <= len(compact) <= 34:
        return False
    rotated = compact[4:] + compact[:4]
    try:
        return int("".join(str(int(c, 36)) for c in rotated)) % 97 == 1
    except ValueError:
        return False


def is_ssn(text: str) -> bool:
    """Whether a US social security number could have been issued: no area 000, 666 or 9xx, no group 00, no 0000."""
    area, group, serial = re.split(r"[- ]", text)
    return area not in ("000", "666") and area[0] != "9" and group != "00" and serial != "0000"


def is_card(text: str) -> bool:
    digits = re.sub(r"\D", "", text)
    issued = digits[0] in "3456" or 2221 <= int(digits[:4]) <= 2720 or digits[:4] in ("1800", "2131", "0604")
    return 12 <= len(digits) <= 19 and issued and len(set(digits)) > 1 and is_luhn_valid(digits)


def is_host_ip(text: str) -> bool:
    parts = [int(p) for p in text.split(".")]
    return all(p <= 255 for p in parts) and parts[0] not in (0, 127, 255) and text not in ("1.1.1.1", "8.8.8.8")


def is_real_email(text: str) -> bool:
    return not text.lower().endswith(("@example.com", "@example.org", "@example.net"))


def is_anything(_text: str) -> bool:
    return True


_EXAMPLE = re.compile(
    r"(?i)your|example|changeme|change_me|placeholder|xxxx|\*\*\*|\.\.\.|<|redacted|dummy|sample|insert|todo|\$\{|%\(|"
    r"\bnone\b|\bnull\b|\btrue\b|\bfalse\b|process\.env|os\.environ|getenv|secrets?\.|12345|abcdef|test[_-]?(?:key|token)"
)


def is_no_example(text: str) -> bool:
    return _EXAMPLE.search(text) is None


def is_random(text: str, bits: float) -> bool:
    """Whether the characters look randomly drawn: Shannon entropy of at least `bits` a character, no example."""
    counts = Counter(text)
    entropy = -sum(n / len(text) * math.log2(n / len(text)) for n in counts.values())
    return entropy >= bits and is_no_example(text)


def is_mixed(text: str) -> bool:
    """Some prefixes are words, too: "secret_manager_settings" has neither numbers nor both kinds of letters."""
    cases = any(c.isupper() for c in text) and any(c.islower() for c in text)
    return (cases or sum(c.isdigit() for c in text) >= 2) and is_random(text, 3.3)


def is_slack_token(text: str) -> bool:
    """A real token holds the numbers of a workspace; "xoxb-my-bot-token" does not."""
    return any(c.isdigit() for c in text) and is_random(text, 2.5)
