"""A console over a small store, and people who are signed in."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from argon2 import PasswordHasher
from fastapi import FastAPI
from starlette.testclient import TestClient

from ragtrace.console import accounts, server, sessions, tokens
from ragtrace.console.app import create_app
from ragtrace.console.chatlogs.store import Store, open_store
from ragtrace.console.login import local_address
from ragtrace.console.options import ConsoleSettings
from ragtrace.evaluation import evaluator
from ragtrace.records import Document, Evaluation, Evidence, Facts, Score
from ragtrace.testing import make_trace
from tests.databases import KINDS

PASSWORD = "a long enough password"
ADDRESS = "http://127.0.0.1:8400"
STARTED = 1_760_000_000.0
EVIL = '"><script>alert(1)</script><img src=x onerror=alert(2)>{{811*953}}'
"""What must never run, wherever it comes from."""
SECRETS = ("jane.doe@example.org", "+49 171 2345678", "DE89 3704 0044 0532 0130 00")
"""Personal data as the evil trace holds it."""
TRACE = "0af7651916cd43dd8448eb211c80319c"


@evaluator(needs={"answer"}, threshold=0.5, version="1")
def faithfulness(_trace: Any) -> float:
    """Is it so?"""
    return 0.0


@dataclass(slots=True)
class Console:
    store: Store
    settings: ConsoleSettings = field(default_factory=ConsoleSettings)
    app: FastAPI = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        self.app = create_app(self.store, self.settings)

    def stranger(self, base: str = ADDRESS, **options: Any) -> TestClient:
        options.setdefault("client", ("127.0.0.1", 50_000))
        return TestClient(self.app, base, follow_redirects=False, raise_server_exceptions=False, **options)

    def local(self, **options: Any) -> TestClient:
        """A browser that opened the address printed for a console without users."""
        browser = self.stranger(**options)
        answer = browser.get(local_address(self.store, ADDRESS).removeprefix(ADDRESS))
        assert answer.status_code == 303, answer.text
        browser.headers["x-csrf-token"] = self.csrf(browser)
        return browser

    def add(self, name: str, role: str) -> None:
        accounts.add(self.store, name, role, PASSWORD)

    def user(self, name: str) -> int:
        with self.store.reading() as connection:
            return accounts.find(connection, name).id

    def signed_in(self, name: str, **options: Any) -> TestClient:
        """A browser in which that user is signed in, and whose requests carry the CSRF token."""
        browser = self.stranger(**options)
        answer = browser.post("/login", data={"name": name, "password": PASSWORD})
        assert answer.status_code == 303, answer.text
        browser.headers["x-csrf-token"] = self.csrf(browser)
        return browser

    def csrf(self, browser: TestClient) -> str:
        return sessions.find(self.store, browser.cookies["ragtrace"], 1e9).csrf

    def program(self, user: str, *scopes: str, **options: Any) -> TestClient:
        """A program with an API token of that user."""
        _, secret = tokens.add(self.store, "test", user, scopes or ("read", "feedback", "review", "admin"))
        browser = self.stranger(**options)
        browser.headers["authorization"] = f"Bearer {secret}"
        return browser

    def with_settings(self, **changed: Any) -> Console:
        return Console(self.store, replace(self.settings, **changed))


@pytest.fixture(autouse=True)
def _cheap_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    accounts._dummy.cache_clear()
    monkeypatch.setattr(accounts, "_hasher", lambda: PasswordHasher(1, 8, 1))


both_databases = pytest.mark.parametrize("store", KINDS, indirect=True)
"""For the tests that ask most of the database."""


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path, migrated_file: Path) -> Iterator[Store]:
    """An empty store in a file, or in the kind of database that `both_databases` says."""
    if getattr(request, "param", "sqlite") == "postgresql":
        address = request.getfixturevalue("postgresql").database("migrated")
    else:
        address = str(shutil.copy(migrated_file, tmp_path / "logs.db"))
    with closing(open_store(address)) as opened:
        yield opened


@pytest.fixture
def console(store: Store) -> Console:
    """With a viewer vera, a reviewer rob and an admin ada."""
    made = Console(store)
    for name, role in (("vera", "viewer"), ("rob", "reviewer"), ("ada", "admin")):
        made.add(name, role)
    return made


def evil_evaluation(number: int = 0) -> Evaluation:
    """A request that is an attack from end to end, and full of personal data."""
    mail, phone, iban = SECRETS
    answer = f"It is so {EVIL}. Write to {mail} or call {phone}. It is not so."
    chunk = f"{EVIL} The account {iban} belongs to Jane. It is not so."
    begin, own = answer.index("It is not so"), chunk.index("It is not so")
    evidence = Evidence(begin, begin + 13, "unsupported", 0.1, "d0", 0, own, own + 13)
    source = {"source": f"javascript:alert('{number}')", "title": EVIL, "owner": mail, EVIL: EVIL}
    app = EVIL[:100]
    trace = make_trace(
        query=f"{EVIL} I am {mail}, what of {iban}?", answer=answer,
        documents=[Document("d0", chunk, 0.9, source), Document(EVIL, "plain", None, {"url": "https://example.org/a"})],
        trace_id=int(TRACE, 16) + number, span_id=number + 1, started=STARTED + number, duration=1.5,
        facts=Facts(app=app, model=app, user_id=mail, session_id=EVIL, tags=(f"phone {phone}",), tenant=mail),
    )  # fmt: skip
    score = Score("faithfulness", 0.2, "fail", f"{EVIL} says {mail}", evidence=(evidence,), version="1", method="model")
    return Evaluation(trace, (score,), cause="generation")


@pytest.fixture
def evil(console: Console) -> Console:
    """With ten such traces in the store."""
    console.store.write([evil_evaluation(number) for number in range(10)], [faithfulness])
    return console


@contextmanager
def running(config: uvicorn.Config) -> Iterator[str]:
    running_server = uvicorn.Server(config)
    with config.bind_socket() as listening:
        listening.listen(config.backlog)  # who asks before the thread is there waits
        thread = threading.Thread(target=running_server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            running_server.should_exit = True
            thread.join(20)


def served(store: Store, settings: ConsoleSettings | None = None, **options: Any) -> AbstractContextManager[str]:
    return running(server.config(store, replace(settings or ConsoleSettings(), port=0), **options))
