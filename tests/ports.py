"""Ports for the servers that tests start."""

import itertools
import random
import socket

_PORTS = itertools.cycle(random.SystemRandom().sample(range(20_000, 32_000), 12_000))
"""Below the ports that the system gives to clients, so nobody takes one before its server listens; none comes twice."""


def free_port() -> int:
    """A port of the loopback interface that nobody uses."""
    for port in _PORTS:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if probe.connect_ex(("127.0.0.1", port)):
                return port
    raise AssertionError("no port is free")
