"""Over real sockets: slow clients, long uploads, and `ragtrace serve` as a process."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2 as httpx
import pytest
from starlette.requests import Request
from uvicorn.protocols.http.h11_impl import H11Protocol

from ragtrace.base.bounded_protocol import ConnectionLimits
from ragtrace.cli import main
from ragtrace.console import accounts, audit, guards, tokens
from ragtrace.console.chatlogs.store import Store, open_store
from ragtrace.console.options import ConsoleSettings
from ragtrace.console.problems import Catching
from tests.console.conftest import PASSWORD, evil_evaluation, faithfulness, served
from tests.row_files import rows

HEAD = b"POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\n"


def dial(url: str) -> socket.socket:
    parts = urlsplit(url)
    made = socket.create_connection((parts.hostname, parts.port), timeout=30)
    made.settimeout(30)
    return made


def rest(connection: socket.socket) -> bytes:
    """What comes until the other side closes."""
    found = b""
    with suppress(ConnectionError):
        while part := connection.recv(65_536):
            found += part
    return found


def test_slow_heads_do_not_keep_others_out(store: Store) -> None:
    """Slowloris: more connections than there may be send byte by byte; others are served, the slow ones let go."""
    with served(store, limits=ConnectionLimits(connections=40, head_seconds=2.0)) as url, ExitStack() as stack:
        slow = [stack.enter_context(closing(dial(url))) for _ in range(60)]
        for connection in slow:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127")
        for _ in range(10):
            assert httpx.get(url + "/healthz", timeout=60).status_code == 200
        assert [rest(connection) for connection in slow] == [b""] * 60, "without an answer, and not for ever"
        assert httpx.get(url + "/healthz", timeout=60).status_code == 200


def test_idle_connections_end(store: Store) -> None:
    """One that says nothing, and one that says nothing after its first request but a part of the next."""
    limits = ConnectionLimits(head_seconds=0.5)
    with served(store, limits=limits) as url, closing(dial(url)) as silent, closing(dial(url)) as second:
        second.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        answer = b""
        while b'{"status":"ok"}' not in answer:
            answer += second.recv(65_536)
        second.sendall(b"GET /healthz HT")
        assert rest(second) == rest(silent) == b""


def test_a_body_that_does_not_come_is_408(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "BODY_SECONDS", 0.5)
    with served(store) as url, closing(dial(url)) as slow:
        slow.sendall(HEAD % b"/api/views" + b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
        assert rest(slow).startswith(b"HTTP/1.1 408 ")
        assert httpx.get(url + "/healthz").status_code == 200


def test_a_hundred_megabytes_are_refused_unread(store: Store) -> None:
    """413 comes before the body, or when its length has passed the limit, and the connection ends."""
    with served(store) as url:
        kinds = {b"/api/feedback": b"json", b"/login": b"x-www-form-urlencoded", b"/api/labels": b"x-ndjson"}
        secret = tokens.add(store, "test", "local", ["feedback", "admin"])[1].encode()
        for path, kind in kinds.items():
            head = HEAD % path + b"Authorization: Bearer %s\r\nContent-Type: application/%s\r\n" % (secret, kind)
            with closing(dial(url)) as connection:
                connection.sendall(head + b"Content-Length: 104857600\r\n\r\n")
                assert rest(connection).startswith(b"HTTP/1.1 413 "), path
            with closing(dial(url)) as connection:
                connection.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n")
                with pytest.raises((ConnectionError, TimeoutError)):
                    connection.sendall((b"100000\r\n" + b" " * 0x100000 + b"\r\n") * 100)
                answer = rest(connection)
                assert answer == b"" or answer.startswith(b"HTTP/1.1 413 "), path
        assert httpx.get(url + "/healthz").status_code == 200


def ask_on(connection: socket.socket, request: bytes) -> None:
    """Ask and ask for a minute and never read: far more is answered than any buffer holds."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        connection.sendall(request)
        time.sleep(0.01)


