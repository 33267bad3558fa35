"""In a tracer provider that `init` makes, other libraries' spans leave without what users wrote."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ragtrace_otlp.text_filter import TextFilter
from tests.row_files import rows, table

MAIL, PHONE = "jane.doe@corp.de", "+49 171 2345678"
QUESTION = f"Where is my parcel? Write to {MAIL} or call {PHONE}"
HEADERS = {f"OTEL_INSTRUMENTATION_HTTP_CAPTURE_HEADERS_{side}_REQUEST": ".*" for side in ("SERVER", "CLIENT")}
COMMON = """
import contextlib, sys
import httpx, redis, requests
from opentelemetry import trace
from opentelemetry.instrumentation.httpx import HTTPXClientInstrumentor
from opentelemetry.instrumentation.redis import RedisInstrumentor
from opentelemetry.instrumentation.requests import RequestsInstrumentor
import ragtrace

mail, question = sys.argv[1:]
for each in (HTTPXClientInstrumentor, RedisInstrumentor, RequestsInstrumentor):
    each().instrument()

def answer():
    for call in (
        lambda: requests.get(f"http://zq7x:{mail}@127.0.0.1:9/x/{mail}?q={question}"),
        lambda: httpx.post(f"http://127.0.0.1:9/x/{mail}?q={question}", headers={"x-user": mail}, json={"q": question}),
        lambda: redis.Redis(port=9).set(f"user:{mail}", question),
    ):
        with contextlib.suppress(Exception):
            call()
    with ragtrace.request(question) as request:
        span = trace.get_tracer("mine").start_span(f"look up {mail}")
        span.set_attributes({"found": question, "app.mail": mail})
        span.add_event(f"asked {question}", {"by": mail})
        span.end()
        own = trace.get_current_span()
        own.set_attributes({"found": question, "app.mail": mail, "shop": "zurich"})
        own.add_event(f"asked {question}", {"by": mail})
        own.record_exception(ValueError(question))
        request.answered("Soon.")
    raise ValueError(f"no parcel for {question}")
"""
APPLICATIONS = {
    "fastapi": """
from fastapi import FastAPI
from fastapi.testclient import TestClient
from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor

app = FastAPI()
app.get("/ask/{user}")(answer)
FastAPIInstrumentor.instrument_app(app)
client = TestClient(app, raise_server_exceptions=False)
client.get("/ask/zq7x", params={"question": question, "user": mail}, headers={"x-user": mail})
""",
    "django": """
import django
from django.conf import settings
from django.test import Client
from django.urls import path
from opentelemetry.instrumentation.django import DjangoInstrumentor

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="x", MIDDLEWARE=[])
urlpatterns = [path("ask/<user>", lambda request, user: answer())]
DjangoInstrumentor().instrument()
django.setup()
client = Client(raise_request_exception=False)
client.get("/ask/zq7x", {"question": question, "user": mail}, headers={"x-user": mail})
""",
}


@pytest.mark.process
@pytest.mark.parametrize(("names", "redact"), [("", "off"), ("http,database", "pii")])
@pytest.mark.parametrize("framework", APPLICATIONS)
def test_no_text_leaves_with_spans_of_an_application(framework: str, names: str, redact: str, tmp_path: Path) -> None:
    """Without `capture_content`, under OpenTelemetry's old and new names; what an operator needs stays."""
    start = f"ragtrace.init(spans_file='spans.jsonl', evaluators=['looping_unique_sentences'], redact='{redact}')\n"
    environment = {**os.environ, **HEADERS, "OTEL_SEMCONV_STABILITY_OPT_IN": names}
    command = [sys.executable, "-c", COMMON + start + APPLICATIONS[framework], MAIL, QUESTION]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "spans.jsonl").read_text()
    assert not re.findall(r"jane|corp\.de|parcel|1(?: |\+|%20)2345678|zq7x", text)
    spans = [json.loads(line) for line in text.splitlines()]
    scopes = {span["scope"].rpartition(".")[2] for span in spans}
    assert scopes == {"mine", "ragtrace", "httpx", "redis", "requests", framework}
    (served,) = (span for span in spans if span["scope"].endswith(framework) and span["parent_id"] is None)
    assert {"GET", 500, "http"} < set(served["attributes"].values())
    assert served["status"]["code"] == "ERROR"


KEPT: dict[str, Any] = table(__file__, "kept")
GONE: dict[str, Any] = table(__file__, "gone") | {
    "mail": MAIL, "object": b"hi", "http.request.header.x": ("hi",), "terms": ("my", "tumor", "hurts"),
    "rpc.grpc.request.metadata.x": ("Ada",), "words": ("my", "tumor", "hurts"),
}  # fmt: skip


def test_attributes_without_texts() -> None:
    """Words and numbers stay; what a name says is a text, and what is one, do not."""
    assert TextFilter().attributes({**GONE, **KEPT}) == KEPT


@pytest.mark.parametrize(("name", "value", "kept"), rows(__file__, "addresses_without_texts"))
def test_addresses_without_texts(name: str, value: str, kept: str) -> None:
    """The host and the plain words of a path stay. A known route replaces the path."""
    assert TextFilter().attributes({name: value}) == {name: kept}
    route = {"http.route": "/ask/{id}"}
    if "path" in name:
        assert TextFilter().attributes({name: value, **route}) == {name: "/ask/{id}", **route}


@pytest.mark.parametrize(("name", "kept"), rows(__file__, "names_without_texts"))
def test_names_without_texts(name: str, kept: str) -> None:
    assert TextFilter().text(name, 500) == kept
