"""Sign-in with a real provider of OpenID Connect, over real sockets; and with one that lies."""

import logging
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2 as httpx
import pytest
from starlette.testclient import TestClient

from ragtrace.console import accounts, audit, oidc
from ragtrace.console.chatlogs.store import Store
from ragtrace.console.options import ConsoleSettings, Oidc
from tests.console.conftest import ADDRESS, PASSWORD, Console
from tests.console.provider import CLIENT, SECRET, Provider, provided
from tests.row_files import rows


@pytest.fixture
def provider() -> Iterator[Provider]:
    with provided() as made:
        yield made


@pytest.fixture
def sso(store: Store, provider: Provider) -> Console:
    roles = {"staff": "viewer", "judges": "reviewer", "bosses": "admin"}
    return Console(store, ConsoleSettings(oidc=Oidc(provider.issuer, CLIENT, SECRET, "groups", roles)))


def way_back(browser: TestClient, next: str = "/traces") -> str:
    """The address to which the provider sends a browser that was sent there."""
    leaving = browser.get("/login/oidc", params={"next": next})
    assert leaving.status_code == 302, leaving.text
    there = httpx.get(leaving.headers["location"])
    assert there.status_code == 302, there.text
    return there.headers["location"]


def go(browser: TestClient, next: str = "/traces") -> Any:
    """Through the provider and back, as a browser does."""
    return browser.get(way_back(browser, next))


def names(console: Console) -> list[str]:
    return [account.name for account in accounts.everybody(console.store)]


def test_a_user_of_the_provider_gets_in(sso: Console, provider: Provider) -> None:
    """With PKCE, state and nonce, which this provider demands; with their group's role; back to where they were."""
    browser = sso.stranger()
    back = go(browser, "/traces?q=a")
    assert (back.status_code, back.headers["location"]) == (303, "/traces?q=a")
    assert browser.get("/api/me").json() == {"name": "olga", "role": "viewer", "via": "session", "scopes": []}
    assert "ragtrace-oidc" not in browser.cookies
    line = audit.read(sso.store)[0]
    assert (line.user, line.action, line.detail) == ("olga", "login", {"new": True, "by": "oidc", "role": "viewer"})


def test_the_provider_gives_and_takes_roles(sso: Console, provider: Provider) -> None:
    """At each sign-in the highest role of the groups; who has none, or is disabled here, is not let in."""
    for groups, role in ((["judges", "staff"], "reviewer"), (["bosses", "x"], "admin"), (["staff"], "viewer")):
        provider.user["groups"] = groups
        browser = sso.stranger()
        go(browser)
        assert browser.get("/api/me").json()["role"] == role
    accounts.set_disabled(sso.store, "olga", True)
    olaf: dict[str, Any] = {"sub": "u-2", "preferred_username": "olaf"}
    for user in ({}, *(olaf | {"groups": groups} for groups in ([], ["others"], None, "nobody", {"staff": 1}))):
        provider.user |= user
        browser = sso.stranger()
        assert (go(browser).status_code, browser.get("/api/me").status_code) == (403, 401)
    assert names(sso) == ["olga"]


def test_a_name_is_not_an_identity(sso: Console, provider: Provider) -> None:
    """Somebody at the provider who is called like a user here gets an account of their own, not that one."""
    accounts.add(sso.store, "olga", "admin", PASSWORD)
    browser = sso.stranger()
    go(browser)
    me = browser.get("/api/me").json()
    assert me["name"].startswith("olga-")
    assert me["role"] == "viewer"
    provider.user = {"sub": "u-9", "preferred_username": "local", "groups": ["staff"]}
    other = sso.stranger()
    go(other)
    assert other.get("/api/me").json()["name"].startswith("local-")


