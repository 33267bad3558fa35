"""A server with OpenAI's chat completions, files and batches, for the tests of `--judge-batch`."""

import json
from collections.abc import Callable
from typing import Any

from tests.judge.server import Listening, QuietHandler, completion, send

Reply = Callable[[dict[str, Any]], tuple[int, dict[str, Any]]]
"""From the body of a request to a status and the body of its reply."""


def verdicts(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """A reply that depends on the request alone: steps, a rating with its log-probabilities, or a verdict."""
    form = body.get("response_format")
    if form is None:
        return 200, completion("4", top=[("4", -0.1), ("5", -2.4)] if body.get("logprobs") else None)
    schema = form["json_schema"]["schema"]["properties"]
    if "steps" in schema:
        return 200, completion(json.dumps({"steps": ["Read the answer."]}))
    fails = "Answer 1" in body["messages"][-1]["content"]
    return 200, completion(json.dumps({"answer_fails": fails, "context_fails": False, "reason": ""}), tokens=(10, 5))


class BatchServer(Listening):
    """Answers single calls and batches alike with `reply`."""

    def __init__(self) -> None:
        self.reply: Reply = verdicts
        self.calls: list[dict[str, Any]] = []
        """Bodies of single calls."""
        self.lines: list[dict[str, Any]] = []
        """Lines of all batches that were started."""
        self.batches: dict[str, dict[str, Any]] = {}
        self.has_batches = True
        self.is_held = False
        """Whether batches stay in progress."""
        self.files: dict[str, bytes] = {}
        owner = self

        class Handler(QuietHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.path == "/v1/chat/completions":
                    owner.calls.append(json.loads(body))
                    status, answer = owner.reply(json.loads(body))
                elif not owner.has_batches:
                    status, answer = 404, {"error": {"message": "Not Found"}}
                elif self.path == "/v1/files":
                    status, answer = 200, owner.keep(_part(self.headers["Content-Type"], body))
                else:
                    status, answer = 200, owner.start(json.loads(body))
                send(self, status, json.dumps(answer).encode())

            def do_GET(self) -> None:
                path = self.path.partition("?")[0].removeprefix("/v1/").split("/")
                if path[0] == "files":
                    send(self, 200, owner.files[path[1]], "application/octet-stream")
                    return
                whole = {"object": "list", "data": list(owner.batches.values())[::-1], "has_more": False}
                send(self, 200, json.dumps(owner.look(path[1]) if len(path) > 1 else whole).encode())

        super().__init__(Handler)

    def keep(self, content: bytes) -> dict[str, Any]:
        id = f"file-{len(self.files)}"
        self.files[id] = content
        about = {"created_at": 1, "filename": "f.jsonl", "purpose": "batch", "status": "processed"}
        return {"id": id, "object": "file", "bytes": len(content), **about}

    def start(self, body: dict[str, Any]) -> dict[str, Any]:
        id = f"batch_{len(self.batches)}"
        self.lines += map(json.loads, self.files[body["input_file_id"]].splitlines())
        self.batches[id] = {"id": id, "object": "batch", "status": "in_progress", "created_at": 1, **body}
        return self.batches[id]

    def look(self, id: str) -> dict[str, Any]:
        batch = self.batches[id]
        if not self.is_held and batch["status"] == "in_progress":
            good, bad = [], []
            for line in map(json.loads, self.files[batch["input_file_id"]].splitlines()):
                status, body = self.reply(line["body"])
                response = {"status_code": status, "request_id": "r", "body": body}
                lines = good if status == 200 else bad
                lines.append({"id": "l", "custom_id": line["custom_id"], "response": response, "error": None})
            for name, lines in (("output_file_id", good), ("error_file_id", bad)):
                if lines:
                    text = "".join(json.dumps(line) + "\n" for line in reversed(lines))  # in no order that is promised
                    batch[name] = self.keep(text.encode())["id"]
            batch["status"] = "completed"
        return batch


def _part(kind: str, body: bytes) -> bytes:
    boundary = b"--" + kind.partition("boundary=")[2].encode()
    (part,) = [part for part in body.split(boundary) if b"filename=" in part]
    return part.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n")
