"""The page, the streamed answers, and the thumbs."""

import json
import uuid
from collections.abc import Iterator

from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, JsonResponse, StreamingHttpResponse
from django.shortcuts import render
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_GET, require_POST

import ragtrace
from library.engine import query_engine

engine = query_engine()


@require_GET
@ensure_csrf_cookie
def page(request: HttpRequest) -> HttpResponse:
    """The chat."""
    return render(request, "chat.html")


@require_POST
def ask(request: HttpRequest) -> HttpResponse:
    """Answer a question as lines of JSON: first the id of the trace, then the pieces of the answer."""
    question = request.POST.get("question", "").strip()
    if not 1 <= len(question) <= 2000:
        return HttpResponseBadRequest("question must have 1 to 2000 characters")
    session = request.session.setdefault("chat", uuid.uuid4().hex)
    return StreamingHttpResponse(_lines(question, session), content_type="application/x-ndjson")


def _lines(question: str, session: str) -> Iterator[str]:
    # Under WSGI one thread reads the whole generator, so the `with` block may be in it. Under ASGI write it as an
    # asynchronous generator.
    with ragtrace.request(question, session_id=session) as request:  # user_id=str(user.pk), with a login
        yield json.dumps({"trace_id": request.trace_id}) + "\n"
        for piece in engine.query(question).response_gen:
            yield json.dumps({"piece": piece}) + "\n"


@require_POST
def feedback(request: HttpRequest) -> JsonResponse:
    """Take a thumb for an answer. It may come long after the answer, and to another process of the server."""
    fields = request.POST
    taken = ragtrace.feedback(fields.get("trace_id", ""), thumbs=fields.get("thumbs"), comment=fields.get("comment"))
    return JsonResponse({"taken": taken})
