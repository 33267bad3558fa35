"""What every adapter does with messages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ragtrace_brokers.message import HEADER_REASON, TraceMessage, Transport
from tests.transport.brokers import BROKERS, Broker, stream_name
from tests.transport.workers import messages
from tests.worker.running import wait_for


@pytest.fixture(params=BROKERS)
def transport(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Transport]:
    """An adapter for a new stream; a message that is not acknowledged comes again after two seconds."""
    broker = Broker(request.param, tmp_path_factory.mktemp(request.param))
    broker.start()
    transport = broker.transport(stream_name())
    yield transport
    transport.close()
    broker.kill()


def _fetch(transport: Transport, count: int) -> dict[str, TraceMessage]:
    """So many messages, by key."""
    fetched: dict[str, TraceMessage] = {}

    def all_of_them() -> int:
        fetched.update({each.key: each for each in transport.fetch(count - len(fetched), 0.2)})
        return len(fetched)

    wait_for(all_of_them, lambda number: number >= count)
    return fetched


def test_messages_are_delivered_until_they_are_acknowledged(transport: Transport) -> None:
    """A message arrives as it was published; refused, it is delivered again with its starts; a dead letter has its
    reason until it is put back, and then arrives without it; what was acknowledged does not come again."""
    batch = messages(1, 4)
    assert transport.publish(batch) == [""] * 4
    first = _fetch(transport, 4)
    assert [(first[each.key].payload, dict(first[each.key].headers)) for each in batch] == [
        (each.payload, dict(each.headers)) for each in batch
    ]
    one, two, three, four = (first[each.key] for each in batch)
    transport.ack([one])
    transport.dead_letter(two, "undecodable: for the test")
    transport.extend([three])
    assert transport.starts([four]) == [0]
    transport.count_starts([four])
    transport.nack([four], 0.1)
    again = _fetch(transport, 1)[four.key]
    assert (again.is_redelivered, transport.starts([again])) == (True, [1])
    transport.ack([again, three])
    [letter] = transport.dead_letters(10)
    assert (letter.key, letter.headers[HEADER_REASON]) == (two.key, "undecodable: for the test")
    assert transport.put_back([letter]) == 1
    assert transport.dead_letters(10) == []
    back = _fetch(transport, 1)
    assert HEADER_REASON not in back[two.key].headers
    transport.ack(list(back.values()))
    assert transport.fetch(10, 2.5) == []
