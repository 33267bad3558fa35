"""How much of the processors the evaluating process takes: what the application leaves, and whether that is enough.

Linux runs a thread of the policy SCHED_IDLE only where no other thread wants the processor, and puts it aside at once
when one does. A lower priority (`nice`) does not: the other thread waits for the end of a time slice of some
milliseconds.
"""

import contextlib
import os
from pathlib import Path
from typing import NamedTuple

_STARVED_SECONDS = 2.0
_STARVED_SHARE = 0.05
"""A process that waited for so many seconds and got less than this share of them is starved: beside one busy thread for
each processor the policy gives it 0.3 %. Ten evaluating processes on one processor have a tenth each."""


class ProcessorTimes(NamedTuple):
    """Seconds since the start of a process's main thread."""

    ran: float
    waited: float
    """It could have run, and no processor was free."""


def take_what_is_left() -> None:
    """Run the threads of this process only while a processor is idle, if the system supports that."""
    with contextlib.suppress(AttributeError, OSError):  # no Linux, or a sandbox that forbids it
        for thread in os.listdir("/proc/self/task"):
            os.sched_setscheduler(int(thread), os.SCHED_IDLE, os.sched_param(0))


def processor_times(pid: int) -> ProcessorTimes | None:
    """The times of a process; None where the system does not count them."""
    try:
        ran, waited, _slices = Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()
        return ProcessorTimes(int(ran) / 1e9, int(waited) / 1e9)
    except (OSError, ValueError):
        return None


def is_starved(begin: ProcessorTimes | None, now: ProcessorTimes | None) -> bool:
    """Whether a process got hardly any of the processors between two looks at its times."""
    if begin is None or now is None:
        return False
    ran, waited = now.ran - begin.ran, now.waited - begin.waited
    return waited > _STARVED_SECONDS and ran < _STARVED_SHARE * (ran + waited)
