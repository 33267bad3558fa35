"""Seals payloads with AES-256-GCM under the key of the day, above the adapters: the broker cannot read them.

The nonce is a keyed hash of what is sealed, so that a message that is published again is the same message: brokers and
workers recognize it. A reader of the broker learns no more than that."""

import contextlib
import hashlib
import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragtrace.errors import SettingError, require
from ragtrace.settings import Settings
from ragtrace.settings.section import read_secret
from ragtrace_brokers import message as envelope
from ragtrace_brokers.key_file import COMMAND, parse_day_keys, today

_log = logging.getLogger("ragtrace.transport")
_BOUND = (envelope.HEADER_SCHEMA, envelope.HEADER_PROBABILITY, envelope.HEADER_TENANT, envelope.HEADER_KEY_ID)
"""Headers that a sealed payload is bound to, beside the trace id."""
_NONCE = 12
_LOOK_SECONDS = 1.0
"""How often the file is looked at; it is looked at for each message that cannot be read, too."""


class TransportKeys:
    """The keys that the setting `transport_keys` names. A file that is replaced is read again. Thread-safe."""

    def __init__(self, name: str) -> None:
        """`name` is that of an environment variable or a file. Raises SettingError where there is neither and for
        something else than keys, and MissingExtraError without the package `cryptography`."""
        require("cryptography", "brokers", "transport_keys")
        self._name = name
        self._state, self._last_look = _state(name), time.monotonic()
        self._warned = ""
        self._keys: Mapping[str, bytes] = parse_day_keys(read_secret("transport_keys", name) or "")

    @property
    def days(self) -> list[str]:
        """The days that have a key, the oldest first."""
        return list(self._current(_LOOK_SECONDS))

    def _current(self, seconds: float) -> Mapping[str, bytes]:
        """The keys, of which the file is not looked at again for `seconds`."""
        if time.monotonic() >= self._last_look + seconds:
            self._last_look, state = time.monotonic(), _state(self._name)
            if state != self._state:
                self._state = state
                try:
                    self._keys = parse_day_keys(read_secret("transport_keys", self._name) or "")
                except SettingError as error:
                    _log.warning("ragtrace: %s; the keys stay as they were", error)
        return self._keys

    def _sealing(self) -> tuple[str, bytes]:
        """The day whose key seals, and the key: the latest day that is not in the future. Where today has none, an
        older key seals, with a warning: messages are not lost for it."""
        keys, now = self._current(_LOOK_SECONDS), today().isoformat()
        day = max((day for day in keys if day <= now), default=min(keys))
        if now not in (day, self._warned):
            self._warned = now
            _log.warning("ragtrace: transport_keys has no key of today; that of %s is used: run `%s`", day, COMMAND)
        return day, keys[day]

    def seal(self, message: envelope.TraceMessage) -> envelope.TraceMessage:
        """The message with its payload sealed, for its trace id and the headers that workers read."""
        day, key = self._sealing()
        sealed = replace(message, headers={**message.headers, envelope.HEADER_KEY_ID: day})
        context = _context(sealed)
        # A 64-byte key of BLAKE2b is derived from that of AES, so that neither says anything about the other.
        subkey = hashlib.blake2b(b"nonce", key=key, person=b"ragtrace-seal").digest()
        nonce = hashlib.blake2b(context + b"\n" + message.payload, key=subkey, digest_size=_NONCE).digest()
        return replace(sealed, payload=nonce + _cipher(key).encrypt(nonce, message.payload, context))

    def unseal(self, message: envelope.TraceMessage) -> bytes:
        """The payload of a sealed message. Raises UnreadableMessageError (`key_unknown`, `cannot_unseal`)."""
        from cryptography.exceptions import InvalidTag

        day = message.headers[envelope.HEADER_KEY_ID]
        nonce, content = message.payload[:_NONCE], message.payload[_NONCE:]
        for seconds in (_LOOK_SECONDS, 0.0):
            key = self._current(seconds).get(day)
            with contextlib.suppress(InvalidTag, ValueError):
                if key is not None:
                    return bytes(_cipher(key).decrypt(nonce, content, _context(message)))
        if key is None:
            raise _unknown(day)
        raise envelope.UnreadableMessageError(f"cannot_unseal: sealed with another key of {day[:10]!r}, or altered")


def _state(name: str) -> object:
    """What changes when the file of the keys does."""
    try:
        stat = Path(name).stat()
    except (OSError, ValueError):  # an environment variable
        return None
    return stat.st_mtime_ns, stat.st_ino, stat.st_size


def _cipher(key: bytes) -> Any:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)


def _context(message: envelope.TraceMessage) -> bytes:
    return json.dumps([message.key, *(message.headers.get(name, "") for name in _BOUND)]).encode()


def _unknown(day: str) -> envelope.UnreadableMessageError:
    return envelope.UnreadableMessageError(
        f"key_unknown: sealed with the key of {day[:10]!r}, which transport_keys does not have"
    )


def payload_of(message: envelope.TraceMessage, keys: TransportKeys | None) -> bytes:
    """The payload of a message, sealed or not. Raises UnreadableMessageError."""
    if envelope.HEADER_KEY_ID not in message.headers:
        return message.payload
    if keys is None:
        raise _unknown(message.headers[envelope.HEADER_KEY_ID])
    return keys.unseal(message)


def keys_to_publish(settings: Settings) -> TransportKeys | None:
    """The keys with which published messages are sealed; None where they are not."""
    if settings.transport_privacy != "sealed":
        return None
    if not settings.transport_keys:
        raise SettingError(
            f"transport_privacy is 'sealed', which needs keys: run `{COMMAND}`, and set transport_keys to that file"
        )
    return TransportKeys(settings.transport_keys)


def keys_to_read(settings: Settings) -> TransportKeys | None:
    """The keys that a worker has for sealed messages; None where it has none. Raises what TransportKeys raises."""
    return TransportKeys(settings.transport_keys) if settings.transport_keys else None


class SealedPublisher(envelope.Publisher):
    """Seals each message."""

    def __init__(self, publisher: envelope.Publisher, keys: TransportKeys) -> None:
        self._publisher, self._keys = publisher, keys

    def publish(self, messages: Sequence[envelope.TraceMessage]) -> list[envelope.PublishResult]:
        return self._publisher.publish([self._keys.seal(message) for message in messages])

    def close(self) -> None:
        self._publisher.close()
