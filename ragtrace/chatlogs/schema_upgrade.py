"""Bringing a store's tables to this version, once, whoever opens it first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import inspect, text

from ragtrace.errors import SettingError

if TYPE_CHECKING:
    from alembic.config import Config
    from sqlalchemy import Connection

HEAD = "0002"
"""The newest migration: what this version of ragtrace reads and writes."""
_LOCK = 7_236_871_041
"""PostgreSQL's advisory lock under which tables are made and changed."""


def revision(connection: Connection) -> str | None:
    """The migration that the store is at; None for an empty database."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return None if found is None else str(found)


def upgrade(connection: Connection, name: str, to: str = HEAD) -> None:
    """Bring the store here, in the caller's transaction: all of it or nothing.

    `connection` must be in a transaction that writes; on SQLite it holds the lock already, on PostgreSQL it is taken
    here. Raises SettingError for a store of a newer version.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
    if check(connection, name) == to:
        return
    from alembic import command

    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, to)


def check(connection: Connection, name: str) -> str | None:
    """The revision, if this version knows it. Raises SettingError for a newer one."""
    found = revision(connection)
    if found is not None and found > HEAD:
        raise SettingError(
            f"the store {name} was written by a newer version of ragtrace (its tables are at {found}, this version "
            f"knows {HEAD}); install that version, or name another store. Nothing was changed"
        )
    return found


def _config() -> Config:
    from alembic.config import Config

    config = Config()
    # Alembic's configuration expands %.
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")).replace("%", "%%"))
    return config
