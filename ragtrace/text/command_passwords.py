"""Passwords in the options and arguments of commands: `sshpass -p …`, `plink -pw …`, `net use … /user:… …`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ragtrace.text.item_search import SearchText, Span, is_example
from ragtrace.text.secret_assignments import is_password

_VALUE = r"[\"'`]?(?P<value>[^\s\"'`<>(){}\[\],;«»“”„|]{5,80})"
_OPTIONS = r"(?:[^\n;|]{0,120}?\s)?"
# The words without which a command is nowhere, and the command up to its password.
_COMMANDS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("sshpass",), r"(?<!\w)sshpass\s{1,2}-p\s?"),
    (("mysql", "mariadb"), rf"(?<!\w)(?:mysql|mariadb)[\w-]*\s{_OPTIONS}-p"),
    (("plink", "pscp", "psftp", "putty"), rf"(?<!\w)(?:plink|pscp|psftp|putty)(?:\.exe)?\s{_OPTIONS}-pw\s"),
    (
        ("net use", "net.exe use"),
        r"(?<!\w)net(?:\.exe)?\suse\s(?:(?:[a-z]:|\*)\s)?\\{2,4}[^\s\\]{1,60}(?:\\{1,2}[^\s]{0,60})?\s"
        r"(?:/(?:user|u):\S{1,60}\s|/persistent:\w{2,3}\s){0,2}(?![/*])",
    ),
    (("net user",), r"(?<!\w)net(?:\.exe)?\suser\s[\w.-]{2,40}\s(?![/*])"),
    (("cmdkey",), r"(?<!\w)cmdkey(?:\.exe)?\s[^\n;|]{0,120}?/pass(?:word)?:"),
    (
        (
            "docker",
            "podman",
            "helm registry",
            "oras",
            "nerdctl",
            "skopeo",
            "buildah",
            "oc login",
            "az ",
            "crane",
            "argocd",
        ),
        r"(?<!\w)(?:docker|podman|helm|oras|nerdctl|skopeo|buildah|oc|az|crane|argocd)\s(?:(?:registry|auth|acr)\s)?login\s"
        rf"{_OPTIONS}(?:-p|--password)[ =]",
    ),
    (("psexec",), rf"(?<!\w)psexec(?:64)?(?:\.exe)?\s{_OPTIONS}-p\s"),
    (("redis-cli",), rf"(?<!\w)redis-cli\s{_OPTIONS}(?:-a|--pass)\s"),
    (("mongo",), rf"(?<!\w)mongo(?:sh|dump|restore|export|import)?\s{_OPTIONS}-p\s?"),
    (("sqlcmd", "bcp "), rf"(?<!\w)(?:sqlcmd|bcp)\s{_OPTIONS}(?-i:-P)\s?"),
    (("ldap",), rf"(?<!\w)ldap(?:search|modify|add|delete|passwd|whoami)\s{_OPTIONS}(?-i:-w)\s?"),
    (
        ("smbclient", "rpcclient", "winexe"),
        rf"(?<!\w)(?:smbclient|rpcclient|winexe)\s{_OPTIONS}-U\s?[\"']?[\w.\\/-]{{1,60}}%",
    ),
    (("-pass",), r"(?<![\w-])-pass(?:in|out)?\s[\"']?pass:"),
    (("zip -",), rf"(?<!\w)(?:un)?zip\s{_OPTIONS}(?-i:-P)\s?"),
    (("7z",), rf"(?<!\w)7za?\s[aextl]\s{_OPTIONS}-p"),
    (("freerdp",), rf"(?<!\w)[xw]?freerdp\d?\s{_OPTIONS}/p:"),
    (("rdesktop",), rf"(?<!\w)rdesktop\s{_OPTIONS}-p\s"),
    (("ipmitool",), rf"(?<!\w)ipmitool\s{_OPTIONS}(?-i:-P)\s"),
    (("htpasswd",), r"(?<!\w)htpasswd\s-\w{0,4}b\w{0,4}\s\S{1,60}\s\S{1,40}\s"),
    (("lftp",), rf"(?<!\w)lftp\s{_OPTIONS}-u\s[\w.@-]{{1,40}},"),
    (("chpasswd",), r"(?<!\w)echo\s[\"']?[\w.-]{1,40}:(?=[^\n]{5,90}\|\s?(?:sudo\s)?chpasswd)"),
    (("sudo -s",), r"(?<!\w)echo\s(?=[^\n]{5,90}\|\s?sudo\s-S)"),
)
_PATTERNS = [(marks, re.compile(f"(?i){command}{_VALUE}")) for marks, command in _COMMANDS]


def command_passwords(text: SearchText) -> Iterator[Span]:
    """Passwords that commands are given. A value needs letters, and digits or signs."""
    for marks, pattern in _PATTERNS:
        for start, end in text.around(marks, 110, 240):
            for match in pattern.finditer(text.text, start, end):
                first, last = match.span("value")
                if (
                    _is_drawn(match["value"])
                    and not _is_address(match["value"])
                    and not is_example(text.text, max(0, match.start() - 40), first)
                ):
                    yield first, first + len(text.text[first:last].rstrip(".?:"))


# What has digits and opens nothing: algorithms, fields and steps, files.
_NO_SECRET = re.compile(
    r"(?i)(?:(?:hmac|sha|aes|md|rsa|oauth|tls|ssl|wpa|base|utf|ntlm|scrypt|bcrypt|argon|pbkdf|http|ipv|saml|fido)"
    r"[-_]?v?\d.*|(?:pass(?:word|wort)?|secret|pw|field|column|line|step|input|option|row|param\w*|arg\w*|group|"
    r"build|page|version|user|admin)s?[-_]?\d{0,4}|[\w/.-]+\.(?:[a-z]{2,4}|local)|\d.*(?:am|pm|%)|"
    r"[\d.,-]+\+?[-_]?[a-z]+|v\d[\d.]*)"
)


def _is_drawn(value: str) -> bool:
    """Whether a value can be a password and no word or number."""
    value = value.rstrip(".!?:")
    letters = any(map(str.isalpha, value))
    others = any(c.isdigit() or c in "!@#$%^&*" for c in value)
    return (
        letters
        and others
        and not value.startswith(("/", "-"))
        and _NO_SECRET.fullmatch(value) is None
        and is_password(value)
    )


# An e-mail address, a host or a page, a user of a domain (CORP\\nora).
_ADDRESS = re.compile(
    r"(?i)[\w.+-]+@[\w-]+(?:\.[\w-]+)*\.[a-z]{2,12}|(?:[a-z0-9-]{1,40}\.){1,5}[a-z]{2,12}(?::\d{1,6})?(?:/\S*)?|"
    r"\w[\w.-]*\\{1,2}[\w.$-]+|\w+://.*"
)


def _is_address(value: str) -> bool:
    """Whether a value is an address of a person or a host, or the name of a user with a domain."""
    return _ADDRESS.fullmatch(value) is not None
