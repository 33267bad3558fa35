"""What a command needs of the terminal: characters that it can show, its width, and pipes that close early."""

import contextlib
import errno
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import IO

NARROWEST = 20
"""Fewer columns than this are treated as this many."""


def accept_every_character() -> None:
    """Makes standard output and standard error write a `?` for each character that their encoding lacks, instead of
    failing."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError, OSError):  # None, a closed stream, one of a test
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]


def write_utf8() -> None:
    """Makes standard output UTF-8, whatever the locale: for JSON lines, which are a file more than a text."""
    with contextlib.suppress(AttributeError, ValueError, OSError):
        sys.stdout.reconfigure(encoding="utf-8", errors="strict")  # type: ignore[union-attr]


def width(stream: IO[str] | None = None) -> int | None:
    """The columns of the terminal that standard output (or `stream`) is; None for a file or a pipe: their lines stay
    whole."""
    stream = sys.stdout if stream is None else stream
    if stream is None or not stream.isatty():
        return None
    return max(NARROWEST, shutil.get_terminal_size().columns)


def fitted(lines: Sequence[str], columns: int | None) -> list[str]:
    """The lines, broken between words so that none is longer than `columns`; None leaves them as they are.

    The rest of a broken line is indented by two more than the line. A word that is longer than `columns` stays whole.
    """
    if columns is None:
        return list(lines)
    result = []
    for line in lines:
        indent = " " * (len(line) - len(line.lstrip()))
        wrapped = textwrap.wrap(
            line, columns, subsequent_indent=f"{indent}  ", break_long_words=False, break_on_hyphens=False
        )
        result += wrapped if len(line) > columns else [line]
    return result


def written(command: Callable[[], int]) -> int:
    """Runs a command and writes what is left of its output; returns the exit code.

    A reader that closes the pipe early (`| head`) ends it with 0; a file that cannot be used, with 2."""
    try:
        try:
            return command()
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        return 0
    except OSError as error:
        if error.filename is None and error.errno not in (errno.ENOSPC, errno.EIO, errno.EDQUOT):
            raise
        _discard_output()
        print(f"ragtrace: {error.filename or 'the output cannot be written'}: {error.strerror}", file=sys.stderr)
        return 2


def _discard_output() -> None:
    """Python writes what is buffered once more when it exits; there it must not fail again."""
    with contextlib.suppress(AttributeError, ValueError, OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
