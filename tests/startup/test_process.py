"""How a traced process lives and dies: each test runs one."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.applications.processes import celery_client
from tests.ports import free_port
from tests.row_files import rows

PRELUDE = """
import os, signal, sys, time, threading
import ragtrace
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from ragtrace.evaluation import evaluator

class One(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager):
        return [Document(page_content="a passage", id="d0")]

model = FakeListChatModel(responses=["An answer."])
chain = (One() | RunnableLambda(lambda ds: ds[0].page_content) | model).with_config(run_name="app")

@evaluator(needs={"answer"}, threshold=0.5)
def quick(trace): return 1.0

@evaluator(needs={"answer"}, timeout=60)
def hangs(trace): time.sleep(60); return 1.0

from functools import partial
from ragtrace.live import init as starting
starting.Limits = partial(starting.Limits, batch=1_000, wait=30.0)  # what is asked waits until the process ends

def init(*checks, **more):
    more = {"frameworks": ("langchain",), "sample_per_second": 0, **more}
    return ragtrace.init(evaluators=checks, spans_file=sys.argv[1], **more)
"""


def run(tmp_path: Path, body: str, timeout: float = 180) -> tuple[subprocess.CompletedProcess[str], list[Any]]:
    """Run a program; how it ended, and the spans it left."""
    script, spans = tmp_path / "app.py", tmp_path / "spans.jsonl"
    script.write_text(PRELUDE + textwrap.dedent(body))
    done = subprocess.run(
        [sys.executable, str(script), str(spans)], capture_output=True, text=True, timeout=timeout, check=False
    )
    return done, read(spans) if spans.exists() else []


def read(spans: Path) -> list[Any]:
    return [json.loads(line) for line in spans.read_text().splitlines()]


@contextlib.contextmanager
def serving(folder: Path, body: str, module: str, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A program `app` in a server, `python -m MODULE`, that prints into the file `log`; and the file of its spans."""
    (folder / "app.py").write_text(PRELUDE.replace("sys.argv[1]", "os.environ['SPANS']") + body)
    environment = {**os.environ, "SPANS": str(folder / "spans.jsonl"), "FOLDER": str(folder)}
    command = [sys.executable, "-m", module, *arguments]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stderr=log, text=True)
    try:
        yield process, folder / "spans.jsonl"
    finally:
        process.kill()
        process.wait()


def scores(spans: list[Any]) -> list[Any]:
    return [root.get("gen_ai.evaluation.quick.score") for root in roots(spans)]


def roots(spans: list[Any]) -> list[Any]:
    return [s["attributes"] for s in spans if s["name"] == "invoke_workflow app"]


def test_a_short_program_ends_with_scores(tmp_path: Path) -> None:
    """Without a call or a setting the models are loaded first, and the root leaves with the default suite's scores."""
    patience = "from ragtrace.live import runtime\nruntime._LOADING = 150\n"  # a busy machine takes longer
    done, spans = run(tmp_path, f"{patience}init()\nchain.invoke('How long is the pump covered?')", timeout=200)
    assert done.returncode == 0, done.stderr
    (root,) = roots(spans)
    assert root["ragtrace.evaluation.status"] == "scored"
    assert "gen_ai.evaluation.groundedness.score" in root
    assert len(spans) == 3


def test_ctrl_c_ends_the_wait_for_scores(tmp_path: Path) -> None:
    script, file = tmp_path / "app.py", tmp_path / "spans.jsonl"
    script.write_text(PRELUDE + "init(hangs, exit_seconds=300)\nchain.invoke('q')\n")
    with subprocess.Popen([sys.executable, str(script), str(file)], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        sentence = process.stderr.readline()
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        assert process.wait(60) == 0
    assert "1 request(s)" in sentence
    assert "Ctrl-C" in sentence
    assert "Traceback" not in rest
    assert [a["ragtrace.evaluation.status"] for a in roots(read(file))] == ["dropped"]


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="this system sends signals to processes alone")
def test_a_ctrl_c_that_does_not_wake_the_main_thread_is_seen(tmp_path: Path) -> None:
    """Another thread gets the signal, so that no wait of the main thread ends by it: the next one sees it."""
    body = """
    init(hangs, exit_seconds=300)
    chain.invoke('q')
    def interrupt():
        time.sleep(3)
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        time.sleep(60)
    threading.Thread(target=interrupt, daemon=True).start()
    """
    done, spans = run(tmp_path, body, timeout=40)
    assert done.returncode == 0, done.stderr
    assert [a["ragtrace.evaluation.status"] for a in roots(spans)] == ["dropped"]


