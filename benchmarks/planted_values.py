"""Plants personal data and secrets in every place of a request, and looks for them in everything that leaves.

    python benchmarks/planted_values.py [--values 5000] [--mode pii|hash]

Each request of two applications, one with LangChain and one recorded by hand, has another generated value in each
place: question, history, chunk, metadata, URL, arguments and result of a tool, prompt, answer, exception, id of a
document, tag, user, session, captured tag. An evaluator quotes answer and document in its label, explanation, evidence
and error. The values are of the classes that docs/privacy.md says `pii` finds. Everything that leaves is searched:
spans and events over OTLP, the file of spans, the report file, /metrics, and the log. A value is exported where it
stands there as it is, or with all its letters and digits in order. Prints the number by place and class; the exit code
is 1 if any value is exported.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import os
import random
import re
import string
import sys
import tempfile
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import StructuredTool

import ragtrace
from ragtrace.evaluation import evaluator
from ragtrace.records import Evidence, Score, Trace

PLACES = (
    "question", "history", "chunk", "metadata", "URL", "tool arguments", "tool result", "prompt", "answer", "exception",
    "document id", "tag", "user", "session", "captured tag",
)  # fmt: skip


# --- values ----------------------------------------------------------------------------------------


def _digits(chance: random.Random, count: int) -> str:
    return "".join(chance.choices(string.digits, k=count))


def _letters(chance: random.Random, count: int) -> str:
    return "".join(chance.choices(string.ascii_letters + string.digits, k=count))


def _name(chance: random.Random) -> str:
    return "".join(chance.choices("bdfgklmnprst", k=1)) + "".join(chance.choices("aeiou" + "lmnrst", k=7))


def _card(chance: random.Random) -> str:
    body = chance.choice(["4", "51", "37"]) + _digits(chance, 14)
    body = body[:15]
    doubled = sum(sum(divmod(int(digit) * (2 - i % 2), 10)) for i, digit in enumerate(body))
    number = body + str(-doubled % 10)
    return chance.choice([number, " ".join(number[i : i + 4] for i in range(0, 16, 4))])


def _iban(chance: random.Random) -> str:
    account = _digits(chance, 18)
    number = f"DE{98 - int(account + '131400') % 97:02}{account}"
    return chance.choice([number, number.lower(), " ".join(number[i : i + 4] for i in range(0, 22, 4))])


def _ssn(chance: random.Random) -> str:
    return f"{chance.randint(100, 665)}-{chance.randint(10, 99)}-{chance.randint(1000, 9999)}"


VALUES: dict[str, Callable[[random.Random], str]] = {
    "email": lambda c: f"{_name(c)}.{_name(c)}@{_name(c)}.{c.choice(['com', 'de', 'io', 'co.uk'])}",
    "card": _card,
    "IBAN": _iban,
    "MAC": lambda c: c.choice(":-").join(["a4", *(f"{c.randrange(1, 256):02x}" for _ in range(5))]),
    "IPv4": lambda c: f"{c.choice([84, 91, 151, 212])}.{c.randint(1, 250)}.{c.randint(1, 250)}.{c.randint(1, 250)}",
    "IPv6": lambda c: "2a02:" + ":".join(f"{c.randrange(4096, 65536):x}" for _ in range(7)),
    "phone": lambda c: (
        c.choice(["+49 171 ", "+1 415-55", "+44 20 7"]) + _digits(c, 3) + c.choice([" ", "-"]) + _digits(c, 4)
    ),
    "US social security": _ssn,
    "OpenAI key": lambda c: f"sk-{_letters(c, 32)}",
    "GitHub token": lambda c: f"ghp_{_letters(c, 36)}",
    "AWS key id": lambda c: "AKIA" + "".join(c.choices(string.ascii_uppercase + "234567", k=16)),
    "Slack webhook": lambda c: f"hooks.slack.com/services/T{_digits(c, 8)}/B{_digits(c, 8)}/{_letters(c, 24)}",
    "URL password": lambda c: f"postgres://{_name(c)}:{_letters(c, 12)}7x@db.{_name(c)}.net/app",
    "JWT": lambda c: f"eyJ{_letters(c, 20)}.eyJ{_letters(c, 40)}.{_letters(c, 43)}",
    "password": lambda c: f"password={_letters(c, 10)}4!x",
}
DRESSES: tuple[Callable[[str], str], ...] = (
    lambda value: value,
    lambda value: f"please use {value}, thanks",
    lambda value: f"请{value}谢谢",
    lambda value: f"a_{value}_b",
    lambda value: value.replace(" ", "\u00a0").replace("-", "\u2013") if " " in value else value,
)


# --- the requests ----------------------------------------------------------------------------------


class Retriever(BaseRetriever):
    """Returns one document with the values of the request in it."""

    values: dict[str, str]

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        metadata = {"note": self.values["metadata"], "source": f"https://shop.io/?{self.values['URL']}", "deep": [
            {"inner": self.values["metadata"]}
        ]}  # fmt: skip
        return [
            Document(
                page_content=f"It says {self.values['chunk']} here.", id=self.values["document id"], metadata=metadata
            )
        ]


@evaluator(needs={"answer"}, threshold=0.5)
def quotes(trace: Trace) -> Score:
    """Quotes answer and document in every field that an evaluator may fill."""
    evidence = tuple(Evidence(0, 3, "unsupported", 0.1, each.id, 0, 0, 3) for each in trace.documents)
    return Score("quotes", 0.1, f"label {trace.answer}", f"because {trace.answer}", evidence=evidence)


@evaluator(needs={"query"})
def fails(trace: Trace) -> Score:
    """Fails with the question in its error."""
    return Score("fails", error=f"error {trace.query}")


def with_langchain(values: dict[str, str]) -> None:
    """One request of LangChain."""
    prompt = ChatPromptTemplate.from_messages(
        [("system", "{rules}"), MessagesPlaceholder("history"), ("human", "{context} {question}")]
    )
    tool = StructuredTool.from_function(lambda text: values["tool result"], name="look_up", description="A tool.")

    def fill(question: str) -> dict[str, Any]:
        documents = Retriever(values=values).invoke(question)
        tool.invoke({"text": values["tool arguments"]})
        history = [HumanMessage(values["history"]), AIMessage(f"I see, {values['history']}.")]
        return {"rules": values["prompt"], "history": history, "context": documents, "question": question}

    def fail(message: Any) -> None:
        try:
            raise KeyError(values["exception"])
        except KeyError as error:
            raise ValueError(f"outer {values['exception']}") from error

    model = FakeListChatModel(responses=[f"The answer is {values['answer']}."])
    metadata = {"session_id": values["session"], "user_id": values["user"], "plan": values["captured tag"]}
    options: Any = {"metadata": metadata, "tags": [values["tag"]]}
    (RunnableLambda(fill) | prompt | model).invoke(values["question"], options)
    with contextlib.suppress(ValueError):
        (RunnableLambda(fill) | prompt | model | RunnableLambda(fail)).invoke(values["question"], options)


def by_hand(values: dict[str, str]) -> None:
    """One request that is recorded by hand."""
    identity = {"session_id": values["session"], "user_id": values["user"]}
    more = {"tags": [values["tag"]], "metadata": {"plan": values["captured tag"], "note": values["metadata"]}}

    @ragtrace.retriever
    def search(query: str) -> list[dict[str, Any]]:
        return [{"id": values["document id"], "content": values["chunk"], "metadata": {"url": values["URL"]}}]

    @ragtrace.tool
    def look_up(text: str) -> str:
        return values["tool result"]

    @ragtrace.generation
    def ask(messages: list[dict[str, str]]) -> str:
        return values["answer"]

    with contextlib.suppress(ValueError), ragtrace.request(values["question"], **identity, **more):  # type: ignore[arg-type]
        search(values["question"])
        look_up(values["tool arguments"])
        ask([{"role": "system", "content": values["prompt"]}, {"role": "user", "content": values["history"]}])
        raise ValueError(values["exception"])


# --- what leaves -----------------------------------------------------------------------------------


class Collector(ThreadingHTTPServer):
    """Keeps the bodies of all requests."""

    def __init__(self) -> None:
        bodies = self.bodies = []  # type: list[bytes]

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                """Silence."""

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


def export(plants: list[dict[str, str]], mode: str, folder: Path) -> dict[str, str]:
    """Make the requests; all that leaves, by its way."""
    collector, log = Collector(), io.StringIO()
    logging.basicConfig(stream=log, level=logging.DEBUG, force=True)
    os.environ["PLANTED_KEY"] = "a key for the benchmark alone"
    runtime = ragtrace.init(
        app="planted", evaluators=[quotes, fails], otlp_endpoint=f"http://127.0.0.1:{collector.server_port}",
        otlp_protocol="http/protobuf", spans_file=str(folder / "spans.jsonl"), report_file=str(folder / "report.jsonl"),
        capture_content="SPAN_AND_EVENT", capture_tags=["plan"], explanations=True, prometheus_port=0,
        redact=mode, redact_key="PLANTED_KEY" if mode == "hash" else "", sample_per_second=0, llama_index=False,
    )  # fmt: skip
    for number, values in enumerate(plants):
        (by_hand if number % 3 == 2 else with_langchain)(values)
        if number % 50 == 49:
            runtime.flush(60)
    runtime.flush(60)
    with urllib.request.urlopen(runtime.metrics_url or "") as page:
        metrics = page.read().decode()
    runtime.close(30)
    collector.shutdown()
    return {
        "OTLP": b"\n".join(collector.bodies).decode("utf-8", "replace"),
        "spans_file": (folder / "spans.jsonl").read_text(encoding="utf-8"),
        "report_file": (folder / "report.jsonl").read_text(encoding="utf-8"),
        "metrics": metrics,
        "log": log.getvalue(),
    }


def bare(text: str) -> str:
    """The letters and digits of a text."""
    return re.sub(r"[\W_]", "", text).lower()


def main() -> None:
    """Plant, export, search, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--values", type=int, default=5_000)
    parser.add_argument("--mode", default="pii", choices=("pii", "hash", "off"))
    options = parser.parse_args()
    chance = random.Random(17)
    planted: list[tuple[str, str, str]] = []
    plants: list[dict[str, str]] = []
    while len(planted) < options.values:
        values = {}
        for place in PLACES:
            kind = chance.choice(list(VALUES))
            value = VALUES[kind](chance)
            values[place] = chance.choice(DRESSES)(value)
            planted.append((place, kind, value))
        plants.append(values)
    with tempfile.TemporaryDirectory() as folder:
        ways = export(plants, options.mode, Path(folder))
    leaks: Counter[tuple[str, str, str]] = Counter()
    for way, text in ways.items():
        stripped = bare(text)
        for place, kind, value in planted:
            if value in text or bare(value) in stripped:
                leaks[way, place, kind] += 1
        print(
            f"{way:12} {len(text):10} characters, {sum(n for key, n in leaks.items() if key[0] == way)} values exported"
        )
    for (way, place, kind), count in leaks.most_common(60):
        print(f"  {count:4} {way:12} {place:15} {kind}")
    print(
        f"{len(planted)} values planted in {len(PLACES)} places, redact={options.mode}: {sum(leaks.values())} exported"
    )
    sys.exit(bool(leaks))


if __name__ == "__main__":
    main()