@pytest.mark.parametrize("wrong", rows(__file__, "a_wrong_id_token_keeps_one_out"), ids=str)
def test_a_wrong_id_token_keeps_one_out(sso: Console, provider: Provider, wrong: Any, caplog: Any) -> None:
    """Another's, forged, unsigned, old or no token: nobody is signed in, and nothing of it is shown or logged."""
    provider.algorithms = ["none", "HS256", "RS256"]
    provider.wrong = wrong
    browser = sso.stranger()
    with caplog.at_level(logging.INFO):
        back = go(browser)
    assert back.status_code in (401, 502)
    assert browser.get("/api/me").status_code == 401
    assert "ragtrace" not in browser.cookies
    assert "<script>alert" not in back.text
    assert not [secret for secret in ("<script>", SECRET) if secret in caplog.text]
    assert (audit.read(sso.store)[0].action, names(sso)) == ("login.failed", [])


def test_a_provider_that_is_another_or_away_is_an_error_with_a_way_out(sso: Console, provider: Provider) -> None:
    """Its description must name the issuer that was configured; else 502 and a page, not a traceback."""
    provider.wrong = {"described": "https://evil.example"}
    assert sso.stranger().get("/login/oidc").status_code == 502
    provider.wrong = {}
    assert sso.stranger().get("/login/oidc").status_code == 302
    broken = sso.with_settings(oidc=Oidc("http://127.0.0.1:1", CLIENT, SECRET, "", {"*": "viewer"}))
    answer = broken.stranger().get("/login/oidc")
    assert answer.status_code == 502
    assert "Traceback" not in answer.text


def test_the_way_back_belongs_to_the_browser_that_left(sso: Console) -> None:
    """Somebody else's way back (login CSRF), a second use, a made-up state or cookie: none of them signs in."""
    mine, victim = sso.stranger(), sso.stranger()
    back = way_back(mine)
    assert victim.get(back).status_code == 400
    victim.get("/login/oidc")
    assert victim.get(back).status_code == 401
    victim.cookies.clear()
    victim.cookies.set("ragtrace-oidc", "gAAAAABmade-up")
    assert victim.get(back).status_code == 400
    sealed = mine.cookies["ragtrace-oidc"]
    assert mine.get(back).status_code == 303
    mine.cookies.clear()
    mine.cookies.set("ragtrace-oidc", sealed)
    assert mine.get(back).status_code != 303, "the code was used before"
    assert mine.get("/login/oidc/callback").status_code in (400, 401)
    assert mine.get("/login/oidc/callback?state=x&code=y").status_code in (400, 401)


def test_the_cookie_of_the_way_tells_nothing(sso: Console) -> None:
    """State, nonce and PKCE's verifier are sealed in it, it is HttpOnly, and it leads to the address people type."""
    for base, start, end in ((ADDRESS, "", ""), ("https://logs.example.org", "__Host-", "; Secure")):
        console = sso if base == ADDRESS else sso.with_settings(url=base)
        leaving = console.stranger(base).get("/login/oidc")
        query, cookie = parse_qs(urlsplit(leaving.headers["location"]).query), leaving.headers["set-cookie"]
        assert query["redirect_uri"] == [f"{base}/login/oidc/callback"]
        assert re.match(f"{start}ragtrace-oidc=.*; HttpOnly; .*; SameSite=lax{end}", cookie)
        assert not [name for name in ("state", "nonce") if query[name][0] in cookie]


def test_the_login_page_offers_it_where_there_is_a_provider(sso: Console) -> None:
    """As a link: a form may not lead to another site. Without a provider there is no such way, but 404."""
    assert 'href="/login/oidc?next=' in sso.stranger().get("/login?next=/traces").text
    sso.add("rob", "reviewer")
    stranger = sso.with_settings(oidc=None).stranger()
    assert [stranger.get(f"/login/oidc{path}").status_code for path in ("", "/callback")] == [404, 404]
    assert "/login/oidc" not in stranger.get("/login").text


@pytest.mark.parametrize(("claim", "roles", "claims", "role"), rows(__file__, "roles_are_read_from_nested_claims"))
def test_roles_are_read_from_nested_claims(claim: str, roles: dict[str, str], claims: Any, role: str | None) -> None:
    """`realm_access.roles` leads into an object, as Keycloak has it."""
    assert oidc.role_of(claims, Oidc("https://i", "c", "s", claim, roles)) == role
