"""Plants personal data and secrets in every place of a request, and looks for them in everything that leaves.

    python benchmarks/planted_values.py [--values 5000] [--mode pii|names|hash|metadata_only|function|off]

Each request of four applications (LangChain, LlamaIndex, recorded by hand, spans of another library) has another
generated value in each place: question, history, chunk, metadata and its keys, URL, arguments, result and description
of a tool, prompt and its variables, answer, exception and its cause, id of a document, tag, user, session, captured
tag, label and explanation of a score from code, comment, category and source of feedback, name, attribute and event of
a span. An evaluator quotes answer and document in its label, explanation, evidence and error. The values are of the
classes that docs/privacy.md says `pii` finds; half of them are written in another way (JSON, URL, HTML, Markdown,
zero-width characters, full-width or Arabic digits, Cyrillic letters, line breaks). Everything that leaves is searched:
spans and events over OTLP, what the judge is asked, the file of spans, the report file, /metrics, and the log. With
`--mode function` an application's function takes every text away, so whatever is exported did not pass it. A value is
exported where it stands there as it is, or in the form that was planted, or with all its letters and digits in order.
Prints the number by place and class; the exit code is 1 if any value is exported.
"""

import argparse
import contextlib
import io
import json
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
from urllib.parse import quote

from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import StructuredTool
from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index.core.llms.mock import MockLLM
from llama_index.core.schema import TextNode
from opentelemetry import trace
from redaction import letters

import ragtrace
from ragtrace.evaluation import evaluator
from ragtrace.records import Evidence, Score, Trace

PLACES = (
    "question", "history", "chunk", "metadata", "URL", "tool arguments", "tool result", "prompt", "answer", "exception",
    "document id", "tag", "user", "session", "captured tag", "metadata key", "tool description", "prompt variable",
    "score label", "score explanation", "feedback comment", "feedback category", "feedback source", "span name",
    "span attribute", "span event", "node id", "node metadata",
)  # fmt: skip


# --- values ----------------------------------------------------------------------------------------


def _digits(chance: random.Random, count: int) -> str:
    return "".join(chance.choices(string.digits, k=count))


def _letters(chance: random.Random, count: int) -> str:
    return "".join(chance.choices(string.ascii_letters + string.digits, k=count))


def _name(chance: random.Random) -> str:
    return "".join(chance.choices("bdfgklmnprst", k=1)) + "".join(chance.choices("aeiou" + "lmnrst", k=7))


def _card(chance: random.Random) -> str:
    body = chance.choice(["4", "51"]) + _digits(chance, 14)
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
    "email": lambda c: f"{_name(c)}.{_name(c)}@{_name(c)}.{c.choice(['com', 'de', 'io', 'co.uk'])}", "card": _card,
    "IBAN": _iban, "MAC": lambda c: c.choice(":-").join(["a4", *(f"{c.randrange(1, 256):02x}" for _ in range(5))]),
    "IPv4": lambda c: f"{c.choice([84, 91, 151, 212])}.{c.randint(1, 250)}.{c.randint(1, 250)}.{c.randint(1, 250)}",
    "IPv6": lambda c: "2a02:" + ":".join(f"{c.randrange(4096, 65536):x}" for _ in range(7)),
    "phone": lambda c: (
        c.choice(["+49 171 ", "+1 415-55", "+44 20 7"]) + _digits(c, 3) + c.choice([" ", "-"]) + _digits(c, 4)
    ),
    "US social security": _ssn, "OpenAI key": lambda c: f"sk-{_letters(c, 32)}",
    "GitHub token": lambda c: f"ghp_{_letters(c, 36)}",
    "AWS key id": lambda c: "AKIA" + "".join(c.choices(string.ascii_uppercase + "234567", k=16)),
    "Slack webhook": lambda c: f"hooks.slack.com/services/T{_digits(c, 8)}/B{_digits(c, 8)}/{_letters(c, 24)}",
    "URL password": lambda c: f"postgres://{_name(c)}:{_letters(c, 12)}7x@db.{_name(c)}.net/app",
    "JWT": lambda c: f"eyJ{_letters(c, 20)}.eyJ{_letters(c, 40)}.{_letters(c, 43)}",
    "password": lambda c: f"password={_letters(c, 10)}4!x",
}  # fmt: skip
DRESSES: tuple[Callable[[str], str], ...] = (
    lambda value: value, lambda value: f"please use {value}, thanks", lambda value: f"请{value}谢谢",
    lambda value: f"a_{value}_b",
    lambda value: value.replace(" ", "\u00a0").replace("-", "\u2013") if " " in value else value,
)  # fmt: skip


