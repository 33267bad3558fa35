"""Reads a dataclass of settings from arguments, environment variables and one table of ragtrace.toml."""

import base64
import binascii
import json
import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar, cast, get_type_hints

from ragtrace.errors import SettingError

FILE = "ragtrace.toml"
PREFIX = "RAGTRACE_"
TABLES = ("console", "console.oidc", "review", "webhooks", "worker")
"""Tables of ragtrace.toml that are sections of their own."""
_log = logging.getLogger(__name__)
S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Section(Generic[S]):
    """A dataclass of settings, and where its values come from.

    A field can be set if it is a bool, int, float, str, tuple or frozenset of str, or mapping of str."""

    kind: type[S]
    table: str
    """The table in ragtrace.toml, e.g. `console` or `console.oidc`; empty for the top of the file."""
    prefix: str
    """Of the environment variables: a field is set by the prefix and its name in upper case."""
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The valid texts."""
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """The smallest and the largest number."""
    checks: Mapping[str, Callable[[Any, str], object]] = field(default_factory=dict)
    """Functions of a value and its place that raise SettingError for an invalid value."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables with another name than the rule's, by field."""
    secrets: frozenset[str] = frozenset()
    """Fields that the environment alone may set: files and command lines are seen by others."""
    foreign: tuple[str, ...] = ()
    """Beginnings of environment variables that have the prefix and belong to others."""

    def load(
        self,
        arguments: Mapping[str, Any] | None = None,
        environ: Mapping[str, str] | None = None,
        file: str | os.PathLike[str] | None = None,
    ) -> S:
        """The values of arguments that are not None, else of the environment, else of the file, else the defaults.

        `file` defaults to RAGTRACE_CONFIG, or to ragtrace.toml in the working directory if it exists. Raises
        SettingError for an unknown name and for an invalid value; the message says where it was, what it is and what
        is valid."""
        environ = os.environ if environ is None else environ
        values: dict[str, Any] = {}
        path = file or environ.get(PREFIX + "CONFIG") or (FILE if Path(FILE).is_file() else None)
        if path is not None:
            where = f"in [{self.table}] of {path}" if self.table else f"in {path}"
            for name, value in _table(Path(path), self.table).items():
                if name in self.secrets:
                    variable = self.variables.get(name, self.prefix + name.upper())
                    raise SettingError(f"{name} {where} is a secret; set the environment variable {variable} instead")
                values[name] = self._convert(name, value, f"{name} {where}")
        for variable, text in environ.items():
            own = self._name(variable)
            if own is not None and (text or not self.table):
                values[own] = self._convert(own, text, variable)
        for name, value in (arguments or {}).items():
            if value is not None:
                values[name] = self._convert(name, value, name)
        return self.kind(**values)

    def _name(self, variable: str) -> str | None:
        """The field that an environment variable sets, or one that does not exist but resembles one; else None."""
        for name, own in self.variables.items():
            if own == variable:
                return name
        if not variable.startswith(self.prefix) or variable.startswith(self.foreign):
            return None
        name = variable[len(self.prefix) :].lower()
        import difflib

        if difflib.get_close_matches(name, _types(cast("Any", self.kind)), n=1, cutoff=0.8):
            return name
        # Not a likely typo; other programs may own this variable.
        _log.warning("ragtrace: the environment variable %s is no setting and is ignored", variable)
        return None

    def _convert(self, name: str, value: Any, where: str) -> Any:
        types = _types(cast("Any", self.kind))
        if name not in types:
            import difflib

            matches = difflib.get_close_matches(name, types, n=3)
            hint = f"did you mean {' or '.join(matches)}?" if matches else f"known are {', '.join(sorted(types))}"
            raise SettingError(f"there is no setting {where}; {hint}")
        result = _CONVERTERS[types[name]](value, where)
        if name in self.choices and result not in self.choices[name]:
            raise SettingError(f"{where} is {value!r}; give one of {', '.join(filter(None, self.choices[name]))}")
        if name in self.bounds:
            low, high = self.bounds[name]
            if not low <= result <= high:
                raise SettingError(f"{where} is {value!r}; give a number from {low:g} to {high:g}")
        if name in self.checks:
            self.checks[name](result, where)
        return result


@cache
def _types(kind: Any) -> dict[str, Any]:
    """The fields that can be set, with their types."""
    types = get_type_hints(kind)
    return {f.name: types[f.name] for f in fields(kind) if types[f.name] in _CONVERTERS}


def _table(path: Path, table: str) -> Mapping[str, Any]:
    """One table of the settings file, without the sections below it; empty where the file has none of that name."""
    import tomllib  # loaded late: `import ragtrace` reads no settings

    try:
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:  # no TOML, no UTF-8, a number of 5,000 digits, deep nesting
        raise SettingError(f"the settings file {path} cannot be read: {error}") from error
    inner: Any = content.get("ragtrace", content)
    if not isinstance(inner, dict):
        raise SettingError(f"the settings file {path}: [ragtrace] is not a table")
    if not table:
        return {name: value for name, value in inner.items() if name not in TABLES}
    first, _, rest = table.partition(".")
    if inner is not content and first in content:
        raise SettingError(f"the settings file {path} has [ragtrace] and [{first}]; write [ragtrace.{first}]")
    for part in filter(None, (first, rest)):
        inner = inner.get(part, {})
        if not isinstance(inner, dict):
            raise SettingError(f"the settings file {path}: [{table}] is not a table")
    return {name: value for name, value in inner.items() if f"{table}.{name}" not in TABLES}


