"""Creates files that hold what users typed, which only their owner can read, and prepares those of SQLite."""

import errno
import os
import sqlite3
import stat
import time
from contextlib import suppress
from pathlib import Path


def private_opener(path: str, flags: int) -> int:
    """An `opener` for `open`: a new file has mode 0600. An existing file keeps its mode. Raises PermissionError for a
    link of another user, who may have chosen any file of this user as its target."""
    with suppress(FileNotFoundError):
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode) and status.st_uid not in (0, os.geteuid()):
            raise PermissionError(errno.EACCES, "a link that another user made is not followed", path)
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def ends_inside_line(path: Path) -> bool:
    """Whether the last line of a file is incomplete: a process that was killed may leave it so. False for a device."""
    if not path.is_file() or not (size := path.stat().st_size):
        return False
    with path.open("rb") as file:
        file.seek(size - 1)
        return file.read(1) != b"\n"


def create_private(path: Path) -> None:
    """Create an empty file of mode 0600, for a library that opens files itself; an existing one keeps its mode.

    An existing file is not opened. When a process closes any descriptor of a file, the system takes all its locks on
    that file, those of SQLite's connections in this process too. Another process that closes its connection then
    believes that it was the last one and deletes the write-ahead log, and with it what was committed since."""
    try:
        os.close(private_opener(str(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        if not path.exists():  # a link to a file that does not exist yet
            os.close(private_opener(str(path), os.O_WRONLY | os.O_CREAT))


def switch_to_wal(connection: sqlite3.Connection, timeout: float, schema: str = "main") -> None:
    """Lets readers and one writer of the file work at the same time; `schema` is the name it is attached under.

    Raises sqlite3.OperationalError if other processes lock the file for longer than `timeout` seconds."""
    # SQLite does not wait for this lock, whatever the connection's own timeout is: it refuses at once.
    end = time.monotonic() + timeout
    while True:
        try:
            connection.execute(f"PRAGMA {schema}.journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > end:
                raise
        time.sleep(0.01)
