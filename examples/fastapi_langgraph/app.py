"""The web application: streams answers as server-sent events, and takes thumbs. Run it with `uvicorn app:app`."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from assistant import assistant_graph
from fastapi import FastAPI
from fastapi.responses import FileResponse, StreamingResponse
from pydantic import BaseModel, Field

import ragtrace


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Start ragtrace with the settings of `ragtrace.toml`; at the end, send what still waits."""
    ragtrace.init()
    yield
    await asyncio.to_thread(ragtrace.shutdown)


app = FastAPI(lifespan=lifespan)
graph = assistant_graph()


class Question(BaseModel):
    """A question of a session; `user` is the id that your login knows."""

    question: str = Field(min_length=1, max_length=2000)
    session: str = Field(min_length=1, max_length=100)
    user: str = ""


class Thumb(BaseModel):
    """What a user thinks of an answer."""

    trace_id: str
    thumbs: Literal["up", "down"]
    comment: str = Field(default="", max_length=2000)


def event(name: str, data: str) -> str:
    """A server-sent event."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


@app.get("/")
def page() -> FileResponse:
    """The chat."""
    return FileResponse(Path(__file__).parent / "index.html")


@app.post("/ask")
async def ask(asked: Question) -> StreamingResponse:
    """Answer a question: one event with the id of the trace, then one for each piece of the answer."""

    async def events() -> AsyncIterator[str]:
        messages = {"messages": [("human", asked.question)]}
        config = {"configurable": {"thread_id": asked.session}}
        with ragtrace.request(asked.question, session_id=asked.session, user_id=asked.user) as request:
            yield event("trace", request.trace_id)
            async for piece, _ in graph.astream(messages, config, stream_mode="messages"):
                yield event("piece", str(piece.text))
        yield event("end", "")

    return StreamingResponse(events(), media_type="text/event-stream")


@app.post("/feedback")
def feedback(thumb: Thumb) -> dict[str, bool]:
    """Take a thumb for an answer. It may come long after the answer."""
    taken = ragtrace.feedback(thumb.trace_id, thumbs=thumb.thumbs, comment=thumb.comment, source="widget")
    return {"taken": taken}
