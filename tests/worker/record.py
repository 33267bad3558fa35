"""Records what real libraries send over OTLP, for tests/worker/golden.

    (cd tests/worker/senders && npm install)
    python -m tests.worker.record

Vercel's AI SDK runs with a model that is scripted."""

import json
import os
import subprocess
from pathlib import Path

from google.protobuf import json_format

from tests.otlp.receivers import http_server

HERE = Path(__file__).parent
SENDERS = {"vercel-ai": ["node", str(HERE / "senders" / "vercel_ai.mjs")]}
CASES = ("call", "tool", "stream", "error")


def record(command: list[str], case: str) -> dict[str, object]:
    """The message that a sender sends in this case."""
    with http_server() as (url, received):
        environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": url}
        subprocess.run([*command, case], env=environment, check=True, timeout=120)
        return dict(json_format.MessageToDict(received.traces))


def main() -> None:
    for name, command in SENDERS.items():
        cases = {case: record(command, case) for case in CASES}
        (HERE / "golden" / f"{name}.json").write_text(json.dumps(cases, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
