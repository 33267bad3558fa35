"""`ragtrace serve`, `ragtrace user …`, `ragtrace token …`."""

from __future__ import annotations

import argparse
import getpass
import logging
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragtrace.console.chatlogs.cli import add_store_option, open_store_of
from ragtrace.errors import MissingExtraError, SettingError

if TYPE_CHECKING:
    from ragtrace.console.chatlogs.store import Store

_ROLES = ("viewer", "reviewer", "admin")


def add_commands(commands: Any) -> None:
    """Add them to the parser of `ragtrace`."""
    serve = commands.add_parser("serve", help="serve the console: chat logs for review, in a browser")
    add_store_option(serve)
    serve.add_argument("--create", action="store_true", help="begin with an empty store if the file does not exist")
    # Without an argument the environment applies, then the table [console] of ragtrace.toml, then the default shown.
    serve.add_argument("--host", help="listen on this address (127.0.0.1)")
    serve.add_argument("--port", type=int, help="listen on this port (8400); 0 takes any free one")
    serve.add_argument("--tls-certificate", default="", metavar="FILE", help="serve https with this certificate (PEM)")
    serve.add_argument("--tls-key", default="", metavar="FILE", help="the private key of the certificate (PEM)")
    serve.set_defaults(run=_serve)
    users = commands.add_parser("user", help="manage the users of the console")
    _users(users.add_subparsers(required=True, metavar="ACTION"))
    _tokens(commands.add_parser("token", help="manage API tokens").add_subparsers(required=True, metavar="ACTION"))


def _users(actions: Any) -> None:
    for name, run, text in (
        ("add", _user_add, "add a user; prompts for the password"),
        ("list", _user_list, "list all users"),
        ("disable", _user_change, "disable a user at once"),
        ("enable", _user_change, "enable a user again"),
        ("role", _user_change, "change the role of a user"),
        ("password", _user_change, "set a new password; prompts for it"),
        ("link", _user_link, "print an address that opens a console without users, once"),
    ):
        action = actions.add_parser(name, help=text)
        if name == "link":
            action.add_argument("--url", default="http://127.0.0.1:8400", help="address of the console (%(default)s)")
        elif name != "list":
            action.add_argument("name")
        if name == "add":
            action.add_argument("--role", choices=_ROLES, default="viewer", help="role of the user (%(default)s)")
        if name == "role":
            action.add_argument("role", choices=_ROLES)
        if name in {"add", "password"}:
            action.add_argument("--password-stdin", action="store_true", help="read the password from standard input")
        add_store_option(action)
        action.set_defaults(run=run, action=name)


def _tokens(actions: Any) -> None:
    add = actions.add_parser("add", help="add a token; it is printed once")
    add.add_argument("name", help="name of the token: what it is for")
    add.add_argument("--user", required=True, help="the user it acts for; it has that user's rights, within its scopes")
    add.add_argument(
        "--scopes", default="read", metavar="A,B", help="scopes of the token: read, feedback, review, admin (read)"
    )
    add.add_argument("--days", type=float, default=365.0, help="days until it expires (365); 0 for never")
    add.set_defaults(run=_token_add)
    listing = actions.add_parser("list", help="list all tokens, without their secrets")
    listing.set_defaults(run=_token_list)
    revoke = actions.add_parser("revoke", help="revoke a token")
    revoke.add_argument("id", type=int)
    revoke.set_defaults(run=_token_revoke)
    for action in (add, listing, revoke):
        add_store_option(action)


