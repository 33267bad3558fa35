"""The Celery application. Start its worker with `celery -A tasks worker`."""

import os
from pathlib import Path

from celery import Celery
from celery.signals import worker_process_init
from policy import answer_question

import ragtrace

BROKER = os.environ.get("BROKER", "")
"""E.g. redis://localhost:6379/0; empty for a folder here, which needs no server and is for trying it out alone."""


def celery_app() -> Celery:
    """The application, with its broker and the place of its results."""
    if BROKER:
        return Celery("tasks", broker=BROKER, backend=BROKER)
    queue, results = (Path("broker", name).resolve() for name in ("queue", "results"))
    for folder in (queue, results):
        folder.mkdir(parents=True, exist_ok=True)
    folders = {"data_folder_in": str(queue), "data_folder_out": str(queue), "control_folder": str(queue.parent)}
    return Celery("tasks", broker="filesystem://", backend=results.as_uri(), broker_transport_options=folders)


app = celery_app()


@worker_process_init.connect
def start(**_: object) -> None:
    """Start ragtrace in each process of the pool, with the settings of `ragtrace.toml`.

    A process that ends sends what it has: no hook is needed for the end.
    """
    ragtrace.init()


@app.task
def ask(question: str, batch: str) -> dict[str, str]:
    """Answer one question of a batch."""
    with ragtrace.request(question, session_id=batch) as request:
        return {"answer": answer_question(question), "trace_id": request.trace_id}
