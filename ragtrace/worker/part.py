"""The worker as a part of ragtrace."""

from ragtrace.plugins import Part
from ragtrace.worker.cli import add_commands

PART = Part(add_commands)
