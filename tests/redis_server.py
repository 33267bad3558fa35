"""A real Redis server for tests: each has its own folder, and a test can kill it and start it again."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ports import free_port


class RedisServer:
    """A server that listens on a port of the loopback interface, and keeps its data in a folder (append-only file)."""

    def __init__(self, folder: Path) -> None:
        """`folder` exists; the data stay in it over `kill` and `start`."""
        self.port = free_port()
        self.folder = folder
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        options = f"--port {self.port} --bind 127.0.0.1 --appendonly yes --appendfsync always --dir".split()
        command = ["redis-server", *options, str(self.folder), "--save", ""]
        with (self.folder / "output").open("ab") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output)
        end = time.monotonic() + 30
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError((self.folder / "output").read_text("utf-8", "replace")[-2000:])
            time.sleep(0.05)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1.0) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False

    def kill(self) -> None:
        """End the server at once, as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def lose_data(self) -> None:
        """Remove what a killed server had on the disk."""
        shutil.rmtree(self.folder / "appendonlydir", ignore_errors=True)


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis server that runs."""
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed (apt-get install redis-server)")
    folder = tmp_path / "redis"
    folder.mkdir()
    server = RedisServer(folder)
    server.start()
    yield server
    server.kill()
