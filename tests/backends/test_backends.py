"""What users of Phoenix and MLflow see of an application that ragtrace traces: real servers are asked what they show.

Each test asks both backends the same; what only one of them shows has a test of its own."""

import pytest

from tests.backends import phoenix
from tests.backends.conftest import APP, Pages
from tests.backends.conversation import ANSWER, CALLS, DEPLOYMENT, MODEL, ORDER, PRICE, QUESTIONS, USAGE, YES
from tests.backends.servers import Server
from tests.backends.shown import Call, Message, Tokens
from tests.tutorials.manual import PASSAGES

pytestmark = pytest.mark.timeout(600)
SESSIONS = {name: "s-chat" if name == "stream" else f"s-{name}" for name in QUESTIONS}
ANSWERS = dict.fromkeys(QUESTIONS, ANSWER) | {"stream": YES, "failure": ""}
CHAT = f"chat {MODEL}"
EMBED = ("embeddings known-words", "EMBEDDING", [])
STEPS_OF_INDEX = [("retrieval VectorIndexRetriever", "RETRIEVER", [EMBED]), (CHAT, "LLM", [])]
STEPS_OF_CHAIN = [("retrieval VectorStoreRetriever", "RETRIEVER", []), (f"chat {DEPLOYMENT}", "LLM", [])]
SEARCH = ("execute_tool search_manual", "TOOL", [("retrieval InMemoryVectorStore", "RETRIEVER", [])])
STEPS_OF_AGENT = [(CHAT, "LLM", []), SEARCH, ("execute_tool order_status", "TOOL", []), (CHAT, "LLM", [])]
TREES = {
    "agent": ("invoke_agent helper", "AGENT", STEPS_OF_AGENT),
    "chain": ("invoke_workflow chain", "CHAIN", STEPS_OF_CHAIN),
    "failure": ("invoke_workflow failure", "CHAIN", STEPS_OF_CHAIN),
    "query": ("invoke_workflow RetrieverQueryEngine", "CHAIN", STEPS_OF_INDEX),
    "chat": ("invoke_workflow ContextChatEngine", "CHAIN", STEPS_OF_INDEX),
}  # fmt: skip
TREES["stream"] = TREES["chat"]


def test_list_of_traces_shows_question_answer_session_and_user(pages: Pages) -> None:
    for name, trace in pages.traces.items():
        assert (trace.question, trace.answer) == (QUESTIONS[name], ANSWERS[name])
        assert (trace.session, trace.user) == (SESSIONS[name], "ada")


def test_tree_has_each_component_with_its_kind(pages: Pages) -> None:
    trees = {name: trace.root.tree() for name, trace in pages.traces.items()}
    trees["agent"][2][1:3] = sorted(trees["agent"][2][1:3], reverse=True)  # tools that run together start in any order
    assert trees == TREES


def test_every_span_shows_session_user_tags_and_metadata(pages: Pages) -> None:
    for name, trace in pages.traces.items():
        for span in trace.root.walk():
            assert (span.attributes["session.id"], span.attributes["user.id"]) == (SESSIONS[name], "ada")
            if name in {"agent", "chain", "failure"}:
                assert span.attributes["tag.tags"] == ["pilot"]
                assert pages.metadata(span)["shop"] == 7


def test_model_call_shows_its_messages(pages: Pages) -> None:
    """A model call is shown as a chat: instructions, question, tool calls with arguments, tool results, and answer."""
    first, last = pages.traces["agent"].root.below(CHAT)
    calls = tuple(Call(call.id, call.name, call.arguments) for call in CALLS)
    asked = (Message("system", "Use the tools."), Message("user", QUESTIONS["agent"]), Message("assistant", "", calls))
    assert first.messages == asked
    assert last.messages[:3] == asked
    manual, order, answer = last.messages[3:]
    assert (manual.role, manual.answers) == ("tool", "call_search")
    assert PASSAGES["m1"] in manual.text
    assert order == Message("tool", ORDER, answers="call_order")
    assert answer == Message("assistant", ANSWER)