def test_a_hanging_evaluator_does_not_keep_the_process(tmp_path: Path) -> None:
    done, spans = run(tmp_path, "init(hangs, exit_seconds=0.2)\nfor i in range(3): chain.invoke('q')", timeout=40)
    assert done.returncode == 0, done.stderr
    assert len(roots(spans)) == 3
    assert {a["ragtrace.evaluation.status"] for a in roots(spans)} <= {"pending_timeout", "dropped"}


@pytest.mark.parametrize(("end", "code", "words"), rows(__file__, "what_ends_a_process_flushes"))
def test_what_ends_a_process_flushes(end: str, code: int, words: str, tmp_path: Path) -> None:
    """What a process holds when it dies is sent; it dies of its signal, its own handler or its own exception."""
    done, spans = run(tmp_path, f"init(quick)\nfor i in range(3): chain.invoke('q')\n{end}\ntime.sleep(30)")
    assert done.returncode == code
    assert words in done.stderr
    assert scores(spans) == [1.0] * 3
    assert len(spans) == 9


def test_ctrl_c_of_gunicorn_flushes(tmp_path: Path) -> None:
    """It sets the default action of SIGINT in its workers."""
    body = "sys.modules['gunicorn'] = sys\nsignal.signal(2, signal.SIG_DFL)\ninit(quick)\nchain.invoke('q')\n"
    done, spans = run(tmp_path, f"{body}os.kill(os.getpid(), 2)\ntime.sleep(30)")
    assert (done.returncode, len(roots(spans))) == (-2, 1)


@pytest.mark.skipif(
    shutil.which("unshare") is None
    or subprocess.run(["unshare", "-pf", "true"], capture_output=True, check=False).returncode != 0,
    reason="this user may make no namespace of processes",
)
def test_process_1_of_a_container_ends(tmp_path: Path) -> None:
    """It has no default action for SIGTERM: once its requests have left it exits by itself."""
    script, spans = tmp_path / "app.py", tmp_path / "spans.jsonl"
    body = "init(quick)\nchain.invoke('q')\nassert os.getpid() == 1\nos.kill(1, 15)\ntime.sleep(30)\n"
    script.write_text(PRELUDE + body)
    command = ["unshare", "-pf", sys.executable, str(script), str(spans)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=25, check=False)
    assert done.returncode == 128 + signal.SIGTERM, done.stderr
    assert len(roots(read(spans))) == 1


def test_sigterm_while_the_first_request_starts_a_thread_loses_nothing(tmp_path: Path) -> None:
    """Its handler waits in the main thread, which must not hold what closing needs."""
    body = """
    start = threading._start_new_thread
    def starting(function, arguments):
        if function.__self__.name == "ragtrace-hold": os.kill(os.getpid(), 15)
        return start(function, arguments)
    init(quick)
    threading._start_new_thread = starting
    if os.fork() == 0:  # a child has no threads yet
        chain.invoke('q')
        time.sleep(60)
    print(os.waitstatus_to_exitcode(os.wait()[1]))
    """
    done, spans = run(tmp_path, body)
    assert done.stdout == f"{-signal.SIGTERM}\n"
    assert len(roots(spans)) == 1