def _marks(form: str) -> Callable[[str], str]:
    return lambda value: re.sub(r"[^A-Za-z0-9]", lambda match: form.format(ord(match[0])), value)


LOOK_ALIKES = dict(zip(map(ord, "aceopxyABCEHKMOPTX"), "асеорхуАВСЕНКМОРТХ", strict=True))  # noqa: RUF001 that is the point
ESCAPES: dict[str, Callable[[str], str]] = {
    "JSON": _marks(r"\u{:04x}"),
    "URL": lambda value: quote(value, safe=""),
    "HTML": _marks("&#{};"),
    "Markdown": lambda value: re.sub(r"([^A-Za-z0-9 ])", r"\\\1", value),
    "zero-width": lambda value: f"{value[:6]}\u200b{value[6:-4]}\u200d{value[-4:]}",
    "full width": lambda value: "".join(chr(ord(c) + 0xFEE0) if c != " " else "\u3000" for c in value),
    "Arabic digits": lambda value: value.translate({48 + n: 0x660 + n for n in range(10)}),
    "Cyrillic": lambda value: value.translate(LOOK_ALIKES),
    "line breaks": lambda value: value.replace(" ", "\n"),
}
"""Other ways to write a value."""


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
def quotes(request: Trace) -> Score:
    """Quotes answer and document in every field that an evaluator may fill."""
    evidence = tuple(Evidence(0, 3, "unsupported", 0.1, each.id, 0, 0, 3) for each in request.documents)
    return Score("quotes", 0.1, f"label {request.answer}", f"because {request.answer}", evidence=evidence)


@evaluator(needs={"query"})
def fails(request: Trace) -> Score:
    """Fails with the question in its error."""
    return Score("fails", error=f"error {request.query}")


def with_langchain(values: dict[str, str]) -> None:
    """One request of LangChain."""
    prompt = ChatPromptTemplate.from_messages(
        [("system", "{rules} {more}"), MessagesPlaceholder("history"), ("human", "{context} {question}")]
    )
    tool = StructuredTool.from_function(
        lambda text: values["tool result"], name="look_up", description=f"A tool for {values['tool description']}."
    )

    def fill(question: str) -> dict[str, Any]:
        documents = Retriever(values=values).invoke(question)
        tool.invoke({"text": values["tool arguments"]})
        history = [HumanMessage(values["history"]), AIMessage(f"I see, {values['history']}.")]
        more = values["prompt variable"]
        return {"rules": values["prompt"], "more": more, "history": history, "context": documents, "question": question}

    def fail(message: Any) -> None:
        try:
            raise KeyError(values["exception"])
        except KeyError as error:
            raise ValueError(f"outer {values['exception']}") from error

    model = FakeListChatModel(responses=[f"The answer is {values['answer']}."])
    metadata = {"session_id": values["session"], "user_id": values["user"], "plan": values["captured tag"]}
    metadata[values["metadata key"]] = "x"
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

    with contextlib.suppress(ValueError), ragtrace.request(values["question"], **identity, **more) as request:  # type: ignore[arg-type]
        search(values["question"])
        look_up(values["tool arguments"])
        ask([{"role": "system", "content": values["prompt"]}, {"role": "user", "content": values["history"]}])
        ragtrace.score(request.trace_id, "own", None, values["score label"], values["score explanation"])
        texts = {name: values[f"feedback {name}"] for name in ("comment", "category", "source")}
        ragtrace.feedback(request.trace_id, thumbs=-1, **texts)  # type: ignore[arg-type]
        raise ValueError(values["exception"])


def with_llama_index(values: dict[str, str]) -> None:
    """One request of LlamaIndex."""
    metadata = {"note": values["node metadata"], "source": f"https://shop.io/?{values['URL']}"}
    node = TextNode(text=f"It says {values['chunk']} here.", id_=values["node id"], metadata=metadata)
    index = VectorStoreIndex([node], embed_model=MockEmbedding(4))
    model = MockLLM(system_prompt=values["prompt"])
    index.as_query_engine(llm=model).query(f"{values['question']} {values['answer']}")


def other_library(values: dict[str, str]) -> None:
    """One span of a library that knows nothing of ragtrace."""
    tracer = trace.get_tracer("another library")
    with contextlib.suppress(ValueError), tracer.start_as_current_span(f"GET {values['span name']}") as span:
        span.set_attribute("url.full", f"https://shop.io/?{values['span attribute']}")
        span.set_attribute("names", [values["span attribute"], "x"])
        span.add_event("log", {"text": values["span event"]})
        try:
            raise KeyError(values["exception"])
        except KeyError as error:
            raise ValueError(values["exception"]) from error