def test_streamed_answer_is_whole(pages: Pages) -> None:
    """A streamed model call shows its whole answer, and an earlier turn of the chat before it."""
    for name, model in (("chain", f"chat {DEPLOYMENT}"), ("stream", CHAT)):
        (call,) = pages.traces[name].root.below(model)
        assert call.messages[-1] == Message("assistant", ANSWERS[name])
        assert call.messages[-2] == Message("user", QUESTIONS[name])
    assert [message.text for message in call.messages[1:3]] == [QUESTIONS["chat"], ANSWERS["chat"]]


def test_tool_shows_arguments_and_result(pages: Pages) -> None:
    (tool,) = pages.traces["agent"].root.below("execute_tool order_status")
    assert (tool.input, tool.output) == ({"number": 17}, ORDER)


def test_retriever_shows_its_documents(pages: Pages) -> None:
    names = {
        "agent": "InMemoryVectorStore", "chain": "VectorStoreRetriever", "query": "VectorIndexRetriever",
        "stream": "VectorIndexRetriever",
    }  # fmt: skip
    for question, name in names.items():
        (retriever,) = pages.traces[question].root.below(f"retrieval {name}")
        assert len(retriever.documents) == 2
        best, other = retriever.documents
        assert (best.id, best.text, best.metadata) == ("m1", PASSAGES["m1"], {"page": "m1"})
        if name == "VectorStoreRetriever":
            assert best.score is other.score is None
        else:
            assert best.score is not None
            assert other.score is not None
            assert 1.001 > best.score > other.score > 0


def test_embedding_shows_its_text(pages: Pages) -> None:
    (embedding,) = pages.traces["query"].root.below("embeddings known-words")
    assert embedding.input == QUESTIONS["query"]


def test_tokens_and_costs_are_shown(pages: Pages) -> None:
    for name, trace in pages.traces.items():
        calls = [span for span in trace.root.walk() if span.name.startswith("chat ")]
        if name == "failure":
            assert (trace.tokens, trace.cost) == (None, 0.0)
            continue
        for call in calls:
            assert call.tokens == Tokens(USAGE.input, USAGE.output, USAGE.cache_read)
            assert call.cost == pytest.approx(PRICE)
        number = len(calls)
        assert trace.tokens == Tokens(number * USAGE.input, number * USAGE.output, number * USAGE.cache_read)
        assert trace.cost == pytest.approx(number * PRICE)


def test_model_is_the_one_that_answered(pages: Pages) -> None:
    """A model that is asked for by the name of a deployment is shown, and priced, under the name that it reports."""
    (call,) = pages.traces["chain"].root.below(f"chat {DEPLOYMENT}")
    assert call.model == f"{MODEL}-2024-07-18"


def test_failure_is_shown(pages: Pages) -> None:
    trace = pages.traces["failure"]
    assert [name for name, other in pages.traces.items() if other.failed] == ["failure"]
    wrong = [span for span in trace.root.walk() if span.error]
    assert [span.name for span in wrong] == [trace.root.name, f"chat {DEPLOYMENT}"]
    for span in wrong:
        assert "Too many requests" in span.error
        (exception,) = span.exceptions
        assert "Too many requests" in exception


def test_scores_are_attributes_of_the_root(pages: Pages) -> None:
    attributes = pages.traces["agent"].root.attributes
    assert attributes["gen_ai.evaluation.names_its_years.score"] == 1.0
    assert attributes["gen_ai.evaluation.names_its_years.label"] == "pass"


@pytest.mark.parametrize("name", ["phoenix"], indirect=True)
@pytest.mark.usefixtures("pages")
def test_phoenix_lists_sessions(server: Server) -> None:
    sessions = phoenix.sessions(server, APP)
    assert set(sessions) == set(SESSIONS.values())
    assert sessions["s-chat"] == (2, QUESTIONS["chat"], YES, pytest.approx(2 * PRICE))


@pytest.mark.parametrize("name", ["phoenix"], indirect=True)
def test_phoenix_shows_the_tools_of_a_model(pages: Pages) -> None:
    """Phoenix shows which tools a model could call. MLflow has them among the attributes only."""
    first, *_ = pages.traces["agent"].root.below(CHAT)
    assert sorted(first.tools) == ["order_status", "search_manual"]
