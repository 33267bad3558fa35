"""Answers questions about the travel policy, with a search and a model that no framework calls.

Put your own client in `generate`, and your own search in `search`; the decorators stay.
"""

import re
from pathlib import Path

import ragtrace

POLICY = (Path(__file__).parent / "policy.md").read_text(encoding="utf-8").strip().split("\n\n")[1:]
COMMON = "a an and are can do does for how i in is it many much my of on or the to what when which"


def content_words(text: str) -> set[str]:
    """The words of a text that say what it is about, without the ending of a plural."""
    return {word.removesuffix("s") for word in re.findall(r"[a-z0-9]+", text.lower()) if word not in COMMON.split()}


@ragtrace.retriever
def search(query: str) -> list[dict[str, str]]:
    """The two paragraphs of the policy that share most words with the query."""
    words = content_words(query)
    best = sorted(enumerate(POLICY), key=lambda numbered: -len(words & content_words(numbered[1])))[:2]
    return [{"id": f"paragraph-{number}", "content": paragraph} for number, paragraph in best]


@ragtrace.generation(model="offline")
def generate(messages: list[dict[str, str]]) -> str:
    """Stands for a language model: it repeats the closest sentence, and invents an answer where no sentence is close.

    With OpenAI's client: `return client.chat.completions.create(model=…, messages=messages)`, and its text below.
    """
    system, question = messages[0]["content"], content_words(messages[1]["content"])
    sentences = re.split(r"(?<=\.)\s+", system.partition("\n\n")[2])
    best = max(sentences, key=lambda sentence: len(question & content_words(sentence)))
    is_close = len(question & content_words(best)) >= len(question) / 2
    return best if is_close else "Yes, the company in Oslo refunds up to 300 euros for it."


def answer_question(question: str) -> str:
    """The answer to a question, from the policy."""
    passages = "\n\n".join(passage["content"] for passage in search(question))
    system = {"role": "system", "content": f"Answer from this policy only.\n\n{passages}"}
    return generate([system, {"role": "user", "content": question}])
