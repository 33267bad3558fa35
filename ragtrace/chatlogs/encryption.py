"""Content at rest: AES-256-GCM under the key of the store, bound to the trace that it belongs to."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ragtrace.errors import SettingError, StoreError

_NONCE = 12


def read_keys(name: str) -> str | None:
    """The keys that the setting `store_key` names: what stands in the environment variable of that name, or else in
    the file. None for an empty name. Raises SettingError if there is neither; the message never shows a key."""
    if not name:
        return None
    if name in os.environ:
        return os.environ[name]
    try:
        return Path(name).read_text(encoding="ascii")
    except (OSError, ValueError):
        raise SettingError(
            "store_key names neither an environment variable that is set nor a file that can be read; "
            "it is the name of one of them, not the key itself"
        ) from None


class Keys:
    """The keys of a store: the first one seals, all of them unseal."""

    def __init__(self, text: str) -> None:
        """`text` has one key or more, 32 bytes each in base64 or hexadecimal digits, apart by blanks, line ends or
        commas. Raises SettingError for anything else."""
        self._keys = {_id(raw): raw for raw in (_raw(part) for part in re.split(r"[\s,]+", text.strip()) if part)}
        if not self._keys:
            raise SettingError("the store's key is empty; `openssl rand -base64 32` makes one")
        self.ids = tuple(self._keys)
        """The keys' names, derived from them; the first one is in use."""

    def seal(self, trace_hex: str, plain: bytes) -> bytes:
        """Encrypted under the first key, for this trace alone."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = os.urandom(_NONCE)
        return nonce + AESGCM(self._keys[self.ids[0]]).encrypt(nonce, plain, trace_hex.encode())

    def unseal(self, trace_hex: str, sealed: bytes, key: str) -> bytes:
        """What was sealed. Raises StoreError for a key that is not there and for bytes that were altered or moved."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        raw = self._keys.get(key)
        if raw is None:
            raise StoreError(f"this content was sealed with the key {key}, which was not given")
        try:
            return AESGCM(raw).decrypt(sealed[:_NONCE], sealed[_NONCE:], trace_hex.encode())
        except (InvalidTag, ValueError):
            raise StoreError(f"the content of trace {trace_hex} was altered and cannot be unsealed") from None

    def hidden(self, text: str) -> tuple[str, ...]:
        """HMAC-SHA256 of a text under each key, the one in use first: equal texts are found, none can be read."""
        return tuple(
            hmac.new(_derived(raw), text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()
            for raw in self._keys.values()
        )


def _raw(part: str) -> bytes:
    try:
        raw = bytes.fromhex(part) if re.fullmatch(r"[0-9a-fA-F]{64}", part) else base64.b64decode(part, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != 32:
        raise SettingError(
            "the store's key is not 32 bytes in base64 or hexadecimal digits; `openssl rand -base64 32` makes one"
        )
    return raw


def _id(raw: bytes) -> str:
    return hmac.new(raw, b"ragtrace: name of the key", hashlib.sha256).hexdigest()[:16]


def _derived(raw: bytes) -> bytes:
    return hmac.new(raw, b"ragtrace: users", hashlib.sha256).digest()


def seal_columns(keys: Keys | None, trace_hex: str, texts: Mapping[str, str | None]) -> dict[str, Any]:
    """The values of a table's content columns: as they are, or with keys all None and `sealed` and `key` instead."""
    if keys is None:
        return {**{name: clean(text) for name, text in texts.items()}, "sealed": None, "key": None}
    given = {name: text for name, text in texts.items() if text is not None}
    if not given:
        return {**dict.fromkeys(texts), "sealed": None, "key": None}
    # Escaped to ASCII: a lone surrogate comes back as it was.
    sealed = keys.seal(trace_hex, json.dumps(given).encode())
    return {**dict.fromkeys(texts), "sealed": sealed, "key": keys.ids[0]}


def unseal_columns(
    keys: Keys | None, trace_hex: str, row: Mapping[Any, Any], names: Iterable[str]
) -> dict[str, str | None]:
    """The texts of a row that `sealed_columns` made. Raises StoreError where they cannot be unsealed."""
    sealed = row.get("sealed")
    if sealed is None:
        return {name: row.get(name) for name in names}
    if keys is None:
        raise StoreError(f"this content was sealed with the key {row['key']}, which was not given")
    given = json.loads(keys.unseal(trace_hex, bytes(sealed), str(row["key"])))
    return {name: given.get(name) for name in names}


def clean(text: str | None) -> str | None:
    """A text that both databases take: NUL and lone surrogates become U+FFFD, so that offsets into it still hold."""
    if text is None or (text.isascii() and "\0" not in text):
        return text
    return re.sub("[\0\ud800-\udfff]", "\ufffd", text)
