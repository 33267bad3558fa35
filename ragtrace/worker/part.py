"""The worker as a part of ragtrace."""

from ragtrace.base.parts import Part
from ragtrace.worker.cli import add_commands

PART = Part(add_commands)
