"""Kafka's topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ragtrace_brokers.message import KEPT_SECONDS


def make_topics(settings: Mapping[str, Any], partitions: Mapping[str, int], replicas: int, seconds: float) -> None:
    """Make those of these topics that do not exist, with so many partitions each. `settings` are librdkafka's; each
    answer may take so many seconds. Raises KafkaException, and TimeoutError where no broker answers."""
    retention = {"retention.ms": str(1_000 * KEPT_SECONDS)}
    topics = [NewTopic(name, count, replicas, config=retention) for name, count in partitions.items()]
    admin = AdminClient(dict(settings))  # as long as it lives, the futures have results
    for future in admin.create_topics(topics, request_timeout=seconds).values():
        try:
            future.result(seconds)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
