"""What people with bad intentions send. Pages that show it are looked at in a browser by `test_pages`."""

import gzip
import io
import json
import logging
import re
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fastapi.routing import APIRoute
from sqlalchemy import inspect, select
from sqlalchemy.exc import OperationalError
from starlette.testclient import TestClient

from ragtrace.console import attempts, guards, tokens
from ragtrace.console import visible_content as console_content
from ragtrace.console.chatlogs import schema
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.chatlogs.store_types import Review, Verdict
from ragtrace.console.review.feedback import add_feedback
from ragtrace.console.review.queue import submit
from ragtrace.errors import StoreError
from ragtrace.records import Document, Evaluation, Evidence, Facts, Feedback, Score
from ragtrace.testing import make_trace
from tests.console.conftest import (
    ADDRESS,
    EVIL,
    PASSWORD,
    SECRETS,
    STARTED,
    TRACE,
    Console,
    both_databases,
    faithfulness,
)
from tests.console.test_pages import checked
from tests.row_files import rows, table

# The least role for every route. A route that is not here fails `test_no_route_is_forgotten`: decide who may use it.
EVERYBODY, SIGNED_IN, VIEWER, REVIEWER, ADMIN = "everybody", "signed in", "viewer", "reviewer", "admin"
NEEDS = {route: role for role, routes in table(__file__, "needs").items() for route in routes}
SCOPES = {"POST /api/feedback": "feedback", VIEWER: "read", REVIEWER: "review", ADMIN: "admin"}
PARTS = {"trace_id": TRACE, **table(__file__, "parts_of_paths")}
ROLES = {"stranger": (EVERYBODY,), "viewer": (EVERYBODY, SIGNED_IN, VIEWER)}
ROLES["reviewer"] = (*ROLES["viewer"], REVIEWER)
ROLES["admin"] = (*ROLES["reviewer"], ADMIN)
NAMES = {"viewer": "vera", "reviewer": "rob", "admin": "ada"}


def routes(found: Any) -> Iterator[str]:
    """Every route there is, as METHOD /path."""
    for route in found:
        if hasattr(route, "original_router"):  # FastAPI's way to include one, of late
            yield from routes(route.original_router.routes)
        elif isinstance(route, APIRoute):
            yield from (f"{method} {route.path_format}" for method in route.methods)


def ask(browser: TestClient, route: str, **options: Any) -> Any:
    method, path = route.split(" ")
    body: dict[str, Any] = {}
    if method in ("POST", "PATCH"):
        body = {"json": {}} if path.startswith("/api/") else {"data": {"x": "y"}}
    return browser.request(method, re.sub(r"\{(\w+)\}", lambda m: PARTS[m[1]], path), **{**body, **options})


def test_no_route_is_forgotten(console: Console) -> None:
    """Whoever adds a route says in NEEDS who may use it."""
    assert set(routes(console.app.routes)) == set(NEEDS)


@pytest.mark.parametrize("who", ROLES)
def test_every_route_is_for_its_roles_alone(evil: Console, who: str) -> None:
    """By session: each route lets in whoever has its role or a higher one, and nobody else."""
    browser = evil.stranger() if who == "stranger" else evil.signed_in(NAMES[who])
    wrong = []
    for route, needed in NEEDS.items():
        if route in ("POST /logout", "POST /login"):
            continue
        status = ask(browser, route).status_code
        page = status == 303 and not route.split()[1].startswith("/api")
        refused = status in (401, 403) or (page and who == "stranger" and needed != EVERYBODY)
        if route == "POST /api/me/password":
            refused = status == 401
        if refused != (needed not in ROLES[who]) or status >= 500:
            wrong.append((route, status))
    assert wrong == []


@pytest.mark.parametrize("scope", ["read", "feedback", "review", "admin"])
def test_every_route_is_for_its_scope_alone(evil: Console, scope: str) -> None:
    """By an admin's token: routes of the API for its scope, and no pages."""
    program = evil.program("ada", scope)
    wrong = []
    for route, needed in NEEDS.items():
        if needed == EVERYBODY:
            continue
        status = ask(program, route).status_code
        if route.split()[1].startswith("/api/"):
            right = SCOPES.get(route, SCOPES.get(needed, scope)) == scope
            allowed = status not in (401, 403) or route == "POST /api/me/password"
        else:
            right, allowed = False, status not in (303, 401, 403)
        if allowed != right or status >= 500:
            wrong.append((route, status))
    assert wrong == []


