"""A Django application in one file, with a view for threads and one for the event loop."""

from typing import Any

import assistant
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse
from django.urls import path

settings.configure(DEBUG=False, SECRET_KEY="of the tests", ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__)
assistant.start()


def _asked(request: HttpRequest) -> dict[str, Any]:
    return {name: request.GET[name] for name in ("question", "session", "user")}


def ask(request: HttpRequest) -> HttpResponse:
    """Answer in a thread."""
    return HttpResponse(assistant.answer(**_asked(request)))


async def ask_async(request: HttpRequest) -> HttpResponse:
    """Answer on the event loop."""
    return HttpResponse("".join([word async for word in assistant.stream(**_asked(request))]))


urlpatterns = [path("ask", ask), path("ask_async", ask_async)]
asgi = get_asgi_application()
wsgi = get_wsgi_application()
