"""A Celery application whose broker and results are folders."""

import os

import assistant
from celery import Celery
from celery.signals import worker_init, worker_process_init

folder = os.environ["BROKER"]
queue = {f"data_folder_{way}": f"{folder}/queue" for way in ("in", "out")}
app = Celery("assistant", broker="filesystem://", backend=f"file://{folder}/results", broker_transport_options=queue)
app.conf.update(worker_hijack_root_logger=False)
# `worker_process_init` is sent in each process of the prefork pool; the other pools work in the worker's own process.
_started = worker_process_init if os.environ.get("POOL") == "prefork" else worker_init


@_started.connect
def start(**_: object) -> None:
    """Start ragtrace where the tasks will run."""
    assistant.start()


@app.task
def ask(question: str, session: str, user: str) -> str:
    """Answer one question."""
    return assistant.answer(question, session, user)