def _serve(options: argparse.Namespace) -> int:
    from ragtrace.settings import load

    try:
        from sqlalchemy import select

        from ragtrace.console.chatlogs.schema import traces
        from ragtrace.console.options import load_console
        from ragtrace.console.review.policy import load_policy
        from ragtrace.console.server import serve
        from ragtrace.console.verdict_delivery import deliver_verdicts
    except ModuleNotFoundError as error:
        raise MissingExtraError(error.name or "fastapi", "serve", "The console") from error

    settings = load_console({"host": options.host, "port": options.port})
    settings = replace(settings, calibration_file=load().calibration_file, policy=load_policy())
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("alembic").setLevel(logging.WARNING)  # it tells of each table that a new store gets
    for file in filter(None, (options.tls_certificate, options.tls_key)):
        Path(file).read_bytes()  # uvicorn's error does not name it
    with open_store_of(options, create=options.create) as store, deliver_verdicts(store):
        if store.scalar(select(traces.c.id).limit(1)) is None:
            logging.getLogger("ragtrace.console").warning(
                "ragtrace console: the store %s holds no logs. If it should, check --store", store.name
            )
        serve(store, settings, options.tls_certificate, options.tls_key)
    return 0


def _user_add(options: argparse.Namespace) -> int:
    from ragtrace.console import accounts

    with open_store_of(options, create=True) as store:
        account = accounts.add(store, options.name, options.role, _password(options))
        _audited(store, "user.add", account.name, role=account.role)
    print(f"ragtrace: {account.name} may sign in, as {account.role}")
    return 0


def _user_list(options: argparse.Namespace) -> int:
    from ragtrace.console import accounts

    with open_store_of(options) as store:
        for account in accounts.everybody(store):
            state = "disabled" if account.disabled else "active"
            print(f"{account.name:32} {account.role:10} {account.sign_in:10} {state}")
    return 0


def _user_change(options: argparse.Namespace) -> int:
    from ragtrace.console import accounts

    with open_store_of(options) as store:
        if options.action == "role":
            accounts.set_role(store, options.name, options.role)
            _audited(store, "user.change", options.name, role=options.role)
        elif options.action == "password":
            accounts.set_password(store, options.name, _password(options))
            _audited(store, "user.password", options.name)
        else:
            accounts.set_disabled(store, options.name, options.action == "disable")
            _audited(store, f"user.{options.action}", options.name)
    return 0


def _user_link(options: argparse.Namespace) -> int:
    from ragtrace.console import accounts
    from ragtrace.console.login import local_address

    with open_store_of(options) as store:
        if accounts.exist(store):
            raise SettingError("the console has users: sign in with a name and a password")
        address = local_address(store, options.url)
        _audited(store, "user.link", accounts.LOCAL)
    print(address)
    return 0


def _password(options: argparse.Namespace) -> str:
    if options.password_stdin:
        return sys.stdin.readline().rstrip("\r\n")
    if not sys.stdin.isatty():
        raise SettingError("there is no terminal to prompt for the password; use --password-stdin")
    first = getpass.getpass("Password: ")
    if getpass.getpass("Again: ") != first:
        raise SettingError("the two passwords differ")
    return first


def _token_add(options: argparse.Namespace) -> int:
    from ragtrace.console import tokens

    scopes = [scope.strip() for scope in options.scopes.split(",") if scope.strip()]
    with open_store_of(options) as store:
        token, secret = tokens.add(store, options.name, options.user, scopes, options.days or None)
        _audited(store, "token.add", str(token.id), user=token.user_name, scopes=",".join(sorted(token.scopes)))
    print("ragtrace: keep this token; it is not shown again", file=sys.stderr)
    print(secret)
    return 0


def _token_list(options: argparse.Namespace) -> int:
    from ragtrace.console import tokens

    with open_store_of(options) as store:
        for token in tokens.every(store):
            state = "revoked" if token.revoked else "expired" if (token.expires or 9e99) < time.time() else "good"
            until = time.strftime("%Y-%m-%d", time.gmtime(token.expires)) if token.expires else "no end"
            scopes = ",".join(sorted(token.scopes))
            print(f"{token.id:5} {token.name:32} {token.user_name:24} {scopes:28} {until:10} {state}")
    return 0


def _token_revoke(options: argparse.Namespace) -> int:
    from ragtrace.console import tokens

    with open_store_of(options) as store:
        tokens.revoke(store, options.id)
        _audited(store, "token.revoke", str(options.id))
    return 0


def _audited(store: Store, action: str, what: str, **detail: object) -> None:
    from ragtrace.console import audit

    audit.write(store, "(command line)", action, what, detail=detail)
