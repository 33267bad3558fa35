"""What the assistant is asked and answers, for the application and for the tests of what a backend shows of it."""

from tests.vendors.replies import Call, Usage

MODEL = "gpt-4o-mini"
"""A model whose price the backends know."""
DEPLOYMENT = "answers"
"""The name under which a server offers that model."""
USAGE = Usage(input=1000, output=50, cache_read=400)
PRICE = (600 * 0.15 + 400 * 0.075 + 50 * 0.6) / 1e6
"""US dollars of a call with this usage."""
TEMPLATE = "Answer from the context only.\n{context}"
ANSWER = "The warranty lasts two years."
YES = "Yes, two years."
ORDER = "Order 17 is on its way."
CALLS = (
    Call("search_manual", {"query": "warranty years"}, "call_search"),
    Call("order_status", {"number": 17}, "call_order"),
)
QUESTIONS = {
    "agent": "How long is the warranty, and where is order 17?", "chain": "How long does the warranty last?",
    "failure": "What does the warranty cover?", "query": "How many years is the warranty?",
    "chat": "How long is the warranty?", "stream": "Is the warranty two years?",
}  # fmt: skip
"""By session; `stream` is the second turn of the session of `chat`."""
