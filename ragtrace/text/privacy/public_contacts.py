"""Contacts that are public, as the setting `public_contacts` names them: recognised however they are written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

_SEPARATORS = str.maketrans("", "", " -.()/\t\n")
_TRUNK = re.compile(r"\(0\)|^\s*(?:\+|00)|\D")


def bare(text: str) -> str:
    """The text without what people put between digits: the same card, written in another way, is the same card."""
    return text.translate(_SEPARATORS).lower()


class PublicContacts:
    """Domains, e-mail addresses, phone numbers, and any other texts."""

    def __init__(self, contacts: Sequence[str]) -> None:
        contacts = [contact.strip().lower() for contact in contacts]
        self._addresses = {contact for contact in contacts if "@" in contact[1:]}
        names = {contact.lstrip("@") for contact in contacts} - self._addresses
        self._domains = tuple(name for name in names if re.fullmatch(r"(?:[\w-]+\.)+[^\W\d_]{2,}", name))
        self._numbers = tuple(filter(None, map(_number, names)))
        self._texts = {bare(contact) for contact in contacts}

    def __contains__(self, item: str) -> bool:
        """Whether an item is one of the contacts: an address of a domain, or a number with or without its country."""
        address = item.lower()
        domain = address.partition("@")[2]
        if address in self._addresses or any(domain == d or domain.endswith(f".{d}") for d in self._domains):
            return True
        number = _number(item)
        if number and any(number.endswith(own) or own.endswith(number) for own in self._numbers):
            return True
        return bare(item) in self._texts


def _number(text: str) -> str:
    """The digits of a phone number without prefixes and trunk zeros; empty for what is no number."""
    digits = _TRUNK.sub("", text).lstrip("0")
    return digits if len(digits) >= 5 and not any(map(str.isalpha, text)) else ""


@lru_cache(maxsize=16)
def public_contacts(contacts: tuple[str, ...]) -> PublicContacts:
    """The contacts of a setting, prepared once."""
    return PublicContacts(contacts)
