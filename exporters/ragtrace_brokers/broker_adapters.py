"""From an address to the adapter of its broker."""

from __future__ import annotations

import importlib.util

from ragtrace.errors import MissingExtraError
from ragtrace_brokers.address import TransportAddress
from ragtrace_brokers.message import Publisher, Transport, TransportOptions
from ragtrace_brokers.seal import SealedPublisher, TransportKeys

_CLIENTS = {
    "nats": ("nats", "nats-py"),
    "kafka": ("confluent_kafka", "confluent-kafka"),
    "redis": ("redis", "redis"),
    "rediss": ("redis", "redis"),
}
"""Module and package of each broker's client."""


def require_client(address: TransportAddress) -> None:
    """Raises MissingExtraError where the client of this address is not installed."""
    module, package = _CLIENTS[address.scheme]
    if importlib.util.find_spec(module) is None:
        raise MissingExtraError(package, "brokers", f"The address {address}")


def open_transport(address: TransportAddress, options: TransportOptions | None = None) -> Transport:
    """The adapter of an address. Raises MissingExtraError where its client is not installed."""
    options = options or TransportOptions()
    require_client(address)
    if address.scheme == "nats":
        from ragtrace_brokers.nats_transport import NatsTransport

        return NatsTransport(address, options)
    if address.scheme == "kafka":
        from ragtrace_brokers.kafka_transport import KafkaTransport

        return KafkaTransport(address, options)
    from ragtrace_brokers.redis_transport import RedisTransport

    return RedisTransport(address, options)


def open_publisher(address: TransportAddress, keys: TransportKeys | None) -> Publisher:
    """The publishing side of an address, which seals where there are keys. Raises what `open_transport` raises."""
    transport = open_transport(address)
    return transport if keys is None else SealedPublisher(transport, keys)
