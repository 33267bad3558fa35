"""Keys of payloads, one for each day: their file, and how it is renewed."""

import base64
import os
import re
import secrets
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from ragtrace.base.private_file import private_opener
from ragtrace.errors import SettingError
from ragtrace.settings.section import key_bytes

COMMAND = "ragtrace transport-keys FILE"


def today() -> date:
    """The day by Universal Time."""
    return datetime.now(UTC).date()


def parse_day_keys(text: str) -> dict[str, bytes]:
    """Keys of 32 bytes by their days, of `YYYY-MM-DD=KEY` separated by blanks, commas or line ends; a line that begins
    with # is left out. Raises SettingError for another form, for a day that comes twice, and where there is no key."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    keys: dict[str, bytes] = {}
    for item in filter(None, re.split(r"[\s,]+", "\n".join(lines))):
        day, _, key = item.partition("=")
        try:
            if date.fromisoformat(day).isoformat() != day:
                raise ValueError
        except ValueError:
            raise SettingError(
                f"transport_keys: an item does not begin with a day; write YYYY-MM-DD=KEY, or let `{COMMAND}` write it"
            ) from None
        if day in keys:
            raise SettingError(f"transport_keys has two keys of {day}; give one for each day")
        keys[day] = key_bytes(f"transport_keys: the key of {day}", key)
    if not keys:
        raise SettingError(f"transport_keys names an empty list of keys; `{COMMAND}` makes them")
    return dict(sorted(keys.items()))


_AHEAD, _BEHIND = 7, 2


class Renewal(NamedTuple):
    """What a renewal has done, in days."""

    keys: list[str]
    """All that the file has now."""
    added: int
    removed: int


def renew_keys(path: Path) -> Renewal:
    """Write a key for today and each of the next 7 days that has none, and remove those older than 2 days.
    The file, which only its owner can read, is replaced at once. Raises SettingError where it cannot be read or
    written, and where it holds something else."""
    first, last = today() - timedelta(days=_BEHIND), today() + timedelta(days=_AHEAD)
    try:
        before = parse_day_keys(path.read_text(encoding="utf-8")) if path.exists() else {}
        days = [(today() + timedelta(days=number)).isoformat() for number in range(_AHEAD + 1)]
        fresh = {day: secrets.token_bytes(32) for day in days if day not in before}
        current = {day: key for day, key in before.items() if day >= first.isoformat()}
        _write(path, dict(sorted({**current, **fresh}.items())))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"the keys of {path} cannot be renewed until {last}: {error}") from None
    return Renewal(sorted({*current, *fresh}), len(fresh), len(before) - len(current))


def _write(path: Path, keys: Mapping[str, bytes]) -> None:
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with open(new, "x", encoding="utf-8", opener=private_opener) as file:
            file.writelines(f"{day}={base64.b64encode(key).decode()}\n" for day, key in keys.items())
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
