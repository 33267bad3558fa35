"""What a process and all below it use, by /proc; processes that have ended count nothing."""

import contextlib
import os
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def family(pid: int) -> list[int]:
    """A process and all below it."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parents[int(folder.name)] = int(_stat(int(folder.name))[1])
    members = [pid]
    for each in members:
        members += [child for child, parent in parents.items() if parent == each]
    return members


def processor_seconds(pid: int) -> float:
    """Of a process and its threads; its children are not counted."""
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int, *, shared: bool = True) -> float:
    """Resident MiB of a process; without `shared` those that belong to it alone."""
    with contextlib.suppress(OSError):
        size = Path(f"/proc/{pid}/statm").read_text().split()
        return (int(size[1]) - (0 if shared else int(size[2]))) * _PAGE / 2**20
    return 0.0
