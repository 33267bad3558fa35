"""The commands `ragtrace ingest` and `ragtrace store prune | forget-user | rekey`."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragtrace.errors import DataError, SettingError

if TYPE_CHECKING:
    from ragtrace.console.chatlogs.retention import Removal
    from ragtrace.console.chatlogs.store import Store

_UNREACHED = (
    "spans, events and scores that were sent to a backend, spans_file and report_file, exported data sets and results "
    "of ragtrace eval, backups, replicas, spill files of other machines. Delete the user there, too"
)
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def add_commands(commands: Any) -> None:
    """Adds the commands to a parser's sub-commands. Imports nothing heavy."""
    ingest = commands.add_parser("ingest", help="write scored rows into the store of chat logs")
    ingest.add_argument("file", type=Path, help="JSON lines with `id` and `scores`, as `ragtrace eval` writes them")
    ingest.add_argument("--data", type=Path, metavar="FILE", help="the scored file: its texts are added by `id`")
    ingest.add_argument("--app", default="", help="application of lines that do not name one (default: ingest)")
    add_store_option(ingest)
    ingest.set_defaults(run=_ingest)

    store = commands.add_parser("store", help="maintain the store of chat logs")
    actions = store.add_subparsers(required=True, metavar="ACTION")
    prune = actions.add_parser("prune", help="delete requests that are too old, or that exceed the size limit")
    prune.add_argument("--days", type=float, help="delete requests that are older (default: setting store_days)")
    prune.add_argument(
        "--bytes", metavar="SIZE", help="delete the oldest requests above this size, e.g. 20G (default: store_bytes)"
    )
    add_store_option(prune)
    prune.set_defaults(run=_prune)

    forget = actions.add_parser("forget-user", help="delete everything of one user of the application")
    forget.add_argument("user", help="the user's id, as the application sets it")
    forget.add_argument(
        "--no-rewrite", action="store_true", help="leave the deleted bytes in the database until it reuses them"
    )
    add_store_option(forget)
    forget.set_defaults(run=_forget)

    rekey = actions.add_parser("rekey", help="encrypt all content again with the first key of store_key")
    add_store_option(rekey)
    rekey.set_defaults(run=_rekey)


def add_store_option(parser: argparse.ArgumentParser) -> None:
    """Adds the option --store, which `open_store_of` reads."""
    parser.add_argument(
        "--store", default="", metavar="URL", help="the store: a file or postgresql://… (default: setting store)"
    )


@contextmanager
def open_store_of(options: argparse.Namespace, *, create: bool = False) -> Iterator[Store]:
    """Opens the store of the option --store, or of the setting; closes it at the end.

    Raises SettingError if neither names a store, and without `create` if the file does not exist: a mistyped name must
    not become an empty store."""
    from ragtrace.console.chatlogs import engine
    from ragtrace.console.chatlogs.store import open_store

    url, key = _address(options)
    if create and (file := engine.missing_file(engine.parse_url(url))) is not None:
        print(f"ragtrace: the store {file} does not exist; it is created", file=sys.stderr)
    with closing(open_store(url, key=key, create=create)) as store:
        yield store


def _address(options: argparse.Namespace) -> tuple[str, str | None]:
    from ragtrace import settings
    from ragtrace.console.chatlogs.encryption import read_keys

    return store_address(options), read_keys(settings.load().store_key)


def store_address(options: argparse.Namespace) -> str:
    """The address of the option --store, or of the setting. Raises SettingError if neither names a store."""
    from ragtrace import settings

    url: str = options.store or settings.load().store
    if not url:
        raise SettingError("no store is set; name the store with --store, or with the setting store")
    return url


def _ingest(options: argparse.Namespace) -> int:
    from ragtrace.console.chatlogs.ingest import ingest

    if not options.file.exists():
        raise DataError(f"{options.file} does not exist")  # before a store is created for it
    with open_store_of(options, create=True) as store:
        result = ingest(options.file, store, data=options.data, app=options.app)
    counts = f"{result.done} lines stored, {result.new} of them new, {len(result.errors)} lines left out"
    print(f"ragtrace ingest: {counts}", file=sys.stderr)
    return 1 if result.errors else 0


def _prune(options: argparse.Namespace) -> int:
    from ragtrace import settings
    from ragtrace.console.chatlogs.retention import Retention, prune

    used = settings.load({} if options.days is None else {"store_days": options.days})
    size = used.store_bytes if options.bytes is None else _parse_size(options.bytes)
    with open_store_of(options) as store:
        removal = prune(store, Retention(used.store_days, size))
    print(f"ragtrace store prune: {_summary(removal)} removed")
    return 0


def _forget(options: argparse.Namespace) -> int:
    from ragtrace import settings
    from ragtrace.console.chatlogs.retention import delete_user
    from ragtrace.evaluate.judge.ledger import forget_answers

    used = settings.load()
    with open_store_of(options) as store:
        removal = delete_user(store, options.user, rewrite=not options.no_rewrite)
    print(f"ragtrace store forget-user: {_summary(removal)} removed")
    if used.judge_store:
        answers = forget_answers(used.judge_store)
        print(f"ragtrace store forget-user: all {answers} remembered answers of {used.judge_store} removed")
    print(f"ragtrace store forget-user: not reached: {_UNREACHED}", file=sys.stderr)
    return 0


def _rekey(options: argparse.Namespace) -> int:
    from ragtrace.console.chatlogs.key_change import rekey

    url, key = _address(options)
    if key is None:
        raise SettingError(
            "rekey needs the setting store_key: the new key first, then the keys that encrypted the content so far"
        )
    print(f"ragtrace store rekey: {rekey(url, key)} traces encrypted with the new key")
    return 0


def _summary(removal: Removal) -> str:
    names = ("traces", "scores", "reviews", "feedback", "spilled")
    return ", ".join(f"{getattr(removal, name)} {name}" for name in names)


def _parse_size(text: str) -> int:
    match = re.fullmatch(r"(\d+)\s*([kmgt]?)i?b?", text.strip().lower())
    if match is None:
        raise SettingError(f"--bytes is {text!r}; give a number of bytes, e.g. 1000000, 500M or 20G")
    return int(match[1]) * _UNITS[match[2]]
