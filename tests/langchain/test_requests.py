"""What counts as a request, and what is a fragment: calls outside of a chain."""

from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate

from ragtrace import semconv
from tests.conftest import Recorded
from tests.langchain.cases import ANSWER, CASES, DOCUMENTS, Case, Fixed, join, look_up
from tests.langchain.matrix import PAGE, rows

PROMPT = ChatPromptTemplate.from_messages([("system", "Answer."), ("human", "{context} {question}")])


def ask_step_by_step(question: str, config: Any) -> str:
    """Calls retriever, template, model and parser one after the other, as LangChain's tutorial does."""
    documents = Fixed(documents=DOCUMENTS[:2]).invoke(question, config)
    prompt = PROMPT.invoke({"context": join(documents), "question": question}, config)
    answer = FakeListChatModel(responses=["24 months."]).invoke(prompt, config)
    return StrOutputParser().invoke(answer, config)


async def test_five_questions_step_by_step_are_five_requests(recorded: Recorded, config: Any) -> None:
    for i in range(4):
        ask_step_by_step(f"How long is pump {i} covered?", config)
    question = "How long is pump 4 covered?"
    documents = await Fixed(documents=DOCUMENTS[:2]).ainvoke(question, config)
    prompt = await PROMPT.ainvoke({"context": join(documents), "question": question}, config)
    await FakeListChatModel(responses=["24 months."]).ainvoke(prompt, config)
    assert [(trace.query, trace.answer) for trace in recorded.traces] == [
        (f"How long is pump {i} covered?", "24 months.") for i in range(5)
    ]
    assert all([d.id for d in trace.documents] == ["d0", "d1"] for trace in recorded.traces)
    assert recorded.tree()[:4] == [
        ("retrieval Fixed", []),
        ("format_prompt ChatPromptTemplate", []),
        ("chat FakeListChatModel", []),
        ("parse_output StrOutputParser", []),
    ]
    sampled = [span.name.split()[0] for span in recorded.spans if "ragtrace.evaluation.sampled" in span.attributes]
    assert sampled == ["chat"] * 5


def test_an_earlier_question_in_the_same_thread(recorded: Recorded, config: Any) -> None:
    """An earlier question that is a part of this one, and found the same texts, changes neither of them."""
    same = [Document(page_content=document.page_content, id=f"other-{document.id}") for document in DOCUMENTS[:2]]
    Fixed(documents=same).invoke("pump", config)
    ask_step_by_step("How long is a pump covered?", config)
    (trace,) = recorded.traces
    assert (trace.query, [d.id for d in trace.documents]) == ("How long is a pump covered?", ["d0", "d1"])


def test_documents_that_the_model_was_not_shown(recorded: Recorded, config: Any) -> None:
    Fixed(documents=[Document(page_content="On valves.", id="v")]).invoke("valves", config)
    FakeListChatModel(responses=["Hello."]).invoke("Say hello.", config)
    (trace,) = recorded.traces
    assert (trace.query, trace.documents) == ("Say hello.", ())


def test_a_loop_of_model_and_tool_by_hand_is_one_request(recorded: Recorded, config: Any) -> None:
    """The model's call for a tool is a step; the call that answers is the request, with what the tool returned."""
    call = {"name": "look_up", "args": {"what": "pump"}, "id": "c1", "type": "tool_call"}
    model = GenericFakeChatModel(messages=iter([AIMessage(content="", tool_calls=[call]), AIMessage(content="Long.")]))
    messages: list[Any] = [HumanMessage("How long?")]
    messages.append(model.invoke(messages, config))
    messages.append(look_up.invoke(messages[-1].tool_calls[0], config))
    model.invoke(messages, config)
    (trace,) = recorded.traces
    assert (trace.query, trace.answer, len(trace.documents)) == ("How long?", "Long.", 5)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_case(recorded: Recorded, config: Any, case: Case) -> None:
    """Every way of calling gives one tree per request, with its question, its answer and what its model saw."""
    case.run(config)
    assert len(recorded.traces) == case.traces
    assert len({span.context.trace_id for span in recorded.spans}) == case.traces
    tree = recorded.tree()
    conversations = {(span.attributes or {}).get(semconv.CONVERSATION_ID) for span in recorded.spans}
    assert conversations == {"conversation-1" if case.who else None}
    if case.documents == []:
        assert (recorded.named("retrieval")[0].attributes or {})[semconv.DOCUMENTS_COUNT] == 0
    assert len(tree) == case.traces
    for trace in recorded.traces:
        assert (trace.query, bool(trace.error)) == (case.question, case.error)
        assert bool(trace.facts.cancelled) == case.cancelled
        if case.documents is not None:
            seen = [d.content for d in trace.documents]
            # Branches and vector stores have no fixed order among themselves.
            assert (sorted(seen) if case.unordered else seen) == list(case.documents)
        if case.answer == ANSWER:
            assert trace.answer == ANSWER
        elif case.answer:
            assert ANSWER.startswith(trace.answer)
            assert trace.answer
    for _, below in tree:
        assert sorted(name.split()[0] for name, _ in below) == list(case.spans)  # branches run in any order
        assert sum(len(inner) for name, inner in below if name.startswith("retrieval")) == case.inner


def test_the_page_shows_every_case() -> None:
    shown = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    for row in rows("langchain"):
        own = [line.split(" | ")[:2] for line in shown if row.title in line[2:].split(" | ")[0].split("; ")]
        assert {cell for _, cell in own} == {"✔"}, row.title
    cells = [line.split(" | ")[1] for line in shown if not line.startswith(("| case", "| **"))]
    assert set(cells) == {"✔"}
