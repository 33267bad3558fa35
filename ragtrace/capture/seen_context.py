"""What a model saw beside the chunks of its request: those of the session's earlier turns, results of tools, a prompt.

The chunks of sessions are in a plain dictionary whose single operations are atomic, without a lock: the application's
threads never wait here, and a fork leaves nothing locked. A race can lose a remembered turn, and nothing else."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from ragtrace import semconv
from ragtrace.capture.model_messages import ToolCallPart, ToolResultPart, part_text
from ragtrace.capture.request import Run
from ragtrace.records import LONG_PROMPT, Document
from ragtrace.text.sanitizer import sendable

_SESSIONS = 1_000
"""Sessions that are remembered, the latest."""
_CHARS = 32_000
"""Characters of chunks that are remembered of a session, the latest: at most 32 million characters in all."""
_CHUNKS = 64
"""Chunks that are remembered of a session, the latest: those without text take memory, too."""

_RESULTS, _RESULT_CHARS = 20, 1_000_000
"""Results of tools of a request, the latest, and characters of each."""
_MORE = 20
"""Characters of a prompt beside its question, or of a tool's result beside its chunks, that hold nothing."""
_ARGUMENT = 60
"""Characters of an argument that names something; a longer one is a question or a text."""
_EMPTY = re.compile(r"(?:[\s\[\]{}()\"',:]|null|None)*").fullmatch
"""A tool's result that is no more than an empty value."""
NOTHING = "The result is empty."
"""The sentence that replaces an empty result: the reader was trained on sentences."""

_chunks: dict[tuple[object, ...], tuple[Document, ...]] = {}


def forget_sessions() -> None:
    """Forget the chunks of all sessions, for a recording that begins."""
    _chunks.clear()


def earlier_chunks(root: Run, documents: Sequence[Document]) -> tuple[Document, ...]:
    """The chunks of the session's earlier turns that the prompt held, for a request that retrieved nothing itself; ()
    for one that searched, and for one without a session. Remembers `documents`, which are this request's own."""
    request = root.request
    if request.session is None:
        return ()
    key = (request.session, request.user, request.service, sendable(request.metadata.get("tenant", "")))
    remembered = _chunks.pop(key, ())  # to the end: the oldest session goes first
    searched = bool(request.retrieved or documents)
    memory = latest([*documents, *remembered])
    if memory:
        _chunks[key] = memory
    while len(_chunks) > _SESSIONS:
        with suppress(KeyError, RuntimeError, StopIteration):  # another thread was faster
            del _chunks[next(iter(_chunks))]
    return () if searched else tuple(in_prompt(remembered, root))


def in_prompt(chunks: Iterable[Document], root: Run, *, is_certain: bool = False) -> Iterator[Document]:
    """The chunks that the prompt held; all where no prompt is known, and with `is_certain` none, nor the shortest."""
    prompt, least = _prompt(root), _MORE if is_certain else 0
    is_open = not (prompt or is_certain)
    return (each for each in chunks if is_open or (len(each.content) >= least and each.content[:200] in prompt))


def seen_besides(root: Run, chunks: Sequence[Document]) -> tuple[Document, ...]:
    """What the model saw beside chunks: the results of tools; the prompt where there is nothing else that an answer can
    be made of, or where the question is long and may be it."""
    request, question = root.request, root.query or ""
    texts = [chunk.content for chunk in chunks if chunk.content]
    results = {
        _with_call(text, call): name
        for name, call, text in _results(root, texts)
        if 2 * sum(len(chunk) for chunk in texts if chunk in text) <= len(text)  # else it is mostly known chunks
    }
    latest_ones = enumerate(list(results.items())[-_RESULTS:], 1)
    documents = [Document(f"{name} #{n}", text[:_RESULT_CHARS], source="tool") for n, (text, name) in latest_ones]
    if len(question) >= LONG_PROMPT or not (documents or chunks or request.retrieved or request.before.documents):
        prompt = _prompt(root)
        if len(question) >= LONG_PROMPT or len(prompt) > len(question) + _MORE:
            documents.append(Document("prompt", prompt[:_RESULT_CHARS] or question, source="prompt"))
    return tuple(documents)


def _with_call(result: str, arguments: object) -> str:
    """A tool's result under those of its arguments that it does not say: of "18 °C" only they say where and when."""
    if isinstance(arguments, str):
        with suppress(ValueError):
            arguments = json.loads(arguments)
    values = arguments if isinstance(arguments, Mapping) else {}
    pairs = [(name, str(value)) for name, value in values.items() if isinstance(value, (str, int, float))]
    text = result.lower() if pairs else ""  # once: a result may have a million characters
    missing = [f"{name}: {v}" for name, v in pairs if 0 < len(v) <= _ARGUMENT and v.lower() not in text]
    return f"{'; '.join(missing)}.\n" * bool(missing) + (NOTHING if _EMPTY(result) else result)


def with_carried(root: Run, chunks: Sequence[Document], others: Sequence[Document]) -> tuple[Document, ...]:
    """Chunks and others, with what the request saw before it asked a person, but for what the person took out."""
    present = {(document.source, document.content) for document in (*chunks, *others)}
    carried = root.request.before.documents
    before = [document for document in carried if (document.source, document.content) not in present]
    earlier: Sequence[Document] = [document for document in before if not document.source]
    if earlier and (read := list(in_prompt((*chunks, *earlier), root, is_certain=True))):
        earlier = [document for document in earlier if len(document.content) < _MORE or document in read]
    return (*chunks, *earlier, *others, *(d for d in before if d.source))


