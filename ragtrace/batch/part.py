"""Data sets, reports, the demo and the rescoring of stored logs as a part of ragtrace."""

from typing import Any

from ragtrace.plugins import Part


def _add_commands(commands: Any) -> None:
    from ragtrace.batch import cli
    from ragtrace.batch.rescore import cli as rescore

    cli.add_commands(commands)
    rescore.add_commands(commands)


PART = Part(_add_commands)