def _boolean(value: Any, where: str) -> bool:
    if isinstance(value, bool):
        return value
    words = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
    if isinstance(value, str) and value.strip().lower() in words:
        return words[value.strip().lower()]
    raise SettingError(f"{where} is {value!r}; give true or false")


def _number(kind: type[int] | type[float]) -> Callable[[Any, str], Any]:
    def convert(value: Any, where: str) -> Any:
        try:
            if isinstance(value, bool) or (kind is int and isinstance(value, float) and value != int(value)):
                raise ValueError
            return kind(value)
        except (TypeError, ValueError, OverflowError):
            what = "a whole number" if kind is int else "a number"
            raise SettingError(f"{where} is {value!r}; give {what}") from None

    return convert


def _text(value: Any, where: str) -> str:
    if isinstance(value, bool):  # capture_content = true
        return str(value).lower()
    if not isinstance(value, (str, os.PathLike)):
        what = repr(value) if isinstance(value, (int, float)) else f"a {type(value).__name__}"  # it may hold a key
        raise SettingError(f"{where} is {what}; give a text")
    text = os.fspath(value)
    # Bytes of another encoding come from the environment as lone surrogates.
    if not isinstance(text, str) or "\0" in text or text.encode(errors="ignore").decode() != text:
        raise SettingError(f"{where} holds NUL or bytes that are no UTF-8; give a text")  # not quoted: it may be a key
    return text


def _items(value: Any, where: str) -> tuple[Any, ...]:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if isinstance(value, (list, tuple, frozenset)):
        return tuple(value)
    raise SettingError(f"{where} is {value!r}; give a list of names")


def _names(value: Any, where: str) -> tuple[str, ...]:
    items = _items(value, where)
    for item in items:
        if not isinstance(item, str):
            raise SettingError(f"{where} has {item!r}; give a list of texts")
    return tuple(_text(item, where) for item in items)


def _mapping(value: Any, where: str) -> dict[str, str]:
    if isinstance(value, Mapping) and all(isinstance(v, str) for v in value.values()):
        return dict(value)
    if isinstance(value, str) and value.startswith("{"):  # the form for processes of ragtrace's own
        with suppress(ValueError):
            return _mapping(json.loads(value), where)
    pairs = [item.rpartition("=") for item in _names(value, where)]
    if not all(key and text for key, _, text in pairs):
        raise SettingError(f"{where} is {value!r}; give KEY=VALUE, comma-separated")
    return {key: text for key, _, text in pairs}


def _numbers(value: Any, where: str) -> dict[str, float]:
    pairs = (value if isinstance(value, Mapping) else _mapping(value, where)).items()
    return {key: _number(float)(number, f"{key} in {where}") for key, number in pairs}


_CONVERTERS: Mapping[Any, Callable[[Any, str], Any]] = {
    bool: _boolean, int: _number(int), float: _number(float), str: _text, tuple[Any, ...]: _items,
    tuple[str, ...]: _names, frozenset[str]: lambda value, where: frozenset(_names(value, where)),
    Mapping[str, str]: _mapping, Mapping[str, float]: _numbers,
}  # fmt: skip


def read_secret(setting: str, name: str) -> str | None:
    """The secret that a setting names: the value of the environment variable `name`, else the content of the file.

    None for an empty name. Raises SettingError if there is neither; the message does not contain `name`, which may be
    the secret itself."""
    if not name:
        return None
    try:
        return os.environ[name] if name in os.environ else Path(name).read_text(encoding="utf-8")
    except (OSError, ValueError):
        raise SettingError(
            f"{setting} names neither an environment variable that is set nor a readable file; set it to the name of "
            "one of them, not to the key itself"
        ) from None


def key_bytes(what: str, text: str) -> bytes:
    """The 32 bytes of a key in base64 or hexadecimal digits. Raises SettingError for anything else; the message has
    `what` the key is, and not the key."""
    try:
        raw = bytes.fromhex(text) if re.fullmatch(r"[0-9a-fA-F]{64}", text) else base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != 32:
        raise SettingError(
            f"{what} is not 32 bytes in base64 or hexadecimal digits; create one with `openssl rand -base64 32`"
        )
    return raw


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a socket bound to that host. A name other than localhost is not trusted to
    be one."""
    if host.lower() == "localhost":
        return True
    import ipaddress

    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def parse_pairs(option: str, pairs: Sequence[str]) -> dict[str, str]:
    """The values by name of an option that may be repeated. Raises SettingError for an item without both."""
    values = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not (name and sign and value):
            raise SettingError(f"{option} has the invalid value {pair!r}: expected NAME=VALUE")
        values[name] = value
    return values