def changing() -> list[str]:
    return [route for route, needed in NEEDS.items() if not route.startswith(("GET", "HEAD")) and needed != EVERYBODY]


@both_databases
def test_nothing_changes_without_the_sessions_token(evil: Console) -> None:
    """Each change is refused without the CSRF token, or with another one, in the field and in the header."""
    browser, other = evil.signed_in("ada"), evil.signed_in("rob")
    del browser.headers["x-csrf-token"]
    for route in changing():
        for token in (None, "", "x", evil.csrf(other), "\u00e4"):
            headers = {} if token is None else {"x-csrf-token": token.encode()}
            assert ask(browser, route, headers=headers).status_code == 403, (route, token)
        if not route.split()[1].startswith("/api/"):
            assert ask(browser, route, data={"csrf": evil.csrf(other)}).status_code == 403, route
            assert ask(browser, route, files={"csrf": ("f", evil.csrf(browser))}).status_code == 403, route
    assert browser.get("/api/me").status_code == 200, "nobody was logged out"


@pytest.mark.parametrize("headers", rows(__file__, "other_sites_change_nothing_even_with_the_token"), ids=str)
def test_other_sites_change_nothing_even_with_the_token(console: Console, headers: dict[str, str]) -> None:
    """The login form included: nobody is signed in as somebody else by a page elsewhere."""
    browser = console.signed_in("ada")
    for route in changing():
        assert ask(browser, route, headers=headers).status_code == 403, route
    login = console.stranger().post("/login", data={"name": "rob", "password": PASSWORD}, headers=headers)
    assert login.status_code == 403
    assert "set-cookie" not in login.headers


def test_ones_own_pages_may(console: Console) -> None:
    behind = console.with_settings(url="https://logs.example.org")
    for origin in (ADDRESS, "https://logs.example.org", "https://LOGS.example.org:443"):
        assert behind.signed_in("rob").post("/logout", headers={"origin": origin}).status_code == 303, origin


def test_no_answer_lets_other_sites_read(console: Console) -> None:
    """No CORS header on anything, preflights included."""
    browser = console.signed_in("ada")
    for method in ("GET", "OPTIONS", "POST"):
        headers = {"origin": "https://evil.example", "access-control-request-method": "POST"}
        answer = browser.request(method, "/api/traces", headers=headers)
        assert not [name for name in answer.headers if name.startswith("access-control")]
        assert method == "GET" or answer.status_code in (403, 405)


@pytest.mark.parametrize("planted", [*rows(__file__, "planted_cookies"), "x" * 5_000])
def test_a_planted_cookie_is_never_a_session(console: Console, planted: str) -> None:
    """Session fixation: the id after signing in is a new one, and the planted one stays worthless."""
    form, headers = {"name": "rob", "password": PASSWORD}, {"cookie": f"ragtrace={planted}"}
    answer = console.stranger().post("/login", data=form, headers=headers)
    assert answer.status_code == 303
    assert answer.cookies["ragtrace"] != planted
    assert console.stranger().get("/api/me", headers=headers).status_code == 401


def test_signing_in_again_ends_the_session_before(console: Console) -> None:
    """An id that somebody learned before is worth nothing after."""
    browser = console.signed_in("rob")
    before = browser.cookies["ragtrace"]
    browser.post("/login", data={"name": "rob", "password": PASSWORD})
    assert browser.cookies["ragtrace"] != before
    browser.cookies.clear()
    assert browser.get("/api/me", headers={"cookie": f"ragtrace={before}"}).status_code == 401


def test_pages_hold_no_script_from_chat_logs(evil: Console) -> None:
    """Every page that can show the evil trace has no markup but ours."""
    submit(evil.store, TRACE, Review(TRACE, (Verdict("faithfulness", "fail"),), EVIL, EVIL), evil.user("rob"))
    browser = evil.signed_in("ada")
    browser.post("/views", data={"name": EVIL, "query": "q=1"})
    paths = [path for method, path in (route.split() for route in NEEDS) if method == "GET" and "/api/" not in path]
    shown = [re.sub(r"\{(\w+)\}", lambda m: PARTS[m[1]], path) for path in paths if "oidc" not in path]
    shown += [f"/traces?q={quote(EVIL)}", f"/traces?model={quote(EVIL)}", f"/review?trace={TRACE}", f"/{quote(EVIL)}"]
    shown += [f"/evaluators/{quote(EVIL)}", f"/audit?who={quote(EVIL)}", f"/login?next=/{quote(EVIL)}"]
    for path in shown:
        answer = browser.get(path)
        assert answer.status_code in (200, 303, 404, 422), (path, answer.status_code)
        checked(answer.text)
        assert "772883" not in answer.text, path  # what a template engine makes of {{811*953}}


