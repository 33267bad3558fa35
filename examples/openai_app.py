"""An application with OpenAI's client and a search of its own, and the lines that add ragtrace to it.

OPENAI_API_KEY and, for another server than OpenAI's, OPENAI_BASE_URL are read by the client.
"""

import sys

from openai import OpenAI, Stream

# --- added: spans with scores go to a file; name an endpoint instead with otlp_endpoint="http://localhost:4318" ---
import ragtrace

ragtrace.init(app="pump-help", spans_file="ragtrace-spans.jsonl")
# ------------------------------------------------------------------------------------------------------------------

MANUAL = {
    "warranty": "The warranty of the pump covers parts and labour for 24 months from delivery.",
    "filter": "The filter must be replaced every six months.",
    "pressure": "Keep the inlet pressure below four bar.",
}
client = OpenAI()


@ragtrace.retriever  # added
def search(query: str, limit: int = 2) -> list[dict]:
    """The passages that share most words with the query."""
    words = set(query.lower().replace("?", "").split())
    passages = [
        {"id": name, "content": text, "score": len(words & set(text.lower().split())) / len(words)}
        for name, text in MANUAL.items()
    ]
    return sorted(passages, key=lambda passage: passage["score"], reverse=True)[:limit]


@ragtrace.generation  # added
def ask(messages: list[dict], model: str = "gpt-4o-mini") -> Stream:
    """The model's answer, as the client streams it."""
    options = {"stream": True, "stream_options": {"include_usage": True}}
    return client.chat.completions.create(model=model, messages=messages, **options)


def answer(question: str) -> str:
    """The answer to a question, from the manual."""
    with ragtrace.request(question, name="manual", session_id="s-1", user_id="ada"):  # added
        context = "\n".join(passage["content"] for passage in search(question))
        system = {"role": "system", "content": f"Answer from the context only.\n{context}"}
        chunks = ask([system, {"role": "user", "content": question}])
        return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


if __name__ == "__main__":
    print(answer(" ".join(sys.argv[1:]) or "How long does the warranty cover the pump?"))
