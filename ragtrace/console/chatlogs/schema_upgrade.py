"""Upgrades the tables of a store to this version, once, when it is opened first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import inspect, text

from ragtrace.console.chatlogs import full_text
from ragtrace.console.chatlogs.engine import lock
from ragtrace.console.chatlogs.queue_schema import queues
from ragtrace.errors import SettingError

if TYPE_CHECKING:
    from sqlalchemy import Connection

HEAD = "0009"
"""The newest migration, which this version of ragtrace reads and writes."""
_FIRST = "0005"
"""The migration of the first release."""
_LOCK = 7_236_871_041
"""PostgreSQL's advisory lock for creating and changing tables."""


def upgrade(connection: Connection, name: str) -> None:
    """Makes the tables of a new store, or upgrades it, completely or not at all, in the caller's transaction, which
    must be a writing one. Raises SettingError for a store that this version does not know."""
    lock(connection, _LOCK)
    current = check(connection, name)
    if current == HEAD:
        return
    from alembic import command
    from alembic.config import Config

    config = Config()
    # Alembic's configuration interpolates %.
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")).replace("%", "%%"))
    config.attributes["connection"] = connection
    if current is None:
        queues.metadata.create_all(connection)
        full_text.create(connection)
        command.stamp(config, HEAD)
    else:
        command.upgrade(config, HEAD)


def check(connection: Connection, name: str) -> str | None:
    """Returns the migration of the store; None for an empty database. Raises SettingError if this version of ragtrace
    does not know it."""
    tables = inspect(connection).get_table_names()
    if "alembic_version" in tables:
        return check_newest(connection, name)
    if tables and connection.dialect.name == "sqlite":
        raise SettingError(f"the store {connection.engine.url.database} is another database, such as a worker's buffer")
    return None


def check_newest(connection: Connection, name: str) -> str | None:
    """As `check`, for a store that is open: one query, and no look at its tables. Raises SettingError as `check`."""
    current: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    if current is not None and current < _FIRST:
        raise SettingError(
            f"the store {name} was written by a development version before 0.2.0; open it once with ragtrace 0.2.0, "
            "which upgrades it, or name another store. Nothing was changed"
        )
    if current is not None and current > HEAD:
        raise SettingError(
            f"the store {name} was written by a newer version of ragtrace (its tables are at {current}, this version "
            f"knows {HEAD}); install that version, or name another store. Nothing was changed"
        )
    return current