MARK = "mark.of"
"""Each planted address begins like this, so that an unmasked one is recognised, whichever field it was in."""


def marked(field: str) -> str:
    return f"{MARK}.{field}@acme.io"


def marked_evaluation() -> Evaluation:
    """A request with an address in every field that holds content or names a person."""
    metadata = {"owner": marked("metadata"), marked("metadata_key"): 1, "deep": {"list": [marked("deep_metadata")]}}
    facts = Facts(
        user_id=marked("user_id"), session_id=marked("session_id"), name=marked("name"), tags=(marked("tag"),),
        steps=({"tool": "search", "args": marked("step")},),
        spans=({"name": marked("span"), "duration": 1.0, "error": marked("span_error")},),
    )  # fmt: skip
    trace = make_trace(
        query=f"Who is {marked('query')}?", answer=f"It is {marked('answer')}.",
        documents=[Document(marked("chunk_id"), f"See {marked('chunk')}.", 0.5, metadata)],
        reference=f"It is {marked('reference')}.", error=f"not allowed for {marked('error')}",
        attributes={"note": marked("attribute"), "user_name": "Jane " + marked("user_name")},
        trace_id=int(TRACE, 16), started=STARTED, facts=facts,
    )  # fmt: skip
    evidence = Evidence(0, 5, "unsupported", 0.1, marked("evidence"), 0, 0, 3)
    score = Score("faithfulness", 0.2, "fail", f"{marked('explanation')} is not there", evidence=(evidence,))
    return Evaluation(trace, (score,), cause="generation")


@pytest.fixture
def marked_console(console: Console) -> Console:
    """The marked request with feedback, reviews by rob and ada, and a saved view of rob's."""
    store = console.store
    store.write([marked_evaluation()], [faithfulness])
    add_feedback(store, Feedback(TRACE, -1, f"{marked('feedback')} is wrong", marked("source")))
    review = Review(TRACE, (Verdict("faithfulness", "fail"),), marked("comment"), marked("corrected"))
    for name in ("rob", "ada"):
        submit(store, TRACE, review, console.user(name))
    view = {"name": marked("view"), "query": f"q={marked('view_query')}"}
    assert console.signed_in("rob").post("/api/views", json=view).status_code == 201
    return console


def marks(browser: TestClient) -> Iterator[tuple[str, set[str]]]:
    """Each route, and the fields whose mark is in what it gives out, unpacked."""
    queries = table(__file__, "queries_of_routes")
    for route, query in [(name, query) for name in NEEDS for query in queries.get(name, ("",))]:
        if route == "POST /logout":
            continue
        answer = ask(browser, route + query)
        assert answer.status_code < 500, route
        content = answer.content
        if query.endswith("gz") and answer.status_code == 200:
            content = gzip.decompress(content)
        if query.endswith("parquet") and answer.status_code == 200:
            reader = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed: pip install pyarrow")
            content = json.dumps(reader.read_table(io.BytesIO(content)).to_pylist(), default=str).encode()
        yield route + query, set(re.findall(re.escape(MARK) + r"\.(\w+)", content.decode()))


@pytest.mark.parametrize("name", ["vera", "rob", "ada"])
def test_no_route_gives_personal_data_to_a_role_that_may_not_read_it(marked_console: Console, name: str) -> None:
    """Whatever the field and the route: a role that may not read personal data never receives it, even an admin."""
    own = {"rob": {"view", "view_query"}}.get(name, set())
    strict = marked_console.with_settings(unmasked_roles=frozenset())
    assert {path: fields - own for path, fields in marks(strict.signed_in(name)) if fields - own} == {}


def test_each_marked_field_is_shown_to_a_role_that_may_read_it(marked_console: Console) -> None:
    """The walk of the test above sees each field: an admin receives all of them but another person's view."""
    shown = set().union(*(fields for _, fields in marks(marked_console.signed_in("ada"))))
    assert shown == set(table(__file__, "marked_fields"))


