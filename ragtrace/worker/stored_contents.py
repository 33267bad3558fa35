"""Requests whose texts the application has kept in its store: the broker's message has their ids alone."""

from __future__ import annotations

from string import hexdigits
from typing import TYPE_CHECKING

from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from ragtrace.errors import DataError, RagtraceError, StoreError
from ragtrace.records import Trace
from ragtrace.settings import Settings
from ragtrace_brokers.message import TraceMessage, TransportError, UnreadableMessageError

if TYPE_CHECKING:
    from ragtrace.console.chatlogs.store import Store


class StoredContents:
    """Reads requests from the store of the settings, which is opened at the first one."""

    def __init__(self, settings: Settings) -> None:
        self._url, self._key_name = settings.store, settings.store_key
        self._store: Store | None = None

    def check(self) -> None:
        """Raises TransportError where the store does not answer: what it has is read later. Does nothing without a
        store."""
        if not self._url:
            return
        try:
            self._opened().check_version()
        except (RagtraceError, OSError) as error:
            raise TransportError(f"the store with the texts of messages cannot be read: {error}") from None

    def _opened(self) -> Store:
        from ragtrace.console.chatlogs.encryption import read_keys
        from ragtrace.console.chatlogs.store import open_store

        if self._store is not None and self._store.is_gone():
            self.close()
        if self._store is None:
            self._store = open_store(self._url, key=read_keys(self._key_name))
        return self._store

    def read(self, message: TraceMessage) -> Trace:
        """The request that a message names by its key and its payload, the 8 bytes of its span id. Raises
        UnreadableMessageError."""
        if len(message.payload) != 8 or len(message.key) != 32 or not set(message.key) <= set(hexdigits):
            raise UnreadableMessageError("undecodable: the payload is no span id, or the key no trace id")
        if not self._url:
            raise UnreadableMessageError(
                "content_missing: its texts are in the application's store, and this worker's setting store is empty"
            )
        from ragtrace.console.chatlogs.reader import read_request

        store = self._opened()
        try:
            with store.reading() as connection:
                request = read_request(connection, store.keys, message.key, message.payload.hex())
        except (DataError, StoreError) as error:
            raise UnreadableMessageError(f"content_unreadable: {error}") from None
        if request is None:
            raise UnreadableMessageError(f"content_missing: {store.name} does not have this request")
        return request

    def close(self) -> None:
        """Close the store."""
        if self._store is not None:
            self._store.close()
            self._store = None


def payload_with_ids(request: Trace) -> bytes:
    """OTLP with the ids of a request and the name of its service, for the events of its scores."""
    data = TracesData()
    group = data.resource_spans.add()
    if request.facts.app:
        group.resource.attributes.add(key="service.name").value.string_value = request.facts.app
    group.scope_spans.add().spans.add(
        trace_id=request.trace_id.to_bytes(16, "big"), span_id=request.span_id.to_bytes(8, "big")
    )
    return bytes(data.SerializeToString())
