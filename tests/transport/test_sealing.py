"""Sealed payloads and the file of their keys."""

import os
import stat
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

import ragtrace
from ragtrace.cli import main
from ragtrace.errors import SettingError
from ragtrace.live.doctor import examine
from ragtrace.settings import load
from ragtrace.worker.service import Worker
from ragtrace.worker.worker_settings import load_worker
from ragtrace_brokers.key_file import parse_day_keys, today
from ragtrace_brokers.message import HEADER_KEY_ID, HEADER_PROBABILITY, HEADER_SCHEMA, UnreadableMessageError
from ragtrace_brokers.seal import TransportKeys, payload_of
from tests.row_files import rows
from tests.transport.workers import message, write_keys
from tests.worker.running import wait_for

_DAY = "2026-01-01"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with a key of one day."""
    write_keys(tmp_path / "keys", _DAY)
    return tmp_path / "keys"


def test_a_sealed_payload_opens_for_its_trace_and_headers_alone(file: Path) -> None:
    """With another trace, schema, probability, day or key, altered or cut, it is refused; plain is read as it is."""
    keys, plain = TransportKeys(str(file)), message(1)
    sealed = keys.seal(plain)
    assert payload_of(sealed, keys) == payload_of(plain, None) == plain.payload
    assert plain.payload not in sealed.payload
    assert sealed.headers == {**plain.headers, HEADER_KEY_ID: _DAY}
    altered = [replace(sealed, key=f"{2:032x}")]
    for name, value in ((HEADER_SCHEMA, "2"), (HEADER_PROBABILITY, "0.5"), (HEADER_KEY_ID, "2026-01-02")):
        altered.append(replace(sealed, headers={**sealed.headers, name: value}))
    for payload in (sealed.payload[:-1] + bytes([sealed.payload[-1] ^ 1]), sealed.payload[:5], b""):
        altered.append(replace(sealed, payload=payload))
    for each in altered:
        reason = "cannot_unseal" if each.headers[HEADER_KEY_ID] == _DAY else "key_unknown"
        with pytest.raises(UnreadableMessageError, match=f"^{reason}: "):
            payload_of(each, keys)
    with pytest.raises(UnreadableMessageError, match="key_unknown"):
        payload_of(sealed, None)


def test_the_same_message_is_sealed_to_the_same_bytes(file: Path) -> None:
    """Brokers recognize a repetition; another message, and one with other headers, has another nonce."""
    keys = TransportKeys(str(file))
    assert keys.seal(message(1)) == TransportKeys(str(file)).seal(message(1))
    other = replace(message(1), headers={HEADER_SCHEMA: "1", HEADER_PROBABILITY: "0.5"})
    nonces = {keys.seal(each).payload[:12] for each in (message(1), message(2), other)}
    assert len(nonces) == 3


def test_the_latest_key_seals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Today's key seals, or with a warning an older one. Keys may be in an environment variable."""
    write_keys(tmp_path / "keys", _DAY, today().isoformat(), (today() + timedelta(days=1)).isoformat())
    monkeypatch.setenv("KEYS", (tmp_path / "keys").read_text().replace("\n", " "))
    assert TransportKeys("KEYS").seal(message(1)).headers[HEADER_KEY_ID] == today().isoformat()
    assert not caplog.records
    write_keys(tmp_path / "keys", "2025-12-31", _DAY, "9999-12-31")
    assert TransportKeys(str(tmp_path / "keys")).seal(message(1)).headers[HEADER_KEY_ID] == _DAY
    assert "ragtrace transport-keys" in caplog.text


