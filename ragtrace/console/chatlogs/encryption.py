"""Encrypts content at rest with AES-256-GCM under the key of the store, bound to the trace that it belongs to."""

import hashlib
import hmac
import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ragtrace.errors import SettingError, StoreError
from ragtrace.settings.section import key_bytes, read_secret

_NONCE = 12
_WHAT = "the key of the store"


def read_keys(name: str) -> str | None:
    """The keys that the setting `store_key` names; None for an empty name. Raises what `read_secret` raises."""
    return read_secret("store_key", name)


class Keys:
    """The keys of a store: the first one encrypts, all of them decrypt."""

    def __init__(self, text: str) -> None:
        """`text` contains one or more keys, each of 32 bytes in base64 or hexadecimal digits, separated by blanks, line
        ends or commas. Raises SettingError for anything else."""
        self._keys = {
            _id(raw): raw for raw in (key_bytes(_WHAT, part) for part in re.split(r"[\s,]+", text.strip()) if part)
        }
        if not self._keys:
            raise SettingError(f"{_WHAT} is empty; create one with `openssl rand -base64 32`")
        self.ids = tuple(self._keys)
        """The names of the keys, which are derived from them; the first one encrypts."""

    def seal(self, trace_hex: str, plain: bytes) -> bytes:
        """Encrypts with the first key. Only `unseal` for the same trace can decrypt it."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = os.urandom(_NONCE)
        return nonce + AESGCM(self._keys[self.ids[0]]).encrypt(nonce, plain, trace_hex.encode())

    def unseal(self, trace_hex: str, ciphertext: bytes, key: str) -> bytes:
        """Decrypts what `seal` returned. Raises StoreError for a missing key, and for bytes that were altered or belong
        to another trace."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        raw = self._keys.get(key)
        if raw is None:
            raise StoreError(f"the content is encrypted with the key {key}, which the setting store_key does not have")
        try:
            return AESGCM(raw).decrypt(ciphertext[:_NONCE], ciphertext[_NONCE:], trace_hex.encode())
        except (InvalidTag, ValueError):
            raise StoreError(f"the content of trace {trace_hex} was altered and cannot be decrypted") from None

    def pseudonyms(self, text: str) -> tuple[str, ...]:
        """HMAC-SHA256 of a text under each key, the first key first. Equal texts have equal results, from which the
        text cannot be read."""
        return tuple(
            hmac.new(_derived(raw), text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()
            for raw in self._keys.values()
        )


def _id(raw: bytes) -> str:
    return hmac.new(raw, b"ragtrace: name of the key", hashlib.sha256).hexdigest()[:16]


def _derived(raw: bytes) -> bytes:
    return hmac.new(raw, b"ragtrace: users", hashlib.sha256).digest()


def seal_columns(keys: Keys | None, trace_hex: str, texts: Mapping[str, str | None]) -> dict[str, Any]:
    """Returns the values of a table's content columns, and of `sealed` and `key`. Without keys the texts are plain and
    `sealed` is None; with keys the texts are None, and `sealed` holds all of them, encrypted for this trace (32
    hexadecimal digits)."""
    if keys is None:
        return {**{name: clean(text) for name, text in texts.items()}, "sealed": None, "key": None}
    present = {name: text for name, text in texts.items() if text is not None}
    # JSON is escaped to ASCII, so lone surrogates survive.
    ciphertext = keys.seal(trace_hex, json.dumps(present).encode()) if present else None
    return {**dict.fromkeys(texts), "sealed": ciphertext, "key": keys.ids[0] if present else None}


def unseal_columns(
    keys: Keys | None, trace_hex: str, row: Mapping[Any, Any], names: Iterable[str]
) -> dict[str, str | None]:
    """Returns the texts of a row that has the columns of `seal_columns`. Raises StoreError if they cannot be
    decrypted."""
    ciphertext = row.get("sealed")
    if ciphertext is None:
        return {name: row.get(name) for name in names}
    if keys is None:
        raise StoreError(f"the content is encrypted with the key {row['key']}, but the setting store_key is empty")
    texts = json.loads(keys.unseal(trace_hex, bytes(ciphertext), str(row["key"])))
    return {name: texts.get(name) for name in names}


def user_keys(keys: Keys | None, user_id: str) -> tuple[str, ...]:
    """The values of `traces.user_key` for a user: one for each key, the first for new traces. Without keys it is the
    id itself, or its SHA-256 if it is longer than 200 characters."""
    if keys is not None:
        return keys.pseudonyms(user_id)
    plain = clean(user_id) or ""
    if len(plain) > 200:
        plain = hashlib.sha256(user_id.encode("utf-8", "surrogatepass")).hexdigest()
    return (plain,)


def clean(text: str | None) -> str | None:
    """Replaces what the databases cannot store: NUL and lone surrogates become U+FFFD. Offsets into the text stay
    valid."""
    if text is None or (text.isascii() and "\0" not in text):
        return text
    return re.sub("[\0\ud800-\udfff]", "\ufffd", text)
