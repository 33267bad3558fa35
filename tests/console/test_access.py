"""Who gets in, as whom, and for how long."""

import io
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from argon2 import PasswordHasher
from sqlalchemy import select, update

from ragtrace.cli import main
from ragtrace.console import accounts, attempts, audit, login, server, sessions, tokens
from ragtrace.console.chatlogs import schema
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.login import local_address
from ragtrace.console.options import ConsoleSettings, Oidc, is_loopback, load_console, load_oidc
from ragtrace.errors import DataError, SettingError
from tests.console.conftest import ADDRESS, PASSWORD, TRACE, Console, both_databases, served
from tests.databases import count
from tests.row_files import rows, table


def test_a_console_without_users_knows_only_who_has_the_printed_address(store: Store) -> None:
    """A connection from this machine alone proves nothing: a reverse proxy without headers connects from here too."""
    console = Console(store)
    for headers in ({}, {"x-forwarded-for": "127.0.0.1"}, {"cf-connecting-ip": "127.0.0.1"}, {"cookie": "ragtrace=x"}):
        stranger = console.stranger(headers=headers)
        assert stranger.get("/api/me").status_code == 401, headers
        assert stranger.get("/").headers["location"].startswith("/login"), headers
    page = console.stranger().get("/login")
    assert page.status_code == 401
    assert "ragtrace user link" in page.text
    assert console.local().get("/api/me").json() == {"name": "local", "role": "admin", "via": "session", "scopes": []}


