"""From an address to the adapter of its broker."""

from __future__ import annotations

from ragtrace.errors import MissingExtraError
from ragtrace.transport.address import TransportAddress
from ragtrace.transport.message import Transport, TransportOptions


def open_transport(address: TransportAddress, options: TransportOptions | None = None) -> Transport:
    """The adapter of an address. Raises MissingExtraError where its client is not installed."""
    options = options or TransportOptions()
    try:
        if address.scheme == "nats":
            from ragtrace.transport.nats_transport import NatsTransport

            return NatsTransport(address, options)
        if address.scheme == "kafka":
            from ragtrace.transport.kafka_transport import KafkaTransport

            return KafkaTransport(address, options)
        if address.scheme in ("redis", "rediss"):
            from ragtrace.transport.redis_transport import RedisTransport

            return RedisTransport(address, options)
    except ModuleNotFoundError as error:
        extra = address.scheme.replace("rediss", "redis")
        raise MissingExtraError(error.name or extra, extra, f"The address {address}") from error
    from ragtrace.transport.memory_transport import MemoryTransport

    return MemoryTransport(address, options)
