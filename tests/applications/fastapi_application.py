"""A FastAPI application that streams its answers as server-sent events."""

from collections.abc import AsyncIterator

import assistant
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

assistant.start()
app = FastAPI()


@app.get("/ask")
async def ask(question: str, session: str, user: str) -> StreamingResponse:
    """Answer one question."""

    async def events() -> AsyncIterator[str]:
        async for word in assistant.stream(question, session, user):
            yield f"data: {word}\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")
