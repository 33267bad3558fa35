"""From an address to the adapter of its broker."""

import importlib.util

from ragtrace.errors import MissingExtraError
from ragtrace_brokers.address import TransportAddress
from ragtrace_brokers.message import Publisher, Transport, TransportOptions
from ragtrace_brokers.seal import SealedPublisher, TransportKeys

_CLIENTS = {
    "nats": ("nats", "nats-py", "ragtrace_brokers.nats_transport", "NatsTransport"),
    "kafka": ("confluent_kafka", "confluent-kafka", "ragtrace_brokers.kafka_transport", "KafkaTransport"),
    "redis": ("redis", "redis", "ragtrace_brokers.redis_transport", "RedisTransport"),
    "rediss": ("redis", "redis", "ragtrace_brokers.redis_transport", "RedisTransport"),
}
"""Module and package of each broker's client, and module and class of its adapter."""


def require_client(address: TransportAddress) -> None:
    """Raises MissingExtraError where the client of this address is not installed."""
    module, package, *_ = _CLIENTS[address.scheme]
    if importlib.util.find_spec(module) is None:
        raise MissingExtraError(package, "brokers", f"The address {address}")


def open_transport(address: TransportAddress, options: TransportOptions | None = None) -> Transport:
    """The adapter of an address. Raises MissingExtraError where its client is not installed."""
    require_client(address)
    *_, module, name = _CLIENTS[address.scheme]
    transport: Transport = getattr(importlib.import_module(module), name)(address, options or TransportOptions())
    return transport


def open_publisher(address: TransportAddress, keys: TransportKeys | None) -> Publisher:
    """The publishing side of an address, which seals where there are keys. Raises what `open_transport` raises."""
    transport = open_transport(address)
    return transport if keys is None else SealedPublisher(transport, keys)
