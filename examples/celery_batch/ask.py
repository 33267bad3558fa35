"""Sends the questions of a file to the worker, and prints the answers: `python ask.py questions.txt`."""

import sys
from pathlib import Path

from celery import group
from tasks import ask


def main(file: str = "questions.txt") -> None:
    """Send all questions as one batch, and wait for the answers."""
    questions = Path(file).read_text(encoding="utf-8").splitlines()
    replies = group(ask.s(question, batch=file) for question in questions).apply_async().get(timeout=120)
    for question, reply in zip(questions, replies, strict=True):
        print(f"{question}\n    {reply['answer']}  (trace {reply['trace_id']})")


if __name__ == "__main__":
    main(*sys.argv[1:2])
