"""Writes the fields of protobuf messages as bytes, and OTLP's attributes with them.

To set the fields of one attribute takes a dozen calls of protobuf, and a request has more than sixty attributes. Half
of them repeat from request to request: their bytes are kept."""

import functools
import struct
from collections.abc import Mapping
from typing import Any

_INTEGERS = 2**63
"""OTLP's integers are in [-_INTEGERS, _INTEGERS); a seed of 64 bits is written as a text."""
_SHORT = 32
"""Characters of a text that is likely to come again: a name, a type, an id."""
_MAX_ENTRIES = 4_096
"""Attributes, and keys, whose bytes are kept at most."""
_LENGTHS = 2_048
_SMALL = 1_500
"""Bytes of a text whose lengths, with those of its key, are among `_NUMBERS`."""
# A tag is a field's number and how its value is written: `number << 3 | 2` for what begins with its length.
_KEY, _VALUE = b"\x0a", b"\x12"
"""Of `KeyValue`."""
_TEXT, _TRUTH, _INTEGER, _FRACTION, _LIST, _MAPPING, _DATA = (
    b"\x0a", b"\x10", b"\x18", b"\x21", b"\x2a", b"\x32", b"\x3a",
)  # fmt: skip
"""Of `AnyValue`."""
_ITEM = b"\x0a"
"""Of `ArrayValue` and `KeyValueList`."""
_RECURRING = frozenset({str, int, float, bool})
"""Types of values that are kept by their value and their type."""


def number(value: int) -> bytes:
    """A number that is not negative: seven bits in each byte, the lowest first."""
    return _NUMBERS[value] if value < _LENGTHS else _number(value)


def _number(value: int) -> bytes:
    data = bytearray()
    while value > 127:
        data.append(value & 127 | 128)
        value >>= 7
    data.append(value)
    return bytes(data)


_NUMBERS = [_number(value) for value in range(_LENGTHS)]
"""Lengths are small numbers, and each attribute has three."""
_TEXTS = [_TEXT + size for size in _NUMBERS]
"""How a text of each length begins."""


def field(tag: bytes, data: bytes) -> bytes:
    """A field that begins with its length: a text, bytes or a message."""
    return tag + number(len(data)) + data


def attributes_field(tag: bytes, attributes: Mapping[str, Any] | None) -> list[bytes]:
    """A field of attributes (`KeyValue`), as parts to join: a long text is copied once more, when all are joined.

    Values are texts, numbers, truth values, bytes, None, and lists and mappings of these. Raises TypeError for a value
    that OTLP does not have. What UTF-8 does not have (half of a surrogate pair) becomes a question mark."""
    if not attributes:
        return []
    copy = getattr(attributes, "copy", None)
    attributes = copy() if copy is not None else attributes  # the SDK's mapping takes a lock for each item
    parts: list[bytes] = []
    for key, value in attributes.items():
        kind = type(value)
        if kind is str and len(value) > _SHORT:
            name = _names.get(key) or _name(key)
            text = value.encode(errors="replace")
            if (length := len(text)) + len(name) < _SMALL:
                size = _TEXTS[length]
                length += len(size)
                outer = _NUMBERS[length]
                parts += (tag, _NUMBERS[length + len(outer) + len(name)], name, outer, size, text)
                continue
            before = _TEXT + number(length)
            before = name + number(len(before) + length) + before
            parts += (tag, number(len(before) + length), before, text)
        elif kind in _RECURRING:
            identity = tag, key, kind, value
            parts.append(_attributes.get(identity) or _keep(identity))
        else:
            parts += (tag, _attribute(key, value))
    return parts


_attributes: dict[tuple[bytes, str, type, Any], bytes] = {}
"""Attributes as bytes. By type, too: True, 1 and 1.0 are equal."""
_names: dict[str, bytes] = {}
"""Fields of keys, each with the tag of the value behind it."""


def write_attributes(message: Any, attributes: Mapping[str, Any]) -> None:
    """Appends attributes to those of a message, e.g. a span or a log record. Raises as `attributes_field` does."""
    message.MergeFromString(b"".join(attributes_field(_attributes_tag(message.DESCRIPTOR), attributes)))


@functools.lru_cache(maxsize=32)
def _attributes_tag(kind: Any) -> bytes:
    """The tag of the field `attributes`. Its number differs by kind of message."""
    return number(kind.fields_by_name["attributes"].number << 3 | 2)


def _keep(identity: tuple[bytes, str, type, Any]) -> bytes:
    if len(_attributes) >= _MAX_ENTRIES:
        _attributes.clear()
    tag, key, _, value = identity
    data = _attributes[identity] = tag + _attribute(key, value)
    return data


def _name(key: str) -> bytes:
    if len(_names) >= _MAX_ENTRIES:
        _names.clear()
    data = _names[key] = field(_KEY, key.encode(errors="replace")) + _VALUE
    return data


def _attribute(key: str, value: Any) -> bytes:
    """A `KeyValue` behind its length."""
    data = field(_KEY, key.encode(errors="replace")) + field(_VALUE, _value(value))
    return number(len(data)) + data


def _value(value: Any) -> bytes:
    """An `AnyValue`. Python's truth values are integers, too, so they come first."""
    if isinstance(value, str):
        return field(_TEXT, value.encode(errors="replace"))
    if isinstance(value, bool):
        return _TRUTH + number(int(value))
    if isinstance(value, int):
        if -_INTEGERS <= value < _INTEGERS:
            return _INTEGER + number(value % 2**64)
        return _value(str(value))
    if isinstance(value, float):
        return _FRACTION + struct.pack("<d", value)
    if isinstance(value, bytes):
        return field(_DATA, value)
    if isinstance(value, Mapping):
        return field(_MAPPING, b"".join([_ITEM + _attribute(str(key), item) for key, item in value.items()]))
    if value is None:
        return b""
    return field(_LIST, b"".join([field(_ITEM, _value(item)) for item in value]))
