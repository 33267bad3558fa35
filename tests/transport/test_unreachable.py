"""A broker that does not answer."""

from __future__ import annotations

import gc
import socket

import pytest

from ragtrace.cli import main
from ragtrace_brokers.address import parse_address
from ragtrace_brokers.broker_adapters import open_transport
from tests.ports import free_port
from tests.transport.workers import message

pytest.importorskip("nats", reason="the clients of the brokers are not installed: pip install --group test")


@pytest.mark.parametrize("scheme", ["nats", "redis", "kafka"])
def test_an_unreachable_broker_is_one_line(scheme: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`ragtrace dead-letters` says in one line which broker does not answer, and publishing says that it does not."""
    url = f"{scheme}://127.0.0.1:{free_port()}/traces"
    assert main(["dead-letters", url]) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert url.rpartition("/")[0].partition("//")[2] in error

    transport = open_transport(parse_address(url))
    try:
        assert transport.publish([message(1)]) == ["unreachable"]
    finally:
        transport.close()


def test_a_connection_that_stays_silent_is_closed() -> None:
    """Something accepts NATS's connections and says nothing: no connection stays open behind the transport."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        transport = open_transport(parse_address(f"nats://127.0.0.1:{server.getsockname()[1]}/traces"))
        assert transport.publish([message(1)]) == ["unreachable"]
        transport.close()
    gc.collect()  # asyncio warns of what is open when it is collected
