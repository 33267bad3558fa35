"""What is acknowledged survives a kill: `crash_writer.py URL` writes until it is killed, and tells what was stored."""

import os
import sys

from ragtrace.console.chatlogs.store import open_store
from ragtrace.records import Document, Evaluation, Score, Trace


def main() -> None:
    """For each line read: a child process that stores batches and prints the last acknowledged number until its end."""
    open_store(sys.argv[1]).close()
    for line in sys.stdin:
        first = int(line)
        child = os.fork()
        if not child:
            _write(sys.argv[1], first)
        print("child", child, flush=True)


def _write(url: str, first: int) -> None:
    store = open_store(url)
    n = first
    while True:
        batch = []
        for _ in range(20):
            n += 1
            documents = (Document("d", "chunk " * 20),)
            trace = Trace(n, n, f"question {n}", documents, f"answer {n}", started=1.76e9 + n / 50)
            batch.append(Evaluation(trace, (Score("a", 0.5, "pass", "why"), Score("b", 0.1, "fail"))))
        store.write(batch)
        os.write(1, b"%d\n" % n)


if __name__ == "__main__":
    main()