@pytest.mark.parametrize("begin", ["ragtrace.shutdown()", "os.kill(os.getpid(), 15)"])
def test_sigterm_while_ragtrace_closes_loses_nothing(begin: str, tmp_path: Path) -> None:
    """A signal, or a second one, that comes while what waits is evaluated ends the process only after that."""
    body = f"""
    @evaluator(needs={{"answer"}}, timeout=60)
    def slow(trace): time.sleep(1); return 1.0
    init(slow)
    for i in range(2): chain.invoke('q')
    threading.Timer(0.5, os.kill, (os.getpid(), 15)).start()
    {begin}
    time.sleep(30)
    """
    done, spans = run(tmp_path, body)
    assert done.returncode == -signal.SIGTERM
    assert [a["gen_ai.evaluation.slow.score"] for a in roots(spans)] == [1.0] * 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_children_of_multiprocessing_lose_nothing(tmp_path: Path) -> None:
    """Children that end by os._exit, alone or in a pool of processes, evaluate and send their requests before."""
    body = """
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    init(quick)
    def ask(question): return chain.invoke(question).content
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=chain.invoke, args=("child",)) for i in range(3)]
    for child in children: child.start()
    for child in children: child.join()
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        list(pool.map(ask, ["pool"] * 10))
    with context.Pool(2) as pool:  # which terminates its processes while they exit
        pool.map(ask, ["pool"] * 5)
    def wait(lock):
        chain.invoke("child")
        # A signal that another thread gets does not interrupt the wait, nor does one that arrives just before it.
        threading.Timer(0.5, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGTERM)).start()
        lock.acquire()
    with (lock := context.Lock()):
        child = context.Process(target=wait, args=(lock,))
        child.start()
        child.join()
    """
    done, spans = run(tmp_path, body)
    assert done.returncode == 0, done.stderr
    assert scores(spans) == [1.0] * 19
    assert len({s["span_id"] for s in spans}) == len(spans) == 57


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_children_of_multiprocessing_that_start_ragtrace_themselves_lose_nothing(tmp_path: Path) -> None:
    """Where `init` is called in the child, by its own function or by the initializer of a pool, its end is the same."""
    body = """
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    def start(): init(quick)
    def ask(question): return chain.invoke(question).content
    def start_and_ask(): start(); ask("child")
    context = multiprocessing.get_context("fork")
    child = context.Process(target=start_and_ask)
    child.start()
    child.join()
    with ProcessPoolExecutor(2, mp_context=context, initializer=start) as pool:
        list(pool.map(ask, ["pool"] * 10))
    """
    done, spans = run(tmp_path, body)
    assert done.returncode == 0, done.stderr
    assert scores(spans) == [1.0] * 11


SERVER = """
init(quick)

async def app(scope, receive, send):
    if scope["type"] != "http":
        raise NotImplementedError
    await chain.ainvoke("q")
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"answered"})
"""
IN_POOL = """
import threading
starting = threading.Thread(target=init, args=(quick,))
starting.start()
starting.join()
"""


@pytest.mark.parametrize("workers", ["1", "2", "a thread"])
def test_uvicorn_that_is_terminated_loses_nothing(workers: str, tmp_path: Path) -> None:
    """uvicorn handles SIGTERM and raises it again when it has shut down: what was answered leaves with its scores."""
    server = SERVER
    if workers == "a thread":  # of a pool called `init`
        workers, server = "1", SERVER.replace("init(quick)\n", IN_POOL)
        assert IN_POOL in server
    port = free_port()
    arguments = ("app:app", "--port", str(port), "--workers", workers)
    with serving(tmp_path, server, "uvicorn", *arguments) as (process, file):
        while (tmp_path / "log").read_text().count("Application startup complete") < int(workers):
            assert process.poll() is None, (tmp_path / "log").read_text()
            time.sleep(0.1)
        for _ in range(20):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60) as response:
                assert response.read() == b"answered"
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == (-signal.SIGTERM if workers == "1" else 0)
    assert scores(read(file)) == [1.0] * 20


WSGI = """
init(quick)

def app(environ, start_response):
    chain.invoke("q")
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"answered"]
"""


