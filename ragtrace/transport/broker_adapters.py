"""From an address to the adapter of its broker."""

from __future__ import annotations

import importlib.util

from ragtrace.errors import MissingExtraError
from ragtrace.transport.address import TransportAddress
from ragtrace.transport.message import Publisher, Transport, TransportOptions
from ragtrace.transport.seal import SealedPublisher, TransportKeys

_CLIENTS = {
    "nats": ("nats", "nats-py", "nats"),
    "kafka": ("confluent_kafka", "confluent-kafka", "kafka"),
    "redis": ("redis", "redis", "redis"),
    "rediss": ("redis", "redis", "redis"),
}
"""Module, package and extra of each broker's client."""


def require_client(address: TransportAddress) -> None:
    """Raises MissingExtraError where the client of this address is not installed."""
    module, package, extra = _CLIENTS.get(address.scheme, ("threading", "", ""))
    if importlib.util.find_spec(module) is None:
        raise MissingExtraError(package, extra, f"The address {address}")


def open_transport(address: TransportAddress, options: TransportOptions | None = None) -> Transport:
    """The adapter of an address. Raises MissingExtraError where its client is not installed."""
    options = options or TransportOptions()
    require_client(address)
    if address.scheme == "nats":
        from ragtrace.transport.nats_transport import NatsTransport

        return NatsTransport(address, options)
    if address.scheme == "kafka":
        from ragtrace.transport.kafka_transport import KafkaTransport

        return KafkaTransport(address, options)
    if address.scheme in ("redis", "rediss"):
        from ragtrace.transport.redis_transport import RedisTransport

        return RedisTransport(address, options)
    from ragtrace.transport.memory_transport import MemoryTransport

    return MemoryTransport(address, options)


def open_publisher(address: TransportAddress, keys: TransportKeys | None) -> Publisher:
    """The publishing side of an address, which seals where there are keys. Raises what `open_transport` raises."""
    transport = open_transport(address)
    return transport if keys is None else SealedPublisher(transport, keys)
