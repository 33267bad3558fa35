"""Addresses of hosts and devices (IPv4, IPv6, MAC) that can lead to a person; versions and examples are left out."""

from __future__ import annotations

import ipaddress
import re
from itertools import pairwise

from ragtrace.text.item_search import is_example

IPV4 = r"(?<![\w.-])(?:\d{1,3}\.){3}\d{1,3}(?![\w-]|\.\d|/\d)"
IPV4_FORM = r"(?<![\w.-])(?:\d{1,3}\.){3}\d{1,3}(?![\w-]|\.\d)"
IPV4_IN_DASHES = r"(?<![\w.])(?<!\d-)(?:\d{1,3}\.){3}\d{1,3}(?!\w|-\d|\.\d)"
# A word and a colon may be before an address ("mac:", "ip:"), and a colon after it, as in a log.
_LABEL = r"(?<=[g-zG-Z]:)|(?<=[Mm][Aa][Cc]:)"
_IPV6_START, _IPV6_END = rf"(?:(?<![\w:])(?<!\d\.)|{_LABEL})", r"(?!\w|:[0-9A-Fa-f:]|/\d)"
IPV6 = (
    rf"{_IPV6_START}(?:[0-9A-Fa-f]{{1,4}}:){{2,7}}(?::?[0-9A-Fa-f]{{1,4}}){{1,7}}{_IPV6_END}|"
    rf"{_IPV6_START}(?:[0-9A-Fa-f]{{1,4}}:){{1,6}}(?::[0-9A-Fa-f]{{1,4}}){{1,6}}{_IPV6_END}"
)
MAC = (
    # A dash may be beside it, but no further pair.
    rf"(?:(?<![\w:])(?<!\b[0-9A-Fa-f]{{2}}-)|{_LABEL})"
    r"[0-9A-Fa-f]{2}(?P<mark>[:-])(?:[0-9A-Fa-f]{2}(?P=mark)){4}[0-9A-Fa-f]{2}(?!\w|:[0-9A-Fa-f]|-[0-9A-Fa-f]{2}\b)|"
    r"(?<![\w.])(?:[0-9A-Fa-f]{4}\.){2}[0-9A-Fa-f]{4}(?!\w|\.\w)"
)
# Without marks it is one only after its name.
NAMED_MAC = (
    r"(?i:(?<=mac )|(?<=mac: )|(?<=mac=)|(?<=mac address )|(?<=mac address: )|(?<=mac-adresse )|(?<=mac-adresse: ))"
    r"[0-9A-Fa-f]{12}(?!\w)"
)

# Resolvers that everybody may use: Google, Cloudflare, Quad9, OpenDNS, AdGuard, Control D, Yandex, Level 3.
_RESOLVER_WORDS = """
8.8.8.8 8.8.4.4 1.1.1.1 1.0.0.1 1.1.1.2 1.0.0.2 1.1.1.3 1.0.0.3 9.9.9.9 9.9.9.10 149.112.112.112 208.67.222.222
208.67.220.220 208.67.222.123 208.67.220.123 94.140.14.14 94.140.15.15 76.76.2.0 76.76.10.0 77.88.8.8 77.88.8.1
4.2.2.1 4.2.2.2 64.6.64.6 64.6.65.6 185.228.168.9 185.228.169.9 2001:4860:4860::8888 2001:4860:4860::8844
2606:4700:4700::1111 2606:4700:4700::1001 2620:fe::fe 2620:fe::9 2620:119:35::35 2620:119:53::53
"""
_RESOLVERS = frozenset(_RESOLVER_WORDS.split())
_VERSION = re.compile(
    r"(?i)(?:\b(?:versions?|ver\.?|v|release|build|firmware|driver|update|upgrade[ds]?|patch|"
    r"rev(?:ision)?|sdk|api|kernel|software|"
    r"node|python|java|chrome|windows|office|plugin|package|library|treiber|fassung|versión|versão|versione|versie|"
    r"section|chapter|clause|abschnitt|kapitel|§|oid|image|tag)"
    r"\b[^\w\n]{0,3}(?:\w+[^\w\n.]{1,2})?(?:to |auf |from |von )?v?)\Z"
)
_NETWORK = re.compile(
    r"(?i)\b(?:ips?|ipv[46]|ip.?adress\w*|address(?:es)?|adress\w*|adresse|dirección|indirizzo|endereço|"
    r"adres|host|server|client|login|"
    r"logged|sign\w*|connect\w*|request\w*|visit\w*|ping|ssh)\b"
)
_RESOLVER_LABEL = re.compile(
    r"(?i)\b(?:dns|nameservers?|resolvers?|name servers?|ntp|gateway|subnet|netmask|mask)\b[^\n.;]{0,30}\Z"
)


def is_public_ip(text: str) -> bool:
    """Whether an IPv4 or IPv6 address is a public one of a host: not private, reserved, for documentation, or an
    open resolver."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    if not address.is_global or address.is_multicast or str(address) in _RESOLVERS:
        return False
    if isinstance(address, ipaddress.IPv6Address):
        # "abc::def" is a valid address, but rather a name in code.
        return "::" not in text or 0x2000 <= int(address) >> 112 < 0x4000
    return int(address) & 0xFF not in (0, 255)


def is_host_in_context(text: str, start: int, end: int) -> bool:
    """Whether the words before an address do not make it a version, an example or the address of a service."""
    before = text[max(0, start - 48) : start]
    if _VERSION.search(before) or _RESOLVER_LABEL.search(before) or is_example(text, max(0, start - 40), start):
        return False
    parts = text[start:end].split(".")
    # Four small numbers are a version or a section: one random address in 500 is of that form.
    small = len(parts) == 4 and sum(int(part) < 32 for part in parts) >= 3
    return not small or _NETWORK.search(before) is not None


def is_device(text: str) -> bool:
    """Whether a MAC address can be a device's: not broadcast, multicast, for documentation, or an example."""
    digits = re.sub(r"[^0-9a-f]", "", text.lower())
    steps = {(int(b, 16) - int(a, 16)) % 16 for a, b in pairwise(digits)}
    pairs = {digits[i] == digits[i + 1] for i in range(0, 12, 2)}
    numbers = [int(digits[i : i + 2], 16) for i in range(0, 12, 2)]
    is_series = len({b - a for a, b in pairwise(numbers[1:])}) == 1  # 00:1A:2B:3C:4D:5E
    multicast = int(digits[1], 16) & 1
    return not (
        multicast or is_series or digits.startswith("00005e") or steps <= {1, 0} or steps == {1} or pairs == {True}
    )