@pytest.mark.parametrize("options", rows(__file__, "recycled_workers_of_gunicorn_lose_nothing"))
def test_recycled_workers_of_gunicorn_lose_nothing(options: list[str], tmp_path: Path) -> None:
    """Each worker evaluates and sends its requests before another one replaces it, and at the server's SIGTERM."""
    kind = SERVER if "uvicorn.workers.UvicornWorker" in options else WSGI
    url = f"127.0.0.1:{free_port()}"
    answered, deadline = 0, time.monotonic() + 120
    arguments = ("--bind", url, "--workers", "2", *options, "app:app")
    with serving(tmp_path, kind, "gunicorn", *arguments) as (server, file):
        while answered < 20 and time.monotonic() < deadline:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://{url}/", timeout=60) as response:
                answered += response.read() == b"answered"  # at first it does not listen yet
        server.send_signal(signal.SIGTERM)
        assert server.wait(120) == 0
    assert scores(read(file)) == [1.0] * 20


WORKER = """
from celery import Celery
app = Celery("app", broker="filesystem://", backend=f"file://{os.environ['FOLDER']}/results")
queue = os.environ["FOLDER"] + "/queue"
app.conf.update(broker_transport_options={"data_folder_in": queue, "data_folder_out": queue})
init(quick)

@app.task
def ask(question):
    return chain.invoke(question).content
"""


def test_recycled_processes_of_celery_lose_nothing(tmp_path: Path) -> None:
    """Each process of Celery's prefork pool evaluates and sends its requests before it is replaced by another one."""
    client = celery_client(tmp_path)
    pool = ("--pool", "prefork", "--concurrency", "2", "--max-tasks-per-child", "3")
    with serving(tmp_path, WORKER, "celery", "-A", "app", "worker", *pool) as (worker, file):
        tasks = [client.send_task("app.ask", (f"question {i}",)) for i in range(12)]
        assert [task.get(timeout=120) for task in tasks] == ["An answer."] * 12
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(120) == 0
    assert scores(read(file)) == [1.0] * 12


EARLY = """
import sys
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from ragtrace_langchain import RagtraceLangChainInstrumentor
from ragtrace_llama_index import RagtraceLlamaIndexInstrumentor
exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
RagtraceLangChainInstrumentor().instrument(tracer_provider=provider)
RagtraceLlamaIndexInstrumentor().instrument(tracer_provider=provider)
assert not {"langchain_core", "llama_index", "llama_index.core"} & set(sys.modules)
from langchain_core.language_models import FakeListChatModel
FakeListChatModel(responses=["x"]).invoke("q")
from llama_index.core.llms import MockLLM
MockLLM().complete("q")
print([s.name for s in exporter.get_finished_spans()])
"""


def test_instrumenting_before_the_framework_is_imported() -> None:
    done = subprocess.run([sys.executable, "-c", EARLY], capture_output=True, text=True, check=False)
    assert done.stdout.strip().endswith("['chat FakeListChatModel', 'text_completion MockLLM']"), done.stderr


AUTOMATIC = """
from langchain_core.language_models import FakeListChatModel
from langchain_core.runnables import RunnableLambda
chain = RunnableLambda(lambda q: q) | FakeListChatModel(responses=["hello"])
chain.with_config(run_name="auto").invoke("q")
from llama_index.core.llms import MockLLM
MockLLM(max_tokens=2).complete("again")
"""


def test_opentelemetry_instrument(tmp_path: Path) -> None:
    tool = Path(sys.executable).with_name("opentelemetry-instrument")
    app = tmp_path / "app.py"
    app.write_text(AUTOMATIC)
    environment = {**os.environ, **{f"OTEL_{kind}_EXPORTER": "none" for kind in ("TRACES", "METRICS", "LOGS")}}
    environment["RAGTRACE_SPANS_FILE"] = str(tmp_path / "spans.jsonl")
    environment["RAGTRACE_EVALUATORS"] = "looping_compression_ratio"
    command = [str(tool), sys.executable, str(app)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    spans = read(tmp_path / "spans.jsonl")
    names = [s["name"] for s in spans]
    assert sorted(names) == ["chat FakeListChatModel", "invoke_workflow auto", "text_completion MockLLM"], done.stderr
    (root,) = [s for s in spans if s["name"] == "invoke_workflow auto"]
    assert root["attributes"]["gen_ai.evaluation.looping_compression_ratio.score"] == 1.0