def test_content_is_read_through_one_door() -> None:
    """Only `ragtrace.console.visible_content` reads traces, reviews and exports from the store."""
    raw = re.compile(r"\b(store(_of\(request\))?\.get\(|search\.find\(|dataset_export\.export\()|\.unseal\(")
    folder = Path(console_content.__file__).parent
    shown = [path for name in (".", "api", "pages") for path in (folder / name).glob("*.py")]
    assert [path.name for path in shown if raw.search(path.read_text("utf-8"))] == ["visible_content.py"]


def test_masks_leave_the_evidence_where_it_was(evil: Console) -> None:
    """What a viewer sees marked is the same sentence and the same passage."""
    for name in ("vera", "rob"):
        trace = evil.signed_in(name).get(f"/api/traces/{TRACE}").json()
        one = trace["scores"][0]["evidence"][0]
        assert trace["answer"][one["start"] : one["end"]] == "It is not so."
        chunk = trace["documents"][one["document_rank"]]["content"]
        assert chunk[one["document_start"] : one["document_end"]] == "It is not so."


@pytest.mark.parametrize("asked", [{"user_id": "jane.doe@example.org"}, {"session_id": "s"}, {"tenant": "t"}])
def test_masked_roles_cannot_list_a_user_a_session_or_a_tenant(evil: Console, asked: dict[str, str]) -> None:
    """A list of one person's requests would tell who wrote them."""
    for name, path, status in (("vera", "/api/traces", 403), ("vera", "/traces", 403), ("rob", "/api/traces", 200)):
        assert evil.signed_in(name).get(path, params=asked).status_code == status


@pytest.mark.parametrize("text", rows(__file__, "words_under_a_mask"))
def test_a_word_under_a_mask_finds_nothing(evil: Console, text: str) -> None:
    """Neither rows nor a number of matches nor a cursor tell a masked role that the word is there."""
    browser = evil.signed_in("vera")
    for limit in ("50", "1"):
        answer = browser.get("/api/traces", params={"text": text, "limit": limit})
        assert answer.json() == {"rows": [], "after": None, "total": None}
    link = f"/traces/{evil.store.get(TRACE).id}"  # type: ignore[union-attr]
    assert link in browser.get("/traces").text
    assert link not in browser.get("/traces", params={"q": text}).text


@pytest.mark.parametrize("text", ["account", "BELONGS", '"it is not so"', "alert account"])
def test_a_word_beside_a_mask_finds_its_trace(evil: Console, text: str) -> None:
    """What a masked role reads it can search for, as everybody can."""
    rows = [evil.signed_in(name).get("/api/traces", params={"text": text}).json()["rows"] for name in ("vera", "rob")]
    assert len(rows[0]) == len(rows[1]) == 10


def test_searches_in_masked_texts_are_limited(evil: Console) -> None:
    """Words cannot be tried out: after 200 searches a masked role waits for a quarter of an hour at most."""
    vera = evil.signed_in("vera")
    user = evil.user("vera")
    for _ in range(attempts.MASKED_SEARCHES - 1):
        assert attempts.begin_search(evil.store, user) == 0
    assert vera.get("/api/traces", params={"text": "account"}).status_code == 200
    answer = vera.get("/api/traces", params={"text": "account"})
    assert answer.status_code == 429
    assert 0 < int(answer.headers["retry-after"]) <= attempts.WINDOW
    assert vera.get("/api/traces").status_code == 200
    assert evil.signed_in("rob").get("/api/traces", params={"text": "account"}).status_code == 200
    assert attempts.begin_search(evil.store, user, time.time() + attempts.WINDOW + 1) == 0


INJECTIONS = table(__file__, "injections")
FIELDS = table(__file__, "fields")


@both_databases
def test_sql_in_a_filter_is_a_text_like_any_other(evil: Console) -> None:
    """In every filter of the API: no error of the database, no row that the filter does not name, no table gone."""
    browser = evil.signed_in("ada")
    tables = set(inspect(evil.store.engine).get_table_names())
    for name, value in product(FIELDS, INJECTIONS):
        answer = browser.get("/api/traces", params={name: value})
        assert answer.status_code in (200, 422), (name, value, answer.text)
        if answer.status_code == 200 and name != "text":
            assert answer.json()["rows"] == [], (name, value)
        assert "argon2" not in answer.text
    assert set(inspect(evil.store.engine).get_table_names()) == tables
    assert len(browser.get("/api/traces").json()["rows"]) == 10


