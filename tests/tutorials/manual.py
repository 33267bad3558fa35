"""The texts that the tutorials search: a manual of a coffee machine, and embeddings that know its words."""

import re

from langchain_core.embeddings import Embeddings
from llama_index.core.base.embeddings.base import BaseEmbedding

PASSAGES = {
    "m1": "The warranty of the coffee machine lasts two years from the day of purchase.",
    "m2": "Descale the machine every three months. Fill the tank with the descaler and press both buttons.",
    "m3": "The grinder has five steps. Turn the wheel only while the grinder runs.",
    "m4": "Rinse the milk hose with hot water after each use.",
}
WORDS = ("warranty", "years", "descale", "months", "buttons", "grinder", "wheel", "steps", "milk", "hose", "water")
WARRANTY = "How long is the warranty?"
ANSWER = "The warranty lasts two years."


def vector(text: str) -> list[float]:
    """The count of each known word; a little of everything keeps the cosine defined."""
    words = re.findall(r"[a-z]+", text.lower())
    return [words.count(word) + 0.01 for word in WORDS]


class KnownWords(Embeddings):
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [vector(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return vector(text)


class KnownWordsOfNodes(BaseEmbedding):
    def _get_text_embedding(self, text: str) -> list[float]:
        return vector(text)

    def _get_query_embedding(self, query: str) -> list[float]:
        return vector(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return vector(query)