def test_the_printed_address_signs_in_once(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """The key is used up by the browser that opens it; a second browser, a cookie of it and an old key get nothing."""
    console = Console(store)
    path = local_address(store, ADDRESS).removeprefix(ADDRESS)
    key = path.partition("key=")[2]
    assert console.stranger().get("/api/me", headers={"cookie": f"ragtrace={key}"}).status_code == 401
    first = console.stranger()
    with caplog.at_level("INFO", "ragtrace.console"):
        assert first.get(path).status_code == 303
    assert first.get("/api/me").status_code == 200
    second = console.stranger().get(path)
    assert second.status_code == 401
    assert "used before" in second.text
    old = sessions.add_one_time_key(store, accounts.local(store).id, 60, now=1.0)
    assert console.stranger().get(f"/login?key={old}").status_code == 401
    actions = [line.action for line in audit.read(store)]
    assert (actions.count("login"), actions.count("login.failed")) == (1, 2)
    address = next(text for text in caplog.messages if "another browser" in text).rpartition(" ")[2]
    assert console.stranger().get(address.removeprefix(ADDRESS)).status_code == 303


@both_databases
def test_two_browsers_cannot_use_one_key(store: Store) -> None:
    """Of twenty that open the address at once, one is let in."""
    key = sessions.add_one_time_key(store, accounts.local(store).id, 60)
    with ThreadPoolExecutor(20) as pool:
        outcomes = list(pool.map(lambda _: sessions.use_one_time_key(store, key), range(20)))
    assert sum(outcomes) == 1


def test_the_first_user_ends_the_sessions_and_tokens_of_local(store: Store) -> None:
    """As soon as somebody can sign in everybody must, and it stays so when that user is disabled."""
    console = Console(store)
    browser, program = console.local(), console.program("local")
    for number, asks in enumerate((browser, program)):
        assert asks.post("/api/views", json={"name": f"{number}", "query": "x=1"}).status_code == 201
    browser.headers["x-csrf-token"] = "another"
    assert browser.post("/api/views", json={"name": "a", "query": "x=1"}).status_code == 403
    unused = local_address(store, ADDRESS).removeprefix(ADDRESS)
    console.add("ada", "admin")
    assert browser.get("/api/me").status_code == program.get("/api/me").status_code == 401
    assert console.stranger().get(unused).status_code == 200  # the form for a name and a password
    accounts.set_disabled(store, "ada", True)
    assert Console(store).stranger().get("/api/me").status_code == 401


def test_local_cannot_be_a_user_who_signs_in(console: Console) -> None:
    accounts.local(console.store)
    with pytest.raises(DataError):
        accounts.set_password(console.store, "local", PASSWORD)
    assert console.program("local").get("/api/me").status_code == 401


@pytest.mark.parametrize("changed", rows(__file__, "settings_with_which_others_reach_it"))
def test_it_listens_to_others_only_with_users(store: Store, changed: dict[str, Any]) -> None:
    """Where others can reach it, it does not start without users, says how to add one, and is closed even if it did."""
    settings = ConsoleSettings(**changed)
    with pytest.raises(SettingError, match="ragtrace user add"):
        server.check(store, settings)
    assert Console(store, settings).stranger().get("/api/me").status_code == 401
    accounts.add(store, "ada", "admin", PASSWORD)
    server.check(store, settings)


def test_what_counts_as_loopback() -> None:
    """Only addresses that nobody else can reach, and no name but localhost."""
    loopback, others = table(__file__, "what_counts_as_loopback")
    assert [host for host in (*loopback, *others) if is_loopback(host)] == loopback


def test_common_passwords_are_refused(console: Console) -> None:
    """A password that is long enough but easy to guess is refused with the reason; the old one still works."""
    for password in ("passwordpassword", "123456789012", "Password1234!", "aaaaaaaaaaaa", "robrobrobrob"):
        with pytest.raises(SettingError, match="easy to guess"):
            accounts.set_password(console.store, "rob", password)
    assert accounts.verify(console.store, "rob", PASSWORD) is not None


def test_passwords_are_kept_as_argon2id(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database has no password, only hashes; a sign-in renews an old hash with the parameters of RFC 9106."""

    def kept() -> str:
        return str(console.store.scalar(select(schema.users.c.password).where(schema.users.c.name == "rob")))

    before = kept()
    assert before.startswith("$argon2id$")
    assert PASSWORD not in before
    monkeypatch.setattr(accounts, "_hasher", lambda: PasswordHasher(2, 16, 1))
    assert accounts.verify(console.store, "rob", PASSWORD) is not None
    assert "m=16,t=2" in kept()
    assert accounts.verify(console.store, "rob", PASSWORD) is not None
    monkeypatch.undo()
    assert accounts.hash_password(PASSWORD).startswith("$argon2id$v=19$m=65536,t=3,p=4$")


def test_users_and_tokens_that_cannot_be(console: Console) -> None:
    """Names are letters, digits and . _ @ + -; passwords have 12 to 1000 signs; tokens have a name, scopes, an end."""
    for name, role, password in rows(__file__, "users_that_cannot_be"):
        with pytest.raises(SettingError):
            accounts.add(console.store, name, role, password or PASSWORD)
    for name, scopes, days in rows(__file__, "tokens_that_cannot_be"):
        with pytest.raises(SettingError):
            tokens.add(console.store, name, "rob", scopes, days)


def test_a_session_begins_with_the_right_password_alone(console: Console) -> None:
    """Wrong passwords and unknown names get the same answer and no cookie."""
    answers = []
    for name, password in (("rob", "wrong"), ("nobody", PASSWORD), ("rob", ""), ("", "")):
        answer = console.stranger().post("/login", data={"name": name, "password": password})
        assert answer.status_code == 401
        assert "set-cookie" not in answer.headers
        answers.append(answer.text)
    assert len(set(answers)) == 1
    browser = console.signed_in("rob")
    worker = Console(console.store).stranger(cookies=browser.cookies)  # another process over the same store
    assert [each.get("/api/me").json()["name"] for each in (browser, worker)] == ["rob"] * 2


def test_the_hash_is_computed_for_unknown_names_too(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each wrong sign-in costs one verification, whoever it names: time tells nothing of who exists."""
    done: list[str] = []
    verify = PasswordHasher.verify
    monkeypatch.setattr(PasswordHasher, "verify", lambda own, *both: done.append(both[0][:9]) or verify(own, *both))
    accounts.set_disabled(console.store, "vera", True)
    accounts.local(console.store)
    for name in ("rob", "nobody", "local", "vera"):
        assert accounts.verify(console.store, name, "wrong") is None
    assert done == ["$argon2id"] * 4


def test_the_cookie_is_for_the_server_alone(console: Console) -> None:
    """HttpOnly, SameSite=Lax, no Domain; over https Secure and tied to the host by its name."""
    attributes = r"=[\w-]{43}; HttpOnly; Max-Age=604800; Path=/; SameSite=lax"
    for scheme, cookie in (("http", f"ragtrace{attributes}"), ("https", f"__Host-ragtrace{attributes}; Secure")):
        browser = console.stranger(ADDRESS.replace("http", scheme))
        answer = browser.post("/login", data={"name": "rob", "password": PASSWORD})
        assert re.fullmatch(cookie, answer.headers["set-cookie"])


def test_the_database_knows_neither_cookie_nor_token(console: Console) -> None:
    """Whoever reads the tables of sessions and tokens can use none of them."""
    cookie = console.signed_in("rob").cookies["ragtrace"]
    (session,) = console.store.rows(select(schema.sessions))
    assert cookie not in str(tuple(session))
    browser = console.stranger()
    browser.cookies.set("ragtrace", session.hash)
    assert browser.get("/api/me").status_code == 401
    _, secret = tokens.add(console.store, "t", "rob", ["read"])
    assert re.fullmatch(r"rt_[\w-]{43}", secret)
    (row,) = console.store.rows(select(schema.tokens))
    assert secret not in str(tuple(row))
    assert tokens.find(console.store, row.hash) is tokens.find(console.store, "rt_" + row.hash) is None


@both_databases
def test_a_session_ends_when_it_is_idle_and_in_any_case(console: Console) -> None:
    """After eight hours without a request, and after a week with them."""
    cookie = console.signed_in("rob").cookies["ragtrace"]
    start = float(console.store.scalar(select(schema.sessions.c.created)))
    hour = 3600.0
    for passed in range(7, 7 * 24, 7):
        assert sessions.find(console.store, cookie, 8 * hour, start + passed * hour) is not None, passed
    assert sessions.find(console.store, cookie, 8 * hour, start + 7 * 24 * hour + 1) is None
    other = console.signed_in("rob").cookies["ragtrace"]
    assert sessions.find(console.store, other, 8 * hour, start + 8.1 * hour) is None


@both_databases
def test_sessions_end_at_logout_with_the_password_and_when_the_user_is_disabled(console: Console) -> None:
    """Each of them at once, on the server, not only in the browser."""
    store = console.store
    for end in (
        lambda: None,
        lambda: accounts.set_password(store, "rob", PASSWORD),
        lambda: accounts.set_disabled(store, "rob", True),
    ):
        one, other = console.signed_in("rob"), console.signed_in("rob")
        cookie = one.cookies["ragtrace"]
        if end() is None:
            assert one.post("/logout").status_code == 303
        else:
            assert other.get("/api/me").status_code == 401
        again = console.stranger()
        again.cookies.set("ragtrace", cookie)
        assert again.get("/api/me").status_code == 401
    assert console.stranger().post("/login", data={"name": "rob", "password": PASSWORD}).status_code == 401


def test_expired_sessions_are_removed(console: Console) -> None:
    console.signed_in("rob")
    console.store.execute(update(schema.sessions).values(expires=1.0))
    console.signed_in("rob")
    assert count(console.store, schema.sessions) == 1


def test_people_change_their_own_password(console: Console) -> None:
    """With the old one; every other session ends, this one goes on under a new cookie."""
    browser, other = console.signed_in("rob"), console.signed_in("rob")
    before = browser.cookies["ragtrace"]
    right = {"old": PASSWORD, "new": "another password"}
    assert browser.post("/api/me/password", json={**right, "old": "wrong wrong wrong"}).status_code == 403
    assert browser.post("/api/me/password", json=right).status_code == 204
    assert browser.cookies["ragtrace"] != before
    assert (browser.get("/api/me").status_code, other.get("/api/me").status_code) == (200, 401)
    assert console.program("rob").post("/api/me/password", json=right).status_code == 403


@pytest.mark.parametrize(("next", "to"), rows(__file__, "after_signing_in_one_stays_here"))
def test_after_signing_in_one_stays_here(console: Console, next: str, to: str) -> None:
    """The address to go on to is a path of this console, whatever a link to the login page says."""
    assert login.inside(next) == to
    answer = console.stranger().post("/login", data={"name": "rob", "password": PASSWORD, "next": next})
    assert (answer.status_code, answer.headers["location"].replace("%20", " ")) == (303, to)


def test_strangers_are_sent_to_the_login_page_and_back(console: Console) -> None:
    """A page leads to the login page and from there back to itself; the API answers 401."""
    answer = console.stranger().get("/traces?q=a&model=b")
    address = "/login?next=/traces%3Fq%3Da%26model%3Db"
    assert (answer.status_code, answer.headers["location"]) == (303, address)
    page = console.stranger().get(address)
    assert page.status_code == 200
    assert 'value="/traces?q=a&amp;model=b"' in page.text
    told = console.stranger().get("/api/traces")
    assert (told.status_code, told.headers["content-type"]) == (401, "application/problem+json")
    assert told.headers["www-authenticate"].startswith("Bearer")


@both_databases
def test_five_wrong_passwords_from_one_address_are_enough(console: Console) -> None:
    """The sixth attempt waits, with the right password, too; from another address the user still gets in."""
    browser = console.stranger()
    for _ in range(attempts.PER_NAME_AND_ADDRESS):
        assert browser.post("/login", data={"name": "rob", "password": "wrong"}).status_code == 401
    for password in ("wrong", PASSWORD):
        answer = browser.post("/login", data={"name": "ROB", "password": password})
        assert answer.status_code == 429
        assert 0 < int(answer.headers["retry-after"]) <= 900
    elsewhere = console.stranger(client=("192.0.2.9", 1))
    assert elsewhere.post("/login", data={"name": "rob", "password": PASSWORD}).status_code == 303


@both_databases
def test_one_address_cannot_try_many_names_nor_many_addresses_one_name(store: Store) -> None:
    """Twenty attempts for an address and a hundred for a name in a quarter of an hour, then they are let in again."""
    now = 1_000_000.0
    done = [attempts.begin(store, f"user{i}", "192.0.2.1", now + i) for i in range(25)]
    assert [wait > 0 for wait in done] == [False] * 20 + [True] * 5
    assert done[20] == attempts.WINDOW - 20
    done = [attempts.begin(store, "ada", f"192.0.2.{i}", now) for i in range(2, 112)]
    assert [wait > 0 for wait in done] == [False] * 100 + [True] * 10
    assert attempts.begin(store, "ada", "192.0.2.1", now + attempts.WINDOW + 30) == 0


def test_the_right_password_forgets_the_wrong_ones(console: Console) -> None:
    browser = console.stranger()
    for _ in range(4):
        for _ in range(attempts.PER_NAME_AND_ADDRESS - 1):
            assert browser.post("/login", data={"name": "rob", "password": "wrong"}).status_code == 401
        assert browser.post("/login", data={"name": "rob", "password": PASSWORD}).status_code == 303


def test_a_token_works_for_its_scopes_within_its_users_role(console: Console) -> None:
    """It can do no more than its user; `test_attacks` has each scope's routes."""
    assert console.program("vera", "review", "admin").post("/api/review/next").status_code == 403
    assert console.program("vera", "admin").get("/api/users").status_code == 403


@both_databases
def test_a_token_ends(console: Console) -> None:
    """By time, by revoking, and with its user."""
    made, secret = tokens.add(console.store, "t", "rob", ["read"], 1)
    assert tokens.find(console.store, secret) is not None
    assert tokens.find(console.store, secret, made.expires + 1) is None
    accounts.set_disabled(console.store, "rob", True)
    assert tokens.find(console.store, secret) is None
    accounts.set_disabled(console.store, "rob", False)
    assert tokens.find(console.store, secret) is not None
    tokens.revoke(console.store, made.id)
    assert tokens.find(console.store, secret) is None
    with pytest.raises(DataError):
        tokens.revoke(console.store, 999)


def test_a_wrong_token_is_not_helped_by_a_cookie(console: Console) -> None:
    """What a program says of itself counts, even where a browser's cookie comes along."""
    browser = console.signed_in("rob")
    for said in ("Bearer rt_wrong", "Basic cm9iOng=", "Bearer", "", "Bearer " + browser.cookies["ragtrace"]):
        assert browser.get("/api/me", headers={"authorization": said}).status_code == 401, said


@both_databases
def test_what_is_seen_and_changed_is_written_down(evil: Console) -> None:
    """Views, searches (without their text), reviews, exports, sign-ins, users and tokens; with name and address."""
    ada = evil.signed_in("ada")
    ada.get(f"/api/traces/{TRACE}")
    ada.get("/api/traces", params={"text": "a very private search"})
    ada.post("/api/review/submit", json={"trace_id": TRACE, "verdicts": {"faithfulness": "fail"}, "comment": "private"})
    ada.get("/api/export")
    ada.post("/api/users", json={"name": "new", "role": "viewer", "password": "a private password"})
    ada.patch("/api/users/new", json={"role": "reviewer"})
    ada.post("/api/tokens", json={"name": "t", "user": "new", "scopes": ["read"]})
    ada.get(f"/traces/{TRACE}")
    ada.post("/logout")
    evil.stranger().post("/login", data={"name": "ada", "password": "wrong"})
    lines = audit.read(evil.store)
    assert [line.action for line in reversed(lines)] == rows(__file__, "actions_of_an_admin")
    assert "private" not in str(lines)
    assert ({line.user for line in lines[1:]}, {line.address for line in lines}) == ({"ada"}, {"127.0.0.1"})
    by_action = {line.action: line for line in lines}
    assert by_action["trace.view"].object == TRACE
    assert (by_action["user.change"].object, by_action["user.change"].detail) == ("new", {"role": "reviewer"})
    assert (lines[0].user, lines[0].detail) == (None, {"why": "password", "status": 401})
    evil.signed_in("vera").get("/api/users")  # what was refused is written down, too
    line = audit.read(evil.store)[0]
    assert (line.user, line.action, line.detail) == ("vera", "user.list", {"status": 403})


def test_nothing_is_shown_that_cannot_be_written_down(evil: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the line cannot be written, neither is the trace sent."""
    browser = evil.signed_in("rob")
    monkeypatch.setattr(audit, "write", lambda *_, **__: 1 / 0)
    answer = browser.get(f"/api/traces/{TRACE}")
    assert answer.status_code == 500
    assert "jane" not in answer.text


@both_databases
def test_the_log_is_paged_and_filtered(console: Console) -> None:
    """By user and action, newest first, going on before the last one seen."""
    for number in range(30):
        audit.write(console.store, "rob" if number % 2 else "ada", "a" if number < 20 else "b", str(number))
    assert [line.object for line in audit.read(console.store, user="rob", limit=2)] == ["29", "27"]
    assert [line.object for line in audit.read(console.store, action="a", limit=1)] == ["19"]
    last = audit.read(console.store, limit=10)[-1]
    assert audit.read(console.store, before=last.id, limit=1)[0].object == "19"


def test_users_and_tokens_on_the_command_line(store: Store, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """Added, listed, disabled, given roles; the password comes from standard input and is never printed."""
    own = ["--store", store.name]

    def run(*arguments: str, typed: str = "") -> str:
        monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        assert main([*arguments, *own]) == 0
        return capsys.readouterr().out

    def knows(password: str) -> bool:
        return accounts.verify(store, "ann", password) is not None

    added = run("user", "add", "ann", "--role", "reviewer", "--password-stdin", typed=PASSWORD + "\n")
    assert ("ann" in added, PASSWORD in added, knows(PASSWORD)) == (True, False, True)
    assert re.search(r"ann +reviewer +password +active", run("user", "list"))
    run("user", "role", "ann", "admin")
    secret = run("token", "add", "ci", "--user", "ann", "--scopes", "read,feedback", "--days", "30").strip()
    found = tokens.find(store, secret)
    assert (found.role, found.scopes) == ("admin", {"read", "feedback"})
    assert secret not in run("token", "list")
    run("token", "revoke", str(found.id))
    assert tokens.find(store, secret) is None
    later = run("token", "add", "ci", "--user", "ann").strip()
    run("user", "password", "ann", "--password-stdin", typed="quite another one\n")
    assert tokens.find(store, later) is None
    assert knows("quite another one")
    run("user", "disable", "ann")
    assert not knows("quite another one")
    run("user", "enable", "ann")
    assert knows("quite another one")
    assert [line.action for line in reversed(audit.read(store))] == rows(__file__, "actions_on_the_command_line")


def test_the_password_is_asked_for_twice(store: Store, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """On a terminal; two that differ are none, elsewhere it says how, and none is taken from the list of processes."""
    command = ["user", "add", "ann", "--store", store.name]
    given = iter([PASSWORD, "another", PASSWORD, PASSWORD])
    monkeypatch.setattr("getpass.getpass", lambda _prompt: next(given))
    monkeypatch.setattr("sys.stdin", io.StringIO())
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    assert main(command) == 2
    assert "differ" in capsys.readouterr().err
    assert main(command) == 0
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert main(command) == 2
    assert "--password-stdin" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*command, "--password", PASSWORD])


def test_settings_of_sign_in_are_whole_or_absent() -> None:
    """Half a configuration of OpenID Connect is an error that names what is missing."""
    whole = table(__file__, "settings_of_sign_in")
    found = load_oidc(whole)
    assert found.roles == {"rag-admins": "admin", "staff": "viewer"}
    assert "s3cret" not in repr(found)
    assert load_oidc({}) is None
    for missing in whole:
        with pytest.raises(SettingError, match=missing):
            load_oidc({key: value for key, value in whole.items() if key != missing})
    for key, value in rows(__file__, "wrong_settings_of_sign_in"):
        with pytest.raises(SettingError, match=key):
            load_oidc({**whole, key: value})
    for settings, message in rows(__file__, "wrong_settings_of_the_console"):
        with pytest.raises(SettingError, match=message):
            load_console(settings, {})


def test_the_console_reads_its_tables_of_the_settings_file(tmp_path: Path) -> None:
    """ragtrace.toml reaches the console and its sign-in; the environment wins over it, and arguments win over both."""
    file = tmp_path / "ragtrace.toml"
    file.write_text("\n".join(rows(__file__, "lines_of_a_settings_file")))
    environ = {"RAGTRACE_CONSOLE_IDLE_HOURS": "3", "RAGTRACE_CONSOLE_OIDC_CLIENT_SECRET": "s3cret"}
    assert load_console({"port": 8600, "host": None}, environ, file) == ConsoleSettings(
        port=8600, url="https://logs.example.org", idle_hours=3.0, unmasked_roles=frozenset({"admin"}), hosts=("logs",),
        oidc=Oidc("https://id.example.org", "c", "s3cret", "groups", {"staff": "viewer"}),
    )  # fmt: skip


def test_serve_refuses_wrong_settings_of_the_file(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    """`ragtrace serve` ends with a sentence that names the file, the value and what is valid."""
    file = tmp_path / "ragtrace.toml"
    monkeypatch.setenv("RAGTRACE_CONFIG", str(file))
    for settings, message in rows(__file__, "serve_refuses_wrong_settings_of_the_file"):
        file.write_text(settings)
        assert main(["serve", "--store", str(tmp_path / "logs.db"), "--port", "0"]) == 2
        assert message in capsys.readouterr().err


def test_signing_in_takes_no_thread_from_others(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many passwords are being verified, other requests are served meanwhile."""
    begun, go_on = threading.Semaphore(0), threading.Event()

    def slow(*_: object) -> None:
        begun.release()
        assert go_on.wait(60)

    monkeypatch.setattr(accounts, "verify", slow)
    settings = ConsoleSettings(proxies=("127.0.0.1",))  # so that each of them comes from an address of its own
    with served(console.store, settings) as url, ThreadPoolExecutor(60) as pool:

        def attempt(number: int) -> int:
            said = {"x-forwarded-for": f"192.0.2.{number}"}
            form = {"name": f"u{number}", "password": PASSWORD}
            return httpx.post(url + "/login", data=form, headers=said, timeout=60).status_code

        waiting = [pool.submit(attempt, number) for number in range(50)]
        try:
            assert begun.acquire(timeout=60)
            for _ in range(3):
                assert httpx.get(url + "/healthz", timeout=60).status_code == 200
                assert httpx.get(url + "/api/traces", timeout=60).status_code == 401
        finally:
            go_on.set()
        assert {answer.result() for answer in waiting} == {401}