def test_a_client_that_does_not_read_is_let_go(store: Store) -> None:
    """It cannot hold an answer, and with it a connection, for ever."""
    accounts.local(store)
    store.write([evil_evaluation(number) for number in range(200)], [faithfulness])
    with served(store, limits=ConnectionLimits(write_seconds=0.5)) as url:
        parts = urlsplit(url)
        with closing(socket.socket()) as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            deaf.settimeout(30)
            deaf.connect((parts.hostname, parts.port))
            with pytest.raises(ConnectionError):
                ask_on(deaf, b"GET /api/traces?limit=200 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert httpx.get(url + "/healthz").status_code == 200


def test_answers_leave_at_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections have TCP_NODELAY: otherwise the body of an answer waits 40 ms for the receipt of its head."""
    made: list[int] = []
    data_received = H11Protocol.data_received

    def noting(protocol: H11Protocol, data: bytes) -> None:
        connection = protocol.transport.get_extra_info("socket")
        made.append(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        data_received(protocol, data)

    monkeypatch.setattr(H11Protocol, "data_received", noting)
    with served(store) as url:
        assert httpx.get(url + "/healthz").status_code == 200
    assert {bool(option) for option in made} == {True}


LONG_HEAD = "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + "x" * 200_000 + "\r\n\r\n"


@pytest.mark.parametrize("raw", [*rows(__file__, "no_requests_of_ours"), LONG_HEAD], ids=lambda raw: raw[:40])
def test_what_is_no_request_of_ours_gets_nothing(store: Store, raw: str) -> None:
    """No Host, two of them, another's, binary, a head without end, two lengths: an error of 400 or 421."""
    with served(store) as url, closing(dial(url)) as connection:
        with suppress(OSError):
            connection.sendall(raw.encode())
            connection.shutdown(socket.SHUT_WR)
        answer = rest(connection)
        assert answer == b"" or answer.split()[1] in (b"400", b"421", b"401", b"413"), answer[:80]


def test_behind_a_proxy_its_word_counts_if_it_is_trusted(store: Store) -> None:
    """X-Forwarded-Proto makes the cookie Secure and X-Forwarded-For is the address in the log."""
    accounts.add(store, "rob", "reviewer", PASSWORD)
    said = {"x-forwarded-proto": "https", "x-forwarded-for": "192.0.2.77", "host": "127.0.0.1"}
    form = {"name": "rob", "password": PASSWORD}
    with served(store) as url:
        assert "Secure" not in httpx.post(url + "/login", data=form, headers=said).headers["set-cookie"]
        assert audit.read(store)[0].address == "127.0.0.1"
    with served(store, ConsoleSettings(proxies=("127.0.0.1",), url="https://127.0.0.1")) as url:
        made = httpx.post(url + "/login", data=form, headers={**said, "origin": "https://127.0.0.1"})
        assert made.headers["set-cookie"].startswith("__Host-ragtrace=")
        assert made.headers["strict-transport-security"] == "max-age=31536000"
        assert audit.read(store)[0].address == "192.0.2.77"


def test_serve_runs_until_it_is_told_to_stop(tmp_path: Path) -> None:
    """With --create it makes the store; it says where it listens, logs no query, and ends cleanly with SIGTERM."""
    file, log = str(tmp_path / "logs.db"), ""
    command = [sys.executable, "-m", "ragtrace", "serve", "--store", file, "--port", "0", "--create"]
    own = {name: value for name, value in os.environ.items() if not name.startswith("RAGTRACE_")}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=own) as running:
        try:
            while not (address := re.search(r"ragtrace console: open (http\S+)", log)):
                line = running.stderr.readline()  # type: ignore[union-attr]
                assert line, log
                log += line
            with httpx.Client(follow_redirects=True) as browser:
                assert browser.get(address[1]).status_code == 200
                base = address[1].partition("/login")[0]
                assert browser.get(base + "/healthz").json() == {"status": "ok"}
                assert browser.get(base + "/api/traces?text=verysecret").json()["rows"] == []
            running.send_signal(signal.SIGTERM)
            log += running.communicate(timeout=30)[1]
            assert running.returncode in (0, -signal.SIGTERM)
        finally:
            running.kill()
    assert "GET /api/traces 200" in log
    assert "holds no logs. If it should, check --store" in log
    assert not re.search("verysecret|Traceback|alembic", log)
    open_store(file, upgrade=False).close()


def test_serve_says_what_is_wrong(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    """A port that is taken, no store, half a configuration: a sentence and exit code 2, no traceback."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("RAGTRACE_")]:
        monkeypatch.delenv(name)
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        for options, said in (
            (["--store", store.name, "--port", str(taken.getsockname()[1])], "cannot be listened on"),
            (["--port", "0"], "--store"),
            (["--store", store.name, "--host", "0.0.0.0", "--port", "0"], "ragtrace user add"),
            (["--store", "mysql://x/y"], "sqlite"),
        ):
            assert main(["serve", *options]) == 2
            errors = capfd.readouterr().err
            assert said in errors
            assert "Traceback" not in errors


async def test_who_leaves_in_the_middle_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """A browser that goes on before its request is whole: nothing is logged, nothing is sent."""

    async def reading(scope: Any, receive: Any, send: Any) -> None:
        await Request(scope, receive, send).body()

    async def gone() -> dict[str, str]:
        return {"type": "http.disconnect"}

    sent: list[Any] = []
    scope = {"type": "http", "method": "POST", "path": "/review", "headers": [], "query_string": b""}
    await Catching(reading)(scope, gone, sent.append)  # type: ignore[arg-type]
    assert sent == caplog.records == []
