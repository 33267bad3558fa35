"""`ragtrace worker`, `ragtrace dead-letters` and `ragtrace transport-keys`."""

import argparse
import gc
import logging
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from ragtrace.errors import MissingExtraError

_SWITCH = 0.0005
"""Seconds after which a thread that computes hands the interpreter's lock on. With Python's own 5 ms the threads that
read and send traces hold up the answers to senders. Where nobody waits for answers, each change of threads is only a
cost."""


def add_commands(commands: Any) -> None:
    """Add it to the parser of `ragtrace`."""
    worker = commands.add_parser("worker", help="receive spans over OTLP, evaluate them, and send them on with scores")
    # Without an argument the environment applies, then ragtrace.toml, then the default shown.
    worker.add_argument("--grpc", metavar="HOST:PORT", help="receive OTLP over gRPC here (127.0.0.1:4317)")
    worker.add_argument("--http", metavar="HOST:PORT", help="receive OTLP over HTTP here (127.0.0.1:4318)")
    worker.add_argument(
        "--from", dest="source", metavar="URL", help="fetch traces from nats://, kafka:// or redis://HOST:PORT/STREAM"
    )
    worker.add_argument("--to", metavar="OTLP_URL", help="send to this endpoint (otlp_endpoint) or broker")
    worker.add_argument("--buffer", metavar="FILE", help="hold spans in this file, which survives a crash (memory)")
    worker.add_argument("--metrics-port", type=int, metavar="N", help="serve /metrics on this port (prometheus_port)")
    worker.set_defaults(run=_worker)
    letters = commands.add_parser("dead-letters", help="list the 100 oldest messages that no worker could evaluate")
    letters.add_argument("address", metavar="URL", help="the stream, as in `ragtrace worker --from`")
    letters.add_argument("--put-back", action="store_true", help="let workers try them once more")
    letters.set_defaults(run=_dead_letters)
    keys = commands.add_parser("transport-keys", help="make a key of sealed messages for each day of a week")
    keys.add_argument("file", type=Path, help="the file that transport_keys names; only its owner can read it")
    keys.set_defaults(run=_transport_keys)


def _dead_letters(options: argparse.Namespace) -> int:
    from ragtrace_brokers.address import parse_address
    from ragtrace_brokers.broker_adapters import open_transport
    from ragtrace_brokers.message import HEADER_REASON

    transport = open_transport(parse_address(options.address))
    try:
        letters = transport.dead_letters(100)
        for each in letters:
            print(f"{each.id}\t{each.key}\t{len(each.payload)} bytes\t{each.headers.get(HEADER_REASON, '')}")
        if options.put_back:
            count = transport.put_back(letters)
            print(f"{count} of {len(letters)} are in the stream again")
            return 0 if count == len(letters) else 1
        return 0
    finally:
        transport.close()


def _transport_keys(options: argparse.Namespace) -> int:
    from ragtrace_brokers.key_file import renew_keys

    renewal = renew_keys(options.file)
    print(
        f"{options.file} has keys from {renewal.keys[0]} to {renewal.keys[-1]}: {renewal.added} of them are new, "
        f"{renewal.removed} old ones were removed"
    )
    return 0


def _worker(options: argparse.Namespace) -> int:
    from ragtrace.settings import load

    try:
        from ragtrace.worker.service import Worker
        from ragtrace.worker.worker_settings import load_worker
    except ModuleNotFoundError as error:
        raise MissingExtraError(error.name or "opentelemetry-sdk", "otlp", "The worker") from error

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("alembic").setLevel(logging.WARNING)  # it tells of each table that a new store gets
    own = load_worker({name: getattr(options, name) for name in ("grpc", "http", "source", "buffer")})
    settings = load({"otlp_endpoint": options.to, "prometheus_port": options.metrics_port})
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    worker = Worker(own, settings)
    if not own.source:
        sys.setswitchinterval(_SWITCH)
    gc.freeze()  # modules and models stay until the end: the garbage collector need not read through them every time
    worker.start()
    # Python can see a signal that comes just before a wait only after it; then the wait must not last for ever.
    while not stop.wait(1.0):
        pass
    worker.stop()
    return 0