APPLICATIONS = (with_langchain, by_hand, with_llama_index, other_library)


# --- what leaves -----------------------------------------------------------------------------------


VERDICT = {"role": "assistant", "content": json.dumps({"answer_fails": False, "reason": "It is fine."})}
COMPLETION = json.dumps(
    {"id": "c", "object": "chat.completion", "model": "m", "choices": [{"index": 0, "message": VERDICT}]}
).encode()


def take_away(text: str) -> str:
    """A redaction function that leaves nothing of a text."""
    return "[gone]"


class Collector(ThreadingHTTPServer):
    """Keeps the bodies of all requests. Answers each with `body`."""

    def __init__(self, body: bytes = b"") -> None:
        bodies = self.bodies = []  # type: list[bytes]

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Content-Type", "application/json" if body else "application/x-protobuf")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                """Silence."""

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


def export(plants: list[dict[str, str]], mode: str, folder: Path) -> dict[str, str]:
    """Make the requests; all that leaves, by its way."""
    collector, judge, log = Collector(), Collector(COMPLETION), io.StringIO()
    handler = logging.StreamHandler(log)
    handler.addFilter(lambda record: record.name.startswith("ragtrace"))  # LlamaIndex logs its nodes itself
    logging.basicConfig(handlers=[handler], level=logging.DEBUG, force=True)
    os.environ["PLANTED_KEY"] = "a key for the benchmark alone"
    runtime = ragtrace.init(
        app="planted", evaluators=[quotes, fails, "faithfulness_judge"],
        otlp_endpoint=f"http://127.0.0.1:{collector.server_port}",
        spans_file=str(folder / "spans.jsonl"), report_file=str(folder / "report.jsonl"),
        capture_content="SPAN_AND_EVENT", capture_tags=["plan"], explanations=True, prometheus_port=0,
        redact="planted_values:take_away" if mode == "function" else mode,
        redact_key="PLANTED_KEY" if mode == "hash" else "", redact_others=mode != "off",
        sample_per_second=0, judge_model="openai/judge", model_prices=["openai/judge=0/0"],
        judge_api_base=f"http://127.0.0.1:{judge.server_port}/v1",
        judge_redact="pii" if mode == "metadata_only" else "",
    )  # fmt: skip
    for number, values in enumerate(plants):
        APPLICATIONS[number % len(APPLICATIONS)](values)
        if number % 50 == 49:
            runtime.flush(60)
    runtime.flush(60)
    with urllib.request.urlopen(runtime.metrics_url or "") as page:
        metrics = page.read().decode()
    runtime.close(30)
    collector.shutdown()
    judge.shutdown()
    if not judge.bodies:
        sys.exit("the judge was not asked: nothing can be said of it")
    return {
        "judge": b"\n".join(judge.bodies).decode("utf-8", "replace"),
        "OTLP": b"\n".join(collector.bodies).decode("utf-8", "replace"),
        "spans_file": (folder / "spans.jsonl").read_text(encoding="utf-8"),
        "report_file": (folder / "report.jsonl").read_text(encoding="utf-8"), "metrics": metrics, "log": log.getvalue(),
    }  # fmt: skip


def main() -> None:
    """Plant, export, search, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--values", type=int, default=5_000)
    parser.add_argument("--mode", default="pii", choices=("pii", "names", "hash", "metadata_only", "function", "off"))
    options = parser.parse_args()
    chance = random.Random(17)
    planted: list[tuple[str, str, str, str]] = []
    plants: list[dict[str, str]] = []
    while len(planted) < options.values:
        values = {}
        for place in PLACES:
            kind = chance.choice(list(VALUES))
            value = VALUES[kind](chance)
            escape = chance.choice(list(ESCAPES)) if chance.random() < 0.5 else ""
            form = ESCAPES[escape](value) if escape else value
            values[place] = f"see {form} there" if escape else chance.choice(DRESSES)(value)
            planted.append((place, f"{kind} {escape}".strip(), value, form))
        plants.append(values)
    with tempfile.TemporaryDirectory() as folder:
        ways = export(plants, options.mode, Path(folder))
    leaks: Counter[tuple[str, str, str]] = Counter()
    for way, text in ways.items():
        stripped = letters(text)
        for place, kind, value, form in planted:
            if value in text or form in text or letters(value) in stripped or letters(form) in stripped:
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
