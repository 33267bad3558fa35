"""Secrets that everyday words announce, and code, public identifiers and default logins that look like them."""

from __future__ import annotations

import pytest

from ragtrace.text.privacy.checks import is_no_example
from ragtrace.text.privacy.find import find_secrets
from tests.text.leaks import is_found_and_masked

RANDOM = "k3Jx9LmQ2vT7" + "bR4nW8pY1cZ5"
HEX = "9c4f2e7a1b8d3f60" + "58e7c2a9d4b1f306"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("PW: dR7mTq20", "dR7mTq20"),
        ("The pw is fjord204x.", "fjord204x"),
        ("username nora, pw fjord204x", "fjord204x"),
        ("The router password was changed to dR7mTq20.", "dR7mTq20"),
        ("I have reset the password of the mailbox to Fjord!204", "Fjord!204"),
        ("Das Passwort wurde auf Fjord!204 geändert.", "Fjord!204"),
        ("Password → dR7mTq20", "dR7mTq20"),
        ("Kennwort - Fjord!204", "Fjord!204"),
        ("Wachtwoord \u2013 Fjord!204", "Fjord!204"),
        ("mysql -u root -pdR7mTq20 shop", "dR7mTq20"),
        ("sshpass -p 'dR7mTq20' ssh host", "dR7mTq20"),
        (f"The API key for the map service is {HEX}.", HEX),
        (f"token for the staging server: {RANDOM}", RANDOM),
        ("The gate code is 5538.", "5538"),
        ("Lockbox code: 7714", "7714"),
        ("OTP 730258", "730258"),
        ("PIN code 4829", "4829"),
        ("DB_PASSWORD=lighthouse", "lighthouse"),
        ("curl -d 'user=x&password=lighthouse' host", "lighthouse"),
        ("spring.datasource.password=lighthouse", "lighthouse"),
    ],
)
def test_secrets_that_everyday_words_announce_are_found_and_masked(text: str, secret: str) -> None:
    """The secret is reported, and the mask hides all of it."""
    assert is_found_and_masked(text, secret)


@pytest.mark.parametrize(
    "text",
    [
        "password = getpass()",
        "const password = useInput('');",
        "password = entered",
        "password: maxlength",
        "connect(password=self.password2)",
        "if pw == pw2: save()",
        "pass = load_pass2('db')",
        "The first pass: 12.5ms, boarding pass: B22west",
        "Reset password → Step 2",
        "The password was reset to the default.",
        "Do not use Fjord204 as your password.",
        "Login: https://portal.acme.io/user2",
        "Login with Google: OAuth2",
        "The WPA2 key is 8 to 63 characters.",
        "mysql -u root -p$DB_PASS2 shop",
        "mysql://wiki:wiki@db/wiki",
        "postgres://postgres:mysecretpassword@db/app",
        "redis://:redis@localhost:6379/0",
        "ftp://anonymous:anonymous@ftp.acme.io",
        "http://maria:sunflower@localhost:8080",
        "client_id: 91c0b7d2-55ae-4c02-8d6f-1fe90a2b7c34",
        "The OAuth client ID is 0oa3kq7v2XyTzW9bR5d7.",
        "key: 91c0b7d2-55ae-4c02-8d6f-1fe90a2b7c34",
        'key: "reports.weekly.orders_2023_q4"',
        "Key: TLS_CHACHA20_POLY1305_SHA256",
        "key: session:8841:cart:v2",
        "Flag key: show-banner-2023-11-v2",
        "authentication: SCRAM-SHA-512-PLUS",
        "token: bert-base-uncased-30522",
        f"pk_live_{RANDOM} goes into the page.",
        f"STRIPE_KEY=pk_test_{RANDOM}",
        f"The key for the cache entry is {RANDOM}",
        "The error code for the door is 4417.",
        "The color code of the door is 7016.",
        "The building code: 2021",
        "The code for the gate is 4 digits long.",
        "ZIP code of the apartment: 90210",
        "1984 is the code name.",
        "from transformers import AutoTokenizer, Lark7ForCausalLM",
        "isinstance(private_key, Ed25519PrivateKey)",
        "def split(self, unk_token, max_input_chars=100): ...",
        "token: https://docs.acme.io/rfc6749.html",
        "proxy_pass http://127.0.0.1:8400;",
        '{"user": user, "password": password}',
        '{"password": "string?"}',
        "Use the password to verify. Its password: Prevents external access",
        "Author-email: nora.fjord88@acme.io",
    ],
)
def test_code_and_public_identifiers_are_no_secrets(text: str) -> None:
    """Calls, fields, default logins, identifiers of clients, names of entries and codes of goods pass."""
    assert find_secrets(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "postgres://app:s3cr3tPw@localhost/x",
        "mysql://root:Fjord204@127.0.0.1/x",
        "http://maria:sunflower@files.acme.io/",
        f"ACME_CLIENT_ID={RANDOM}",
        "HEROKU_API_KEY=91c0b7d2-55ae-4c02-8d6f-1fe90a2b7c34",
        "client_secret: fjord-2042-lamp-winter",
        f"live_{RANDOM}",
        "password: kx94Tq20(x)9f",
        "{user: nora, password: fjord204}",
        "Set the password to lighthouse.",
        f"Authorization: {RANDOM}",
        "license key: QWER-4821-TZUI-9035",
        "xoxb-123456789012-1234567890123-" + RANDOM,
    ],
)
def test_what_is_close_to_them_stays_a_secret(text: str) -> None:
    """A drawn password on the own machine, UUIDs under the name of an API key, and long keys with "12345" in them."""
    assert find_secrets(text)


def test_a_series_makes_an_example_of_a_value_that_has_little_else() -> None:
    """Series of digits and letters are examples, unless a long random rest follows."""
    assert not is_no_example("sk-1234567890abcdefghij")
    assert not is_no_example("ghp_abcDEF123456ghiJKL789mnoPQRstu")
    assert is_no_example("xoxb-123456789012-" + RANDOM)


@pytest.mark.parametrize("text", ["login: a/", "code for the door ", "is the password ", "1234 is your ", "mysql -p",
                                  "key for the x ", "wlan a key ", "password - ", "key:abc.def-1"])  # fmt: skip
def test_searching_ends_on_long_repetitions(text: str) -> None:
    """Announcing words without end are searched before the test's time is up."""
    find_secrets(text * (60_000 // len(text)))
