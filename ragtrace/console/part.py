"""The console as a part of ragtrace: the store of chat logs, the review, and the web application over both."""

from collections.abc import Sequence
from typing import Any

from ragtrace.errors import require
from ragtrace.evaluation import Evaluator
from ragtrace.plugins import Keeper, Part
from ragtrace.settings import Settings


def _add_commands(commands: Any) -> None:
    from ragtrace.console import cli as console
    from ragtrace.console.chatlogs import cli as chatlogs
    from ragtrace.console.review import cli as review

    for each in (console, chatlogs, review):
        each.add_commands(commands)


def _keep(settings: Settings, checks: Sequence[Evaluator]) -> Keeper | None:
    if not settings.store:
        return None
    require("sqlalchemy", "store", "store")
    from ragtrace.console.chatlogs.encryption import read_keys
    from ragtrace.console.chatlogs.retention import Retention
    from ragtrace.console.chatlogs.sink import StoreSink
    from ragtrace.console.review.feedback import FeedbackSink

    key = read_keys(settings.store_key)
    retention = Retention(settings.store_days, settings.store_bytes)
    sink = StoreSink(
        settings.store, key=key, app=settings.app, env=settings.env, evaluators=checks, retention=retention
    )
    return Keeper(sink, FeedbackSink(settings.store, key=key))


PART = Part(_add_commands, _keep)