def test_sql_in_the_filters_of_pages_and_elsewhere(evil: Console) -> None:
    """The same of pages, of the audit log, of names in addresses and in bodies."""
    browser = evil.signed_in("ada")
    for value in INJECTIONS[:6]:
        for name in (*FIELDS, "q", "range"):
            assert browser.get("/traces", params={name: value}).status_code == 200, (name, value)
        for path in ("/api/audit", "/audit"):
            assert browser.get(path, params={"action": value}).status_code in (200, 422), value
        for path in (f"/evaluators/{quote(value, '')}", f"/api/evaluators/{quote(value, '')}/consequences"):
            assert browser.get(path).status_code in (404, 422), value
        assert browser.get("/api/overview", params={"app": value}).status_code in (200, 422)
        assert browser.get("/api/agreement", params={"evaluator": value}).status_code in (200, 422)
        assert browser.post("/login", data={"name": value, "password": value}).status_code in (401, 422, 429)
        assert browser.post("/api/views", json={"name": value or "x", "query": value}).status_code in (201, 422)
    assert browser.get("/api/traces").status_code == 200


@pytest.mark.parametrize("path", rows(__file__, "paths_outside"))
def test_no_path_leads_out(evil: Console, path: str) -> None:
    """Static files, ids and names of exports: nothing but what is meant to be there, and no error of the server."""
    answer = evil.signed_in("rob").get(path)
    assert answer.status_code in (400, 404, 405, 422, 307) or answer.json() == []
    assert not re.search(r"root:|def create_app|\[project\]", answer.text)
    if answer.status_code == 307:
        assert answer.headers["location"].startswith(ADDRESS + "/")


@pytest.mark.parametrize("host", rows(__file__, "it_does_not_answer_to_other_names"))
def test_it_does_not_answer_to_other_names(store: Store, host: str) -> None:
    """DNS rebinding, and links built from a made-up Host: 421 without a word of content, also when it is open."""
    answer = Console(store).stranger().get("/api/traces", headers={"host": host})
    assert answer.status_code == 421
    assert host == "" or host not in answer.text


def test_the_names_it_answers_to(console: Console) -> None:
    """localhost, loopback addresses, those of the settings url and hosts, in any case and with any port."""
    outside = console.with_settings(url="https://logs.example.org", hosts=("other",), host="0.0.0.0")
    for answering, hosts in zip((console, outside), table(__file__, "names_it_answers_to"), strict=True):
        for host in hosts:
            assert answering.stranger().get("/healthz", headers={"host": host}).status_code == 200, host
    assert outside.stranger().get("/healthz", headers={"host": "third"}).status_code == 421


def test_every_answer_has_the_headers(evil: Console) -> None:
    """Pages, API, errors, redirects and static files."""
    browser = evil.signed_in("ada")
    for method, path in rows(__file__, "requests_of_each_kind"):
        answer = browser.request(method, path)
        for name, value in guards.HEADERS.items():
            assert answer.headers[name] == value, (path, name)
        cached = "no-cache" if path.startswith("/static") else "no-store"
        assert answer.headers["cache-control"] == cached
        assert "server" not in answer.headers
    refused = browser.get("/traces", headers={"host": "evil.example"})
    assert refused.headers["content-security-policy"] == "; ".join(rows(__file__, "content_security_policy"))