def _results(root: Run, chunks: Sequence[str]) -> Iterator[tuple[str, object, str]]:
    """Names, arguments and results of the request's tools, as the model call that answered read them. Of the result of
    a tool that retrieved, its chunks are left out; all of it, if a model below wrote it."""
    request, prompt = root.request, _prompt(root) if root.request.tool_calls else ""
    retrieving = {id(run) for run in request.tool_calls if run.documents} | _tools_above(request.retrieved)
    asking, nesting = _tools_above(request.model_calls), _tools_above(request.tool_calls)
    retrieved_texts = (d.content for run in (*request.retrieved, *request.tool_calls) for d in run.documents or ())
    all_chunks = list(dict.fromkeys([*chunks, *retrieved_texts]))
    results, read = _results_in_messages(_answering(root))
    texts, writers = set(), set()
    names = {call.name for call, _ in results}
    for run in request.tool_calls:
        text, searches = (run.answer or "").strip(), id(run) in retrieving  # its argument is the question
        message_text = read.get(str(run.attributes.get(semconv.TOOL_CALL_ID)))
        outer = next((above for above in run.above() if above.operation == semconv.OP_TOOL), None)
        if (message_text is None and run.name in names) or (outer is not None and id(outer) not in asking):
            # The model read it in another form, or what the tool around it made of it.
            is_replaced = not text or text not in prompt
        else:
            is_replaced = message_text is not None and message_text not in text
        if is_replaced and not searches:
            continue
        texts.add(text)
        if (searches or id(run) in nesting) and _is_written(text, run, request.model_calls):
            writers.add(run.name)
            continue
        if searches:
            text = _rest(text, all_chunks, has_documents=bool(run.documents))
        if run.failure is None and (text or not (searches or run.answer is None)):
            yield run.name, None if searches else run.query, text
    executed = {run.attributes.get(semconv.TOOL_CALL_ID): run.query for run in request.tool_calls}
    for call, text in results:
        if call.name not in writers and text not in texts:  # a person may have changed the arguments
            yield call.name, executed.get(call.id, call.arguments) if call.id else call.arguments, text


def _results_in_messages(model_calls: Iterable[Run]) -> tuple[list[tuple[ToolCallPart, str]], dict[str, str]]:
    """The calls and results of tools in the messages of model calls, and the results by the ids of their calls."""
    calls: dict[str | None, ToolCallPart] = {}
    results: list[tuple[ToolCallPart, str]] = []
    read: dict[str, str] = {}
    for message in (message for call in model_calls for message in call.messages):
        for part in message.content if isinstance(message.content, (list, tuple)) else ():
            if isinstance(part, ToolCallPart):
                key = part.id or part.name
                calls[key] = ToolCallPart(part.name) if key in calls else part  # whose arguments is not known
            elif isinstance(part, ToolResultPart):
                text = part_text(part).strip()
                results.append((calls.get(part.id or message.name, ToolCallPart(message.name or "tool")), text))
                read[part.id or ""] = text
    return results, read


def _tools_above(runs: Iterable[Run]) -> set[int]:
    """The ids of the tools in which these runs are."""
    above = [run.parent for run in runs]
    tools = set()
    while above := [run for run in above if run is not None]:
        tools |= {id(run) for run in above if run.operation == semconv.OP_TOOL}
        above = [run.parent for run in above]
    return tools


def _is_written(text: str, tool: Run, model_calls: Iterable[Run]) -> bool:
    """Whether a tool's result is what a model inside it wrote, such as an agent's answer."""
    answers = ((call.answer or "").strip() for call in model_calls if id(tool) in _tools_above([call]))
    return any(answer and (answer in text or text in answer) for answer in answers)


def _rest(result: str, chunks: Sequence[str], *, has_documents: bool) -> str:
    """What a tool adds to the chunks that its result holds; all of a result that holds none. Empty where that is no
    sentence, and for the frameworks' objects in print."""
    rest = result
    for chunk in map(str.strip, chunks):
        rest = rest.replace(chunk, "").replace(json.dumps(chunk)[1:-1], "")
    is_whole = len(rest) == len(result)
    adds = sum((is_whole, not has_documents, len(rest.strip()) > _MORE)) > 1
    return rest.strip() if adds and not ("id_=" in rest or "page_content=" in rest) else ""


def _answering(root: Run) -> Sequence[Run]:
    """The model call whose answer is the root's, or most of it; the last one where none is (a guard may follow it)."""
    calls, answer = root.request.model_calls, root.answer or ""
    texts = [(call.answer or "").strip() for call in calls]
    parts = [(len(text), n) for n, text in enumerate(texts) if text and text in answer]
    return [calls[max(parts)[1]]] if parts else calls[-1:]


def _prompt(root: Run) -> str:
    """What the model call that answered read, but for what the model had said itself."""
    texts: list[str | None] = []
    for call in _answering(root):
        texts += [call.instructions, *(m.text for m in call.messages if m.role not in ("assistant", "ai"))]
    return "\n".join(filter(None, texts))


def latest(documents: Sequence[Document]) -> tuple[Document, ...]:
    """The first of these, each once, that fit into the bounds."""
    chunks: dict[tuple[str, str], Document] = {}
    room = _CHARS
    for document in documents:
        if len(chunks) == _CHUNKS:
            break
        key = (document.id, document.content)
        if key not in chunks and len(document.content) <= room:
            chunks[key] = document
            room -= len(document.content)
    return tuple(chunks.values())