def test_a_file_that_is_replaced_is_read_again(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A running process takes the keys of a new file; one that is damaged leaves it the keys that it had."""
    keys = TransportKeys(str(file))
    sealed = keys.seal(message(1))
    right = file.read_text()
    write_keys(file, "2026-01-02")
    wait_for(lambda: keys.days, lambda days: days == ["2026-01-02"])
    file.write_text("damaged")
    wait_for(lambda: (keys.days, caplog.text)[1], lambda text: "stay as they were" in text)
    file.write_text(right + "\n")

    def opens() -> bool:
        try:
            return payload_of(sealed, keys) == message(1).payload
        except UnreadableMessageError:
            return False

    wait_for(opens, bool)


def test_the_command_makes_and_removes_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Missing days get keys, old ones are removed, others stay, and only the owner can read the file."""
    file = tmp_path / "keys"
    old, past = (today() - timedelta(days=3)).isoformat(), (today() - timedelta(days=2)).isoformat()
    write_keys(file, old, past)
    kept = file.read_text().splitlines()[1]
    os.chmod(file, 0o644)
    assert main(["transport-keys", str(file)]) == 0
    first = file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    days = [(today() + timedelta(days=number)).isoformat() for number in range(8)]
    assert TransportKeys(str(file)).days == [past, *days]
    assert parse_day_keys(first)[past] == parse_day_keys(kept)[past]
    assert f"from {past} to {days[-1]}: 8 of them are new, 1 old ones were removed" in capsys.readouterr().out
    assert main(["transport-keys", str(file)]) == 0
    assert file.read_text() == first
    assert os.listdir(tmp_path) == ["keys"]


@pytest.mark.parametrize(("text", "words"), rows(__file__, "wrong_keys_are_refused_without_being_quoted"))
def test_wrong_keys_are_refused_without_being_quoted(
    text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A list of keys in another form is refused by the setting and by the command, which leaves the file as it was."""
    file = tmp_path / "keys"
    file.write_text(text)
    with pytest.raises(SettingError, match=words) as refusal:
        TransportKeys(str(file))
    assert not text or text not in str(refusal.value)
    if text:
        assert main(["transport-keys", str(file)]) != 0
        assert words in capsys.readouterr().err
        assert file.read_text() == text


@pytest.mark.parametrize(
    ("redact", "privacy", "warned"), [("pii", "inline", True), ("off", "inline", False), ("pii", "claim_check", False)]
)
def test_redacted_texts_behind_a_broker_are_announced(
    redact: str, privacy: str, warned: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """`init` warns that `pii_leakage` finds nothing in redacted texts, and names the mode in which it does."""
    own = {"store": str(tmp_path / "logs.db")} if privacy == "claim_check" else {}
    runtime = ragtrace.init(
        transport="nats://127.0.0.1:9/one", transport_privacy=privacy, redact=redact, prometheus_port=-1, **own
    )
    runtime.close()
    messages = [record.getMessage() for record in caplog.records if "pii_leakage" in record.getMessage()]
    assert len(messages) == warned
    assert all(f"redact = {redact!r}" in each and "claim_check" in each for each in messages)


def test_sealing_without_keys_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Privacy that cannot be had is an error at the start. `ragtrace doctor` says until when there are keys."""
    url = "nats://127.0.0.1:9/one"
    for privacy, words in (
        ("sealed", "run `ragtrace transport-keys FILE`"),
        ("claim_check", "set store, too"),
        ("hidden", "inline, sealed"),
    ):
        with pytest.raises(SettingError, match=words):
            ragtrace.init(transport=url, transport_privacy=privacy)
    settings = load({"otlp_endpoint": url, "transport_privacy": "claim_check"})
    with pytest.raises(SettingError, match="give it inline or sealed"):
        Worker(load_worker({"http": "127.0.0.1:0"}), settings)
    monkeypatch.setenv("RAGTRACE_TRANSPORT_KEYS", str(file))
    [finding] = [each for each in examine() if each.what == "transport_keys"]
    assert (finding.state, "none of today" in finding.detail) == ("wrong", True)
    main(["transport-keys", str(file)])
    assert [each.state for each in examine() if each.what == "transport_keys"] == ["ok"]