def test_errors_say_nothing_of_the_server(evil: Console, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    """What nobody expected is a 500; the log has type and place, not the message, which may quote a chat log."""
    monkeypatch.setattr(Store, "get", lambda *_: (_ for _ in ()).throw(RuntimeError("jane.doe@example.org said so")))
    browser = evil.signed_in("rob")
    for path in (f"/api/traces/{TRACE}", f"/traces/{TRACE}"):
        answer = browser.get(path)
        assert answer.status_code == 500
        assert not re.search("jane|Traceback|RuntimeError", answer.text)
    assert "RuntimeError at" in caplog.text
    assert "test_attacks.py" in caplog.text
    assert "jane" not in caplog.text


@pytest.mark.parametrize(
    "error", [StoreError("the store /secret/path: gone"), OperationalError("SELECT x", {}, OSError())]
)
def test_a_database_that_is_away_is_503(evil: Console, monkeypatch: Any, error: Exception, caplog: Any) -> None:
    """With a time to come back; on pages, in the API and at /healthz; without the database's address."""
    browser = evil.signed_in("rob")
    monkeypatch.setattr(Store, "reading", lambda _store: (_ for _ in ()).throw(error))
    for path in ("/api/traces", "/traces", "/healthz", "/login"):
        answer = browser.get(path)
        assert answer.status_code == 503, path
        assert answer.headers["retry-after"] == "5"
        assert "secret" not in answer.text
    assert "SELECT" not in caplog.text


def test_mistakes_are_not_echoed(evil: Console) -> None:
    """What was sent and is wrong is named by its place, not repeated."""
    browser, json_type = evil.signed_in("ada"), {"content-type": "application/json"}
    answer = browser.post("/api/users", json=dict.fromkeys(("name", "role"), "secret words") | {"password": "secret"})
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    assert "secret" not in answer.text
    assert {error["where"] for error in answer.json()["errors"]} == {"body.name", "body.role", "body.password"}
    broken = browser.post("/api/users", content=b'{"name": "secret', headers=json_type)
    assert broken.status_code == 422
    assert "secret" not in broken.text
    assert browser.post("/api/users", content=b"[" * 100_000, headers=json_type).status_code in (400, 422)


def test_no_secret_and_no_content_in_any_log(evil: Console, caplog: pytest.LogCaptureFixture) -> None:
    """Tokens, cookies, passwords, searches and texts, wherever they are put: no logger has them."""
    _, token = tokens.add(evil.store, "t", "rob", ["read"])
    with caplog.at_level(logging.DEBUG):
        logging.getLogger("httpx2").setLevel(logging.WARNING)
        browser = evil.signed_in("rob")
        program = evil.stranger()
        program.get("/api/traces", headers={"authorization": f"Bearer {token}"})
        program.get(f"/api/traces?text=verysecret&token={token}")
        program.get(f"/api/{token}/x")
        program.get(f"/traces/{token}?q=verysecret")
        program.post("/login", data={"name": "verysecret", "password": "verysecret"})
        browser.get("/traces?q=verysecret")
        browser.get(f"/api/traces/{TRACE}")
        browser.post("/api/review/submit", json={"trace_id": TRACE, "comment": "verysecret", "verdicts": {}})
    ours = "\n".join(record.getMessage() for record in caplog.records if not record.name.startswith("httpx"))
    assert "GET /api/traces/{trace_id} 200" in ours
    for secret in (token, token[3:], "verysecret", PASSWORD, browser.cookies["ragtrace"], evil.csrf(browser), *SECRETS):
        assert secret not in ours
    kept = [evil.store.rows(select(each)) for each in (schema.attempts, schema.audit)]
    assert all(kept)
    assert "verysecret" not in str(kept)


def test_a_body_without_a_length_is_read_up_to_the_limit(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """A million bytes, and twenty for labels; then 413. A length that is no number is 413 before the first byte."""
    monkeypatch.setattr(guards, "BODY_BYTES", 10_000)
    monkeypatch.setattr(guards, "IMPORT_BYTES", 50_000)
    small = Console(console.store).signed_in("ada")

    def parts(count: int) -> Iterator[bytes]:
        yield from [b" " * 1_000] * count

    for path, kind, most in rows(__file__, "limits_of_bodies"):
        headers = {"content-type": kind}
        assert small.post(path, content=parts(most - 1), headers=headers).status_code != 413, path
        assert small.post(path, content=parts(most + 1), headers=headers).status_code == 413, path
        for length in ("100000000", "-1", "1e9", "99999999999999999999999", "x"):
            answer = small.post(path, content=b"{}", headers={**headers, "content-length": length})
            assert (answer.status_code, answer.headers["connection"]) == (413, "close"), length


@both_databases
def test_values_have_bounds(evil: Console) -> None:
    browser = evil.signed_in("ada")
    for query in rows(__file__, "queries_beyond_bounds"):
        assert browser.get("/api/traces", params=query).status_code == 422, query
    for body in rows(__file__, "feedback_beyond_bounds"):
        sent = json.dumps({"trace_id": TRACE, **body}).encode()
        answer = browser.post("/api/feedback", content=sent, headers={"content-type": "application/json"})
        assert answer.status_code == 422, body
    many = {"trace_id": TRACE, "verdicts": {f"e{i}": "pass" for i in range(101)}}
    assert browser.post("/api/review/submit", json=many).status_code == 422


@pytest.mark.parametrize(("method", "path", "form"), rows(__file__, "numbers_that_no_database_takes"))
def test_a_number_that_no_database_takes_is_refused(evil: Console, method: str, path: str, form: Any) -> None:
    """Ids and numbers of pages have bounds as those of the API have."""
    assert evil.signed_in("ada").request(method, path, data=form or None).status_code == 422
