"""`ragtrace ingest · store prune · store forget-user · store rekey`."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragtrace.errors import SettingError

if TYPE_CHECKING:
    from ragtrace.chatlogs.retention import Removal
    from ragtrace.chatlogs.store import Store

_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def add_commands(commands: Any) -> None:
    """Add the commands to a parser's sub-commands. Imports nothing heavy."""
    filling = commands.add_parser("ingest", help="scored rows into the store of chat logs")
    filling.add_argument("file", type=Path, help="JSON lines with id and scores, as `ragtrace eval` writes them")
    filling.add_argument("--data", type=Path, metavar="FILE", help="the file that was scored: the texts, by id")
    filling.add_argument("--app", default="", help="application of lines that do not name theirs; default: ingest")
    _store_option(filling)
    filling.set_defaults(run=_ingest)

    store = commands.add_parser("store", help="look after the store of chat logs")
    actions = store.add_subparsers(required=True, metavar="ACTION")
    prune = actions.add_parser("prune", help="remove what is too old or too much")
    prune.add_argument("--days", type=float, help="older requests go; default: setting store_days")
    prune.add_argument("--bytes", metavar="SIZE", help="e.g. 20G: above it the oldest go; default: store_bytes")
    _store_option(prune)
    prune.set_defaults(run=_prune)

    forget = actions.add_parser("forget-user", help="delete all of one user of the application, completely")
    forget.add_argument("user", help="the id that the application gave")
    forget.add_argument(
        "--no-rewrite", action="store_true", help="leave deleted bytes in the database until it reuses them"
    )
    _store_option(forget)
    forget.set_defaults(run=_forget)

    rekey = actions.add_parser("rekey", help="encrypt everything with the first key of store_key")
    _store_option(rekey)
    rekey.set_defaults(run=_rekey)


def _store_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--store", default="", metavar="URL", help="a file or postgresql://… (default: setting store)")


def _address(options: argparse.Namespace) -> tuple[str, str | None]:
    from ragtrace import settings
    from ragtrace.chatlogs.encryption import read_keys

    used = settings.load()
    url = options.store or used.store
    if not url:
        raise SettingError("name the store with --store, or with the setting store")
    return url, read_keys(used.store_key)


@contextmanager
def _opened(options: argparse.Namespace) -> Iterator[Store]:
    from ragtrace.chatlogs.store import open_store

    url, key = _address(options)
    store = open_store(url, key=key)
    try:
        yield store
    finally:
        store.close()


def _ingest(options: argparse.Namespace) -> int:
    from ragtrace.chatlogs.ingest import ingest

    with _opened(options) as store:
        found = ingest(options.file, store, data=options.data, app=options.app)
    said = f"{found.done} lines stored, {found.new} of them new, {len(found.errors)} lines left out"
    print(f"ragtrace ingest: {said}", file=sys.stderr)
    return 1 if found.errors else 0


def _prune(options: argparse.Namespace) -> int:
    from ragtrace import settings
    from ragtrace.chatlogs.retention import Retention, prune

    used = settings.load()
    days = used.store_days if options.days is None else options.days
    size = used.store_bytes if options.bytes is None else _size(options.bytes)
    with _opened(options) as store:
        removed = prune(store, Retention(days, size))
    print(f"ragtrace store prune: {_told(removed)} removed")
    return 0


def _forget(options: argparse.Namespace) -> int:
    from ragtrace.chatlogs.retention import delete_user

    with _opened(options) as store:
        removed = delete_user(store, options.user, rewrite=not options.no_rewrite)
    print(f"ragtrace store forget-user: {_told(removed)} removed")
    return 0


def _rekey(options: argparse.Namespace) -> int:
    from ragtrace.chatlogs.key_change import rekey

    url, key = _address(options)
    if key is None:
        raise SettingError(
            "rekey needs the setting store_key: the new key first, and after it those that sealed so far"
        )
    print(f"ragtrace store rekey: {rekey(url, key)} traces encrypted anew")
    return 0


def _told(removed: Removal) -> str:
    names = ("traces", "scores", "reviews", "feedback", "spilled")
    return ", ".join(f"{getattr(removed, name)} {name}" for name in names)


def _size(given: str) -> int:
    found = re.fullmatch(r"(\d+)\s*([kmgt]?)i?b?", given.strip().lower())
    if found is None:
        raise SettingError(f"--bytes is {given!r}; give a number of bytes, or e.g. 500M, 20G")
    return int(found[1]) * _UNITS[found[2]]
